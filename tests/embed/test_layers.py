"""All nodes layer by layer against one pass over the whole graph."""

import functools
import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gscl_scale.config.sections import ModelConfig
from gscl_scale.embed import blocks
from gscl_scale.embed.aggregate import GpuGather
from gscl_scale.embed.layers import EncodingSettings, encode_nodes
from gscl_scale.embed.plan import sizes_of
from gscl_scale.errors import ConfigError, RunError
from gscl_scale.model.inputs import Inputs, Layer, prepare_inputs
from gscl_scale.model.model import build_model
from gscl_scale.model.propagation import SparsePair
from gscl_scale.model.scaling import Scaling
from gscl_scale.runtime.console import Console
from gscl_scale.train.loop import encode_all
from tests.graphs import make_graph, random_edges
from tests.slow import slow

NODES = 300
CPU = torch.device("cpu")
QUIET = Console(quiet=True)
ENCODERS = ["gcn", "sage", "gat"]
KINDS = [("dense", 6), ("dense", 40), ("sparse", 40)]


def features_of(kind, width, nodes=NODES):
    rng = np.random.default_rng(1)
    dense = rng.normal(2, 3, size=(nodes, width)).astype(np.float32)
    dense[:, 0] = 5.0  # a constant column
    dense[7] = 0.0
    if kind == "dense":
        return dense
    dense[rng.random(dense.shape) < 0.8] = 0.0
    return sp.csr_array(dense)


def star(nodes):
    return np.stack([np.zeros(nodes - 1, np.int64), np.arange(1, nodes)], axis=1)


def hubs(nodes=NODES):
    """Random edges, a node that everyone knows, and the last ten without a neighbour."""
    edges = random_edges(nodes - 10, 4 * nodes, seed=0, hubs=3)
    known = np.stack([np.full(nodes - 10, 11), np.arange(nodes - 10)], axis=1)
    return np.concatenate([edges, known, known[:, ::-1]])


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    """Graphs by (kind of features, their number, undirected)."""

    @functools.cache
    def graph(kind, width, undirected):
        folder = tmp_path_factory.mktemp("graph") / "graph"
        return make_graph(folder, hubs(), NODES, features=features_of(kind, width), undirected=undirected)

    return graph


def model_of(graph, **settings):
    config = ModelConfig(**{"layers": 2, "width": 16, "projection": 8, **settings})
    model = build_model(config, graph.num_features, seed=3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "bias" in name or "activations" in name:
                parameter += 0.1 * torch.arange(parameter.numel()).reshape(parameter.shape) / parameter.numel()
    return config, model


def whole(graph, config, model):
    return encode_all(model, prepare_inputs(graph, config, CPU))


def by_layers(graph, config, model, folder, scaling=None, console=QUIET, **place):
    scaling = scaling or Scaling.of(graph.features, config.feature_scaling)
    workplace = EncodingSettings(folder / "scratch", "made from this", CPU, **place)
    with encode_nodes(model.encoder, graph, scaling, workplace, console) as vectors:
        found = np.array(vectors)
    assert not (folder / "scratch").exists()
    return found


def assert_close(found, expected):
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-5 * max(1, np.abs(expected).max())


def assert_is_the_pass(graph, folder, settings, **place):
    config, model = model_of(graph, **settings)
    assert_close(by_layers(graph, config, model, folder, **place), whole(graph, config, model))


@pytest.mark.parametrize(("activation", "scaling"), [("relu", "none"), ("prelu", "row"), ("rrelu", "standard")])
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("undirected", [True, False], ids=["undirected", "directed"])
@pytest.mark.parametrize(("kind", "width"), KINDS)
def test_it_is_the_pass_over_the_whole_graph(tmp_path, graphs, kind, width, undirected, encoder, activation, scaling):
    settings = {"encoder": encoder, "activation": activation, "feature_scaling": scaling}
    assert_is_the_pass(graphs(kind, width, undirected), tmp_path, settings)


@pytest.mark.parametrize("undirected", [True, False], ids=["undirected", "directed"])
@pytest.mark.parametrize("normalisation", ["symmetric", "mean"])
@pytest.mark.parametrize("self_loops", [True, False])
def test_every_normalisation_is_read_alike(tmp_path, graphs, undirected, normalisation, self_loops):
    settings = {"normalisation": normalisation, "self_loops": self_loops, "message_dropout": 0.5}
    assert_is_the_pass(graphs("dense", 40, undirected), tmp_path, settings)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("rows", [7, *slow(1, 10_000)])
def test_any_size_of_blocks_will_do(tmp_path, graphs, encoder, rows):
    for kind, width in KINDS:
        settings = {"encoder": encoder, "feature_scaling": "standard"}
        assert_is_the_pass(graphs(kind, width, True), tmp_path, settings, rows=rows)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_any_number_of_layers_will_do_with_and_without_a_bias(tmp_path, graphs, encoder, layers, bias):
    assert_is_the_pass(graphs("dense", 6, True), tmp_path, {"encoder": encoder, "layers": layers, "bias": bias})


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("undirected", [True, False], ids=["undirected", "directed"])
def test_a_device_that_holds_the_rows_gathers_the_same(tmp_path, graphs, monkeypatch, encoder, undirected):
    """As on a GPU; blocks are cut where their neighbours are many."""
    monkeypatch.setattr(blocks, "gatherer", lambda *parts: GpuGather(*parts[:4]))
    monkeypatch.setattr(blocks, "sizes_of", lambda *arguments: replace(sizes_of(*arguments), entries=100))
    assert_is_the_pass(graphs("dense", 6, undirected), tmp_path, {"encoder": encoder, "feature_scaling": "row"})


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_same_bytes_whatever_blocks_and_threads(tmp_path, encoder):
    """Blocks of whole pieces: a hub of 20,000 neighbours, four pieces of rows and a rest."""
    nodes = 20_001
    edges = np.concatenate([star(nodes), random_edges(nodes, 30_000, seed=2)])
    graph = make_graph(tmp_path / "graph", edges, nodes, features=features_of("dense", 6, nodes))
    config, model = model_of(graph, encoder=encoder)
    first = by_layers(graph, config, model, tmp_path, rows=4096)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(other := 3 - min(threads, 2))
        assert by_layers(graph, config, model, tmp_path, rows=8192).tobytes() == first.tobytes()
        assert torch.get_num_threads() == other
    finally:
        torch.set_num_threads(threads)
    assert by_layers(graph, config, model, tmp_path).tobytes() == first.tobytes()
    assert_close(first, whole(graph, config, model))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_hub_of_very_many_neighbours_takes_no_more_memory_and_loses_no_more_to_rounding(tmp_path, encoder):
    nodes = 140_000
    graph = make_graph(tmp_path / "graph", star(nodes), nodes, features=features_of("dense", 6, nodes))
    config, model = model_of(graph, encoder=encoder, layers=1, width=8)
    found = by_layers(graph, config, model, tmp_path, memory_gb=0.2)
    inputs = prepare_inputs(graph, config, CPU)
    edges = inputs.layers[0].edges
    edges = SparsePair(edges.matrix.double(), edges.transposed.double())
    with torch.inference_mode():
        exact = model.double().encode(Inputs(inputs.features.double(), [Layer(edges)])).numpy()
    assert_close(found, exact)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_nodes_that_the_training_did_not_know_are_embedded_with_its_scaling(tmp_path, graphs, encoder):
    """A part of its own beside the known one: known nodes keep their rows, new ones get what their place gives them."""
    known = graphs("dense", 6, True)
    config, model = model_of(known, encoder=encoder, feature_scaling="standard")
    scaling = Scaling.of(known.features, "standard")
    added = np.concatenate([hubs(), hubs() + NODES])
    features = np.concatenate([features_of("dense", 6), features_of("dense", 6)])
    graph = make_graph(tmp_path / "graph", added, 2 * NODES, features=features, undirected=True)
    found = by_layers(graph, config, model, tmp_path, scaling)
    assert_close(found[:NODES], whole(known, config, model))
    assert_close(found[NODES:], found[:NODES])
    moved = make_graph(tmp_path / "moved", added, 2 * NODES, features=features + 1, undirected=True)
    assert np.abs(by_layers(moved, config, model, tmp_path, scaling)[:NODES] - found[:NODES]).max() > 0.01


def test_sparse_features_are_moved_like_the_dense_ones_of_the_training(tmp_path, graphs):
    sparse = graphs("sparse", 6, True)
    dense = make_graph(tmp_path / "graph", hubs(), NODES, features=features_of("sparse", 6).toarray(), undirected=True)
    config, model = model_of(dense, encoder="sage", feature_scaling="standard")
    scaling = Scaling.of(dense.features, "standard")
    assert_close(by_layers(sparse, config, model, tmp_path, scaling), whole(dense, config, model))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("width", [6, 40])
@pytest.mark.parametrize("exponent", [-100, 100])
def test_tiny_and_huge_features_are_embedded_as_the_training_reads_them(tmp_path, graphs, kind, width, exponent):
    features = features_of(kind, width)
    far = make_graph(tmp_path / "graph", hubs(), NODES, features=features * 2.0**exponent, undirected=True)
    near = make_graph(tmp_path / "near", hubs(), NODES, features=features / 2.0 ** int(np.log2(abs(features).max())))
    config, model = model_of(far)
    expected = whole(far, config, model)
    np.testing.assert_array_equal(expected, whole(near, config, model))
    assert_close(by_layers(far, config, model, tmp_path), expected)
    twice = make_graph(tmp_path / "twice", hubs(), NODES, features=features * 2.0 ** (exponent + 1), undirected=True)
    found = by_layers(twice, config, model, tmp_path, Scaling.of(far.features, "none"))
    assert_close(found, by_layers(near, config, model, tmp_path, Scaling("none", exponent=1)))


def test_too_little_memory_and_disk_are_refused_with_the_cure(tmp_path, graphs, monkeypatch):
    graph = graphs("dense", 6, True)
    with pytest.raises(ConfigError, match=r"runtime.embed_memory_gb: 300 nodes of width 16 need at least 0\.\d+, got"):
        by_layers(graph, *model_of(graph), tmp_path, memory_gb=0.01)
    monkeypatch.setattr("gscl_scale.machine.free_disk", lambda folder: 1 << 10)
    with pytest.raises(RunError, match=r"300 nodes take .* of disk and .* are free; free some space there"):
        by_layers(graph, *model_of(graph), tmp_path)


def events(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_the_log_has_bounds_rates_and_memory(tmp_path, graphs):
    graph = graphs("dense", 40, True)
    by_layers(graph, *model_of(graph), tmp_path, console=Console(tmp_path / "log.jsonl", quiet=True))
    begun, *steps = events(tmp_path)
    assert begun["event"] == "encoding"
    assert begun["steps"] == ["messages-0.raw", "layer-0.raw", "layer-1.raw"]
    assert begun["memory_bound_bytes"] < 4 << 30
    assert [step["rows"] for step in steps] == [NODES] * 3
    assert all(step["rows_per_s"] > 0 and 0 < step["allocated_bytes"] <= step["peak_bytes"] for step in steps)
