"""What the lists of the sketch cannot tell is finished by the exact engine: the same samples, bit for bit."""

from dataclasses import replace
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from gscl_scale.config import RingsConfig
from gscl_scale.rings import frontier
from gscl_scale.rings.exact import exact_rings
from gscl_scale.rings.marks import marks
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sample import Lists, RingSample, replace_lists, replace_rows
from gscl_scale.rings.shortcuts import shortcuts
from gscl_scale.rings.twins import twins
from gscl_scale.rings.words import BITS, finish_words


def complete(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    sample: RingSample,
    short: npt.NDArray[np.bool_],
    priorities: Priorities,
    rank: npt.NDArray[Any],
    config: RingsConfig,
    undirected: bool,
) -> RingSample:
    """The sample with its short lists [A, k + 1] finished, and the ring sizes that came with them exact."""
    assert isinstance(config.per_ring, int)
    rows = np.flatnonzero(short[:, :-1].any(axis=1))
    if rows.size:
        rows = rows[np.lexsort([_lowest(ring, rows) for ring in sample.rings[:2]])]  # those near each other together
        sample = _finish_rings(
            indptr, indices, sample, rows, short[rows, :-1], priorities, rank, config.per_ring, undirected
        )
    rows = np.flatnonzero(short[:, -1])
    if rows.size and undirected:
        found = _find_beyond(indptr, indices, sample.anchors[rows], config, priorities.order)
        sample = replace(sample, beyond=replace_lists(sample.beyond, rows, found))
    elif rows.size:
        exact = exact_rings(indptr, indices, sample.anchors[rows], priorities, rank, config)
        sample = replace_rows(sample, rows, exact)
    return sample


def _find_beyond(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    anchors: npt.NDArray[np.int64],
    config: RingsConfig,
    order: npt.NDArray[Any],
) -> Lists:
    """The lowest nodes farther than k hops: those that are not, and have no neighbour, within k - 1 hops.

    So the last hop of the search, which is most of it where balls are large, is never made. Undirected graphs only.
    """
    offsets = np.zeros(anchors.size + 1, np.int64)
    members = np.empty(anchors.size * config.beyond, order.dtype)
    used = _search_beyond(indptr, indices, anchors, config.hops - 1, order, config.beyond, offsets, members)
    return Lists(offsets, members[:used])


@numba.njit(cache=True, nogil=True)
def _search_beyond(indptr, indices, anchors, hops, order, num_beyond, offsets, members):  # type: ignore[no-untyped-def]
    seen = np.zeros(order.size, np.uint8)
    queue = np.empty(order.size + 1, order.dtype)
    used = 0
    for a in range(anchors.size):
        frontier.start(anchors[a], queue, seen)
        head, tail = 0, 1
        for hop in range(hops):
            head, tail = tail, frontier.expand(indptr, indices, queue, head, tail, hop + 2, seen)
        for x in order:
            if seen[x] == 0:
                near = False
                for e in range(indptr[x], indptr[x + 1]):
                    if seen[indices[e]]:
                        near = True
                        break
                if not near:
                    members[used] = x
                    used += 1
                    if used == offsets[a] + num_beyond:
                        break
        offsets[a + 1] = used
        frontier.clear(queue, tail, seen)
    return used


def _lowest(ring: Lists, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The first member of each list, -1 where there is none."""
    lowest = np.full(rows.size, -1, ring.members.dtype)
    some = ring.offsets[rows + 1] > ring.offsets[rows]
    lowest[some] = ring.members[ring.offsets[rows[some]]]
    return lowest


def _finish_rings(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    sample: RingSample,
    rows: npt.NDArray[np.int64],
    short: npt.NDArray[np.bool_],
    priorities: Priorities,
    rank: npt.NDArray[Any],
    per_ring: int,
    undirected: bool,
) -> RingSample:
    order, hops = priorities.order, short.shape[1]
    one_of_each, which = np.arange(rows.size), np.arange(rows.size)
    if undirected:
        alike = twins(indptr, indices, sample.anchors[rows], np.logical_or.reduce(short[:, :2], axis=1))
        one_of_each, which = np.unique(alike, return_inverse=True)
    anchors = sample.anchors[rows[one_of_each]]
    asked = np.zeros((anchors.size, hops), np.bool_)
    for hop in range(hops):
        asked[which[short[:, hop]], hop] = True
    found, lengths = np.zeros((anchors.size, hops), np.int64), np.zeros((anchors.size, hops), np.int64)
    members = np.empty((anchors.size, hops, per_ring), order.dtype)
    with marks(order.size) as mine, shortcuts(indptr, indices, anchors, hops, BITS, mine) as known:
        finish_words(indptr, indices, known, mine.bits, anchors, asked, order, rank, per_ring, found, lengths, members)

    sizes, exact = sample.ring_size.copy(), sample.ring_size_exact.copy()
    searched = np.logical_or.accumulate(short[:, ::-1], axis=1)[:, ::-1]  # up to the last short ring
    sizes[rows] = np.where(searched, found[which], sizes[rows])
    exact[rows[short[:, -1]]] = True
    rings = []
    for hop, ring in enumerate(sample.rings):
        those = np.flatnonzero(short[:, hop])
        if those.size:
            length = lengths[which[those], hop]
            offsets = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
            ring = replace_lists(
                ring, rows[those], Lists(offsets, members[which[those], hop][np.arange(per_ring) < length[:, None]])
            )
        rings.append(ring)
    return replace(sample, rings=rings, ring_size=sizes, ring_size_exact=exact)
