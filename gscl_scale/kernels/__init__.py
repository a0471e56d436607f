"""Compilation of kernels, and the kernels that several rooms share."""
