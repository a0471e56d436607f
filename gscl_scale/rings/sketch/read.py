"""Samples read off the sketch: a ring is what a ball has and the smaller ball has not."""

import itertools

import numpy as np
import numpy.typing as npt

from gscl_scale.kernel import kernel
from gscl_scale.rings.kernels import lowest_bit, ones
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sample import Lists, RingSample, first_open_word, near_lists
from gscl_scale.rings.sketch.level import Level, near_words


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
        members = np.empty(anchors.size * max(per_ring, after.width), order.dtype)
        used = _ring(
            before.table, before.heads, before.tails, after.table, after.heads, after.tails, after.width,
            order, priority, weight_of, per_ring, offsets, members, sizes[:, hop], exact, short[:, hop],
        )  # fmt: skip
        rings.append(Lists(offsets, members[:used]))
    last = levels[-1]
    offsets = np.zeros(anchors.size + 1, np.int64)
    members = np.empty(anchors.size * num_beyond, order.dtype)
    decided = np.empty(anchors.size, np.float64)
    words = min(last.words, near_words(last.width, order.size))
    near, first = np.zeros((anchors.size, words), np.uint64), np.zeros(anchors.size, np.int64)
    used = _beyond(
        last.table, last.heads, last.tails, last.width, order, priority, num_beyond, offsets, members, decided,
        short[:, hops], near, first,
    )  # fmt: skip
    far = Lists(offsets, members[:used])
    return RingSample(anchors, rings, far, decided, sizes, exact, near_lists(near, first)), short


@kernel
def _last_rank(head, last, num_head, num_tail, width):  # type: ignore[no-untyped-def]
    """The last rank of a full list of `width`, -1 where the whole ball is listed."""
    if num_head + num_tail < width:
        return -1
    if num_head < width:
        return last
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


@kernel(inline="always")
def _as_before(table, i):  # type: ignore[no-untyped-def]
    """Whether a row's list is the one of the row before, in the same place."""
    same = i > 0
    for column in range(table.shape[1]):
        same = same and table[i, column] == table[i - 1, column]
    return same


@kernel(inline="always")
def _repeat(i, used, offsets, members):  # type: ignore[no-untyped-def]
    """The members of the row before once more; returns how many there are then."""
    end = used + used - offsets[i - 1]
    members[used:end] = members[offsets[i - 1] : used]
    offsets[i + 1] = end
    return end


@kernel
def _ring(  # type: ignore[no-untyped-def]
    before_table, before_heads, before_tails, table, heads, tails, width,
    order, priority, weights, per_ring, offsets, members, sizes, exact, short,
):  # fmt: skip
    """Members of each ring as nodes, in order; returns how many were written."""
    words = heads.shape[1]
    head, nobody = np.zeros(words, np.uint64), np.zeros(words, np.uint64)
    used = 0
    for i in range(table.shape[0]):
        if _as_before(table, i) and _as_before(before_table, i):
            used = _repeat(i, used, offsets, members)
            sizes[i], short[i] = sizes[i - 1], short[i - 1]
            exact[i] &= exact[i - 1]
            continue
        num_head, num_tail = np.int64(table[i, 0]), np.int64(table[i, 1])
        start = used
        in_head, known = 0, np.int64(0)
        last = np.int64(-1)
        if num_head > 0:
            inside = heads[table[i, 4]]
            last = _last_rank(inside, table[i, 3], num_head, num_tail, width)
            limit = np.int64(order.size) if last < 0 else last
            earlier = before_heads[before_table[i, 4]] if before_table[i, 0] > 0 else nobody
            for w in range(words):
                bits = head[w] = inside[w] & ~earlier[w]
                known += ones(bits)
                while bits:
                    r = 64 * w + lowest_bit(bits)
                    if r > limit and used - start >= per_ring:
                        break
                    members[used] = order[r]
                    used += 1
                    bits &= bits - np.uint64(1)
            in_head = used - start
        elif num_tail >= width:
            last = np.int64(table[i, 3])
        j, earlier_end = before_table[i, 5], before_table[i, 5] + before_table[i, 1]
        for a in range(table[i, 5], table[i, 5] + num_tail):
            r = tails[a]
            while j < earlier_end and before_tails[j] < r:
                j += 1
            if j == earlier_end or before_tails[j] != r:
                members[used] = order[r]
                used += 1
        if last < 0 or 64 * words >= order.size:
            sizes[i] = known + used - start - in_head
        else:
            exact[i] = False
            short[i] = used - start < per_ring
            sizes[i] = max(
                used - start,
                _estimate(
                    head if num_head > 0 else nobody, known, members[start + in_head : used],
                    max(last, 64 * words - 1), order, priority, weights,
                ),
            )  # fmt: skip
        offsets[i + 1] = used
    return used


@kernel
def _estimate(head, num_head, tail_members, threshold, order, priority, weights):  # type: ignore[no-untyped-def]
    """Unbiased size of a ring: each member whose rank is below the threshold counts for 1 / its chance to be there."""
    bound = priority[threshold]
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
def _beyond(  # type: ignore[no-untyped-def]
    table, heads, tails, width, order, priority, num_beyond, offsets, members, decided, short,
    near, first_near,
):  # fmt: skip
    """The lowest nodes outside each ball, in order, the priority below which all is decided, and the head's bits."""
    words = heads.shape[1]
    nobody = np.zeros(words, np.uint64)
    used = 0
    for i in range(table.shape[0]):
        if _as_before(table, i):
            used = _repeat(i, used, offsets, members)
            decided[i], short[i] = decided[i - 1], short[i - 1]
            near[i], first_near[i] = near[i - 1], first_near[i - 1]
            continue
        num_head, num_tail = np.int64(table[i, 0]), np.int64(table[i, 1])
        inside = heads[table[i, 4]] if num_head > 0 else nobody
        last = _last_rank(inside, np.int64(table[i, 3]), num_head, num_tail, width)
        decided[i] = priority[last] if last >= 0 else np.inf
        near[i] = inside[: near.shape[1]]
        first_near[i] = first_open_word(last, near.shape[1], order.size)
        start = used
        for w in range(words):
            bits = ~inside[w]
            while bits and used - start < num_beyond:
                r = 64 * w + lowest_bit(bits)
                if r >= order.size:
                    break
                members[used] = order[r]
                used += 1
                bits &= bits - np.uint64(1)
            if used - start == num_beyond:
                break
        r = 64 * words
        limit = np.int64(order.size) if last < 0 else last
        j, end = table[i, 5], table[i, 5] + num_tail
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
