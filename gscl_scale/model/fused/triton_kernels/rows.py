"""Rows brought to length one, and the gradient of PReLU."""

import triton
import triton.language as tl


@triton.jit
def unit_rows(rows, out, width, shortest, C: tl.constexpr):
    """A program brings one row to length one; a row of length 0 stays as it is."""
    place = tl.program_id(0).to(tl.int64) * width
    squares = tl.zeros([C], tl.float32)
    for first in range(0, width, C):
        column_C = first + tl.arange(0, C)
        value = tl.load(rows + place + column_C, mask=column_C < width, other=0.0).to(tl.float32)
        squares += value * value
    length = tl.sqrt(tl.sum(squares))
    factor = tl.where(length <= shortest, 0.0, 1.0 / tl.maximum(length, shortest))
    for first in range(0, width, C):
        column_C = first + tl.arange(0, C)
        value = tl.load(rows + place + column_C, mask=column_C < width, other=0.0).to(tl.float32)
        tl.store(out + place + column_C, value * factor, mask=column_C < width)


@triton.jit
def unit_rows_gradient(gradient, rows, out, width, shortest, C: tl.constexpr):
    """The part of the gradient that turns the row, over its length."""
    place = tl.program_id(0).to(tl.int64) * width
    squares, along = tl.zeros([C], tl.float32), tl.zeros([C], tl.float32)
    for first in range(0, width, C):
        column_C = first + tl.arange(0, C)
        value = tl.load(rows + place + column_C, mask=column_C < width, other=0.0).to(tl.float32)
        squares += value * value
        along += value * tl.load(gradient + place + column_C, mask=column_C < width, other=0.0)
    length = tl.sqrt(tl.sum(squares))
    factor = tl.where(length <= shortest, 0.0, 1.0 / tl.maximum(length, shortest))
    share = tl.sum(along) * factor * factor  # of the row, in what does not turn it
    for first in range(0, width, C):
        column_C = first + tl.arange(0, C)
        value = tl.load(rows + place + column_C, mask=column_C < width, other=0.0).to(tl.float32)
        turning = tl.load(gradient + place + column_C, mask=column_C < width, other=0.0) - share * value
        tl.store(out + place + column_C, turning * factor, mask=column_C < width)


@triton.jit(do_not_specialize=["number"])
def prelu_gradient(gradient, hidden, weight, out, parts, number, BLOCK: tl.constexpr):
    """The gradient in `hidden`; and the part of a block in the gradient of the one weight."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(hidden + at, mask=at < number, other=0.0).to(tl.float32)
    coming = tl.load(gradient + at, mask=at < number, other=0.0).to(tl.float32)
    slope = tl.load(weight).to(tl.float32)
    tl.store(out + at, tl.where(value > 0, coming, coming * slope), mask=at < number)
    tl.store(parts + tl.program_id(0), tl.sum(coming * tl.minimum(value, 0.0)))
