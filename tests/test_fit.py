import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gscl_scale
from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError, FolderError, GraphError
from gscl_scale.graph.graph import Graph
from tests.graphs import make_graph, random_edges

SMALL = {
    "graph": {"structure": "none"},
    "rings": {"hops": 1, "per_ring": 4, "width": 8, "beyond": 8, "rounds": 1},
    "model": {"width": 8, "projection": 8},
    "train": {"epochs": 2, "batch_size": 40},
    "runtime": {"workers": 1, "device": "cpu"},
}


@pytest.fixture
def data():
    edges = torch.from_numpy(random_edges(80, 200, seed=0).T.copy())
    features = torch.from_numpy(np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32))
    return Data(x=features, edge_index=edges, y=torch.arange(80) % 3)


def test_fit_embeds_a_torch_geometric_graph_in_the_order_of_its_nodes(data):
    embeddings = gscl_scale.fit(data, SMALL)
    assert embeddings.shape == (80, 8)
    assert embeddings.dtype == np.float32
    assert np.isfinite(embeddings).all()
    np.testing.assert_array_equal(gscl_scale.fit(data, SMALL), embeddings)


def test_fit_takes_a_graph_without_labels_or_features(data):
    del data.x, data.y
    data.num_nodes = 80
    assert gscl_scale.fit(data, {**SMALL, "graph": {"structural_features": 10}}).shape == (80, 8 + 10)


def test_fit_keeps_the_run_that_is_named_and_reads_it_again(data, tmp_path):
    first = gscl_scale.fit(data, SMALL, run=tmp_path / "run")
    before = (tmp_path / "run/log.jsonl").read_text()
    np.testing.assert_array_equal(gscl_scale.fit(data, SMALL, run=tmp_path / "run"), first)
    assert (tmp_path / "run/log.jsonl").read_text().count('"step"') == before.count('"step"')
    with pytest.raises(
        FolderError, match=r"width=8, but the config now says 4; use a new folder \(run=...\) or delete"
    ):
        gscl_scale.fit(data, SMALL, run=tmp_path / "run", width=4)
    data.x = data.x + 1
    with pytest.raises(FolderError, match="another graph"):
        gscl_scale.fit(data, SMALL, run=tmp_path / "run")


def test_fit_takes_a_graph_of_a_folder_and_a_config_object_or_file(tmp_path):
    graph = make_graph(tmp_path / "graph", random_edges(80, 200, seed=0), 80)
    config = Config.parse({**SMALL, "graph": {"source": "memory"}})
    vectors = gscl_scale.fit(Graph.open(str(graph.folder)), config)
    assert vectors.shape == (80, 8)
    with pytest.raises(ConfigError, match="does not exist"):
        gscl_scale.fit(graph, tmp_path / "missing.yaml")


def test_fit_refuses_what_is_no_graph():
    with pytest.raises(GraphError, match="expected a graph, got list"):
        gscl_scale.fit([1, 2, 3], SMALL)


@pytest.mark.parametrize(
    "settings",
    [
        {"rings": {"sampling": "pagerank", "per_ring": "ratio:0.2"}},
        {"rings": {"sharing": "independent", "sampling": "pagerank", "per_ring": 3}},
        {"rings": {"per_ring": "all", "hops": 3}, "train": {"members": "stored"}},
        {"train": {"members": "random", "clip": 1.0, "negatives": 0}},
        {"loss": {"ranking": "pairwise", "positives": "out", "gate": 0.9, "temperature_step": 0.05}},
        {"loss": {"weighting": "size"}, "model": {"feature_scaling": "row", "feature_dropout": 0.2}},
        {"model": {"encoder": "sage", "layers": 2, "feature_scaling": "standard"}},
        {"model": {"encoder": "gat", "activation": "rrelu"}},
    ],
    ids=str,
)
def test_every_setting_goes_from_graph_to_embeddings(data, settings):
    values = {name: {**SMALL.get(name, {}), **settings.get(name, {})} for name in {*SMALL, *settings}}
    embeddings = gscl_scale.fit(data, values)
    assert embeddings.shape == (80, 8)
    assert np.isfinite(embeddings).all()
    assert embeddings.vectors.std(axis=0).max() > 0


def test_a_directed_graph_keeps_its_directions(data, tmp_path):
    gscl_scale.fit(data, {**SMALL, "graph": {"source": "memory", "undirected": False}}, run=tmp_path / "run")
    graph = Graph.open(tmp_path / "run/graph")
    assert not graph.undirected
    source, target = data.edge_index[:, 0].tolist()
    assert target in graph.indices[graph.indptr[source] : graph.indptr[source + 1]]


@pytest.mark.parametrize("propagation", ["full", "sampled"])
def test_features_in_a_tiny_or_huge_unit_are_embedded_as_those_near_one(data, propagation):
    settings = {**SMALL, "model": {**SMALL["model"], "propagation": propagation}}
    near_one = data.x / 2.0 ** int(np.log2(float(data.x.abs().max())))
    embeddings = []
    for unit in (1.0, 2.0**-100, 2.0**-50, 2.0**50, 2.0**100):
        data.x = near_one * unit
        embeddings.append(gscl_scale.fit(data, settings))
    assert np.isfinite(embeddings[0]).all()
    assert all(np.array_equal(other, embeddings[0]) for other in embeddings[1:])


def test_an_encoder_that_computes_its_own_weights_of_edges_says_so(data, capsys):
    data.edge_weight = torch.ones(200)
    sentence = "Edge weights do not reach the encoder gat"
    for encoder in ("gat", "sage"):
        gscl_scale.fit(data, {**SMALL, "model": {**SMALL["model"], "encoder": encoder}}, quiet=False)
        assert (sentence in "".join(capsys.readouterr())) == (encoder == "gat")
