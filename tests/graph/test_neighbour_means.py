"""Means over neighbours equal those of a dense matrix, and an encoder that reads them is not given other features."""

import numpy as np
import pytest

from gscl_scale.config.graph_size import FeatureBlocks
from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph import features, neighbour_means
from gscl_scale.graph.draft import GraphDraft, write_graph
from tests.graphs import random_edges

NODES = 60


@pytest.fixture(autouse=True)
def few_are_joined(features_as_they_are, monkeypatch):
    monkeypatch.setattr(features, "FEW", features_as_they_are)


def graph_in(folder, weights=None, **options):
    edges = random_edges(NODES - 1, 150, seed=0).T  # the last node has no neighbours
    own = np.random.default_rng(1).normal(5, 3, (NODES, 4)).astype(np.float32)
    ends = [(*edges, *([] if weights is None else [weights(edges.shape[1])]))]
    return write_graph(GraphDraft("made", "a test", NODES, ends, own), MemoryGraph(**options), folder)


@pytest.mark.parametrize("weights", [None, np.random.default_rng(2).random])
@pytest.mark.parametrize("rows_at_once", [7, 1 << 14])
def test_they_are_those_of_a_dense_matrix(tmp_path, monkeypatch, weights, rows_at_once):
    monkeypatch.setattr(neighbour_means, "_ROWS_AT_ONCE", rows_at_once)
    graph = graph_in(tmp_path / "graph", weights)
    assert graph.feature_blocks == (4, 4, 128)
    adjacency, own = np.zeros((NODES, NODES)), graph.features[:, :4].astype(np.float64)
    rows = np.repeat(np.arange(NODES), np.diff(graph.indptr))
    adjacency[rows, graph.indices] = 1 if weights is None else graph.edge_weights
    sums = adjacency.sum(axis=1, keepdims=True)
    assert sums[-1] == 0
    means = adjacency @ own / np.where(sums > 0, sums, 1)
    np.testing.assert_allclose(graph.features[:, 4:8], (means - means.mean(axis=0)) / means.std(axis=0), atol=1e-5)


def test_an_encoder_is_not_given_features_with_other_means(tmp_path):
    graph = graph_in(tmp_path / "graph")
    with pytest.raises(GraphError, match="the graph has 4 means over neighbours, the encoder was trained on 0; bring"):
        graph.refuse_other_features(FeatureBlocks(4, 0, 128), [], "the graph")
    graph.refuse_other_features(FeatureBlocks(4, 4, 128), [], "the graph")
