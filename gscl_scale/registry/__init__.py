"""Versions of embeddings, which of them is current, and who may change that."""
