"""Nodes with the same neighbours, as pages of one index are: what is found of one is known of the other."""

from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.kernels.kernel import kernel


def twins(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    anchors: npt.NDArray[np.int64],
    alone: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int64]:
    """For each anchor the place of one with the same neighbours [A]; of itself where it has to be `alone`.

    From the third on they have the same rings, and all of the same sizes: only the second has the other one in it.
    Undirected graphs only.
    """
    key = np.empty(anchors.size, np.uint64)
    _sum_neighbours(indptr, indices, anchors, key)
    twin = np.arange(anchors.size)
    _match(indptr, indices, anchors, alone, np.lexsort([twin, key]), key, twin)
    return twin


@kernel
def _sum_neighbours(indptr, indices, anchors, key):
    for a in range(anchors.size):
        key[a] = 0
        for e in range(indptr[anchors[a]], indptr[anchors[a] + 1]):
            key[a] += seeding.mix(np.uint64(indices[e]))


@kernel
def _match(indptr, indices, anchors, alone, order, key, twin):
    """Compare every anchor with the first one of the same key."""
    first = order[0]
    for a in order:
        if key[a] != key[first]:
            first = a
        if not alone[a] and same_neighbours(indptr, indices, anchors[first], anchors[a]):
            twin[a] = first


@kernel
def same_neighbours(indptr, indices, u, v):
    """Whether two nodes have the same neighbours, in order."""
    start, other, degree = indptr[u], indptr[v], indptr[v + 1] - indptr[v]
    same = indptr[u + 1] - start == degree
    i = 0
    while same and i < degree:
        same = indices[start + i] == indices[other + i]
        i += 1
    return same
