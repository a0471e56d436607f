"""The lowest ranks for each of 64 anchors at once: a bit says for which anchors a node counts."""

import numpy as np

from gscl_scale.kernels.kernel import kernel
from gscl_scale.kernels.sort import sort_part
from gscl_scale.rings.exact.shared_search import FRONT
from gscl_scale.rings.kernels import BITS, lowest_bit

_BUCKETS = 256  # of ranks that are sorted together


@kernel
def lowest_of_ring(order, rank, search, hop, counts, out):
    """For each anchor the `counts` lowest ranks of its ring `hop`, the last of the search."""
    asking = _asking(counts)
    if not asking:
        return
    bits_of, ranks = search.ring[hop & 1], search.ranks
    front = search.front[hop & 1, : search.num[FRONT]]
    if front.size >= ranks.shape[1]:  # a walk over all nodes ends early where rings are large
        lowest_of_all(order, bits_of, np.uint64(0), counts, out)
        return
    num = 0
    for v in front:
        ranks[0, num] = rank[v]
        num += (bits_of[v] & asking) != 0
    _lowest_of_few(order, ranks[0, :num], ranks[1, :num], bits_of, counts, out)


@kernel
def lowest_of_all(order, bits_of, flip, counts, out):
    """For each anchor the `counts` lowest ranks of all nodes with its bit (without it, where `flip` is all ones)."""
    taken = np.zeros(BITS, np.int64)
    asking = _asking(counts)
    r = 0
    while asking:
        asking = _take(r, (bits_of[order[r]] ^ flip) & asking, asking, counts, taken, out)
        r += 1


@kernel
def lowest_beyond(indptr, indices, order, seen, counts, out):
    """For each anchor the `counts` lowest ranks of the nodes that neither it has seen nor has a neighbour that it has.

    There may be fewer: `counts` becomes how many. Undirected graphs only.
    """
    taken = np.zeros(BITS, np.int64)
    asking = _asking(counts)
    for r in range(order.size):
        if not asking:
            break
        x = order[r]
        bits = ~seen[x] & asking
        e, end = indptr[x], indptr[x + 1]
        while bits and e < end:
            bits &= ~seen[indices[e]]
            e += 1
        asking = _take(r, bits, asking, counts, taken, out)
    counts[:] = taken[: counts.size]


@kernel
def _lowest_of_few(order, ranks, in_buckets, bits_of, counts, out):
    """The same of these `ranks` alone.

    They are put into buckets of equal ranges (a counting sort by their high bits), and buckets are sorted one after
    the other until every anchor has enough, which is mostly after a few of them.
    """
    shift = 0
    while (order.size - 1) >> shift >= _BUCKETS:
        shift += 1
    ends = np.zeros(_BUCKETS + 1, np.int64)
    for r in ranks:
        ends[(r >> shift) + 1] += 1
    for bucket in range(_BUCKETS):
        ends[bucket + 1] += ends[bucket]
    for r in ranks:  # ends[bucket] is where the bucket begins, and in the end where it ends
        in_buckets[ends[r >> shift]] = r
        ends[r >> shift] += 1
    taken = np.zeros(BITS, np.int64)
    asking = _asking(counts)
    start = 0
    for bucket in range(_BUCKETS):
        some = in_buckets[start : ends[bucket]]
        sort_part(some, np.int64(0), some.size)
        for r in some:
            asking = _take(r, bits_of[order[r]] & asking, asking, counts, taken, out)
        if not asking:
            break
        start = ends[bucket]


@kernel
def _asking(counts):
    """The bits of the anchors that want any."""
    asking = np.uint64(0)
    for b in range(counts.size):
        if counts[b] > 0:
            asking |= np.uint64(1) << np.uint64(b)
    return asking


@kernel(inline="always")
def _take(r, bits, asking, counts, taken, out):
    """Give rank r to every anchor whose bit is set; returns the anchors that want more."""
    while bits:
        lowest = bits & (~bits + np.uint64(1))
        b = lowest_bit(bits)
        out[b, taken[b]] = r
        taken[b] += 1
        if taken[b] == counts[b]:
            asking &= ~lowest
        bits &= ~lowest
    return asking
