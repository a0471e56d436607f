"""The quick start: scikit-learn's bundled digits as a graph of nearest neighbours."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

from gscl_scale.config.graphs import DigitsGraph
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.graph.types import SourceSize

_NUM_IMAGES, _NUM_PIXELS = 1797, 64


def size(config: DigitsGraph) -> SourceSize:
    """The size, known without reading."""
    return SourceSize(_NUM_IMAGES, _NUM_IMAGES * config.neighbours, _NUM_PIXELS)


def read(config: DigitsGraph) -> GraphDraft:
    """1,797 images of 8 x 8 pixels in ten classes, each with edges to its nearest neighbours."""
    digits = load_digits()
    nearest = nearest_others(digits.data, config.neighbours)
    return GraphDraft(
        name="digits",
        origin="digits",
        num_nodes=nearest.shape[0],
        edges=[(np.repeat(np.arange(nearest.shape[0]), config.neighbours), nearest.reshape(-1))],
        features=(digits.data / 16).astype(np.float32),
        labels=digits.target.astype(np.int64),
    )


def nearest_others(pixels: npt.NDArray[np.float64], number: int) -> npt.NDArray[Any]:
    """The nearest other rows of each row [N, number]; ties go to the first rows, on every machine.

    Pixels are integers, so these products are exact. Ties in scikit-learn depend on the number of its threads.
    """
    squares = (pixels**2).sum(axis=1)
    distances = squares[:, None] - 2 * pixels @ pixels.T + squares
    np.fill_diagonal(distances, np.inf)
    return np.argsort(distances, axis=1, kind="stable")[:, :number]
