"""Ring samples on disk: Arrow parts, a manifest written last, the body of one task, and the reader."""
