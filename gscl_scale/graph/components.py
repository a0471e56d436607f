"""Connected components."""

from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.kernels.kernel import kernel


def component_sizes(indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Number of nodes of each connected component, largest first; the direction of edges is ignored.

    >>> component_sizes(np.array([0, 1, 2, 2]), np.array([1, 0]))
    array([2, 1])
    """
    root = np.arange(indptr.size - 1, dtype=np.int64)
    _join(indptr, indices, root)
    sizes = np.bincount(root)
    return np.sort(sizes[sizes > 0])[::-1]


@kernel
def _join(indptr, indices, root):
    """Union-find: afterwards `root` is the lowest node of each node's component."""
    for v in range(root.size):
        for i in range(indptr[v], indptr[v + 1]):
            a, b = _root_of(root, v), _root_of(root, indices[i])
            root[max(a, b)] = min(a, b)
    for v in range(root.size):
        root[v] = _root_of(root, v)


@kernel
def _root_of(root, v):
    while root[v] != v:
        root[v] = root[root[v]]
        v = root[v]
    return v
