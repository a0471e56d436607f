"""Scaling of features: what has to be known of all rows, and any rows scaled with it."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gscl_scale.graph import SparseFeatures

_ROWS_AT_ONCE = 65536
_NUMBERS_AT_ONCE = 1 << 22  # fewer rows where these are wide: in double precision a block is then 32 MiB


@dataclass(frozen=True)
class Scaling:
    """How features are scaled: `standard` divides by `divisor` [F], after moving by `mean` [F] where they are dense."""

    kind: str
    mean: npt.NDArray[np.float64] | None = None
    divisor: npt.NDArray[np.float64] | None = None

    @classmethod
    def of(cls, features: npt.NDArray[np.float32] | SparseFeatures, kind: str) -> "Scaling":
        """What there is to know, from one pass over the rows in blocks."""
        if kind != "standard":
            return cls(kind)
        mean, away, known = np.zeros(1), np.zeros(1), 0
        for rows, of_rows, away_of_rows in _moments(features):
            step = (of_rows - mean) * (rows / (known + rows))
            away = away + away_of_rows + (of_rows - mean) * step * known  # Chan, Golub and LeVeque (1979)
            mean, known = mean + step, known + rows
        square = away / max(known, 1)
        divisor = np.where(square > 0, np.sqrt(square), 1)  # 1: a constant column
        return cls(kind, None if isinstance(features, SparseFeatures) else mean, divisor)

    def dense(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """A scaled copy of rows."""
        out = np.array(features, np.float32)
        for rows in _blocks(out):
            if self.kind == "row":
                sums = np.abs(rows).sum(axis=1, keepdims=True)
                rows /= np.where(sums > 0, sums, 1)
            elif self.divisor is not None:
                rows[:] = (rows if self.mean is None else rows - self.mean) / self.divisor
        return out

    def sparse(self, features: SparseFeatures) -> npt.NDArray[np.float32]:
        """The scaled values of sparse rows, never moved, so that what is not stored stays zero."""
        if self.kind == "row":
            rows = np.repeat(np.arange(features.indptr.size - 1), np.diff(features.indptr))
            sums = np.bincount(rows, np.abs(features.values), minlength=features.indptr.size - 1)
            return (features.values / np.where(sums > 0, sums, 1)[rows]).astype(np.float32)
        if self.divisor is not None:
            return (features.values / self.divisor[features.indices]).astype(np.float32)
        return np.array(features.values)


def sparse_rows(features: SparseFeatures, first: int, end: int) -> SparseFeatures:
    """The rows first..end, over the same arrays."""
    low, high = features.indptr[first], features.indptr[end]
    indptr = features.indptr[first : end + 1] - low
    return SparseFeatures(indptr, features.indices[low:high], features.values[low:high], features.width)


def _moments(
    features: npt.NDArray[np.float32] | SparseFeatures,
) -> Iterator[tuple[int, npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """(rows, mean, sum of squares about it) of each column, block by block."""
    if isinstance(features, SparseFeatures):
        yield from _sparse_moments(features)
        return
    for rows in _blocks(features):
        mean = rows.sum(axis=0, dtype=np.float64) / len(rows)
        yield len(rows), mean, ((rows - mean) ** 2).sum(axis=0)


def _sparse_moments(
    features: SparseFeatures,
) -> Iterator[tuple[int, npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    num_nodes, first = features.indptr.size - 1, 0
    while first < num_nodes:
        fitting = int(np.searchsorted(features.indptr, features.indptr[first] + _NUMBERS_AT_ONCE, "right")) - 1
        end = min(num_nodes, first + _ROWS_AT_ONCE, max(first + 1, fitting))
        block = sparse_rows(features, first, end)
        stored = np.bincount(block.indices, minlength=block.width)
        mean = np.bincount(block.indices, block.values, minlength=block.width) / (end - first)
        away = (block.values - mean[block.indices]) ** 2
        square = np.bincount(block.indices, away, minlength=block.width) + (end - first - stored) * mean**2
        yield end - first, mean, square
        first = end


def _blocks(features: npt.NDArray[np.float32]) -> Iterator[npt.NDArray[np.float32]]:
    size = max(16, min(_ROWS_AT_ONCE, _NUMBERS_AT_ONCE // max(1, features.shape[1])))
    for low in range(0, len(features), size):
        yield features[low : low + size]
