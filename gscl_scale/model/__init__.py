"""Encoder, projection head and ring loss."""
