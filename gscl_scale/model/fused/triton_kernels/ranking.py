"""The terms of the ring loss, and their gradient; `model.loss` has the same in plain torch and says what they are.

Shapes: a program has one anchor, whose M similarities stand level by level; Q levels, L of which have a loss (all but
the last), padded to a power of two; T comparisons of a ring with farther ones, which have the places of levels.
"""

import triton
import triton.language as tl

_SIZES = ["columns", *(f"end_{number}" for number in range(1, 10))]  # of a batch: no kernel is compiled for each


@triton.jit
def _log1p(value):
    """log(1 + value) for values from 0 to 1; the logarithm of a GPU is rough near 1."""
    series = value * (1.0 - value * (0.5 - value * (1.0 / 3.0 - value * 0.25)))
    return tl.where(value < 0.02, series, tl.log(1.0 + value))


@triton.jit
def _log_sigmoid(value):
    return tl.minimum(value, 0.0) - _log1p(tl.exp(-tl.abs(value)))


@triton.jit
def _entries(similarity, present, first, end, temperature, BLOCK: tl.constexpr):
    """(columns, which are members, similarities over the temperature) of a block of a level."""
    column = first + tl.arange(0, BLOCK)
    there = tl.load(present + column, mask=column < end, other=0) != 0
    return column, there, tl.load(similarity + column, mask=there, other=0.0).to(tl.float32) / temperature


@triton.jit
def _log_sum(similarity, present, first, end, temperature, BLOCK: tl.constexpr):
    """log sum of exp(similarity / temperature) over the members of a level; minus infinity where there are none."""
    highest, total = float("-inf"), 0.0
    for begin in range(first, end, BLOCK):
        _, there, value = _entries(similarity, present, begin, end, temperature, BLOCK)
        value = tl.where(there, value, float("-inf"))
        new = tl.maximum(highest, tl.max(value, axis=0))
        base = tl.where(new == float("-inf"), 0.0, new)
        total = total * tl.exp(highest - base) + tl.sum(tl.exp(value - base), axis=0)
        highest = new
    return tl.log(total) + tl.where(highest == float("-inf"), 0.0, highest)


@triton.jit
def _log_sums(
    similarity, present, ends, first_level: tl.constexpr, temperature,
    Q: tl.constexpr, QB: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The log sums of level `first_level` and all farther ones [Q], without weights."""
    level_Q, sums_Q = tl.arange(0, QB), tl.full([QB], float("-inf"), tl.float32)
    for level in tl.static_range(first_level, Q):
        one = _log_sum(similarity, present, ends[level], ends[level + 1], temperature, BLOCK)
        sums_Q = tl.where(level_Q == level, one, sums_Q)
    return sums_Q


@triton.jit
def _at(values_Q, level, QB: tl.constexpr):
    """One entry."""
    return tl.sum(tl.where(tl.arange(0, QB) == level, values_Q, 0.0), axis=0)


@triton.jit
def _opponents(sums_Q, farther_Q, PAIRWISE: tl.constexpr, QB: tl.constexpr):
    """(log sums to compare with [T], which count [T], share of each farther level in its comparison [Q])."""
    if PAIRWISE:
        return sums_Q, farther_Q, tl.where(farther_Q, 1.0, 0.0)
    highest = tl.max(tl.where(farther_Q, sums_Q, float("-inf")), axis=0)
    base = tl.where(highest == float("-inf"), 0.0, highest)
    share_Q = tl.where(farther_Q, tl.exp(sums_Q - base), 0.0)
    total = tl.sum(share_Q, axis=0)
    counts_T = tl.arange(0, QB) < tl.minimum(tl.sum(farther_Q.to(tl.int32), axis=0), 1)
    far_T = tl.zeros([QB], tl.float32) + (tl.log(total) + base)
    return far_T, counts_T, share_Q / tl.maximum(total, 1.0)  # the highest gives 1, so only 0 is below


@triton.jit
def _compare(nearer, far_T, counts_T):
    """(margins, which count) of one sum with each of these."""
    nearer_T = tl.zeros_like(far_T) + nearer
    counts_T = counts_T & (nearer_T != float("-inf"))  # of a ring without members; one that is no number is compared
    return tl.where(counts_T, nearer_T - far_T, 0.0), counts_T


@triton.jit
def _compare_members(similarity, present, first, end, temperature, far_T, counts_T, BLOCK: tl.constexpr):
    """(columns, which are members, margins [M, T], which count [M, T]) of each member of a block with each of these."""
    column, there, scaled = _entries(similarity, present, first, end, temperature, BLOCK)
    counts = counts_T[None, :] & there[:, None]
    return column, there, tl.where(counts, scaled[:, None] - far_T[None, :], 0.0), counts


@triton.jit
def _sum_of_members(similarity, present, first, end, temperature, far_T, counts_T, log_gate, BLOCK: tl.constexpr):
    """A term for each member and comparison: the sum of those at most the gate, their number, how many are stopped."""
    value, number, stopped = 0.0, 0, 0
    for begin in range(first, end, BLOCK):
        _, _, margin, counts = _compare_members(similarity, present, begin, end, temperature, far_T, counts_T, BLOCK)
        term = _log_sigmoid(margin)
        over = counts & (term > log_gate)
        value += tl.sum(tl.where(counts, tl.where(over, log_gate, term), 0.0))
        number += tl.sum(counts.to(tl.int32))
        stopped += tl.sum(over.to(tl.int32))
    return value, number, stopped


@triton.jit
def _weights(log_weight, row, level_Q, Q: tl.constexpr, QB: tl.constexpr, WEIGHTED: tl.constexpr):
    """What is added to the log sums [Q]."""
    if WEIGHTED:
        return tl.load(log_weight + row * Q + level_Q, mask=level_Q < Q, other=0.0).to(tl.float32)
    return tl.zeros([QB], tl.float32)


@triton.jit
def _store(values, counted, stopped, at, term_T, counts_T, log_gate):
    """The sum of terms at most the gate, how many there are, and how many the gate stops."""
    over_T = counts_T & (term_T > log_gate)
    tl.store(values + at, tl.sum(tl.where(counts_T, tl.where(over_T, log_gate, term_T), 0.0), axis=0))
    tl.store(counted + at, tl.sum(counts_T.to(tl.int32), axis=0))
    tl.store(stopped + at, tl.sum(over_T.to(tl.int32), axis=0))


@triton.jit(do_not_specialize=_SIZES)
def terms(
    similarity, present, log_weight, own, values, counted, stopped, columns,
    end_1, end_2, end_3, end_4, end_5, end_6, end_7, end_8, end_9, temperature, temperature_step, log_gate,
    WEIGHTED: tl.constexpr, HOP_ZERO: tl.constexpr, PAIRWISE: tl.constexpr, OUTSIDE: tl.constexpr,
    STEPS: tl.constexpr, Q: tl.constexpr, QB: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The terms of each level of an anchor: their sum, how many there are, and how many the gate stops."""
    ends = (0, end_1, end_2, end_3, end_4, end_5, end_6, end_7, end_8, end_9)
    row, level_Q = tl.program_id(0).to(tl.int64), tl.arange(0, QB)
    similarity, present = similarity + row * columns, present + row * columns
    weight_Q = _weights(log_weight, row, level_Q, Q, QB, WEIGHTED)
    at = row * (Q - 1 + HOP_ZERO)
    sums_Q = _log_sums(similarity, present, ends, 0, temperature, Q, QB, BLOCK) + weight_Q
    if HOP_ZERO:
        itself = tl.load(own + row).to(tl.float32) / temperature
        far_T, counts_T, _ = _opponents(sums_Q, sums_Q != float("-inf"), PAIRWISE, QB)
        margin_T, counts_T = _compare(itself, far_T, counts_T)
        _store(values, counted, stopped, at, _log_sigmoid(margin_T), counts_T, log_gate)
        at += 1
    for level in tl.static_range(Q - 1):
        warm = temperature + level * temperature_step
        if STEPS and level > 0:
            sums_Q = _log_sums(similarity, present, ends, level, warm, Q, QB, BLOCK) + weight_Q
        farther_Q = (sums_Q != float("-inf")) & (level_Q > level)
        far_T, counts_T, _ = _opponents(sums_Q, farther_Q, PAIRWISE, QB)
        if OUTSIDE:
            value, number, over = _sum_of_members(
                similarity, present, ends[level], ends[level + 1], warm, far_T, counts_T, log_gate, BLOCK
            )
            tl.store(values + at + level, value * tl.exp(_at(weight_Q, level, QB)))
            tl.store(counted + at + level, number)
            tl.store(stopped + at + level, over)
        else:
            margin_T, counts_T = _compare(_at(sums_Q, level, QB), far_T, counts_T)
            _store(values, counted, stopped, at + level, _log_sigmoid(margin_T), counts_T, log_gate)


@triton.jit
def _fill(out, end, BLOCK: tl.constexpr):
    """Zeros."""
    for begin in range(0, end, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        tl.store(out + column, tl.zeros([BLOCK], tl.float32), mask=column < end)


@triton.jit
def _slopes(margin, counts, log_gate):
    """How fast each term grows with its margin; 0 where the gate stops it."""
    passing = counts & ~(_log_sigmoid(margin) > log_gate)
    return tl.where(passing, 1.0 / (1.0 + tl.exp(margin)), 0.0)


@triton.jit
def _add_to_members(
    out, similarity, present, first, end, temperature, far_T, counts_T, log_gate, factor, BLOCK: tl.constexpr
):
    """Add the gradients of single members' terms to these; returns the sum of the slopes in each comparison [T]."""
    total_T = tl.zeros_like(far_T)
    for begin in range(first, end, BLOCK):
        column, there, margin, counts = _compare_members(
            similarity, present, begin, end, temperature, far_T, counts_T, BLOCK
        )
        slope = factor * _slopes(margin, counts, log_gate)
        added = tl.sum(slope, axis=1) / temperature
        tl.store(out + column, tl.load(out + column, mask=there, other=0.0) + added, mask=there)
        total_T += tl.sum(slope, axis=0)
    return total_T


@triton.jit
def _add_of_sums(
    out, similarity, present, ends, first_level: tl.constexpr, temperature, sums_Q, of_sums_Q,
    Q: tl.constexpr, QB: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add the gradients of log sums, without weights, to those of their members."""
    for level in tl.static_range(first_level, Q):
        total, factor = _at(sums_Q, level, QB), _at(of_sums_Q, level, QB) / temperature
        for begin in range(ends[level], ends[level + 1], BLOCK):
            column, there, scaled = _entries(similarity, present, begin, ends[level + 1], temperature, BLOCK)
            added = factor * tl.exp(scaled - total)
            tl.store(out + column, tl.load(out + column, mask=there, other=0.0) + added, mask=there)


@triton.jit
def _to_sums(slope_T, share_Q, PAIRWISE: tl.constexpr):
    """The gradient in the farther sums [Q] of terms with these slopes."""
    if PAIRWISE:
        return -slope_T * share_Q
    return -tl.sum(slope_T, axis=0) * share_Q


@triton.jit(do_not_specialize=_SIZES)
def terms_gradient(
    gradient, similarity, present, log_weight, own, out, of_own, columns,
    end_1, end_2, end_3, end_4, end_5, end_6, end_7, end_8, end_9, temperature, temperature_step, log_gate,
    WEIGHTED: tl.constexpr, HOP_ZERO: tl.constexpr, PAIRWISE: tl.constexpr, OUTSIDE: tl.constexpr,
    STEPS: tl.constexpr, Q: tl.constexpr, QB: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of the sums of `terms` in the similarities of an anchor, which are read again."""
    ends = (0, end_1, end_2, end_3, end_4, end_5, end_6, end_7, end_8, end_9)
    row, level_Q = tl.program_id(0).to(tl.int64), tl.arange(0, QB)
    similarity, present, out = similarity + row * columns, present + row * columns, out + row * columns
    weight_Q = _weights(log_weight, row, level_Q, Q, QB, WEIGHTED)
    gradient += row * (Q - 1 + HOP_ZERO)
    _fill(out, columns, BLOCK)
    tl.debug_barrier()  # what follows adds to entries that another thread may have written
    bare_Q = _log_sums(similarity, present, ends, 0, temperature, Q, QB, BLOCK)
    sums_Q, of_sums_Q = bare_Q + weight_Q, tl.zeros([QB], tl.float32)
    if HOP_ZERO:
        itself = tl.load(own + row).to(tl.float32) / temperature
        far_T, counts_T, share_Q = _opponents(sums_Q, sums_Q != float("-inf"), PAIRWISE, QB)
        margin_T, counts_T = _compare(itself, far_T, counts_T)
        slope_T = _slopes(margin_T, counts_T, log_gate) * tl.load(gradient)
        of_sums_Q += _to_sums(slope_T, share_Q, PAIRWISE)
        tl.store(of_own + row, tl.sum(slope_T, axis=0) / temperature)
        gradient += 1
    for level in tl.static_range(Q - 1):
        warm = temperature + level * temperature_step
        if STEPS and level > 0:
            bare_Q = _log_sums(similarity, present, ends, level, warm, Q, QB, BLOCK)
            sums_Q, of_sums_Q = bare_Q + weight_Q, tl.zeros([QB], tl.float32)
        farther_Q = (sums_Q != float("-inf")) & (level_Q > level)
        far_T, counts_T, share_Q = _opponents(sums_Q, farther_Q, PAIRWISE, QB)
        coming = tl.load(gradient + level)
        if OUTSIDE:
            slope_T = _add_to_members(
                out, similarity, present, ends[level], ends[level + 1], warm, far_T, counts_T, log_gate,
                coming * tl.exp(_at(weight_Q, level, QB)), BLOCK,
            )  # fmt: skip
            tl.debug_barrier()
        else:
            margin_T, counts_T = _compare(_at(sums_Q, level, QB), far_T, counts_T)
            slope_T = coming * _slopes(margin_T, counts_T, log_gate)
            of_sums_Q += tl.where(level_Q == level, tl.sum(slope_T, axis=0), 0.0)
        of_sums_Q += _to_sums(slope_T, share_Q, PAIRWISE)
        if STEPS or level == Q - 2:
            _add_of_sums(out, similarity, present, ends, level if STEPS else 0, warm, bare_Q, of_sums_Q, Q, QB, BLOCK)
            tl.debug_barrier()
