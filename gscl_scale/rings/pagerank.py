"""PageRank by power iteration, as networkx defines it."""

from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.errors import RunError
from gscl_scale.kernels.kernel import kernel

_DAMPING = 0.85
_TOLERANCE = 1e-12
_MAX_ITERATIONS = 1000


def pagerank(
    indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any], weights: npt.NDArray[np.float32] | None = None
) -> npt.NDArray[np.float64]:
    """Scores that sum to one; a node without out-edges gives to all alike. Stops when the total change is small.

    A node gives to its neighbours in proportion to the weights of its edges, or without weights to all of them alike.

    >>> pagerank(np.array([0, 1, 2]), np.array([1, 0]))
    array([0.5, 0.5])
    """
    num_nodes = indptr.size - 1
    degrees: npt.NDArray[Any] = np.diff(indptr)
    dangling = degrees == 0
    if weights is not None:
        degrees = np.zeros(num_nodes)
        degrees[~dangling] = np.add.reduceat(weights, indptr[:-1][~dangling], dtype=np.float64)
    scores = np.full(num_nodes, 1.0 / num_nodes)
    for _ in range(_MAX_ITERATIONS):
        share = np.divide(scores, degrees, out=np.zeros(num_nodes), where=~dangling)
        base = (1.0 - _DAMPING + _DAMPING * float(scores[dangling].sum())) / num_nodes
        following = np.full(num_nodes, base)
        _push(indptr, indices, weights, _DAMPING * share, following)
        change = float(np.abs(following - scores).sum())
        scores = following
        if change < _TOLERANCE:
            return scores
    raise RunError(f"PageRank did not settle in {_MAX_ITERATIONS} iterations: the last change was {change:.2e}")


@kernel
def _push(indptr, indices, weights, share, out):
    """Where the weights are None, the kernel is compiled without them."""
    for v in range(share.size):
        for e in range(indptr[v], indptr[v + 1]):
            if weights is None:
                out[indices[e]] += share[v]
            else:
                out[indices[e]] += share[v] * weights[e]
