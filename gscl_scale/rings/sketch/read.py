"""Samples read off the sketch: a ring has the nodes of a ball that are not in the next smaller ball."""

import itertools
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gscl_scale.kernels.kernel import kernel, read_only
from gscl_scale.rings.kernels import lowest_bit, ones
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sample import Lists, RingSample, first_undecided_word, near_lists
from gscl_scale.rings.sketch.level import Level, near_words


class _Column(NamedTuple):
    """Lists of A anchors as they are written.

    offsets [A + 1]
    members           room for all
    short [A]         which of them the exact engine has to finish
    """

    offsets: npt.NDArray[np.int64]
    members: npt.NDArray[Any]
    short: npt.NDArray[np.bool_]


class _Drawn(NamedTuple):
    """The nodes of a round by rank [N], their priorities, and the weights of the nodes (empty: sampling is uniform)."""

    order: npt.NDArray[Any]
    priority: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]


def read_rings(
    levels: list[Level],
    anchors: npt.NDArray[np.int64],
    priorities: Priorities,
    weights: npt.NDArray[np.float64] | None,
    per_ring: int,
    num_beyond: int,
) -> tuple[RingSample, npt.NDArray[np.bool_]]:
    """The samples of some anchors from their balls of radius 0 to k, and which of their lists are short [A, k + 1].

    A short list (the last column is `beyond`) lacks members that the definition asks for: the exact engine finishes it.
    """
    levels = [level.to_read() for level in levels]
    hops, last = len(levels) - 1, levels[-1]
    node_weights = np.empty(0) if weights is None else weights
    drawn = _Drawn(*map(read_only, (priorities.order, priorities.priority, node_weights)))
    sizes, exact = np.zeros((hops, anchors.size), np.int64), np.ones(anchors.size, np.bool_)
    short = np.zeros((hops + 1, anchors.size), np.bool_)

    def column(level: int, most: int) -> _Column:
        members = np.empty(anchors.size * most, priorities.order.dtype)
        return _Column(np.zeros(anchors.size + 1, np.int64), members, short[level])

    lists = []
    for hop, (before, after) in enumerate(itertools.pairwise(levels)):
        ring = column(hop, max(per_ring, after.width))
        used = _ring(before, after, drawn, per_ring, ring, sizes[hop], exact)
        lists.append(Lists(ring.offsets, ring.members[:used]))
    far, decided = column(hops, num_beyond), np.empty(anchors.size, np.float64)
    words = min(last.words, near_words(last.width, priorities.order.size))
    near, first = np.zeros((anchors.size, words), np.uint64), np.zeros(anchors.size, np.int64)
    used = _beyond(last, drawn, num_beyond, far, decided, near, first)
    beyond = Lists(far.offsets, far.members[:used])
    sample = RingSample(anchors, lists, beyond, decided, np.ascontiguousarray(sizes.T), exact, near_lists(near, first))
    return sample, np.ascontiguousarray(short.T)


@kernel
def _last_rank(table, heads, width, i):
    """The last rank of a full list of `width`, -1 where the whole ball is listed."""
    num_head, num_tail = np.int64(table[i, 0]), np.int64(table[i, 1])
    if num_head + num_tail < width:
        return -1
    if num_head < width:
        return np.int64(table[i, 3])
    left = width  # the head has more: the last is its bit number `width`
    row = table[i, 4]
    for w in range(heads.shape[1]):
        inside = ones(heads[row, w])
        if inside >= left:
            bits = heads[row, w]
            for _ in range(left - 1):
                bits &= bits - np.uint64(1)
            return 64 * w + lowest_bit(bits)
        left -= inside
    return -1


@kernel(inline="always")
def _as_before(table, i):
    """Whether a row's list is the one of the row before, in the same place."""
    same = i > 0
    for column in range(table.shape[1]):
        same = same and table[i, column] == table[i - 1, column]
    return same


@kernel(inline="always")
def _repeat(i, used, offsets, members):
    """Repeat the list of the row before; returns how many members are written then."""
    end = used + used - offsets[i - 1]
    members[used:end] = members[offsets[i - 1] : used]
    offsets[i + 1] = end
    return end


@kernel
def _ring(before, level, drawn, per_ring, out, sizes, exact):
    """Members of the rings between two levels as nodes, in order; returns how many were written."""
    order, offsets, members = drawn.order, out.offsets, out.members
    table, heads, tails, width, words = level.table, level.heads, level.tails, level.width, level.heads.shape[1]
    nearer_table, nearer_heads, nearer_tails, short = before.table, before.heads, before.tails, out.short
    head, nobody = np.zeros(words, np.uint64), np.zeros(words, np.uint64)
    used = 0
    for i in range(table.shape[0]):
        if _as_before(table, i) and _as_before(nearer_table, i):
            used = _repeat(i, used, offsets, members)
            sizes[i], short[i] = sizes[i - 1], short[i - 1]
            exact[i] &= exact[i - 1]
            continue
        start, in_head, known = used, 0, np.int64(0)
        last = _last_rank(table, heads, width, i)
        if table[i, 0] > 0:
            limit = np.int64(order.size) if last < 0 else last
            inside = heads[table[i, 4]]
            nearer = nearer_heads[nearer_table[i, 4]] if nearer_table[i, 0] > 0 else nobody
            for w in range(words):
                bits = head[w] = inside[w] & ~nearer[w]
                known += ones(bits)
                while bits:
                    r = 64 * w + lowest_bit(bits)
                    if r > limit and used - start >= per_ring:
                        break
                    members[used] = order[r]
                    used += 1
                    bits &= bits - np.uint64(1)
            in_head = used - start
        # Both tails ascend. A rank of the smaller ball that this list lacks was pushed out by lower ones, and is above
        # its last: to skip what both have leaves the ring alone.
        j, nearer_end = nearer_table[i, 5], nearer_table[i, 5] + nearer_table[i, 1]
        for a in range(table[i, 5], table[i, 5] + table[i, 1]):
            r = tails[a]
            while j < nearer_end and nearer_tails[j] < r:
                j += 1
            if j == nearer_end or nearer_tails[j] != r:
                members[used] = order[r]
                used += 1
        if last < 0 or 64 * words >= order.size:  # the list is the whole ball, or the head has all nodes
            sizes[i] = known + used - start - in_head
        else:
            exact[i] = False
            short[i] = used - start < per_ring
            estimate = _estimate(
                head if table[i, 0] > 0 else nobody, known, members[start + in_head : used],
                max(last, 64 * words - 1), drawn,
            )  # fmt: skip
            sizes[i] = max(used - start, estimate)
        offsets[i + 1] = used
    return used


@kernel
def _estimate(head, num_head, tail_members, threshold, drawn):
    """Unbiased size of a ring: each member whose rank is below the threshold counts for 1 / its chance to be there.

    Its chance to have a priority below that of the threshold is 1 - exp(-priority * weight) (bottom-k, Cohen 1997).
    """
    order, weights, bound = drawn.order, drawn.weights, drawn.priority[threshold]
    if weights.size == 0:
        number = num_head + tail_members.size
        if threshold < 64 * head.size:
            number -= np.int64(head[-1] >> np.uint64(63))
        elif tail_members.size and tail_members[-1] == order[threshold]:
            number -= 1
        return np.int64(np.round(number / -np.expm1(-bound)))
    total = 0.0
    for w in range(head.size):
        bits = head[w]
        while bits:
            r = 64 * w + lowest_bit(bits)
            if r < threshold:
                total += 1 / -np.expm1(-bound * weights[order[r]])
            bits &= bits - np.uint64(1)
    for u in tail_members:
        if u != order[threshold]:
            total += 1 / -np.expm1(-bound * weights[u])
    return np.int64(np.round(total))


@kernel
def _beyond(level, drawn, num_beyond, out, decided, near, first_near):
    """The lowest nodes outside each ball, in order, the priority below which all is decided, and the head's bits."""
    order, offsets, members = drawn.order, out.offsets, out.members
    table, heads, tails, width, words = level.table, level.heads, level.tails, level.width, level.heads.shape[1]
    priority, short = drawn.priority, out.short
    nobody = np.zeros(words, np.uint64)
    used = 0
    for i in range(table.shape[0]):
        if _as_before(table, i):
            used = _repeat(i, used, offsets, members)
            decided[i], short[i] = decided[i - 1], short[i - 1]
            near[i], first_near[i] = near[i - 1], first_near[i - 1]
            continue
        inside = heads[table[i, 4]] if table[i, 0] > 0 else nobody
        last = _last_rank(table, heads, width, i)
        decided[i] = priority[last] if last >= 0 else np.inf
        near[i] = inside[: near.shape[1]]
        first_near[i] = first_undecided_word(last, near.shape[1], order.size)
        start = used
        w = 0
        while w < words and used - start < num_beyond:
            bits = ~inside[w]
            while bits and used - start < num_beyond:
                r = 64 * w + lowest_bit(bits)
                if r >= order.size:
                    break
                members[used] = order[r]
                used += 1
                bits &= bits - np.uint64(1)
            w += 1
        # Behind the head, every rank below the last of the list that is not in the tail is certainly beyond.
        r = 64 * words
        limit = np.int64(order.size) if last < 0 else last
        j, end = table[i, 5], table[i, 5] + table[i, 1]
        while used - start < num_beyond and r < limit:
            if j < end and tails[j] == r:
                j += 1
            else:
                members[used] = order[r]
                used += 1
            r += 1
        short[i] = used - start < num_beyond and last >= 0 and 64 * words < order.size
        offsets[i + 1] = used
    return used
