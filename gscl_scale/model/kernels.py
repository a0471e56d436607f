"""CPU kernels over rows shared among threads: the sparse product, products of single pairs, gathering of neighbours."""

import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.kernels.kernel import kernel
from gscl_scale.rings.kernels import prefetch

_PIECES = 4  # per thread: hubs make some rows much longer than others
AHEAD = 4  # entries that are fetched before they are needed
RUN = 512  # entries that are summed apart
LINE = 64  # bytes of a cache line

Array = npt.NDArray[Any]


def sparse_times_dense(indptr: Array, indices: Array, values: Array, dense: Array) -> Array:
    """The product of compressed sparse rows with dense columns."""
    out = np.empty((indptr.size - 1, dense.shape[1]), dense.dtype)
    over_rows(indptr, lambda low, high: _product(indptr, indices, values, dense, out, low, high))
    return out


def dots(indptr: Array, indices: Array, left: Array, right: Array) -> Array:
    """left[i] . right[indices[e]] for every entry e of row i."""
    out = np.empty(indices.size, left.dtype)
    over_rows(indptr, lambda low, high: _dots(indptr, indices, left, right, out, low, high))
    return out


def gather(a: NormalisedAdjacency, dense: Array, first: int, end: int) -> Array:
    """Rows first..end of the normalised adjacency times dense columns; no matrix is built."""
    out = np.empty((end - first, dense.shape[1]), dense.dtype)
    parts = (a.indptr, a.indices, a.weights, a.row_scale, a.column_scale, a.loops, dense, out, first)
    over_rows(a.indptr[first : end + 1] - a.indptr[first], lambda i, j: _gather(*parts, first + i, first + j))
    return out


def attend(a: NormalisedAdjacency, dense: Array, heads: int, slope: float, first: int, end: int) -> Array:
    """Rows first..end of what is gathered by attention: softmax over the neighbours and the node itself, per head.

    dense [N, width + 2 heads]   messages, and the terms of the attention of senders and of receivers
    """
    out = np.empty((end - first, dense.shape[1] - 2 * heads), dense.dtype)
    parts = (a.indptr, a.indices, dense, heads, dense.dtype.type(slope), out, first)
    over_rows(a.indptr[first : end + 1] - a.indptr[first], lambda i, j: _attend(*parts, first + i, first + j))
    return out


def over_rows(indptr: Array, work: Callable[[int, int], None]) -> None:
    """Do the work in ranges of rows with about as many entries each, on torch's number of threads."""
    threads, rows = torch.get_num_threads(), indptr.size - 1
    if threads == 1 or rows < 256:
        work(0, rows)
        return
    weight = indptr[-1] + rows
    cuts = np.searchsorted(indptr + np.arange(rows + 1), np.linspace(0, weight, threads * _PIECES + 1))
    cuts[0], cuts[-1] = 0, rows
    ranges = iter(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
    lock = threading.Lock()

    def take() -> None:
        while True:
            with lock:
                piece = next(ranges, None)
            if piece is None:
                return
            work(*piece)

    others = [_pool(threads - 1).submit(take) for _ in range(threads - 1)]
    take()
    for other in others:
        other.result()


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """One pool per number of threads as long as the process runs: starting threads costs more than a small product."""
    return ThreadPoolExecutor(threads, thread_name_prefix="product")


@kernel
def _product(indptr, indices, values, dense, out, first, end):
    width = dense.shape[1] * dense.itemsize
    for i in range(first, end):
        row = out[i]
        row[:] = 0
        for e in range(indptr[i], indptr[i + 1]):
            if e + AHEAD < indices.size:
                for byte in range(0, width, LINE):
                    prefetch(dense, indices[e + AHEAD], byte)
            source, value = dense[indices[e]], values[e]
            for c in range(row.size):
                row[c] += value * source[c]


@kernel(fastmath={"reassoc", "contract"})
def _dots(indptr, indices, left, right, out, first, end):
    for i in range(first, end):
        one = left[i]
        for e in range(indptr[i], indptr[i + 1]):
            other = right[indices[e]]
            total = one[0] * other[0]
            for c in range(1, one.size):
                total += one[c] * other[c]
            out[e] = total


@kernel
def _gather(indptr, indices, weights, row_scale, column_scale, loops, dense, out, first, begin, end):
    """Sums of runs of neighbours are added up, so that a hub loses no more to rounding than others.

    Where the weights are None, the kernel is compiled without them.
    """
    width = dense.shape[1] * dense.itemsize
    part = np.empty(dense.shape[1], dense.dtype)
    for v in range(begin, end):
        row = out[v - first]
        row[:] = 0
        if loops:
            own, scale = dense[v], column_scale[v]
            for c in range(row.size):
                row[c] += scale * own[c]
        for start in range(indptr[v], indptr[v + 1], RUN):
            part[:] = 0
            for e in range(start, min(start + RUN, indptr[v + 1])):
                if e + AHEAD < indices.size:
                    prefetch(column_scale, indices[e + AHEAD], 0)
                    for byte in range(0, width, LINE):
                        prefetch(dense, indices[e + AHEAD], byte)
                source, scale = dense[indices[e]], column_scale[indices[e]]
                if weights is not None:
                    scale *= weights[e]
                for c in range(part.size):
                    part[c] += scale * source[c]
            for c in range(row.size):
                row[c] += part[c]
        scale = row_scale[v]
        for c in range(row.size):
            row[c] *= scale


@kernel
def _attend(indptr, indices, dense, heads, slope, out, first, begin, end):
    """Two passes over the neighbours: the largest term of each head, then the sums, in runs as above."""
    width = out.shape[1]
    each, length = width // heads, dense.shape[1] * dense.itemsize
    top, total = np.empty(heads, dense.dtype), np.empty(heads, dense.dtype)
    part, part_total = np.empty(width, dense.dtype), np.empty(heads, dense.dtype)
    for v in range(begin, end):
        row, own = out[v - first], dense[v]
        # the largest term of each head, so that no exponential overflows
        for h in range(heads):
            top[h] = _leaky(own[width + h] + own[width + heads + h], slope)
        for e in range(indptr[v], indptr[v + 1]):
            if e + AHEAD < indices.size:
                prefetch(dense, indices[e + AHEAD], width * dense.itemsize)
            source = dense[indices[e]]
            for h in range(heads):
                top[h] = max(top[h], _leaky(source[width + h] + own[width + heads + h], slope))
        # the node itself is the first summand
        for h in range(heads):
            total[h] = np.exp(_leaky(own[width + h] + own[width + heads + h], slope) - top[h])
            for c in range(h * each, (h + 1) * each):
                row[c] = total[h] * own[c]
        for start in range(indptr[v], indptr[v + 1], RUN):
            part[:] = 0
            part_total[:] = 0
            for e in range(start, min(start + RUN, indptr[v + 1])):
                if e + AHEAD < indptr[v + 1]:
                    for byte in range(0, length, LINE):
                        prefetch(dense, indices[e + AHEAD], byte)
                source = dense[indices[e]]
                for h in range(heads):
                    weight = np.exp(_leaky(source[width + h] + own[width + heads + h], slope) - top[h])
                    part_total[h] += weight
                    for c in range(h * each, (h + 1) * each):
                        part[c] += weight * source[c]
            for c in range(width):
                row[c] += part[c]
            for h in range(heads):
                total[h] += part_total[h]
        # weights sum to one
        for h in range(heads):
            for c in range(h * each, (h + 1) * each):
                row[c] /= total[h]


@kernel(inline="always")
def _leaky(value, slope):
    return value if value > 0 else value * slope
