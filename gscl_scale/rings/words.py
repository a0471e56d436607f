"""The exact engine where balls are large: 64 anchors share one traversal, a bit each (Then et al., VLDB 2014)."""

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from gscl_scale.rings import frontier
from gscl_scale.rings.lists import merge, reserve

BITS = 64
_PILOT = 32
# measured on ogbn-arxiv: a hop's walks over all nodes cost six shared edge visits per node, and an edge visit of a
# search of its own, which also marks and queues, costs four
_PASSES = 6
_OWN_VISIT = 4
_PLANES = 40  # bits of the vertical counters
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)


def _bit_positions() -> npt.NDArray[np.int64]:
    """Position of the one set bit of a word, by the top six bits of its product with a de Bruijn number."""
    table = np.zeros(BITS, np.int64)
    for bit in range(BITS):
        table[(((1 << bit) * int(_DE_BRUIJN)) & (2**64 - 1)) >> 58] = bit
    return table


_BIT = _bit_positions()


def pays(indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any], anchors: npt.NDArray[np.int64], hops: int) -> bool:
    """Whether sharing a traversal is less work than a search per anchor, judged by a pilot of some anchors."""
    if anchors.size < BITS:
        return False
    pilot = anchors[:: max(1, anchors.size // _PILOT)][:_PILOT]
    visits = _edge_visits(indptr, indices, pilot, hops) / pilot.size
    shared = min(hops * indices.size, BITS * visits) + _PASSES * hops * (indptr.size - 1)
    return bool(_OWN_VISIT * visits > shared / BITS)


@numba.njit(cache=True, nogil=True)
def _edge_visits(indptr, indices, anchors, hops):  # type: ignore[no-untyped-def]
    seen = np.zeros(indptr.size - 1, np.uint8)
    queue = np.empty(indptr.size, indices.dtype)
    visits = 0
    for anchor in anchors:
        frontier.start(anchor, queue, seen)
        head, tail = 0, 1
        for hop in range(hops):
            for i in range(head, tail):
                visits += indptr[queue[i] + 1] - indptr[queue[i]]
            if hop < hops - 1:
                head, tail = tail, frontier.expand(indptr, indices, queue, head, tail, hop + 2, seen)
        frontier.clear(queue, tail, seen)
    return visits


@numba.njit(cache=True, nogil=True)
def search_words(  # type: ignore[no-untyped-def]
    indptr, indices, anchors, order, rank, priority,
    hops, width, per_ring, num_beyond, ring_size, lengths, decided,
):  # fmt: skip
    """What `_search_all` of the exact engine returns and fills, for a fixed number of members per ring."""
    num_nodes = order.size
    seen = np.zeros(num_nodes, np.uint64)
    current, reached = np.zeros(num_nodes, np.uint64), np.zeros(num_nodes, np.uint64)
    kept = np.empty((hops, BITS, max(width, per_ring)), order.dtype)
    counts = np.zeros((hops + 1, BITS), np.int64)
    far = np.empty((BITS, num_beyond), order.dtype)
    low, merged = np.empty(width, order.dtype), np.empty(width, order.dtype)
    flat, used = np.empty(1024, order.dtype), 0
    for first in range(0, anchors.size, BITS):
        word = anchors[first : first + BITS]
        sizes = ring_size[first : first + BITS]
        _begin(word, seen, current)
        for hop in range(hops):
            _spread(indptr, indices, current, reached)
            _settle(seen, reached, sizes[:, hop])
            for b in range(word.size):
                counts[hop, b] = min(sizes[b, hop], max(width, per_ring))
            _take_lowest(order, reached, counts[hop], word.size, kept[hop])
            current, reached = reached, current
        for b in range(word.size):
            counts[hops, b] = min(num_beyond, num_nodes - 1 - sizes[b].sum())
        for u in range(num_nodes):
            seen[u] = ~seen[u]
        _take_lowest(order, seen, counts[hops], word.size, far)
        for b in range(word.size):
            low[0] = rank[word[b]]
            num_low = 1
            for hop in range(hops):
                num_low = merge(low, num_low, kept[hop, b], counts[hop, b], merged)
                low, merged = merged, low
                stored = min(per_ring, counts[hop, b])
                while stored < counts[hop, b] and (num_low < width or kept[hop, b, stored] <= low[width - 1]):
                    stored += 1
                flat = reserve(flat, used + stored)
                for i in range(stored):
                    flat[used + i] = order[kept[hop, b, i]]
                used += stored
                lengths[first + b, hop] = stored
            flat = reserve(flat, used + counts[hops, b])
            for i in range(counts[hops, b]):
                flat[used + i] = order[far[b, i]]
            used += counts[hops, b]
            lengths[first + b, hops] = counts[hops, b]
            decided[first + b] = priority[low[width - 1]] if num_low == width else np.inf
    return flat[:used]


@numba.njit(cache=True, nogil=True)
def _begin(word, seen, current):  # type: ignore[no-untyped-def]
    seen[:] = 0
    current[:] = 0
    for b in range(word.size):
        seen[word[b]] |= np.uint64(1) << np.uint64(b)
        current[word[b]] = seen[word[b]]


@numba.njit(cache=True, nogil=True)
def _spread(indptr, indices, current, reached):  # type: ignore[no-untyped-def]
    """Hand the bits of every node on to its neighbours."""
    reached[:] = 0
    for v in range(current.size):
        bits = current[v]
        if bits:
            for e in range(indptr[v], indptr[v + 1]):
                reached[indices[e]] |= bits


@numba.njit(cache=True, nogil=True)
def _settle(seen, reached, sizes):  # type: ignore[no-untyped-def]
    """Keep the bits that are new, and count them per anchor: plane i holds bit i of all 64 counters."""
    planes = np.zeros(_PLANES, np.uint64)
    for u in range(seen.size):
        new = reached[u] & ~seen[u]
        reached[u] = new
        seen[u] |= new
        plane = 0
        while new:
            carry = planes[plane] & new
            planes[plane] ^= new
            new = carry
            plane += 1
    for b in range(sizes.size):
        sizes[b] = 0
        for plane in range(_PLANES):
            sizes[b] += np.int64((planes[plane] >> np.uint64(b)) & np.uint64(1)) << plane


@numba.njit(cache=True, nogil=True)
def _take_lowest(order, bits_of, counts, num_anchors, out):  # type: ignore[no-untyped-def]
    """For each anchor the `counts` lowest ranks among the nodes with its bit: walk in priority order until all have."""
    taken = np.zeros(BITS, np.int64)
    active = np.uint64(0)
    for b in range(num_anchors):
        if counts[b] > 0:
            active |= np.uint64(1) << np.uint64(b)
    position = 0
    while active:
        bits = bits_of[order[position]] & active
        while bits:
            lowest = bits & (~bits + np.uint64(1))
            b = _BIT[(lowest * _DE_BRUIJN) >> np.uint64(58)]
            out[b, taken[b]] = position
            taken[b] += 1
            if taken[b] == counts[b]:
                active &= ~lowest
            bits &= ~lowest
        position += 1
