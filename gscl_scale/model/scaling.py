"""Scaling of features: fitted on all rows of a graph, applied to any rows."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gscl_scale.graph.types import SparseFeatures

_ROWS_AT_ONCE = 65536
_NUMBERS_AT_ONCE = 1 << 22  # fewer rows where these are wide: in double precision a block is then 32 MiB
_LOWEST, _HIGHEST = 2.0**-4, 2.0**40  # largest values between which training is as good as near 1 (measured)
_SUMS_OVERFLOW = 1e30  # of a row with larger values the sum may be beyond 32-bit numbers


@dataclass(frozen=True)
class Scaling:
    """How features are scaled.

    `standard` divides by `divisor` [F], after moving by `mean` [F] where they are dense. `none` multiplies by
    2**`exponent`, which is 0 unless all values are tiny or some are huge. Before all this, the last s columns are
    multiplied by `rotation` [s, s], if there is one.
    """

    kind: str
    mean: npt.NDArray[np.float64] | None = None
    divisor: npt.NDArray[np.float64] | None = None
    exponent: int = 0
    rotation: npt.NDArray[np.float32] | None = None

    @property
    def changes(self) -> bool:
        """Whether scaled features differ from those of the graph."""
        return self.kind != "none" or self.exponent != 0 or self.rotation is not None

    @classmethod
    def of(cls, features: npt.NDArray[np.float32] | SparseFeatures, kind: str) -> "Scaling":
        """Fit a scaling in one pass over the rows in blocks."""
        if kind == "none":
            return cls(kind, exponent=_exponent_of(largest_of(features)))
        if kind == "row":
            return cls(kind)
        mean, away, known = np.zeros(1), np.zeros(1), 0
        for rows, block_mean, block_away in _moments(features):  # merged as in Chan, Golub and LeVeque (1979)
            step = (block_mean - mean) * (rows / (known + rows))
            away = away + block_away + (block_mean - mean) * step * known
            mean, known = mean + step, known + rows
        square = away / max(known, 1)
        divisor = np.where(square > 0, np.sqrt(square), 1)  # 1: a constant column
        return cls(kind, None if isinstance(features, SparseFeatures) else mean, divisor)

    def dense(self, features: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """A scaled copy of rows."""
        out = np.array(features, np.float32)
        self.scale(out)
        return out

    def scale(self, features: npt.NDArray[np.float32]) -> None:
        """Scale rows where they are."""
        for rows in _blocks(features):
            if self.rotation is not None:
                rows[:, -len(self.rotation) :] = rows[:, -len(self.rotation) :] @ self.rotation
            if self.exponent:
                np.ldexp(rows, self.exponent, out=rows)
            elif self.kind == "row":
                huge = np.abs(rows).max(axis=1) > _SUMS_OVERFLOW
                rows[huge] = np.ldexp(rows[huge], -64)  # exact, and divided out by the sum
                sums = np.abs(rows).sum(axis=1, keepdims=True)
                rows /= np.where(sums > 0, sums, 1)
            elif self.divisor is not None:
                rows[:] = (rows if self.mean is None else rows - self.mean) / self.divisor

    def sparse(self, features: SparseFeatures) -> npt.NDArray[np.float32]:
        """The scaled values of sparse rows, never moved, so that what is not stored stays zero."""
        if self.kind == "row":
            rows = np.repeat(np.arange(features.indptr.size - 1), np.diff(features.indptr))
            sums = np.bincount(rows, np.abs(features.values), minlength=features.indptr.size - 1)
            return (features.values / np.where(sums > 0, sums, 1)[rows]).astype(np.float32)
        if self.divisor is not None:
            return (features.values / self.divisor[features.indices]).astype(np.float32)
        return np.ldexp(features.values, self.exponent)


def notes_on(features: npt.NDArray[np.float32] | SparseFeatures, kind: str) -> list[str]:
    """Notes for the user on features that the encoder does not read as they are."""
    largest = largest_of(features) if kind == "none" else 0.0
    if not (exponent := _exponent_of(largest)):
        return []
    return [
        f"features: the largest absolute value is {largest:.3g}; the encoder reads them multiplied by 2^{exponent}; "
        "if columns have different units, set model.feature_scaling to standard"
    ]


def largest_of(features: npt.NDArray[np.float32] | SparseFeatures) -> float:
    """The largest absolute value."""
    values = features.values[:, None] if isinstance(features, SparseFeatures) else features
    return max((max(float(rows.max()), -float(rows.min())) for rows in _blocks(values)), default=0.0)


def exponent_near_one(largest: float, lowest: float, highest: float) -> int:
    """The power of two that brings the largest absolute value into [1, 2); 0 where it is in the range already.

    >>> exponent_near_one(1e30, 0.1, 1e6), exponent_near_one(3.0, 0.1, 1e6), exponent_near_one(0.0, 0.1, 1e6)
    (-99, 0, 0)
    """
    return 0 if largest == 0 or lowest <= largest <= highest else 1 - math.frexp(largest)[1]


def _exponent_of(largest: float) -> int:
    return exponent_near_one(largest, _LOWEST, _HIGHEST)


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
