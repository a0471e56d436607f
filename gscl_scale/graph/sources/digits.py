"""The quick start: scikit-learn's bundled digits as a graph of nearest neighbours."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph

from gscl_scale.config import DigitsGraph
from gscl_scale.graph.draft import Draft
from gscl_scale.graph.size import Size

_NUM_IMAGES, _NUM_PIXELS = 1797, 64


def size(config: DigitsGraph) -> Size:
    """Always the same images."""
    return Size(_NUM_IMAGES, _NUM_IMAGES * config.neighbours, _NUM_PIXELS)


def read(config: DigitsGraph) -> Draft:
    """1,797 images of 8 x 8 pixels, ten classes, each joined to its nearest others."""
    digits = load_digits()
    features = (digits.data / 16).astype(np.float32)
    neighbours = kneighbors_graph(features, config.neighbours, mode="connectivity").tocoo()
    return Draft(
        name="digits",
        origin="digits",
        num_nodes=features.shape[0],
        edges=[(neighbours.row, neighbours.col)],
        features=features,
        labels=digits.target.astype(np.int64),
    )
