"""Short lists of the sketch are finished by the exact engine, so that both engines write the same samples."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.config.sections import RingsConfig
from gscl_scale.kernels.kernel import read_only
from gscl_scale.rings.exact.multi_source import CompletedLists, search_short_lists
from gscl_scale.rings.exact.shared_search import shared_search
from gscl_scale.rings.exact.single_search import search_one_by_one
from gscl_scale.rings.exact.twins import twins
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sample import Lists, RingSample, offsets_of, replace_lists

SHARED_BYTES = 60  # of a node, for what 64 searches that share a traversal mark
_FEW = 16  # so few searches are quicker one by one: together they sweep over all edges


def complete_short_lists(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    sample: RingSample,
    short: npt.NDArray[np.bool_],
    priorities: Priorities,
    rank: npt.NDArray[Any],
    config: RingsConfig,
    undirected: bool,
    memory: int = 0,
) -> RingSample:
    """The sample with its short lists [A, k + 1] finished, and the ring sizes that are found on the way exact.

    memory   bytes that searches may take for marks of nodes; 0: no bound
    """
    assert isinstance(config.per_ring, int)
    rows = np.flatnonzero(short.any(axis=1))
    if not rows.size:
        return sample
    rows = rows[np.lexsort([_lowest(ring, rows) for ring in sample.rings[:2]])]  # those near each other together
    short, hops, order, rank = short[rows], config.hops, read_only(priorities.order), read_only(rank)
    one_of_each, which = np.arange(rows.size), np.arange(rows.size)
    if undirected:
        # nodes with the same neighbours are two hops apart: their first two lists differ by themselves
        alike = twins(indptr, indices, sample.anchors[rows], np.logical_or.reduce(short[:, :2], axis=1))
        one_of_each, which = np.unique(alike, return_inverse=True)
    anchors = sample.anchors[rows[one_of_each]]
    asked = np.zeros((anchors.size, hops + 1), np.bool_)
    for level in range(hops + 1):
        asked[which[short[:, level]], level] = True
    out = CompletedLists(
        np.zeros((anchors.size, hops), np.int64),
        np.zeros((anchors.size, hops + 1), np.int64),
        np.empty((anchors.size, hops, config.per_ring), order.dtype),
        np.empty((anchors.size, config.beyond if asked[:, -1].any() else 0), order.dtype),
    )
    alone = np.flatnonzero(asked[:, -1] & ~asked[:, :-1].any(axis=1))
    if 0 < memory < order.size * SHARED_BYTES:
        alone = np.arange(anchors.size)
    elif alone.size > _FEW:
        alone = alone[:0]
    if alone.size:
        search_one_by_one(indptr, indices, anchors, alone, asked, order, rank, undirected, out)
        asked[alone] = False
    if asked.any():
        with shared_search(indptr, indices, anchors, hops, order.dtype) as search:
            search_short_lists(indptr, indices, search, anchors, asked, order, rank, undirected, out)
    *rings, beyond = (
        _replaced(lists, rows, short[:, level], which, out.lengths[:, level], members)
        for level, (lists, members) in enumerate(zip(sample.lists, (*out.members.swapaxes(0, 1), out.far), strict=True))
    )
    counted = np.logical_or.accumulate(short[:, -2::-1], axis=1)[:, ::-1]  # the rings up to the last that is short
    ring_size, exact = sample.ring_size.copy(), sample.ring_size_exact.copy()
    ring_size[rows] = np.where(counted, out.ring_size[which], ring_size[rows])
    exact[rows[counted[:, -1]]] = True
    return replace(sample, rings=rings, beyond=beyond, ring_size=ring_size, ring_size_exact=exact)


def _replaced(
    lists: Lists,
    rows: npt.NDArray[np.int64],
    short: npt.NDArray[np.bool_],
    which: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    found: npt.NDArray[Any],
) -> Lists:
    """The lists with the `short` ones at `rows` replaced: by the first `lengths` of the `found` in row `which`."""
    those = np.flatnonzero(short)
    if not those.size:
        return lists
    length = lengths[which[those]]
    members = found[which[those]][np.arange(found.shape[1]) < length[:, None]]
    return replace_lists(lists, rows[those], Lists(offsets_of(length), members))


def _lowest(ring: Lists, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The first member of each list, -1 where there is none."""
    lowest = np.full(rows.size, -1, ring.members.dtype)
    some = ring.offsets[rows + 1] > ring.offsets[rows]
    lowest[some] = ring.members[ring.offsets[rows[some]]]
    return lowest
