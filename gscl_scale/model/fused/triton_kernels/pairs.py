"""Products of anchors with the nodes that each is compared with, in rows that are padded.

Shapes: A anchors, U nodes, D columns of both, M entries of a padded row, P pairs. A program gathers B rows of the other
side at once, C columns of each. Sums are in single precision and always in the same order.
"""

import triton
import triton.language as tl


@triton.jit
def _pairs_of(member, indices, row, first, columns, pair, B: tl.constexpr):
    """Of B entries of a row: (columns, which are members, their pairs, nodes of these, and how many there are).

    Members stand in the order of the pairs, whose first one is `pair`.
    """
    column_B = first + tl.arange(0, B)
    member_B = tl.load(member + row * columns + column_B, mask=column_B < columns, other=0) != 0
    pair_B = pair + tl.cumsum(member_B.to(tl.int32), 0) - 1
    node_B = tl.load(indices + pair_B, mask=member_B, other=0).to(tl.int64)
    return column_B, member_B, pair_B, node_B, tl.sum(member_B.to(tl.int32))


@triton.jit
def _gathered(rows, row_B, there_B, column_C, width):
    """The columns of some rows [B, C], and 0 for those that are not there."""
    there = there_B[:, None] & (column_C < width)[None, :]
    return tl.load(rows + row_B[:, None] * width + column_C[None, :], mask=there, other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=["columns"])
def products(left, right, indptr, indices, member, out, columns, width, B: tl.constexpr, C: tl.constexpr):
    """left[a] . right[u] at each member of the row of an anchor, and 0 elsewhere."""
    row = tl.program_id(0).to(tl.int64)
    pair = tl.load(indptr + row)
    for first in range(0, columns, B):
        column_B, member_B, _, node_B, number = _pairs_of(member, indices, row, first, columns, pair, B)
        total_B = tl.zeros([B], tl.float32)
        for begin in range(0, width, C):
            column_C = begin + tl.arange(0, C)
            own_C = tl.load(left + row * width + column_C, mask=column_C < width, other=0.0).to(tl.float32)
            total_B += tl.sum(own_C[None, :] * _gathered(right, node_B, member_B, column_C, width), axis=1)
        tl.store(out + row * columns + column_B, total_B, mask=column_B < columns)
        pair += number


@triton.jit(do_not_specialize=["columns"])
def left_gradient(
    gradient, right, indptr, indices, member, out, of_pairs, columns, width, B: tl.constexpr, C: tl.constexpr
):
    """C columns of the gradient in the row of an anchor; and what comes in, pair by pair, for `right_gradient`."""
    row, column_C = tl.program_id(0).to(tl.int64), tl.program_id(1) * C + tl.arange(0, C)
    total_C = tl.zeros([C], tl.float32)
    pair = tl.load(indptr + row)
    for first in range(0, columns, B):
        column_B, member_B, pair_B, node_B, number = _pairs_of(member, indices, row, first, columns, pair, B)
        coming_B = tl.load(gradient + row * columns + column_B, mask=member_B, other=0.0)
        total_C += tl.sum(coming_B[:, None] * _gathered(right, node_B, member_B, column_C, width), axis=0)
        if tl.program_id(1) == 0:
            tl.store(of_pairs + pair_B, coming_B, mask=member_B)
        pair += number
    tl.store(out + row * width + column_C, total_C, mask=column_C < width)


@triton.jit
def right_gradient(of_pairs, left, indptr, indices, order, out, width, B: tl.constexpr, C: tl.constexpr):
    """C columns of the gradient in the row of a node, from the anchors that are compared with it."""
    row, column_C = tl.program_id(0).to(tl.int64), tl.program_id(1) * C + tl.arange(0, C)
    start, end = tl.load(indptr + row), tl.load(indptr + row + 1)
    total_C = tl.zeros([C], tl.float32)
    for first in range(start, end, B):
        at_B = first + tl.arange(0, B)
        there_B = at_B < end
        pair_B = tl.load(order + at_B, mask=there_B, other=0)
        anchor_B = tl.load(indices + at_B, mask=there_B, other=0).to(tl.int64)
        coming_B = tl.load(of_pairs + pair_B, mask=there_B, other=0.0)
        total_C += tl.sum(coming_B[:, None] * _gathered(left, anchor_B, there_B, column_C, width), axis=0)
    tl.store(out + row * width + column_C, total_C, mask=column_C < width)
