"""Small graphs for the tests of the model."""

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tests.graphs import make_graph

#: a triangle with a tail, a pair, and a node alone
EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (5, 6)]
NUM_NODES = 8


def graph_of(edges, features, undirected=True, weights=None):
    """A graph as users have it, mapped from files, of as many nodes as there are rows of features."""
    with tempfile.TemporaryDirectory() as folder:  # what is mapped stays readable
        return make_graph(
            Path(folder) / "graph", edges, features.shape[0], features=features, undirected=undirected, weights=weights
        )


def random_features(num_nodes, width, seed=0):
    return np.random.default_rng(seed).normal(size=(num_nodes, width)).astype(np.float32)


def random_sparse_features(num_nodes, width, seed=0, share=0.3):
    """Normal numbers at a share of the places, none at all in row 0."""
    generator = np.random.default_rng(seed)
    dense = generator.normal(size=(num_nodes, width)) * (generator.random((num_nodes, width)) < share)
    dense[0] = 0
    return sp.csr_array(dense.astype(np.float32))
