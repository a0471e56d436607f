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
def _compare(nearer, sums_Q, farther_Q, PAIRWISE: tl.constexpr, QB: tl.constexpr):
    """(margins [T], which count [T], share of each farther level in its comparison [Q]) of a ring with these ones."""
    level_Q, nearer_T = tl.arange(0, QB), tl.zeros([QB], tl.float32) + nearer
    there_T = nearer_T != float("-inf")  # a ring without members has this sum; one that is no number has not
    if PAIRWISE:
        counts_T = farther_Q & there_T
        margin_T, share_Q = nearer_T - sums_Q, tl.where(farther_Q, 1.0, 0.0)
    else:
        highest = tl.max(tl.where(farther_Q, sums_Q, float("-inf")), axis=0)
        base = tl.where(highest == float("-inf"), 0.0, highest)
        share_Q = tl.where(farther_Q, tl.exp(sums_Q - base), 0.0)
        total = tl.sum(share_Q, axis=0)
        share_Q = share_Q / tl.maximum(total, 1.0)  # the highest gives 1, so only 0 is below
        number = tl.sum(farther_Q.to(tl.int32), axis=0)
        counts_T = (level_Q < tl.minimum(number, 1)) & there_T
        margin_T = nearer_T - (tl.log(total) + base)
    return tl.where(counts_T, margin_T, 0.0), counts_T, share_Q


@triton.jit
def _sum_of_members(
    similarity, present, first, end, temperature, own_sum, term_T, counts_T, log_gate, BLOCK: tl.constexpr
):
    """One term per member: (sum of those at most the gate, how many the gate stops, how many it lets pass [T])."""
    value, stopped, passing_T = 0.0, 0, tl.zeros_like(term_T)
    for begin in range(first, end, BLOCK):
        _, there, scaled = _entries(similarity, present, begin, end, temperature, BLOCK)
        term = term_T[None, :] + (scaled - own_sum)[:, None]
        counts = counts_T[None, :] & there[:, None]
        over = counts & (term > log_gate)
        value += tl.sum(tl.where(counts, tl.where(over, log_gate, term), 0.0))
        stopped += tl.sum(over.to(tl.int32))
        passing_T += tl.sum((counts & ~over).to(tl.float32), axis=0)
    return value, stopped, passing_T


@triton.jit
def _members(present, first, end, BLOCK: tl.constexpr):
    """How many members a level has."""
    number = 0
    for begin in range(first, end, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        number += tl.sum((tl.load(present + column, mask=column < end, other=0) != 0).to(tl.int32), axis=0)
    return number


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
        margin_T, counts_T, _ = _compare(itself, sums_Q, sums_Q != float("-inf"), PAIRWISE, QB)
        _store(values, counted, stopped, at, _log_sigmoid(margin_T), counts_T, log_gate)
        at += 1
    for level in tl.static_range(Q - 1):
        warm = temperature + level * temperature_step
        if STEPS and level > 0:
            sums_Q = _log_sums(similarity, present, ends, level, warm, Q, QB, BLOCK) + weight_Q
        farther_Q = (sums_Q != float("-inf")) & (level_Q > level)
        own_sum = _at(sums_Q, level, QB)
        margin_T, counts_T, _ = _compare(own_sum, sums_Q, farther_Q, PAIRWISE, QB)
        if OUTSIDE:
            value, over, _ = _sum_of_members(
                similarity, present, ends[level], ends[level + 1], warm, own_sum, _log_sigmoid(margin_T), counts_T,
                log_gate, BLOCK,
            )  # fmt: skip
            number = _members(present, ends[level], ends[level + 1], BLOCK)
            tl.store(values + at + level, value * tl.exp(_at(weight_Q, level, QB)))
            tl.store(counted + at + level, number * tl.sum(counts_T.to(tl.int32), axis=0))
            tl.store(stopped + at + level, over)
        else:
            _store(values, counted, stopped, at + level, _log_sigmoid(margin_T), counts_T, log_gate)


@triton.jit
def _fill(out, end, BLOCK: tl.constexpr):
    """Zeros."""
    for begin in range(0, end, BLOCK):
        column = begin + tl.arange(0, BLOCK)
        tl.store(out + column, tl.zeros([BLOCK], tl.float32), mask=column < end)


@triton.jit
def _add_to_members(
    out, similarity, present, first, end, temperature, own_sum, term_T, counts_T, log_gate, factor,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Add what the terms of single members give directly: `factor` for each comparison that passes the gate."""
    for begin in range(first, end, BLOCK):
        column, there, scaled = _entries(similarity, present, begin, end, temperature, BLOCK)
        term = term_T[None, :] + (scaled - own_sum)[:, None]
        passing = counts_T[None, :] & there[:, None] & ~(term > log_gate)
        added = factor / temperature * tl.sum(passing.to(tl.float32), axis=1)
        tl.store(out + column, tl.load(out + column, mask=there, other=0.0) + added, mask=there)


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
def _slopes(margin_T, counts_T, log_gate):
    """How fast each term grows with its margin; 0 where the gate stops it."""
    passing_T = counts_T & ~(_log_sigmoid(margin_T) > log_gate)
    return tl.where(passing_T, 1.0 / (1.0 + tl.exp(margin_T)), 0.0)


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
        margin_T, counts_T, share_Q = _compare(itself, sums_Q, sums_Q != float("-inf"), PAIRWISE, QB)
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
        own_sum, coming = _at(sums_Q, level, QB), tl.load(gradient + level)
        margin_T, counts_T, share_Q = _compare(own_sum, sums_Q, farther_Q, PAIRWISE, QB)
        if OUTSIDE:
            factor, term_T = coming * tl.exp(_at(weight_Q, level, QB)), _log_sigmoid(margin_T)
            _, _, passing_T = _sum_of_members(
                similarity, present, ends[level], ends[level + 1], warm, own_sum, term_T, counts_T, log_gate, BLOCK
            )
            slope_T = factor * passing_T / (1.0 + tl.exp(margin_T))
            own_slope = tl.sum(slope_T - factor * passing_T, axis=0)
            _add_to_members(
                out, similarity, present, ends[level], ends[level + 1], warm, own_sum, term_T, counts_T, log_gate,
                factor, BLOCK,
            )  # fmt: skip
            tl.debug_barrier()
        else:
            slope_T = _slopes(margin_T, counts_T, log_gate) * coming
            own_slope = tl.sum(slope_T, axis=0)
        of_sums_Q += _to_sums(slope_T, share_Q, PAIRWISE) + tl.where(level_Q == level, own_slope, 0.0)
        if STEPS or level == Q - 2:
            _add_of_sums(out, similarity, present, ends, level if STEPS else 0, warm, bare_Q, of_sums_Q, Q, QB, BLOCK)
            tl.debug_barrier()
