"""Keyed noise: the numbers of `keyed_random`, drawn where they are used.

Shapes: a program has a block of R rows and C columns; N rows in all.
"""

import triton
import triton.language as tl


@triton.jit
def _mix(value):
    """`seeding.mix` on unsigned 64-bit numbers, whose shifts bring in zeros."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB
    return value ^ (value >> 31)


@triton.jit
def uniform(key, nodes, columns):
    """Numbers in [0, 1) by key, node and column."""
    state = _mix(key.to(tl.uint64) ^ _mix(nodes.to(tl.uint64) + 1))
    bits = _mix(state + columns.to(tl.uint64) * 0x9E3779B97F4A7C15)
    return (bits >> 40).to(tl.int32).to(tl.float32) * (1.0 / (1 << 24))  # exact: 24 bits


@triton.jit
def _key(base, offset):
    """A key that lies on the device, or the number that a kernel is started with."""
    return offset if base is None else tl.load(base) + offset


@triton.jit(do_not_specialize=["key", "number"])
def uniform_entries(base, key: tl.int64, nodes, columns, out, number, BLOCK: tl.constexpr):
    """The numbers of single entries."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < number
    key = _key(base, key)
    drawn = uniform(key, tl.load(nodes + at, mask=there, other=0), tl.load(columns + at, mask=there, other=0))
    tl.store(out + at, drawn, mask=there)


@triton.jit
def _block(nodes, rows, width, HAS_NODES: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """(nodes [R, 1], columns [1, C], places [R, C], which of these are there) of a program."""
    row_R = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]
    column_C = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    node_R = tl.load(nodes + row_R, mask=row_R < rows, other=0) if HAS_NODES else row_R
    return node_R, column_C, row_R * width + column_C, (row_R < rows) & (column_C < width)


@triton.jit
def _slope(slope_key, node_R, column_C, lower, upper):
    return lower + (upper - lower) * uniform(slope_key, node_R, column_C)


@triton.jit
def _with_dropout(value, drop_key, node_R, column_C, share):
    kept = uniform(drop_key, node_R, column_C) >= share
    return value * kept.to(tl.float32) / (1.0 - share)


@triton.jit(do_not_specialize=["rows", "slope_key", "drop_key"])
def noise(
    hidden, nodes, base, out, rows, width, slope_key: tl.int64, lower, upper, drop_key: tl.int64, share,
    HAS_NODES: tl.constexpr, SLOPES: tl.constexpr, DROPS: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """Random slopes below 0, then dropout."""
    node_R, column_C, place, there = _block(nodes, rows, width, HAS_NODES, R, C)
    value = tl.load(hidden + place, mask=there, other=0.0).to(tl.float32)
    if SLOPES:
        value = tl.where(value < 0, value * _slope(_key(base, slope_key), node_R, column_C, lower, upper), value)
    if DROPS:
        value = _with_dropout(value, _key(base, drop_key), node_R, column_C, share)
    tl.store(out + place, value, mask=there)


@triton.jit(do_not_specialize=["rows", "slope_key", "drop_key"])
def noise_gradient(
    gradient, hidden, nodes, base, out, rows, width, slope_key: tl.int64, lower, upper, drop_key: tl.int64, share,
    HAS_NODES: tl.constexpr, SLOPES: tl.constexpr, DROPS: tl.constexpr, R: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The gradient of `noise` in `hidden`, whose numbers are drawn again."""
    node_R, column_C, place, there = _block(nodes, rows, width, HAS_NODES, R, C)
    value = tl.load(gradient + place, mask=there, other=0.0).to(tl.float32)
    if DROPS:
        value = _with_dropout(value, _key(base, drop_key), node_R, column_C, share)
    if SLOPES:
        below = tl.load(hidden + place, mask=there, other=0.0) < 0
        value = tl.where(below, value * _slope(_key(base, slope_key), node_R, column_C, lower, upper), value)
    tl.store(out + place, value, mask=there)
