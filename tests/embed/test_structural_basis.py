"""Structural features of a grown graph are read as those of the training, and stand beside the encoder's output."""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats
import torch

from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.config.sections import ModelConfig
from gscl_scale.embed.layers import EncodingSettings, encode_nodes
from gscl_scale.embed.structural_basis import StructuralBasis
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.model.inputs import prepare_inputs
from gscl_scale.model.model import build_model
from gscl_scale.model.scaling import Scaling
from gscl_scale.runtime.console import Console
from gscl_scale.train.loop import encode_all
from tests.graphs import random_edges

NODES, WIDTH = 80, 8
OWN = np.random.default_rng(1).normal(size=(NODES, 3)).astype(np.float32)
CPU = torch.device("cpu")


def graph_in(folder, own=None, ids=None, structure="auto"):
    edges = random_edges(NODES, 300, seed=0)
    draft = GraphDraft(
        "made", "a test", NODES, [(edges[:, 0], edges[:, 1])], features=own, ids=pa.array(ids or range(NODES))
    )
    return write_graph(draft, MemoryGraph(structural_features=WIDTH, structure=structure), folder)


def embedded(graph, folder, scaling, **options):
    config = ModelConfig(width=6, **options)
    encoder = build_model(config, graph.feature_blocks, 3).encoder
    with encode_nodes(encoder, graph, scaling, EncodingSettings(folder, "a test", CPU), Console(quiet=True)) as rows:
        return np.array(rows)


@pytest.mark.parametrize("own", [None, OWN])
def test_embeddings_are_the_output_and_the_structural_features_each_of_length_one(tmp_path, own):
    graph = graph_in(tmp_path / "graph", own)
    scaling = Scaling.of(graph.features, "none")
    both, output = (embedded(graph, tmp_path / skip, scaling, skip=skip) for skip in ("auto", "none"))
    assert (both.shape[1], output.shape[1]) == (6 + graph.num_features, 6)
    for block, expected in ((both[:, :6], output), (both[:, -WIDTH:], graph.features[:, -WIDTH:])):
        lengths = np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(block, expected / np.where(lengths > 0, lengths, 1), atol=1e-6)


def test_few_columns_and_their_means_stand_between_them_and_outweigh_neither(tmp_path):
    graph = graph_in(tmp_path / "graph", np.where(OWN.max() == OWN, 1e6, OWN))
    rows = embedded(graph, tmp_path / "layers", Scaling.of(graph.features, "none"))
    for place, first in ((6, 0), (9, 3)):
        few = graph.features[:, first : first + 3]
        lengths = np.linalg.norm(few, axis=1, keepdims=True)
        np.testing.assert_allclose(rows[:, place : place + 3], few / 2 / np.sqrt(3 + lengths**2), atol=1e-6)
        assert 0.2 < np.median(np.linalg.norm(rows[:, place : place + 3], axis=1)) < 0.5
    assert np.linalg.norm(rows[:, 6:12], axis=1).max() < np.sqrt(0.5)


@pytest.mark.parametrize("kind", ["none", "standard"])
@pytest.mark.parametrize("own", [None, OWN])
def test_a_validation_in_training_sees_the_embeddings_that_are_written(tmp_path, kind, own):
    graph, config = graph_in(tmp_path / "graph", own), ModelConfig(width=6, feature_scaling=kind)
    model = build_model(config, graph.feature_blocks, 3)
    found = embedded(graph, tmp_path / "layers", Scaling.of(graph.features, kind), feature_scaling=kind)
    np.testing.assert_allclose(encode_all(model, prepare_inputs(graph, config, CPU)), found, atol=1e-5)


@pytest.mark.parametrize("kind", ["none", "standard"])
def test_rotated_structural_features_of_another_graph_change_nothing(tmp_path, kind):
    graph = graph_in(tmp_path / "graph", OWN)
    turn = scipy.stats.ortho_group.rvs(WIDTH, random_state=0)
    features = np.hstack([graph.features[:, :6], graph.features[:, 6:] @ turn]).astype(np.float32)
    other, scaling = replace(graph, features=features), Scaling.of(graph.features, kind)
    basis = StructuralBasis.of(graph)
    assert basis.scaling_for(graph, scaling, "it", pytest.fail) is scaling
    expected, found = (
        embedded(one, tmp_path / str(number), basis.scaling_for(one, scaling, "it", pytest.fail), feature_scaling=kind)
        for number, one in enumerate((graph, other))
    )
    np.testing.assert_allclose(found, expected, atol=2e-3)
    assert abs(embedded(other, tmp_path / "raw", scaling, feature_scaling=kind) - expected).max() > 0.1


def test_a_graph_without_any_known_node_is_refused(tmp_path):
    graph, strangers = graph_in(tmp_path / "graph"), graph_in(tmp_path / "other", ids=range(NODES, 2 * NODES))
    with pytest.raises(GraphError, match="it has no node of the graph that the encoder was trained on"):
        StructuralBasis.of(graph).scaling_for(strangers, Scaling("none"), "it", pytest.fail)


RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(NODES, WIDTH)).astype(np.float32)
TURNED, NOISE = ROWS @ scipy.stats.ortho_group.rvs(WIDTH, random_state=0), RNG.normal(size=ROWS.shape)


def compared(folder, ids, features):
    """What is warned of a graph with these ids and structural features, where the training had ids 0..79 and `ROWS`."""
    warned = []
    graph = replace(graph_in(folder), features=ROWS)
    other = replace(graph, features=features.astype(np.float32), ids=pa.array(ids))
    assert StructuralBasis.of(graph).scaling_for(other, Scaling("none"), "it", warned.append).rotation is not None
    return warned


def test_a_graph_whose_ids_mean_other_nodes_is_refused(tmp_path):
    says = r"it and the graph of the training have 80 nodes in common, whose structural features agree by 0\.0\d \(1 is"
    with pytest.raises(GraphError, match=rf"{says}.*expected at least 0\.1; check that an id means the same node"):
        compared(tmp_path / "graph", RNG.permutation(NODES), ROWS)


@pytest.mark.parametrize(
    ("features", "known", "says"),
    [
        (
            TURNED + 0.7 * NOISE,
            NODES,
            r"80 nodes in common, whose structural features agree by 0\.[456]\d \(1 is the same",
        ),
        (TURNED, 3, "3 nodes in common, too few to compare their structural features; "),
        (NOISE, 20, r"20 nodes in common, whose structural features agree by 0\.\d\d \("),
    ],
)
def test_a_graph_with_other_structural_features_or_few_known_nodes_is_warned_of(tmp_path, features, known, says):
    (warned,) = compared(tmp_path / "graph", [*range(known), *range(100, 100 + NODES - known)], features)
    assert re.search(f"^it and the graph of the training have {says}", warned)
    assert warned.endswith("embed the whole graph with its new nodes, not a part of it, or train on this graph")


@pytest.mark.parametrize("features", [TURNED + 0.2 * NOISE, np.ones_like(ROWS)], ids=["grown", "all alike"])
def test_nothing_is_warned_of_where_the_features_are_those_of_the_training_or_cannot_tell(tmp_path, features):
    assert compared(tmp_path / "graph", range(NODES), features) == []


def test_graphs_with_features_of_their_own_alone_need_no_basis(tmp_path):
    own = np.ones((NODES, 70), np.float32)
    assert StructuralBasis.of(graph_in(tmp_path / "graph", own, structure="none")) is None
