"""A breadth-first search that up to 64 anchors share, a bit each (Then et al., VLDB 2014)."""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gscl_scale.kernels.kernel import kernel
from gscl_scale.rings.exact.hubs import Shortcuts, shortcuts
from gscl_scale.rings.exact.workspace import borrow_buffers
from gscl_scale.rings.kernels import BITS

FRONT, TOUCHED, HUBS = 0, 1, 2  # places in `Search.num`
_PLANES = 40  # bits of the vertical counters
_FEW = 16  # rings of fewer than 1 / _FEW of all nodes are listed and sorted; larger ones are found by sweeps over all


class Search(NamedTuple):
    """The state of a search: per node a bit for each anchor, and lists of nodes. Ring n is in row n mod 2.

    seen [N]            the anchors that have reached a node
    ring [2, N]         the anchors that have it in the last ring, and in the ring that is being reached
    passed [N]          the anchors for which the second ring of a hub stands for the edges of this node
    front [2, N + 1]    the nodes of the last ring, and of the ring that is being reached
    touched [N + 1]     all nodes that were seen
    hubs, hub_bits      the hubs of the last ring but one, and the anchors that have them there
    ranks [2, N / 16]   room to sort the nodes of a ring
    num [3]             how many are in front, touched and hubs
    """

    shortcuts: Shortcuts
    seen: npt.NDArray[np.uint64]
    ring: npt.NDArray[np.uint64]
    passed: npt.NDArray[np.uint64]
    front: npt.NDArray[Any]
    touched: npt.NDArray[Any]
    hubs: npt.NDArray[Any]
    hub_bits: npt.NDArray[np.uint64]
    ranks: npt.NDArray[Any]
    num: npt.NDArray[np.int64]


@contextlib.contextmanager
def shared_search(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    anchors: npt.NDArray[np.int64],
    hops: int,
    dtype: npt.DTypeLike,
) -> Iterator[Search]:
    """A search for each 64 of the anchors, one after the other, with the shortcuts that pay for them."""
    num_nodes = indptr.size - 1
    with borrow_buffers(num_nodes) as mine, shortcuts(indptr, indices, anchors, hops, BITS, mine) as known:
        num_hubs = known.offsets.size
        yield Search(
            known, mine.bits[0], mine.bits[1:3], mine.bits[3],
            np.empty((2, num_nodes + 1), dtype), np.empty(num_nodes + 1, dtype),
            np.empty(num_hubs, dtype), np.empty(num_hubs, np.uint64), np.empty((2, num_nodes // _FEW), dtype),
            np.zeros(3, np.int64),
        )  # fmt: skip


@kernel
def begin(search, word):
    """Ring 0 of each anchor is the anchor; anchors may repeat."""
    num_front = 0
    for b in range(word.size):
        v = word[b]
        search.front[0, num_front] = search.touched[num_front] = v
        num_front += search.seen[v] == 0
        search.seen[v] |= np.uint64(1) << np.uint64(b)
        search.ring[0, v] = search.seen[v]
    search.num[FRONT] = search.num[TOUCHED] = num_front
    search.num[HUBS] = 0


@kernel
def advance(indptr, indices, search, hop, more, sizes):
    """From ring `hop` of all anchors to the next, whose `sizes` are filled; `more` says whether other hops follow."""
    last, reached = search.ring[hop & 1], search.ring[1 - (hop & 1)]
    front, following = search.front[hop & 1], search.front[1 - (hop & 1)]
    num_front = search.num[FRONT]
    if num_front < search.seen.size // _FEW:
        end = _spread(indptr, indices, search, last, reached, front[:num_front], following)
        end = _spread_second_rings(search, reached, following, end)
        search.num[HUBS] = _pass_hubs(indptr, indices, search, last, front[:num_front]) if more else 0
    else:
        end = _spread_all(indptr, indices, last, reached, following)
        search.num[HUBS] = 0
    for i in range(num_front):
        last[front[i]] = 0
    search.num[FRONT] = end
    search.num[TOUCHED] = _settle(search, reached, following[:end], sizes)


@kernel
def clear(search, hop):
    """Leave the marks as they were found, after the last ring `hop`."""
    last, seen, passed = search.ring[hop & 1], search.seen, search.passed
    for v in search.front[hop & 1, : search.num[FRONT]]:
        last[v] = 0
    for v in search.touched[: search.num[TOUCHED]]:
        seen[v] = passed[v] = 0


@kernel
def _spread(indptr, indices, search, last, reached, front, following):
    """Hand the bits of every node of the last ring on to its neighbours, and list the nodes that got a new one."""
    seen, passed = search.seen, search.passed
    end = 0
    for v in front:
        bits = last[v] & ~passed[v]
        if bits:
            for e in range(indptr[v], indptr[v + 1]):
                end = _reach(indices[e], bits, seen, reached, following, end)
    return end


@kernel(inline="always")
def _reach(u, bits, seen, reached, following, end):
    # no branch to mispredict: every node is written to the end of the list, which moves on for a new one only
    before = reached[u]
    after = before | (bits & ~seen[u])
    following[end] = u
    reached[u] = after
    return end + ((before == 0) & (after != 0))


@kernel
def _spread_second_rings(search, reached, following, end):
    """Hand on the bits of the hubs of the last ring but one to their second rings.

    The neighbours of such a hub are in the last ring or nearer, and what they lead to is the hub itself, its
    neighbours, or its second ring: only this can be new.
    """
    known, seen = search.shortcuts, search.seen
    for i in range(search.num[HUBS]):
        row, bits = known.row[search.hubs[i]], search.hub_bits[i]
        for u in known.nodes[known.offsets[row] : known.offsets[row + 1]]:
            end = _reach(u, bits, seen, reached, following, end)
    return end


@kernel
def _pass_hubs(indptr, indices, search, last, front):
    """List the hubs of the last ring, and mark their neighbours as passed; returns how many hubs there are.

    A mark on a node nearer than the next ring does no harm: the anchors whose bits it has walked its edges before.
    """
    row, passed = search.shortcuts.row, search.passed
    num_hubs = 0
    for v in front:
        if row[v] >= 0:
            search.hubs[num_hubs], search.hub_bits[num_hubs] = v, last[v]
            num_hubs += 1
            for e in range(indptr[v], indptr[v + 1]):
                passed[indices[e]] |= last[v]
    return num_hubs


@kernel
def _spread_all(indptr, indices, last, reached, following):
    """The same where the last ring is a good part of the graph: sweep it in order of memory, and list every node."""
    for v in range(last.size):
        bits = last[v]
        if bits:
            for e in range(indptr[v], indptr[v + 1]):
                reached[indices[e]] |= bits
    for v in range(last.size):
        following[v] = v
    return last.size


@kernel
def _settle(search, reached, following, sizes):
    """Keep the bits that are new, and count them for each anchor; returns how many nodes were ever seen.

    The 64 counters stand upright: plane i holds bit i of all of them. To add a word of bits to all counters is to
    carry it from plane to plane, which takes two operations a plane, and two planes on average.
    """
    seen, touched, num_touched = search.seen, search.touched, search.num[TOUCHED]
    planes = np.zeros(_PLANES, np.uint64)
    used = 0
    for u in following:
        known = seen[u]
        carry = reached[u] & ~known
        reached[u] = carry
        touched[num_touched] = u
        num_touched += (known == 0) & (carry != 0)
        seen[u] = known | carry
        plane = 0
        while carry:
            overflow = planes[plane] & carry
            planes[plane] ^= carry
            carry = overflow
            plane += 1
        used = max(used, plane)
    sizes[:] = 0
    for plane in range(used):
        for b in range(sizes.size):
            sizes[b] += np.int64((planes[plane] >> np.uint64(b)) & np.uint64(1)) << plane
    return num_touched
