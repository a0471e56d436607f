"""Engine `sketch`: the lowest nodes of every ball, for the whole graph in one pass per hop (rings.md, section 3).

A ball of radius n is the union of the neighbours' balls of radius n - 1, and the lowest of a union are the lowest of
the lowests. Two kinds of knowledge are handed from pass to pass:

head   for the M lowest nodes of all, exactly who is inside each ball: a bit each, joined by OR. Whoever's ball holds
       S of them needs nothing else, and that is every ball of more than about 1 / HEAD_PER_WIDTH of the graph.
tail   for the smaller balls, the ranks from M on that fill the list of the S lowest: ascending, joined by merging.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from gscl_scale.rings.bits import lowest_bit, ones, prefetch
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sample import Lists, RingSample

HEAD_PER_WIDTH = 16
_WORD = 64
_BITMAP = 1 << 15  # ranks that a bitmap of 4 KiB holds
_NO_BOUND = 1 << 62
_AHEAD = 12  # edges


@dataclass(frozen=True)
class Level:
    """The S lowest ranks of each ball of one radius, for a range of vertices.

    heads [V, M / 64] uint64   bit r of a row: the node of rank r is in the ball
    tails [V, S]               ranks from M on, ascending
    counts [V, 4]              bits set in the head; entries of the tail: never more than fill a list of S; its first
                               and its last entry
    """

    heads: npt.NDArray[np.uint64]
    tails: npt.NDArray[Any]
    counts: npt.NDArray[Any]

    @classmethod
    def empty(cls, num_vertices: int, width: int, words: int, dtype: npt.DTypeLike) -> "Level":
        """Room for a range of vertices."""
        return cls(
            np.zeros((num_vertices, words), np.uint64),
            np.empty((num_vertices, width), dtype),
            np.zeros((num_vertices, 4), dtype),
        )

    def rows(self, which: slice | npt.NDArray[np.int64]) -> "Level":
        """The same of some of the vertices."""
        return Level(self.heads[which], self.tails[which], self.counts[which])


def head_words(width: int, num_nodes: int) -> int:
    """Words of the head for lists of `width`: M / 64."""
    return -(-min(HEAD_PER_WIDTH * width, num_nodes) // _WORD)


def level_zero(rank: npt.NDArray[Any], first: int, end: int, width: int, words: int) -> Level:
    """Balls of radius 0: each vertex alone."""
    level = Level.empty(end - first, width, words, rank.dtype)
    _alone(rank[first:end], level.heads, level.tails, level.counts)
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
    """Balls of radius 1 of the vertices first..end: the neighbours by rank. Rows that are not `needed` mean nothing."""
    level = level_zero(rank, first, end, width, words)
    of_all = np.ones(end - first, np.bool_) if needed is None else needed
    _neighbours(indptr, indices, rank, first, of_all, level.heads, level.tails, level.counts)
    return level


def next_level(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    before: Level,
    first: int,
    end: int,
    needed: npt.NDArray[np.bool_] | None = None,
) -> Level:
    """Balls of the next radius of the vertices first..end, from those of the whole graph at the radius before."""
    level = Level.empty(end - first, before.tails.shape[1], before.heads.shape[1], before.tails.dtype)
    of_all = np.ones(end - first, np.bool_) if needed is None else needed
    _join(
        indptr, indices, first, of_all, before.heads, before.tails, before.counts,
        level.heads, level.tails, level.counts,
    )  # fmt: skip
    return level


def read_rings(
    levels: list[Level],
    anchors: npt.NDArray[np.int64],
    priorities: Priorities,
    weights: npt.NDArray[np.float64] | None,
    per_ring: int,
    num_beyond: int,
) -> tuple[RingSample, npt.NDArray[np.bool_]]:
    """The samples of some anchors from their balls of radius 0 to k, and which of their rings are short [A, k + 1].

    A short list (the last column is `beyond`) is not what the definition asks for: the exact engine has to finish it.
    """
    hops = len(levels) - 1
    sizes = np.zeros((anchors.size, hops), np.int64)
    exact = np.ones(anchors.size, np.bool_)
    short = np.zeros((anchors.size, hops + 1), np.bool_)
    order, priority = priorities.order, priorities.priority
    weight_of = np.empty(0) if weights is None else weights
    rings = []
    for hop, (before, after) in enumerate(itertools.pairwise(levels)):
        offsets = np.zeros(anchors.size + 1, np.int64)
        members = np.empty((anchors.size * max(per_ring, after.tails.shape[1])), order.dtype)
        used = _ring(
            before.heads, before.tails, before.counts, after.heads, after.tails, after.counts,
            order, priority, weight_of, per_ring, offsets, members, sizes[:, hop], exact, short[:, hop],
        )  # fmt: skip
        rings.append(Lists(offsets, members[:used]))
    last = levels[-1]
    offsets = np.zeros(anchors.size + 1, np.int64)
    members = np.empty(anchors.size * num_beyond, order.dtype)
    decided = np.empty(anchors.size, np.float64)
    used = _beyond(
        last.heads, last.tails, last.counts, order, priority, num_beyond, offsets, members, decided, short[:, hops]
    )
    return RingSample(anchors, rings, Lists(offsets, members[:used]), decided, sizes, exact), short


# --- kernels: r is a rank, M = 64 * words the number of nodes in the head ---------------------------------------------


@numba.njit(cache=True, nogil=True)
def _alone(ranks, heads, tails, counts):  # type: ignore[no-untyped-def]
    size = 64 * heads.shape[1]
    for i in range(ranks.size):
        r = ranks[i]
        if r < size:
            heads[i, r >> 6] |= np.uint64(1) << np.uint64(r & 63)
            counts[i, 0] = 1
        else:
            tails[i, 0] = counts[i, 2] = counts[i, 3] = r
            counts[i, 1] = 1


@numba.njit(cache=True, nogil=True)
def _neighbours(indptr, indices, rank, first, needed, heads, tails, counts):  # type: ignore[no-untyped-def]
    """Add the neighbours to each vertex alone: those of the head as bits, the lowest of the others in order."""
    size = 64 * heads.shape[1]
    width = tails.shape[1]
    found = np.empty(4 * width + 1, rank.dtype)
    for i in range(heads.shape[0]):
        if not needed[i]:
            continue
        num_head = np.int64(counts[i, 0])
        filled = 0
        bound = np.int64(rank.size)
        if counts[i, 1] == 1:
            found[0] = tails[i, 0]
            filled = 1
        for e in range(indptr[first + i], indptr[first + i + 1]):
            r = np.int64(rank[indices[e]])
            if r < size:
                heads[i, r >> 6] |= np.uint64(1) << np.uint64(r & 63)
                num_head += 1
            elif r < bound:
                found[filled] = r
                filled += 1
                if filled == found.size:
                    found.sort()
                    filled = width
                    bound = np.int64(found[width - 1])
        kept = min(filled, max(width - num_head, 0))
        if kept > 0:
            _sort(found, filled)
            tails[i, :kept] = found[:kept]
            counts[i, 2], counts[i, 3] = found[0], found[kept - 1]
        counts[i, 0] = num_head
        counts[i, 1] = kept


@numba.njit(cache=True, nogil=True)
def _sort(values, size):  # type: ignore[no-untyped-def]
    """Sort the first `size` values; short lists by insertion."""
    if size > 32:
        values[:size].sort()
        return
    for i in range(1, size):
        value = values[i]
        j = i
        while j > 0 and values[j - 1] > value:
            values[j] = values[j - 1]
            j -= 1
        values[j] = value


@numba.njit(cache=True, nogil=True)
def _join(  # type: ignore[no-untyped-def]
    indptr, indices, first, needed, heads, tails, counts, out_heads, out_tails, out_counts,
):  # fmt: skip
    """Heads by OR; where these do not fill a list, tails through a bitmap if a bound is known, and else by merging."""
    words, width = heads.shape[1], tails.shape[1]
    one, other = np.empty(width, tails.dtype), np.empty(width, tails.dtype)
    bitmap = np.zeros(_BITMAP // 64, np.uint64)
    for i in range(out_heads.shape[0]):
        if not needed[i]:
            continue
        v = first + i
        head = out_heads[i]
        head[:] = heads[v]
        neighbours = indices[indptr[v] : indptr[v + 1]]
        for e in range(indptr[v], indptr[v + 1]):
            if e + 2 * _AHEAD < indices.size:
                prefetch(counts, indices[e + 2 * _AHEAD], 0)
                prefetch(heads, indices[e + _AHEAD], 0)
                prefetch(tails, indices[e + _AHEAD], 0)
                prefetch(tails, indices[e + _AHEAD], 64)
            u = indices[e]
            if counts[u, 0] > 0:
                for w in range(words):
                    head[w] |= heads[u, w]
        num_head = 0
        for w in range(words):
            num_head += ones(head[w])
        room = max(width - num_head, 0)
        num = 0
        if room > 0:
            bound = np.int64(counts[v, 3]) if counts[v, 1] >= room else _NO_BOUND
            for u in neighbours:
                if counts[u, 1] >= room:
                    bound = min(bound, np.int64(counts[u, 3]))
            if bound < 64 * words + _BITMAP:
                num = _join_by_bitmap(neighbours, v, tails, counts, 64 * words, bound, room, bitmap, out_tails[i])
            else:
                num, one, other = _join_by_merging(neighbours, v, tails, counts, room, one, other)
                out_tails[i, :num] = one[:num]
        out_counts[i, 0] = num_head
        out_counts[i, 1] = num
        if num > 0:
            out_counts[i, 2], out_counts[i, 3] = out_tails[i, 0], out_tails[i, num - 1]


@numba.njit(cache=True, nogil=True)
def _join_by_bitmap(neighbours, v, tails, counts, base, bound, room, bitmap, out):  # type: ignore[no-untyped-def]
    """The lowest `room` ranks of all tails, none above `bound`: a bit for each, read off in order; returns how many."""
    _set_bits(tails[v], counts[v], base, bound, bitmap)
    for u in neighbours:
        if counts[u, 1] > 0 and counts[u, 2] <= bound:
            _set_bits(tails[u], counts[u], base, bound, bitmap)
    num = 0
    for w in range((bound - base >> 6) + 1):
        bits = bitmap[w]
        bitmap[w] = 0
        while bits and num < room:
            out[num] = base + 64 * w + lowest_bit(bits)
            num += 1
            bits &= bits - np.uint64(1)
    return num


@numba.njit(cache=True, inline="always")
def _set_bits(tail, count, base, bound, bitmap):  # type: ignore[no-untyped-def]
    for j in range(count[1]):
        r = np.int64(tail[j])
        if r > bound:
            break
        bitmap[(r - base) >> 6] |= np.uint64(1) << np.uint64((r - base) & 63)


@numba.njit(cache=True, nogil=True)
def _join_by_merging(neighbours, v, tails, counts, room, one, other):  # type: ignore[no-untyped-def]
    """The lowest `room` ranks of all tails: returns (how many, the list, the other buffer)."""
    num = min(np.int64(counts[v, 1]), room)
    one[:num] = tails[v, :num]
    for u in neighbours:
        available = min(np.int64(counts[u, 1]), room)
        if available > 0 and (num < room or counts[u, 2] < one[num - 1]):
            num = _merge(one, num, tails[u], available, other, room)
            one, other = other, one
    return num, one, other


@numba.njit(cache=True, inline="always")
def _merge(left, num_left, right, num_right, out, room):  # type: ignore[no-untyped-def]
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


@numba.njit(cache=True, nogil=True)
def _last_rank(head, tail, num_head, num_tail, width):  # type: ignore[no-untyped-def]
    """The last rank of a full list of `width`, -1 where the whole ball is listed."""
    if num_head + num_tail < width:
        return -1
    if num_head < width:
        return np.int64(tail[num_tail - 1])
    left = width
    for w in range(head.size):
        inside = ones(head[w])
        if inside >= left:
            bits = head[w]
            for _ in range(left - 1):
                bits &= bits - np.uint64(1)
            return 64 * w + lowest_bit(bits)
        left -= inside
    return -1


@numba.njit(cache=True, nogil=True)
def _ring(  # type: ignore[no-untyped-def]
    before_heads, before_tails, before_counts, heads, tails, counts,
    order, priority, weights, per_ring, offsets, members, sizes, exact, short,
):  # fmt: skip
    """Members of each ring as nodes, in order; returns how many were written."""
    words, width = heads.shape[1], tails.shape[1]
    used = 0
    for i in range(heads.shape[0]):
        num_head, num_tail = np.int64(counts[i, 0]), np.int64(counts[i, 1])
        last = _last_rank(heads[i], tails[i], num_head, num_tail, width)
        listed = last < 0
        start = used
        limit = np.int64(order.size) if listed else last
        known = np.int64(0)
        for w in range(words):
            bits = heads[i, w] & ~before_heads[i, w]
            known += ones(bits)
            while bits:
                r = 64 * w + lowest_bit(bits)
                if r > limit and used - start >= per_ring:
                    break
                members[used] = order[r]
                used += 1
                bits &= bits - np.uint64(1)
        in_head = used - start
        j = 0
        for a in range(num_tail):
            r = tails[i, a]
            while j < before_counts[i, 1] and before_tails[i, j] < r:
                j += 1
            if j == before_counts[i, 1] or before_tails[i, j] != r:
                members[used] = order[r]
                used += 1
        everything = listed or 64 * words >= order.size
        if everything:
            sizes[i] = known + used - start - in_head
        else:
            exact[i] = False
            short[i] = used - start < per_ring
            sizes[i] = max(
                used - start,
                _estimate(
                    heads[i], before_heads[i], members[start + in_head : used],
                    max(last, 64 * words - 1), order, priority, weights,
                ),
            )  # fmt: skip
        offsets[i + 1] = used
    return used


@numba.njit(cache=True, nogil=True)
def _estimate(head, before, tail_members, threshold, order, priority, weights):  # type: ignore[no-untyped-def]
    """Unbiased size of a ring: each member whose rank is below the threshold counts for 1 / its chance to be there."""
    bound = priority[threshold]
    if weights.size == 0:
        number = np.int64(0)
        for w in range(head.size):
            number += ones(head[w] & ~before[w])
        top = 64 * head.size - 1
        if threshold == top:
            number -= np.int64((head[-1] & ~before[-1]) >> np.uint64(63)) if head.size else 0
        elif tail_members.size and tail_members[-1] == order[threshold]:
            number += tail_members.size - 1
        else:
            number += tail_members.size
        return np.int64(np.round(number / -np.expm1(-bound)))
    total = 0.0
    for w in range(head.size):
        bits = head[w] & ~before[w]
        while bits:
            r = 64 * w + lowest_bit(bits)
            if r < threshold:
                total += 1 / -np.expm1(-bound * weights[order[r]])
            bits &= bits - np.uint64(1)
    for u in tail_members:
        if u != order[threshold]:
            total += 1 / -np.expm1(-bound * weights[u])
    return np.int64(np.round(total))


@numba.njit(cache=True, nogil=True)
def _beyond(heads, tails, counts, order, priority, num_beyond, offsets, members, decided, short):  # type: ignore[no-untyped-def]
    """The lowest nodes outside each ball, in order, and the priority below which all is decided."""
    words, width = heads.shape[1], tails.shape[1]
    used = 0
    for i in range(heads.shape[0]):
        num_head, num_tail = np.int64(counts[i, 0]), np.int64(counts[i, 1])
        last = _last_rank(heads[i], tails[i], num_head, num_tail, width)
        decided[i] = priority[last] if last >= 0 else np.inf
        start = used
        for w in range(words):
            bits = ~heads[i, w]
            while bits and used - start < num_beyond:
                r = 64 * w + lowest_bit(bits)
                if r >= order.size:
                    break
                members[used] = order[r]
                used += 1
                bits &= bits - np.uint64(1)
        r = 64 * words
        limit = np.int64(order.size) if last < 0 else last
        j = 0
        while used - start < num_beyond and r < limit:
            if j < num_tail and tails[i, j] == r:
                j += 1
            else:
                members[used] = order[r]
                used += 1
            r += 1
        short[i] = used - start < num_beyond and last >= 0 and 64 * words < order.size
        offsets[i + 1] = used
    return used
