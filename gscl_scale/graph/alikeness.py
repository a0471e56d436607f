"""Whether the features of neighbours are more alike than those of other nodes.

Shapes: E sampled edges, F features.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding

LEAST = 0.01  # 100 columns of junk were measured at up to 0.006, features that tell of edges from 0.03 on
_FEWEST_EDGES = 500
_MOST_EDGES = 10_000
_NUMBERS = 1 << 25  # of both ends of all sampled edges, at most
_FARTHEST = 8.0  # deviations, as where features are scaled


class Alikeness(NamedTuple):
    """Mean correlation of the features of two nodes: of neighbours, and of the same ends paired at random."""

    neighbours: float
    random: float

    @property
    def is_chance(self) -> bool:
        """Whether neighbours are no more alike than others."""
        return self.neighbours - self.random < LEAST


def alikeness(
    features: npt.NDArray[np.float32], indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any]
) -> Alikeness | None:
    """The alikeness of a sample of edges; None where a graph has too few to tell.

    Every feature is scaled to mean 0 and deviation 1 over these ends. Random pairs keep the ends, and so the degrees.
    """
    if indices.size < _FEWEST_EDGES:
        return None
    draw = seeding.generator("alikeness", 0)
    most = max(_FEWEST_EDGES, min(_MOST_EDGES, _NUMBERS // (2 * features.shape[1])))
    places = np.unique(draw.integers(0, indices.size, most))
    ends = np.concatenate([np.searchsorted(indptr, places, side="right") - 1, indices[places]])
    nodes, at = np.unique(ends, return_inverse=True)  # in the order of the file
    scaled = _scaled(np.asarray(features[nodes], np.float32)[at])
    left, right = scaled[: places.size], scaled[places.size :]
    return Alikeness(float((left * right).mean()), float((left * right[draw.permutation(len(right))]).mean()))


def _scaled(rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Rows [2E, F] without constant columns, each other one with mean 0 and deviation 1, and none far out."""
    mean, deviation = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
    varies = deviation > 0
    if not varies.any():
        return np.zeros((len(rows), 1), np.float32)
    scaled = (rows[:, varies] - mean[varies]) / deviation[varies]
    return np.clip(scaled, -_FARTHEST, _FARTHEST).astype(np.float32)
