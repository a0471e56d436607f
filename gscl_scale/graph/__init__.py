"""A graph on disk: compressed sparse rows, features, labels, splits and the user's ids, memory-mapped."""
