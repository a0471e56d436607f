"""The training loop, its step, and its checkpoints."""
