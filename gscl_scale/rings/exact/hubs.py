"""Hubs whose second ring is listed once: searches that pass them skip the edges of all their neighbours."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gscl_scale.kernels.kernel import kernel
from gscl_scale.rings.exact import frontier
from gscl_scale.rings.exact.workspace import SearchBuffers

_DEGREE = 64  # of a hub, at least
_EDGES = 4  # that a node of a second ring stands for, at least
_SAVED = 2  # edges in all words for each that is walked to find a second ring, at least


class Shortcuts(NamedTuple):
    """The second rings of H hubs.

    row [N]           that of a hub, -1 of any other node
    offsets [H + 1]
    nodes             those two hops from each hub
    """

    row: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    nodes: npt.NDArray[Any]


@contextlib.contextmanager
def shortcuts(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    anchors: npt.NDArray[np.int64],
    hops: int,
    word: int,
    marks: SearchBuffers,
) -> Iterator[Shortcuts]:
    """The hubs next to anchors that pay where each `word` of the anchors shares a search; none below three hops."""
    some = anchors if hops >= 3 else anchors[:0]  # fewer hops end before a second ring is reached
    uses, latest = marks.bits.view(np.int64)[:2]
    hubs, offsets, nodes = _choose(indptr, indices, some, word, uses, latest, marks.row, _DEGREE, _EDGES, _SAVED)
    yield Shortcuts(marks.row, offsets, nodes)
    marks.row[hubs] = -1


@kernel
def _choose(
    indptr, indices, anchors, word, uses, latest, row, least_degree, least_edges, least_saved,
):  # fmt: skip
    """Hubs, where their second rings begin, and the nodes of these: never more than there are nodes.

    A hub pays by the edges of its neighbours that no better hub has; its row is set. The other marks are cleared again.
    To find the rings takes no more than the second hop of the searches, and what was saved so far.
    """
    hubs, budget = _shared_hubs(indptr, indices, anchors, word, uses, latest, least_degree, least_saved)
    edges, used_by = np.empty(hubs.size, np.int64), uses[hubs]
    for a in anchors:
        for e in range(indptr[a], indptr[a + 1]):
            uses[indices[e]] = latest[indices[e]] = 0
    seen, taken = uses, latest
    for i in range(hubs.size):
        edges[i] = _edges_left(indptr, indices, hubs[i], taken)[0]
    best = np.argsort(-edges * used_by, kind="mergesort")

    queue, nodes = np.empty(row.size + 1, indices.dtype), np.empty(row.size, indices.dtype)
    kept, offsets = np.empty(hubs.size, indices.dtype), np.zeros(hubs.size + 1, np.int64)
    rows = used = 0
    for i in best:
        left, least = _edges_left(indptr, indices, hubs[i], taken)
        if left * used_by[i] < least_saved * edges[i] or left < least_edges * least or edges[i] > budget:
            continue
        budget -= edges[i]
        frontier.start(hubs[i], queue, seen)
        middle = frontier.expand(indptr, indices, queue, 0, 1, 2, seen)
        end = frontier.expand(indptr, indices, queue, 1, middle, 3, seen)
        size = end - middle
        if size * least_edges <= left and used + size <= nodes.size:
            nodes[used : used + size] = queue[middle:end]
            used += size
            budget += left * used_by[i]
            kept[rows] = hubs[i]
            row[hubs[i]] = rows
            rows += 1
            offsets[rows] = used
            for j in range(1, middle):
                taken[queue[j]] = 1
        frontier.clear(queue, end, seen)
    for hub in kept[:rows]:
        for e in range(indptr[hub], indptr[hub + 1]):
            taken[indices[e]] = 0
    return kept[:rows], offsets[: rows + 1], nodes[:used]


@kernel
def _shared_hubs(
    indptr, indices, anchors, word, uses, latest, least_degree, least_saved,
):  # fmt: skip
    """Nodes of many neighbours beside anchors of several words, and the edges that all words walk in their second hop.

    `uses` says of how many words, by the `latest` of them.
    """
    hubs = np.empty(uses.size, indices.dtype)
    number = walked = 0
    for a in range(anchors.size):
        for e in range(indptr[anchors[a]], indptr[anchors[a] + 1]):
            u = indices[e]
            if latest[u] != a // word + 1:
                latest[u] = a // word + 1
                uses[u] += 1
                degree = indptr[u + 1] - indptr[u]
                walked += degree
                if uses[u] == least_saved + 1 and degree >= least_degree:
                    hubs[number] = u
                    number += 1
    return hubs[:number].copy(), walked


@kernel
def _edges_left(indptr, indices, hub, taken):
    """Edges out of the neighbours of a hub that no other has taken, and what its second ring has at least."""
    edges = most = 0
    for e in range(indptr[hub], indptr[hub + 1]):
        u = indices[e]
        degree = indptr[u + 1] - indptr[u]
        edges += 0 if taken[u] else degree
        most = max(most, degree)
    return edges, most - 1 - (indptr[hub + 1] - indptr[hub])
