"""Attention over the entries of compressed sparse rows, and its gradients.

A program has one head of one row, all its E channels (C is the power of two from there), and gathers B rows of the
other side at once. Sums are in single precision and always in the same order.
"""

import triton
import triton.language as tl


@triton.jit
def _term(sender, receiver, slope):
    """(the term of the attention before the exponential, its derivative)."""
    value = sender + receiver
    return tl.where(value > 0, value, value * slope), tl.where(value > 0, 1.0, slope)


@triton.jit
def _channels(rows, row_B, there_B, head, heads, E: tl.constexpr, C: tl.constexpr):
    """One head of some rows [B, C], and 0 for those that are not there."""
    column_C = tl.arange(0, C)
    place_B = (row_B * heads + head) * E
    there = there_B[:, None] & (column_C < E)[None, :]
    return tl.load(rows + place_B[:, None] + column_C[None, :], mask=there, other=0.0).to(tl.float32)


@triton.jit
def attend(
    hidden, sender, receiver, indptr, indices, out, state, heads, slope,
    B: tl.constexpr, E: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The sum over the entries of a row, weighted by the softmax; `state` has the largest term and the divisor."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    start, end = tl.load(indptr + row), tl.load(indptr + row + 1)
    own = tl.load(receiver + row * heads + head)
    top_B = tl.full([B], float("-inf"), tl.float32)
    for first in range(start, end, B):
        at_B = first + tl.arange(0, B)
        node_B = tl.load(indices + at_B, mask=at_B < end, other=0).to(tl.int64)
        term_B, _ = _term(tl.load(sender + node_B * heads + head, mask=at_B < end, other=0.0), own, slope)
        top_B = tl.maximum(top_B, tl.where(at_B < end, term_B, float("-inf")))
    top = tl.max(top_B)
    total_B, sum_C = tl.zeros([B], tl.float32), tl.zeros([C], tl.float32)
    for first in range(start, end, B):
        at_B = first + tl.arange(0, B)
        node_B = tl.load(indices + at_B, mask=at_B < end, other=0).to(tl.int64)
        term_B, _ = _term(tl.load(sender + node_B * heads + head, mask=at_B < end, other=0.0), own, slope)
        weight_B = tl.where(at_B < end, tl.exp(term_B - top), 0.0)
        total_B += weight_B
        sum_C += tl.sum(weight_B[:, None] * _channels(hidden, node_B, at_B < end, head, heads, E, C), axis=0)
    total = tl.where(end > start, tl.sum(total_B), 1.0)  # a row without entries is 0
    column_C, place = tl.arange(0, C), row * heads + head
    tl.store(out + place * E + column_C, sum_C / total, mask=column_C < E)
    tl.store(state + 2 * place, top)
    tl.store(state + 2 * place + 1, total)


@triton.jit
def receiver_gradient(
    gradient, out, hidden, sender, receiver, state, indptr, indices, along, of_receiver, heads, slope,
    B: tl.constexpr, E: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The gradient in the term of a receiver; and `along`, the gradient times what came out, for `sender_gradient`."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    start, end = tl.load(indptr + row), tl.load(indptr + row + 1)
    column_C, place = tl.arange(0, C), row * heads + head
    coming_C = tl.load(gradient + place * E + column_C, mask=column_C < E, other=0.0).to(tl.float32)
    own_C = tl.load(out + place * E + column_C, mask=column_C < E, other=0.0).to(tl.float32)
    tl.store(along + place, tl.sum(coming_C * own_C))
    own, top, total = tl.load(receiver + place), tl.load(state + 2 * place), tl.load(state + 2 * place + 1)
    sum_B = tl.zeros([B], tl.float32)
    for first in range(start, end, B):
        at_B = first + tl.arange(0, B)
        node_B = tl.load(indices + at_B, mask=at_B < end, other=0).to(tl.int64)
        term_B, rise_B = _term(tl.load(sender + node_B * heads + head, mask=at_B < end, other=0.0), own, slope)
        weight_B = tl.where(at_B < end, tl.exp(term_B - top), 0.0) / total
        # the difference first: where one weight is nearly 1, that of two products would have few right digits
        apart = _channels(hidden, node_B, at_B < end, head, heads, E, C) - own_C[None, :]
        sum_B += weight_B * tl.sum(coming_C[None, :] * apart, axis=1) * rise_B
    tl.store(of_receiver + place, tl.sum(sum_B))


@triton.jit
def sender_gradient(
    gradient, hidden, sender, receiver, state, along, indptr, indices, of_hidden, of_sender, heads, slope,
    B: tl.constexpr, E: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    """The gradients in what a node sends and in its term as a sender, from the rows that gather from it."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    start, end = tl.load(indptr + row), tl.load(indptr + row + 1)
    column_C, place = tl.arange(0, C), row * heads + head
    own_C = tl.load(hidden + place * E + column_C, mask=column_C < E, other=0.0).to(tl.float32)
    own = tl.load(sender + place)
    sum_B, sum_C = tl.zeros([B], tl.float32), tl.zeros([C], tl.float32)
    for first in range(start, end, B):
        at_B = first + tl.arange(0, B)
        there_B = at_B < end
        node_B = tl.load(indices + at_B, mask=there_B, other=0).to(tl.int64)
        place_B = node_B * heads + head
        term_B, rise_B = _term(own, tl.load(receiver + place_B, mask=there_B, other=0.0), slope)
        top_B = tl.load(state + 2 * place_B, mask=there_B, other=0.0)
        total_B = tl.load(state + 2 * place_B + 1, mask=there_B, other=1.0)
        weight_B = tl.where(there_B, tl.exp(term_B - top_B), 0.0) / total_B
        coming = _channels(gradient, node_B, there_B, head, heads, E, C)
        sum_C += tl.sum(weight_B[:, None] * coming, axis=0)
        product_B = tl.sum(coming * own_C[None, :], axis=1)
        sum_B += weight_B * (product_B - tl.load(along + place_B, mask=there_B, other=0.0)) * rise_B
    tl.store(of_hidden + place * E + column_C, sum_C, mask=column_C < E)
    tl.store(of_sender + place, tl.sum(sum_B))
