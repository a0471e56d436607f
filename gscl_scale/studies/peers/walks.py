"""Random walks: uniform ones of DeepWalk (Perozzi et al., 2014), and those of node2vec (Grover and Leskovec, 2016)."""

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gscl_scale import seeding
from gscl_scale.evaluate.links import is_neighbour
from gscl_scale.kernels.kernel import kernel

_STRIDE = np.uint64(0x9E3779B97F4A7C15)  # of splitmix64
_TO_UNIT = 2.0**-53


@kernel(inline="always")
def random_below(bound, state):
    """A whole number from 0, below `bound` (at most 2^32); `state` [1] moves on."""
    state[0] += _STRIDE
    bits = seeding.mix(state[0]) >> np.uint64(32)
    return np.int64((bits * np.uint64(bound)) >> np.uint64(32))


@kernel(inline="always")
def random_share(state):
    """A number from 0, below 1; `state` [1] moves on."""
    state[0] += _STRIDE
    return np.float64(seeding.mix(state[0]) >> np.uint64(11)) * _TO_UNIT


@kernel
def walk(indptr, indices, sums, start, p, q, state, out):
    """Fill `out` with a walk from a node that has neighbours; `state` [1] is that of its random numbers.

    A step from v to x, after one from t to v, is drawn in proportion to 1/p if x is t, to 1 if x is a neighbour of t,
    and to 1/q otherwise, times the weight of the edge (node2vec, equation 2). With p = q = 1 the weights alone decide.

    sums [E]   of the weights of a row up to each entry; None: all weights are 1
    """
    back, away = 1.0 / p, 1.0 / q
    most = max(1.0, back, away)
    out[0] = start
    for place in range(1, out.size):
        v = out[place - 1]
        degree = indptr[v + 1] - indptr[v]
        while True:  # rejection: draw a neighbour by the weights, keep it in proportion to what p and q say
            if sums is None:
                x = indices[indptr[v] + random_below(degree, state)]
            else:
                row = sums[indptr[v] : indptr[v + 1]]
                drawn = np.searchsorted(row, random_share(state) * row[degree - 1], side="right")
                x = indices[indptr[v] + min(drawn, degree - 1)]
            if place == 1 or most == min(1.0, back, away):
                break
            t = out[place - 2]
            weight = back if x == t else 1.0 if is_neighbour(indptr, indices, t, x) else away
            if random_share(state) * most < weight:
                break
        out[place] = x


def running_sums(adjacency: sp.csr_array) -> npt.NDArray[np.float64] | None:
    """The weights of each row, added up from its first entry on; None where all weights are 1."""
    if (adjacency.data == 1).all():
        return None
    out = np.empty(adjacency.data.size)
    _add_up(adjacency.indptr, adjacency.data, out)
    return out


@kernel
def _add_up(indptr, weights, out):
    for v in range(indptr.size - 1):
        total = 0.0
        for e in range(indptr[v], indptr[v + 1]):
            total += weights[e]
            out[e] = total
