"""Features from the structure alone: for graphs without features of their own, or beside a few weak ones."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.graph.step_files import StepFiles, release_pages
from gscl_scale.kernels.kernel import kernel
from gscl_scale.runtime.threads import map_in_order

Rows = npt.NDArray[np.float32]
Parts = list[slice]

_AVERAGES = 20  # over neighbours, with whitening after every fourth
_WHITEN_EVERY = 4
_SMOOTHING = 16  # most averages after these, without whitening
MOST_STEPS = _AVERAGES + _SMOOTHING
_FEW_NEIGHBOURS = 8.0  # mean degree up to which longer smoothing is better
_LEAST_RANK, _LEAST_RANK_OF_FEW = 1 / 4, 1 / 8  # of smoothed rows, as a share (validation nodes of 12 graphs)
_LEAST_SHARE = 1e-6  # of the strongest direction: weaker ones are noise of rounding and are not strengthened further
_ROWS_AT_ONCE = 1 << 16
_FEWEST_ROWS = 1 << 12  # of a task: fewer are averaged in the time in which a thread is woken

# Values are whole multiples of 2^-20 at most 1: sums of them, and products with whole numbers, are then exact in double
# precision, whatever their order. For the same reason whitening reads rows rounded to 2^-13, and its matrices have 22
# bits.
_GRID, _COARSE_GRID, _MATRIX_GRID = float(1 << 20), float(1 << 13), float(1 << 22)
_SHARES = float(1 << 32)  # whole numbers that the edge weights of a row become add up to this


def structural_features(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    identities: npt.NDArray[np.uint64],
    files: StepFiles,
    threads: int,
    tell: Callable[[], object] = lambda: None,
    weights: Rows | None = None,
) -> Rows:
    """Rows [N, width] that are alike for nodes with alike surroundings.

    Each node begins with random signs. A step replaces its row by the mean of its neighbours' rows, weighted where
    edges have weights, brought to length one (as Cleora, Rychalska et al. 2021). After every fourth step all rows are
    whitened: multiplied by the inverse root of their second moments, so that directions which faded become as strong as
    the others (orthogonal iteration). The last steps average without whitening, which favours directions that vary
    slowly along edges. They end before a few directions outweigh all others: the effective rank of the rows stays at
    a quarter of the columns, or an eighth where nodes have few neighbours.

    The signs belong to the user's ids and all sums are exact: rows depend neither on the order of the nodes nor on
    threads. Their length is the root of the width, so that entries are near 1; a node without neighbours has zeros.
    `files` holds the rows, and the steps that an earlier process has finished. `tell` is called after each step.
    """
    num_nodes = identities.size
    size = min(_ROWS_AT_ONCE, max(_FEWEST_ROWS, num_nodes // (4 * threads)))
    parts = [slice(low, low + size) for low in range(0, num_nodes, size)]
    if not files.done:
        key, signs = seeding.key("structure"), files.now
        _all(map_in_order(lambda part: random_signs(key, identities[part], signs[part]), parts, threads))
    least_rank = _least_rank(indptr, files.now.shape)
    while files.done < MOST_STEPS:
        now, then, step = files.now, files.next, files.done + 1

        def average(part: slice, now: Rows = now, then: Rows = then) -> None:
            _average(indptr[part.start : part.stop + 1], indices, weights, now, then[part])
            release_pages(then, part)

        _all(map_in_order(average, parts, threads))
        release_pages(now)
        if step <= _AVERAGES and step % _WHITEN_EVERY == 0:
            _whiten(then, parts, threads)
        elif step > _AVERAGES and _effective_rank(_moments(then, parts, threads)) < least_rank:
            break
        files.finish()
        tell()
    now, then = files.now, files.next
    scale = np.float32(np.sqrt(now.shape[1]))
    _all(map_in_order(lambda part: np.multiply(now[part], scale, out=then[part]), parts, threads))
    release_pages(now)
    return then


def _least_rank(indptr: npt.NDArray[np.int64], shape: tuple[int, ...]) -> float:
    mean_degree = indptr[-1] / max(1, indptr.size - 1)
    return min(shape) * (_LEAST_RANK_OF_FEW if mean_degree <= _FEW_NEIGHBOURS else _LEAST_RANK)


def _all(results: Iterator[Any]) -> None:
    for _ in results:
        pass


def _moments(rows: Rows, parts: Parts, threads: int) -> npt.NDArray[np.float64]:
    """The second moments of rows rounded to the coarse grid: an exact sum."""

    def product(part: slice) -> npt.NDArray[np.float64]:
        block = np.rint(rows[part] * _COARSE_GRID).astype(np.float64)
        return block.T @ block

    total = np.zeros((rows.shape[1],) * 2)
    for part in map_in_order(product, parts, threads):
        total += part
    return total


def _effective_rank(moments: npt.NDArray[np.float64]) -> float:
    """How many directions rows have that weigh about as much: exp of the entropy of their shares of the moments.

    The spread of embeddings takes the roots of these values, and is higher.
    """
    values = np.maximum(np.linalg.eigvalsh(moments), 0)
    shares = values[values > 0] / values.sum()
    return float(np.exp(-(shares * np.log(shares)).sum())) if shares.size else 0.0


def _whiten(rows: Rows, parts: Parts, threads: int) -> None:
    """Multiply rows by the symmetric inverse root of their second moments, and bring them to length one."""
    matrix = _inverse_root(_moments(rows, parts, threads))

    def multiply(part: slice) -> None:
        block = (rows[part].astype(np.float64) * _GRID) @ matrix
        length = np.sqrt((block * block).sum(axis=1, keepdims=True))
        rows[part] = np.rint(block / np.where(length > 0, length, 1) * _GRID) / _GRID

    _all(map_in_order(multiply, parts, threads))


def _inverse_root(moments: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A multiple of moments^-1/2 in whole numbers; symmetric, so that rows of similar graphs stay comparable."""
    values, vectors = np.linalg.eigh(moments)
    if not values[-1] > 0:
        return np.eye(len(moments))
    matrix = (vectors / np.sqrt(np.maximum(values, values[-1] * _LEAST_SHARE))) @ vectors.T
    whole: npt.NDArray[np.float64] = np.rint(matrix / np.abs(matrix).max() * _MATRIX_GRID)
    return whole


@kernel
def random_signs(key, identities, out):
    """Fill the rows of `out` with 1 and -1 that depend on the key and the identity of the row."""
    for v in range(out.shape[0]):
        for column in range(out.shape[1]):
            bits = seeding.mix(seeding.mix(identities[v] ^ key) + np.uint64(column))
            out[v, column] = 1.0 if bits >> np.uint64(63) else -1.0


@kernel
def _average(indptr, indices, weights, rows, out):
    """The sum of the neighbours' rows, brought to length one, on the grid.

    Weights become whole numbers first, so that sums stay exact. Where they are None, the kernel is compiled without
    them.
    """
    width = out.shape[1]
    total = np.empty(width, np.float64)
    for v in range(indptr.size - 1):
        total[:] = 0.0
        if weights is not None:
            scale = _whole_scale(weights[indptr[v] : indptr[v + 1]])
        for e in range(indptr[v], indptr[v + 1]):
            row = rows[indices[e]]
            if weights is None:
                for column in range(width):
                    total[column] += row[column]
            else:
                share = np.rint(weights[e] * scale)
                for column in range(width):
                    total[column] += share * row[column]
        square = 0.0
        for column in range(width):
            square += total[column] * total[column]
        scale = _GRID / np.sqrt(square) if square > 0.0 else 0.0
        for column in range(width):
            out[v, column] = np.rint(total[column] * scale) / _GRID


@kernel
def _whole_scale(weights):
    """What a row's weights are multiplied by so that as whole numbers they add up to about 2^32, whatever their order.

    Products with the 20 bits of the grid then add up below 2^53. The sum of the weights is exact too: they are rounded
    to multiples of a power of two of which 2^52 are at least as much as all of them.
    """
    if weights.size == 0:
        return 0.0
    most = weights.size * np.float64(weights.max())
    unit = math.ldexp(1.0, math.frexp(most)[1] - 52)
    total = 0.0
    for weight in weights:
        total += np.rint(weight / unit)
    return _SHARES / (total * unit)
