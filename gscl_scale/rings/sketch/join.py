"""Engine `sketch`: the lowest nodes of every ball, for the whole graph in one pass per hop (docs/engines.md).

A ball of radius n is the union of the neighbours' balls of radius n - 1, and the lowest of a union are the lowest of
the lowests. A level has two kinds of knowledge about each ball:

head   for the M lowest nodes of all, exactly which of them are in the ball: a bit each, joined by OR. A ball that holds
       S of them needs nothing else, and that is every ball of more than about 1 / HEAD_PER_WIDTH of the graph.
tail   for the smaller balls, the ranks from M on that fill the list of the S lowest: ascending, joined by merging.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.kernels.kernel import kernel, read_only
from gscl_scale.kernels.sort import sort_part
from gscl_scale.rings.exact.twins import same_neighbours
from gscl_scale.rings.kernels import lowest_bit, ones, prefetch
from gscl_scale.rings.sketch.level import Level

_BITMAP = 1 << 15  # ranks that a bitmap of 4 KiB holds
_NO_BOUND = 1 << 62
_AHEAD = 12  # edges


def level_zero(rank: npt.NDArray[Any], anchors: npt.NDArray[np.int64], width: int, words: int) -> Level:
    """Balls of radius 0: each anchor alone."""
    level = Level.empty(anchors.size, width, words, rank.dtype)
    _alone(rank[anchors], level)
    return level


def first_level(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    rank: npt.NDArray[Any],
    first: int,
    end: int,
    width: int,
    words: int,
    needed: npt.NDArray[np.bool_] | None = None,
) -> Level:
    """Balls of radius 1 of the vertices first..end; balls that are not `needed` are empty."""
    level = Level.empty(end - first, width, words, rank.dtype)
    of_all = np.ones(end - first, np.bool_) if needed is None else needed
    _neighbours(indptr, indices, read_only(rank), first, of_all, level)
    return level


def next_level(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    rank: npt.NDArray[Any],
    before: Level,
    first: int,
    end: int,
    undirected: bool,
    needed: npt.NDArray[np.bool_] | None = None,
) -> Level:
    """Balls of the next radius, 2 or more, of the vertices first..end, from the level before of the whole graph.

    In an undirected graph a vertex that has neighbours, and the same as the vertex before it, has the same ball: each
    is within two hops of the other. Their rows are equal, and name one place.
    """
    level = Level.empty(end - first, before.width, before.words, before.tails.dtype)
    of_all = np.ones(end - first, np.bool_) if needed is None else needed
    _join(indptr, indices, read_only(rank), before.to_read(), first, of_all, undirected, level)
    return level


# --- kernels: r is a rank, M = 64 * words the number of nodes in the head ---------------------------------------------


@kernel
def _alone(ranks, out):
    table, size = out.table, 64 * out.heads.shape[1]
    num_heads = num_tails = 0
    for i in range(ranks.size):
        r = np.int64(ranks[i])
        table[i, 4], table[i, 5] = num_heads, num_tails
        if r < size:
            out.heads[num_heads] = 0
            out.heads[num_heads, r >> 6] = np.uint64(1) << np.uint64(r & 63)
            table[i, 0] = 1
            num_heads += 1
        else:
            out.tails[num_tails] = table[i, 2] = table[i, 3] = r
            table[i, 1] = 1
            num_tails += 1


@kernel
def _neighbours(indptr, indices, rank, first, needed, out):
    """Each vertex and its neighbours: those of the head as bits, the lowest of the others in order."""
    table, width, words = out.table, out.width, out.heads.shape[1]
    found = np.empty(4 * width + 1, rank.dtype)
    head = np.zeros(words, np.uint64)
    num_heads = num_tails = 0
    for i in range(needed.size):
        table[i, 4], table[i, 5] = num_heads, num_tails
        if not needed[i]:
            continue
        num_head = filled = 0
        bound = np.int64(rank.size)
        start, end = indptr[first + i], indptr[first + i + 1]
        for e in range(start - 1, end):
            r = np.int64(rank[indices[e] if e >= start else first + i])
            if r < 64 * words:
                head[r >> 6] |= np.uint64(1) << np.uint64(r & 63)
                num_head += 1
            elif r < bound:
                found[filled] = r
                filled += 1
                if filled == found.size:  # only the lowest `width` can be in the list, and later ones below the last
                    sort_part(found, np.int64(0), found.size)
                    filled = width
                    bound = np.int64(found[width - 1])
        if num_head > 0:
            out.heads[num_heads] = head
            head[:] = 0
            num_heads += 1
        num = min(filled, max(width - num_head, 0))
        if num > 0:
            sort_part(found, np.int64(0), filled)
            out.tails[num_tails : num_tails + num] = found[:num]
            table[i, 2], table[i, 3] = found[0], found[num - 1]
            num_tails += num
        table[i, 0], table[i, 1] = num_head, num


@kernel
def _join(indptr, indices, rank, before, first, needed, undirected, out):
    """A ball is the vertex and the smaller balls of its neighbours: its own smaller ball adds nothing to these."""
    width, words, table = before.width, before.heads.shape[1], before.table
    one, other = np.empty(width, before.tails.dtype), np.empty(width, before.tails.dtype)
    head, bitmap = np.zeros(words, np.uint64), np.zeros(_BITMAP // 64, np.uint64)
    num_heads = num_tails = 0
    for i in range(needed.size):
        out.table[i, 4], out.table[i, 5] = num_heads, num_tails
        if not needed[i]:
            continue
        v, degree = first + i, indptr[first + i + 1] - indptr[first + i]
        if undirected and i > 0 and needed[i - 1] and degree > 0 and same_neighbours(indptr, indices, v - 1, v):
            out.table[i] = out.table[i - 1]
            continue
        own = np.int64(rank[v])
        num_head = _join_heads(indptr, indices, v, own, before, head)
        if num_head > 0:
            out.heads[num_heads] = head
            head[:] = 0
            num_heads += 1
        # All ranks of the head are lower than any of a tail: the tail has what room these leave in a list of `width`.
        room = max(width - num_head, 0)
        num = 0
        if room > 0:
            neighbours = indices[indptr[v] : indptr[v + 1]]
            # A tail that fills the room alone bounds the union: its last rank, or a lower one, is the last of the list.
            # The vertex's own smaller ball is a part of the union, too.
            bound = np.int64(table[v, 3]) if table[v, 1] >= room else _NO_BOUND
            for u in neighbours:
                if table[u, 1] >= room:
                    bound = min(bound, np.int64(table[u, 3]))
            tail = out.tails[num_tails : num_tails + room]
            if bound < 64 * words + _BITMAP:  # few enough ranks for a bit each: no list has to be read twice
                num = _join_by_bitmap(neighbours, own, before, bound, bitmap, tail)
            else:
                one[0] = own
                num = 1 if own >= 64 * words else 0
                num, one, other = _join_by_merging(neighbours, before, room, num, one, other)
                tail[:num] = one[:num]
            if num > 0:
                out.table[i, 2], out.table[i, 3] = tail[0], tail[num - 1]
                num_tails += num
        out.table[i, 0], out.table[i, 1] = num_head, num


@kernel
def _join_heads(indptr, indices, v, own, before, head):
    """OR the heads of the neighbours and the vertex's own bit into `head`; returns how many bits are set.

    Neighbours lie anywhere in memory. Rows of the table are fetched two steps ahead, as they name the places of heads
    and tails, and these one step ahead: two lines of a tail, which is as far as most are read.
    """
    table, heads, tails, shift, width = before.table, before.heads, before.tails, before.shift, before.width
    words = head.size
    some = own < 64 * words
    if some:
        head[own >> 6] = np.uint64(1) << np.uint64(own & 63)
    for e in range(indptr[v], indptr[v + 1]):
        if e + 2 * _AHEAD < indices.size:
            prefetch(table, indices[e + 2 * _AHEAD], 0)
            soon = indices[e + _AHEAD]
            prefetch(heads, head_at(soon, table, shift), 0)
            prefetch(tails, tail_at(soon, table, shift, width), 0)
            prefetch(tails, tail_at(soon, table, shift, width), 64)
        u = indices[e]
        if table[u, 0] > 0:
            row = head_at(u, table, shift)
            for w in range(words):
                head[w] |= heads[row, w]
            some = True
    num_head = 0
    for w in range(words if some else 0):
        num_head += ones(head[w])
    return num_head


@kernel(inline="always")
def head_at(v, table, shift):
    """The row of the heads that a vertex has."""
    return (np.int64(v) >> shift << shift) + table[v, 4]


@kernel(inline="always")
def tail_at(v, table, shift, width):
    """Where the tail of a vertex begins."""
    return (np.int64(v) >> shift << shift) * width + table[v, 5]


@kernel
def _join_by_bitmap(neighbours, own, before, bound, bitmap, out):
    """The lowest ranks of all tails, none above `bound`: a bit for each, read off in order; returns how many."""
    table, tails, shift, width, base = (
        before.table,
        before.tails,
        before.shift,
        before.width,
        64 * before.heads.shape[1],
    )
    if base <= own <= bound:
        bitmap[(own - base) >> 6] |= np.uint64(1) << np.uint64((own - base) & 63)
    for u in neighbours:
        if table[u, 1] > 0 and table[u, 2] <= bound:
            _set_bits(tails, tail_at(u, table, shift, width), table[u, 1], base, bound, bitmap)
    num = 0
    for w in range((bound - base >> 6) + 1):
        bits = bitmap[w]
        bitmap[w] = 0
        while bits and num < out.size:
            out[num] = base + 64 * w + lowest_bit(bits)
            num += 1
            bits &= bits - np.uint64(1)
    return num


@kernel(inline="always")
def _set_bits(tails, start, num, base, bound, bitmap):
    for j in range(start, start + num):
        r = np.int64(tails[j])
        if r > bound:
            break
        bitmap[(r - base) >> 6] |= np.uint64(1) << np.uint64((r - base) & 63)


@kernel
def _join_by_merging(neighbours, before, room, num, one, other):
    """The lowest `room` ranks of all tails and of the `num` in `one`: (how many, the list, the other buffer).

    A tail that begins above the last of a full list has nothing for it.
    """
    table, tails, shift, width = before.table, before.tails, before.shift, before.width
    for u in neighbours:
        available = min(np.int64(table[u, 1]), room)
        if available > 0 and (num < room or table[u, 2] < one[num - 1]):
            start = tail_at(u, table, shift, width)
            num = merge_once(one, num, tails[start : start + available], available, other, room)
            one, other = other, one
    return num, one, other


@kernel(inline="always")
def merge_once(left, num_left, right, num_right, out, room):
    """The lowest `room` of two ascending lists, common ones once; without branches on the values."""
    i = j = n = 0
    while n < room and i < num_left and j < num_right:
        a, b = left[i], right[j]
        out[n] = min(a, b)
        i += a <= b
        j += b <= a
        n += 1
    while n < room and i < num_left:
        out[n] = left[i]
        i += 1
        n += 1
    while n < room and j < num_right:
        out[n] = right[j]
        j += 1
        n += 1
    return n
