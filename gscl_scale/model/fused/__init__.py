"""Parts of a step as single kernels of a GPU; without Triton, and on a CPU, plain torch computes the same."""
