"""How the last ring of an anchor grew or shrank by changed edges: counted, where all nearer rings are as they were."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gscl_scale.kernels.kernel import kernel
from gscl_scale.rings.exact import frontier

_COUNTED = 255  # the mark of a node whose coming or going has been counted


class RowChanges(NamedTuple):
    """The neighbours that nodes won or lost: P of them.

    row [N]           the place of a node among the C that have other neighbours than before, -1 for the others
    offsets [C + 1]
    other [P]         first who was lost, then who was won, ascending; a node that is gone has a number of N or more
    won [P]
    """

    row: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    other: npt.NDArray[np.int64]
    won: npt.NDArray[np.bool_]

    @classmethod
    def of(
        cls, num_nodes: int, node: npt.NDArray[np.int64], other: npt.NDArray[np.int64], won: npt.NDArray[np.bool_]
    ) -> "RowChanges":
        """From who won or lost whom, nodes ascending."""
        first = np.flatnonzero(np.diff(node, prepend=-1))
        row = np.full(num_nodes, -1, np.int64)
        row[node[first]] = np.arange(first.size)
        return cls(row, np.append(first, node.size), other, won)


def last_ring_growth(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    anchors: npt.NDArray[np.int64],
    hops: int,
    changes: RowChanges,
) -> npt.NDArray[np.int64]:
    """By how many nodes ring k of each anchor is larger now [A].

    Only for anchors none of whose nodes nearer than k - 1 hops has other neighbours than before: the ball of k - 1 hops
    is what it was, and only what its outermost nodes won or lost came or went. The graph is undirected, and was.
    """
    growth = np.zeros(anchors.size, np.int64)
    numbers = max(indptr.size - 1, int(changes.other.max(initial=-1)) + 1)
    seen, queue = np.zeros(numbers, np.uint8), np.empty(numbers + 1, np.int64)
    _count(indptr, indices, anchors, hops, changes, seen, queue, growth)
    return growth


@kernel
def _count(indptr, indices, anchors, hops, changes, seen, queue, growth):
    for a in range(anchors.size):
        frontier.start(anchors[a], queue, seen)
        head, tail = 0, 1
        for hop in range(hops - 1):
            head, tail = tail, frontier.expand(indptr, indices, queue, head, tail, hop + 2, seen)
        end = tail
        for i in range(head, tail):
            c = changes.row[queue[i]]
            if c < 0:
                continue
            for j in range(changes.offsets[c], changes.offsets[c + 1]):
                x = changes.other[j]
                if seen[x]:
                    continue  # within the ball, or counted
                seen[x] = _COUNTED
                queue[end] = x
                end += 1
                if changes.won[j]:
                    growth[a] += not _was_beside(indptr, indices, x, changes, seen)
                else:
                    growth[a] -= not _is_beside(indptr, indices, x, seen)
        frontier.clear(queue, end, seen)


@kernel(inline="always")
def _in_ball(x, seen):
    return 0 < seen[x] < _COUNTED


@kernel
def _is_beside(indptr, indices, x, seen):
    """Whether a node has a neighbour in the ball."""
    beside = False
    if x < indptr.size - 1:  # else it is gone
        e = indptr[x]
        while not beside and e < indptr[x + 1]:
            beside = _in_ball(indices[e], seen)
            e += 1
    return beside


@kernel
def _was_beside(indptr, indices, x, changes, seen):
    """Whether a node that has won a neighbour had one in the ball before."""
    j, end = changes.offsets[changes.row[x]], changes.offsets[changes.row[x] + 1]
    beside = False
    while j < end and not changes.won[j]:
        beside |= _in_ball(changes.other[j], seen)
        j += 1
    e = indptr[x + 1] if end - j == indptr[x + 1] - indptr[x] else indptr[x]  # all are won: it is new
    while not beside and e < indptr[x + 1]:
        while j < end and changes.other[j] < indices[e]:
            j += 1
        beside = _in_ball(indices[e], seen) and not (j < end and changes.other[j] == indices[e])
        e += 1
    return beside
