"""Searches from some anchors, made before the work to tell what it will take."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.kernels.kernel import kernel
from gscl_scale.rings.exact import frontier
from gscl_scale.rings.kernels import BITS

# Work is counted in edge visits of a shared search. Measured on ogbn-arxiv and two web graphs: a search of its own also
# marks and queues at every visit; a node that is found costs a few marks; and an anchor its lists.
_OWN_VISIT = 4
_NODE = 8
_ANCHOR = 3000


@dataclass(frozen=True)
class Pilot:
    """What searches from A anchors looked at, hop by hop.

    whole [A]         whether the search was made to its end
    sizes [A, k]      nodes of each ring; 0 from where a search was cut off
    visits [A, k]     edges that a search looks at to find it
    edges, nodes [k]  edges looked at and nodes found by an anchor that shares its search with 63 others
    """

    whole: npt.NDArray[np.bool_]
    sizes: npt.NDArray[np.int64]
    visits: npt.NDArray[np.int64]
    edges: npt.NDArray[np.float64]
    nodes: npt.NDArray[np.float64]

    def own_work(self) -> float:
        """Mean work of an anchor that is searched alone."""
        return _OWN_VISIT * float(self.visits.sum(axis=1).mean())

    def shared_work(self) -> float:
        """Mean work of an anchor that shares its search with others."""
        return float(self.hop_work().sum()) + _ANCHOR

    def hop_work(self) -> npt.NDArray[np.float64]:
        """The part of `shared_work` of each hop [k]."""
        return self.edges + _NODE * self.nodes


def pilot_search(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    anchors: npt.NDArray[np.int64],
    hops: int,
    most_visits: int = 2**60,
) -> Pilot:
    """Search from anchors in random order, until all are done or `most_visits` edges were looked at.

    A search may look at four times as many before it is cut off, so that one at least sees all of a larger graph.
    """
    anchors = anchors[seeding.generator("pilot").permutation(anchors.size)]
    sizes, visits = np.zeros((anchors.size, hops), np.int64), np.zeros((anchors.size, hops), np.int64)
    whole = np.zeros(anchors.size, np.bool_)
    edges, nodes = np.zeros(hops, np.int64), np.zeros(hops, np.int64)
    number = _search(indptr, indices, anchors, most_visits, whole, sizes, visits, edges, nodes)
    shared = (_per_anchor(edges, indices.size, number), _per_anchor(nodes, indptr.size - 1, number))
    return Pilot(whole[:number], sizes[:number], visits[:number], *shared)


def _per_anchor(found: npt.NDArray[np.int64], most: int, anchors: int) -> npt.NDArray[np.float64]:
    """What one of a word of anchors has of all that so many anchors have found together, of `most` that there are.

    Each anchor is as likely to find one that no other has found.
    """
    missed = 1 - found / max(most, 1)
    of_word: npt.NDArray[np.float64] = most * (1 - missed ** (BITS / anchors))
    return of_word / BITS


@kernel
def _search(
    indptr, indices, anchors, most, whole, sizes, visits, edges, nodes
):  # fmt: skip
    """Returns how many anchors were searched. Bit n of `met` is set where a node was in ring n of some anchor."""
    hops = sizes.shape[1]
    seen, met = np.zeros(indptr.size - 1, np.uint8), np.zeros((indptr.size - 1, hops + 1), np.bool_)
    queue = np.empty(indptr.size, indices.dtype)
    spent = 0
    for a in range(anchors.size):
        frontier.start(anchors[a], queue, seen)
        head, tail, own = np.int64(0), np.int64(1), 0
        for ring in range(hops + 1):
            for i in range(head, tail):
                v = queue[i]
                degree = indptr[v + 1] - indptr[v]
                if ring < hops:
                    own += degree
                    visits[a, ring] += degree
                    edges[ring] += 0 if met[v, ring] else degree
                nodes[ring - 1] += ring > 0 and not met[v, ring]
                met[v, ring] = True
            whole[a] = ring == hops
            if whole[a] or own > 4 * most:
                break
            head, tail = tail, frontier.expand(indptr, indices, queue, head, tail, ring + 2, seen)
            sizes[a, ring] = tail - head
        frontier.clear(queue, tail, seen)
        spent += own
        if spent >= most:
            return a + 1
    return anchors.size
