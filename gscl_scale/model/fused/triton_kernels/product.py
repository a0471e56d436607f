"""The product of compressed sparse rows with dense columns.

A program has C columns of one row, and gathers B rows of the other side at once. Sums are in single precision and
always in the same order, whatever the precision of what is read and written. The entries of a row from MOST on are
summed by `long_rows`, part by part, before `product` adds them up.
"""

import triton
import triton.language as tl


@triton.jit
def _sum(indices, values, dense, start, end, column_C, width, B: tl.constexpr, C: tl.constexpr):
    """The sum over some entries: each times the row of `dense` at its column."""
    total_C = tl.zeros([C], tl.float32)
    for first in range(start, end, B):
        at_B = first + tl.arange(0, B)
        value_B = tl.load(values + at_B, mask=at_B < end, other=0.0)
        place_B = tl.load(indices + at_B, mask=at_B < end, other=0).to(tl.int64) * width
        there = (at_B < end)[:, None] & (column_C < width)[None, :]
        read = tl.load(dense + place_B[:, None] + column_C[None, :], mask=there, other=0.0).to(tl.float32)
        total_C += tl.sum(value_B[:, None] * read, axis=0)
    return total_C


@triton.jit
def long_rows(
    indptr, indices, values, dense, row, first, out, width, MOST: tl.constexpr, B: tl.constexpr, C: tl.constexpr
):
    """The sums of the parts of long rows."""
    part, column_C = tl.program_id(0).to(tl.int64), tl.program_id(1) * C + tl.arange(0, C)
    start, end = tl.load(first + part), tl.load(indptr + tl.load(row + part) + 1)
    total_C = _sum(indices, values, dense, start, tl.minimum(end, start + MOST), column_C, width, B, C)
    tl.store(out + part * width + column_C, total_C, mask=column_C < width)


@triton.jit
def product(
    indptr, indices, values, dense, parts, parts_of, out, width, MOST: tl.constexpr, B: tl.constexpr, C: tl.constexpr
):
    """The sum of a row; without `parts` a long one is summed whole."""
    row, column_C = tl.program_id(0).to(tl.int64), tl.program_id(1) * C + tl.arange(0, C)
    start, end = tl.load(indptr + row), tl.load(indptr + row + 1)
    here = end if parts is None else tl.minimum(end, start + MOST)
    total_C = _sum(indices, values, dense, start, here, column_C, width, B, C)
    if parts is not None and end > start + MOST:
        own = tl.load(parts_of + row).to(tl.int64)
        for number in range(0, tl.load(parts_of + row + 1) - own):
            total_C += tl.load(parts + (own + number) * width + column_C, mask=column_C < width, other=0.0)
    tl.store(out + row * width + column_C, total_C, mask=column_C < width)
