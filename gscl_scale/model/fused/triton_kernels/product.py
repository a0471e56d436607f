"""The product of compressed sparse rows with dense columns.

A program has C columns of one row, and gathers B rows of the other side at once. Sums are in single precision and
always in the same order, whatever the precision of what is read and written.
"""

import triton
import triton.language as tl


@triton.jit
def product(indptr, indices, values, dense, out, width, B: tl.constexpr, C: tl.constexpr):
    """The sum over the entries of a row: each times the row of `dense` at its column."""
    row, column_C = tl.program_id(0).to(tl.int64), tl.program_id(1) * C + tl.arange(0, C)
    start, end = tl.load(indptr + row), tl.load(indptr + row + 1)
    total_C = tl.zeros([C], tl.float32)
    for first in range(start, end, B):
        at_B = first + tl.arange(0, B)
        value_B = tl.load(values + at_B, mask=at_B < end, other=0.0)
        place_B = tl.load(indices + at_B, mask=at_B < end, other=0).to(tl.int64) * width
        there = (at_B < end)[:, None] & (column_C < width)[None, :]
        read = tl.load(dense + place_B[:, None] + column_C[None, :], mask=there, other=0.0).to(tl.float32)
        total_C += tl.sum(value_B[:, None] * read, axis=0)
    tl.store(out + row * width + column_C, total_C, mask=column_C < width)
