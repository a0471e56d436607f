"""A search for settings: trials on Ray Tune, chosen on validation nodes alone."""
