"""CPU kernels of attention in training: what rows gather, and the gradients."""

import numpy as np

from gscl_scale.kernels.kernel import kernel
from gscl_scale.model.kernels import Array, over_rows
from gscl_scale.rings.kernels import prefetch

_AHEAD = 4  # entries that are fetched before they are needed
_LINE = 64  # bytes of a cache line


def attend(
    indptr: Array, indices: Array, hidden: Array, sender: Array, receiver: Array, slope: float
) -> tuple[Array, Array]:
    """(what each row gathers [R, heads * channels], largest term and divisor of each softmax [R, heads, 2])."""
    out = np.empty((receiver.shape[0], hidden.shape[1]), hidden.dtype)
    state = np.empty((*receiver.shape, 2), hidden.dtype)
    parts = (indptr, indices, hidden, sender, receiver, hidden.dtype.type(slope), out, state)
    over_rows(indptr, lambda low, high: _attend(*parts, low, high))
    return out, state


def receiver_gradient(
    indptr: Array, indices: Array, saved: tuple[Array, ...], out: Array, gradient: Array, slope: float
) -> tuple[Array, Array]:
    """(the gradient in the terms of receivers, the gradient of each head times what it gathered), both [R, heads].

    saved   hidden, sender, receiver and the state of `attend`
    """
    of_receiver, along = np.empty_like(saved[2]), np.empty_like(saved[2])
    parts = (indptr, indices, *saved, out, gradient, gradient.dtype.type(slope), of_receiver, along)
    over_rows(indptr, lambda low, high: _receiver_gradient(*parts, low, high))
    return of_receiver, along


def sender_gradient(
    indptr: Array, indices: Array, saved: tuple[Array, ...], along: Array, gradient: Array, slope: float
) -> tuple[Array, Array]:
    """The gradients in what is sent and in the terms of senders, by the pattern of the transpose."""
    of_hidden, of_sender = np.empty_like(saved[0]), np.empty_like(saved[1])
    parts = (indptr, indices, *saved, along, gradient, gradient.dtype.type(slope), of_hidden, of_sender)
    over_rows(indptr, lambda low, high: _sender_gradient(*parts, low, high))
    return of_hidden, of_sender


@kernel
def _attend(indptr, indices, hidden, sender, receiver, slope, out, state, first, end):
    """Two passes over the neighbours: the largest term of each head, so that no exponential overflows; the sums."""
    heads = receiver.shape[1]
    each, length = hidden.shape[1] // heads, hidden.shape[1] * hidden.itemsize
    top, total = np.empty(heads, hidden.dtype), np.empty(heads, hidden.dtype)
    for v in range(first, end):
        row, own = out[v], receiver[v]
        row[:] = 0
        total[:] = 0
        top[:] = -np.inf
        for e in range(indptr[v], indptr[v + 1]):
            terms = sender[indices[e]]
            for h in range(heads):
                top[h] = max(top[h], _leaky(terms[h] + own[h], slope))
        for e in range(indptr[v], indptr[v + 1]):
            if e + _AHEAD < indices.size:
                for byte in range(0, length, _LINE):
                    prefetch(hidden, indices[e + _AHEAD], byte)
            source, terms = hidden[indices[e]], sender[indices[e]]
            for h in range(heads):
                weight = np.exp(_leaky(terms[h] + own[h], slope) - top[h])
                total[h] += weight
                for c in range(h * each, (h + 1) * each):
                    row[c] += weight * source[c]
        for h in range(heads):
            if indptr[v] == indptr[v + 1]:
                total[h] = 1  # a row without entries is 0
            state[v, h, 0], state[v, h, 1] = top[h], total[h]
            for c in range(h * each, (h + 1) * each):
                row[c] /= total[h]


@kernel(fastmath={"reassoc", "contract"})
def _receiver_gradient(
    indptr, indices, hidden, sender, receiver, state, out, gradient, slope, of_receiver, along, first, end
):
    heads = receiver.shape[1]
    each, length = hidden.shape[1] // heads, hidden.shape[1] * hidden.itemsize
    for v in range(first, end):
        coming, own, sums, both = gradient[v], receiver[v], of_receiver[v], along[v]
        for h in range(heads):
            sums[h] = 0
            both[h] = _dot(coming, out[v], h * each, (h + 1) * each)
        for e in range(indptr[v], indptr[v + 1]):
            if e + _AHEAD < indices.size:
                for byte in range(0, length, _LINE):
                    prefetch(hidden, indices[e + _AHEAD], byte)
            source, terms = hidden[indices[e]], sender[indices[e]]
            for h in range(heads):
                value = terms[h] + own[h]
                weight = np.exp(_leaky(value, slope) - state[v, h, 0]) / state[v, h, 1]
                change = weight * (_dot(coming, source, h * each, (h + 1) * each) - both[h])
                sums[h] += change if value > 0 else change * slope


@kernel(fastmath={"reassoc", "contract"})
def _sender_gradient(
    indptr, indices, hidden, sender, receiver, state, along, gradient, slope, of_hidden, of_sender, first, end
):
    heads = receiver.shape[1]
    each, length = hidden.shape[1] // heads, hidden.shape[1] * hidden.itemsize
    for u in range(first, end):
        source, terms, row, sums = hidden[u], sender[u], of_hidden[u], of_sender[u]
        row[:] = 0
        sums[:] = 0
        for e in range(indptr[u], indptr[u + 1]):
            if e + _AHEAD < indices.size:
                for byte in range(0, length, _LINE):
                    prefetch(gradient, indices[e + _AHEAD], byte)
            v = indices[e]
            coming = gradient[v]
            for h in range(heads):
                value = terms[h] + receiver[v, h]
                weight = np.exp(_leaky(value, slope) - state[v, h, 0]) / state[v, h, 1]
                change = weight * (_dot(coming, source, h * each, (h + 1) * each) - along[v, h])
                sums[h] += change if value > 0 else change * slope
                for c in range(h * each, (h + 1) * each):
                    row[c] += weight * coming[c]


@kernel(inline="always")
def _leaky(value, slope):
    return value if value > 0 else value * slope


@kernel(fastmath={"reassoc", "contract"})
def _dot(left, right, first, end):
    total = left[first] * right[first]
    for c in range(first + 1, end):
        total += left[c] * right[c]
    return total
