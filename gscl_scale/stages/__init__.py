"""One file per stage of a run."""
