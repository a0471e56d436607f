"""The methods to compare with, as small objectives over the shared encoder, loop, checkpoints and evaluation."""
