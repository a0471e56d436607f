"""Methods that embed nodes from the structure alone: what a trained encoder has to beat, in seconds of a core."""
