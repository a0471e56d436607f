"""Programs for those who work on gscl-scale; not part of the package."""
