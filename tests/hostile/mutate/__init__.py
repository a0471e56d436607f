"""From a valid file to one that nobody would write: blind changes, and changes of what its kind consists of."""
