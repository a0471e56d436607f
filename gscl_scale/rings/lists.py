"""Ascending lists of ranks, and a list that grows."""

import numpy as np

from gscl_scale.kernel import kernel


@kernel
def merge(left, num_left, right, num_right, out):  # type: ignore[no-untyped-def]
    """The lowest of two ascending lists, as many as `out` holds; returns how many."""
    i = j = n = 0
    while n < out.size and (i < num_left or j < num_right):
        if j >= num_right or (i < num_left and left[i] < right[j]):
            out[n] = left[i]
            i += 1
        else:
            out[n] = right[j]
            j += 1
        n += 1
    return n


@kernel
def reserve(flat, size):  # type: ignore[no-untyped-def]
    """`flat` with room for `size` entries: itself, or a larger copy."""
    if flat.size >= size:
        return flat
    larger = np.empty(2 * size, flat.dtype)
    larger[: flat.size] = flat
    return larger
