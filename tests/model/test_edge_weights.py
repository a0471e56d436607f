"""Edge weights in what layers gather: by every backend, in whole graphs, subgraphs and layer by layer."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch_geometric.nn import GCNConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from gscl_scale.batches.neighbours import Draw
from gscl_scale.batches.sampled_subgraph import NeighbourSampler
from gscl_scale.config.sections import ModelConfig
from gscl_scale.embed import blocks
from gscl_scale.embed.aggregate import GpuGather
from gscl_scale.embed.layers import EncodingSettings, encode_nodes
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.model import kernels
from gscl_scale.model.inputs import prepare_inputs, prepare_layers
from gscl_scale.model.model import build_model
from gscl_scale.model.propagation import adjacency_pair, sparse_product
from gscl_scale.model.scaling import Scaling
from gscl_scale.rings.priorities import draw_priorities
from gscl_scale.runtime.console import Console
from gscl_scale.train.loop import encode_all
from gscl_scale.train.objectives.views import drop_edges
from tests.graphs import random_edges, random_weights
from tests.model.graphs import graph_of, random_features
from tests.oracles import dense_weights, entries_of

CPU = torch.device("cpu")
NODES, WIDTH = 60, 6
ALONE = 59  # a node without edges
KINDS = [("gcn", "symmetric", True), ("gcn", "symmetric", False), ("gcn", "mean", True), ("sage", "symmetric", True)]
EDGES = random_edges(ALONE, 150, seed=2, hubs=2)
WEIGHTS = random_weights(len(EDGES))


def weighted_graph(undirected=True, weights=WEIGHTS):
    return graph_of(EDGES, random_features(NODES, WIDTH), undirected, weights)


def formula(undirected, encoder, normalisation, loops):
    """D_row^-1/2 (A_w + I) D_column^-1/2 and its kin, as a dense matrix of what was given."""
    whole = dense_weights(EDGES, WEIGHTS, NODES, undirected)
    if loops and encoder == "gcn":
        whole += np.eye(NODES)
    row, column = (np.where(whole.sum(axis=axis) > 0, whole.sum(axis=axis), 1) for axis in (1, 0))
    if encoder == "sage" or normalisation == "mean":
        return whole / row[:, None]
    return whole / np.sqrt(row[:, None] * column)


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize(("encoder", "normalisation", "loops"), KINDS)
def test_every_normalisation_is_its_formula_with_sums_of_weights_for_degrees(undirected, encoder, normalisation, loops):
    graph = weighted_graph(undirected)
    pair = adjacency_pair(NormalisedAdjacency.of(graph, encoder, normalisation, loops), undirected)
    expected = formula(undirected, encoder, normalisation, loops)
    np.testing.assert_allclose(pair.matrix.to_dense().numpy(), expected, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(pair.transposed.to_dense().numpy(), expected.T, rtol=1e-5, atol=1e-9)


def test_gcn_reads_what_torch_geometric_does():
    """`edge_weight` as PyG has it: both directions of every edge."""
    edge_index = torch.from_numpy(np.concatenate([EDGES, EDGES[:, ::-1]]).T.copy())
    edge_index, weights = edge_index[:, edge_index[0] != edge_index[1]], torch.from_numpy(np.tile(WEIGHTS, 2)).float()
    weights = weights[torch.from_numpy(np.tile(EDGES[:, 0] != EDGES[:, 1], 2))]
    (source, target), values = gcn_norm(edge_index, weights, NODES)
    dense = torch.zeros(NODES, NODES).index_put((target, source), values, accumulate=True)
    pair = adjacency_pair(NormalisedAdjacency.of(weighted_graph(), "gcn"), True)
    torch.testing.assert_close(pair.matrix.to_dense(), dense, rtol=1e-5, atol=1e-7)
    conv, rows = GCNConv(WIDTH, 4), torch.from_numpy(random_features(NODES, WIDTH))
    found = sparse_product(pair, rows @ conv.lin.weight.T) + conv.bias
    torch.testing.assert_close(found, conv(rows, edge_index, weights), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize(("encoder", "normalisation", "loops"), KINDS)
@pytest.mark.parametrize("product", ["numba", "torch", "torch-sparse"])
def test_all_backends_and_their_gradients_agree(undirected, encoder, normalisation, loops, product):
    if product == "torch-sparse":
        pytest.importorskip("torch_sparse")
    adjacency = NormalisedAdjacency.of(weighted_graph(undirected), encoder, normalisation, loops)
    expected = torch.from_numpy(formula(undirected, encoder, normalisation, loops)).float()
    rows = torch.from_numpy(random_features(NODES, 3)).requires_grad_()
    found = sparse_product(adjacency_pair(adjacency, undirected, product), rows)
    torch.testing.assert_close(found, expected @ rows, rtol=1e-4, atol=1e-5)
    (gradient,) = torch.autograd.grad((found * found.detach()).sum(), rows)
    torch.testing.assert_close(gradient, expected.T @ found.detach(), rtol=1e-4, atol=1e-5)
    gathered = kernels.gather(adjacency, rows.detach().numpy(), 7, 50)
    np.testing.assert_allclose(gathered, found.detach().numpy()[7:50], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize(("encoder", "normalisation", "loops"), [*KINDS, ("gat", "symmetric", True)])
@pytest.mark.parametrize("on_gpu", [False, True])
def test_layer_by_layer_is_the_pass_of_the_training(
    tmp_path, monkeypatch, undirected, encoder, normalisation, loops, on_gpu
):
    if on_gpu:  # its code, on the CPU
        monkeypatch.setattr(blocks, "gatherer", lambda *parts: GpuGather(*parts[:4]))
    graph = weighted_graph(undirected)
    config = ModelConfig(
        encoder=encoder, normalisation=normalisation, self_loops=loops, layers=2, width=16, projection=8
    )
    model = build_model(config, WIDTH, seed=3)
    place = EncodingSettings(tmp_path / "scratch", "made from this", CPU, rows=7)
    scaling = Scaling.of(graph.features, config.feature_scaling)
    with encode_nodes(model.encoder, graph, scaling, place, Console(quiet=True)) as vectors:
        found = np.array(vectors)
    np.testing.assert_allclose(found, encode_all(model, prepare_inputs(graph, config, CPU)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize(("encoder", "normalisation", "loops"), KINDS)
def test_subgraphs_of_batches_have_the_rows_of_the_whole_graph(undirected, encoder, normalisation, loops):
    adjacency = NormalisedAdjacency.of(weighted_graph(undirected), encoder, normalisation, loops)
    nodes = np.array([50, 3, 17, ALONE])
    subgraph = NeighbourSampler(adjacency, 1).sample(nodes)
    found = np.zeros((nodes.size, NODES))
    rows = subgraph.blocks[0].messages
    receivers = np.repeat(np.arange(nodes.size), np.diff(rows.indptr))
    found[receivers, subgraph.inputs[rows.indices]] = rows.values
    np.testing.assert_allclose(found, formula(undirected, encoder, normalisation, loops)[nodes], rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("by_pagerank", [False, True])
def test_sampled_neighbours_give_the_weighted_sums_on_average(by_pagerank):
    adjacency = NormalisedAdjacency.of(weighted_graph(), "gcn")
    expected = formula(True, "gcn", "symmetric", True)
    node_weights = random_weights(NODES, seed=5) if by_pagerank else None
    sampler, nodes, draws = NeighbourSampler(adjacency, 1, [3]), np.arange(0, NODES, 2), 4000
    identities, total = np.arange(NODES, dtype=np.uint64), np.zeros((nodes.size, NODES))
    for number in range(draws):
        priorities = draw_priorities(identities, 0, number, node_weights, np.int32)
        subgraph = sampler.sample(nodes, Draw(priorities, priorities.rank(), node_weights))
        rows = subgraph.blocks[0].messages
        assert rows is not None
        receivers = np.repeat(np.arange(nodes.size), np.diff(rows.indptr))
        below = np.arange(NODES) if subgraph.inputs is None else subgraph.inputs
        np.add.at(total, (receivers, below[rows.indices]), rows.values)
    found = total / draws
    few = np.diff(adjacency.indptr)[nodes] <= 3
    np.testing.assert_allclose(found[few], expected[nodes][few], rtol=1e-4)
    assert abs(found - expected[nodes])[~few].sum() / expected[nodes][~few].sum() < 0.04


def test_dropped_edges_take_their_weights_along():
    graph = weighted_graph()
    left = drop_edges(graph, np.array([0.4]), np.uint64(7))
    before, after = entries_of(graph), entries_of(left)
    assert 0.4 < (after > 0).sum() / (before > 0).sum() < 0.8
    np.testing.assert_array_equal(after[after > 0], before[after > 0])
    assert (after == after.T).all()
    assert left.edge_weights.size == left.indices.size


def test_without_weights_the_matrix_is_that_of_weights_of_one():
    plain, ones = (graph_of(EDGES, random_features(NODES, WIDTH), True, weights) for weights in (None, None))
    ones = replace(ones, edge_weights=np.ones(ones.indices.size, np.float32))
    config = ModelConfig(layers=1, width=8)
    for one, other in zip(*(prepare_layers(graph, config, CPU) for graph in (plain, ones)), strict=True):
        assert torch.equal(one.edges.matrix.values(), other.edges.matrix.values())


def test_gat_computes_its_own_weights():
    graph = weighted_graph()
    assert NormalisedAdjacency.of(graph, "gat").weights is None
