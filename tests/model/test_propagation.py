import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from gscl_scale.errors import ConfigError
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.model.inputs import prepare_features
from gscl_scale.model.propagation import SparseInput, SparsePair, adjacency_pair, sparse_product
from tests.graphs import random_edges
from tests.model import oracles
from tests.model.graphs import EDGES, NUM_NODES, graph_of, random_features, random_sparse_features

ONE_WAY = [(0, 1), (0, 2), (0, 3), (1, 2), (3, 0), (4, 5), (6, 5)]  # node 5 reaches nobody, node 7 is alone


def small_graph(undirected):
    return graph_of(EDGES if undirected else ONE_WAY, random_features(NUM_NODES, 3), undirected)


def propagation(graph, encoder="gcn"):
    return adjacency_pair(NormalisedAdjacency.of(graph, encoder), graph.undirected)


def assert_pair(pair, expected):
    np.testing.assert_allclose(pair.matrix.to_dense().numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(pair.transposed.to_dense().numpy(), expected.T, rtol=1e-6)


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("encoder", ["gcn", "sage", "gat"])
def test_propagation_equals_the_formula_and_its_transpose_is_one(undirected, encoder):
    graph = small_graph(undirected)
    assert_pair(propagation(graph, encoder), oracles.dense_propagation(graph, encoder))


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("loops", [True, False])
def test_neighbours_count_by_their_mean_or_by_both_degrees_with_or_without_the_node_itself(undirected, loops):
    graph = small_graph(undirected)
    whole = oracles.dense_propagation(graph, "gat") - np.eye(NUM_NODES) * (not loops)  # A + I or A
    row, column = (np.maximum(whole.sum(axis=axis), 1) for axis in (1, 0))
    both = whole / np.sqrt(row[:, None] * column[None, :])
    for normalisation, expected in (("mean", whole / row[:, None]), ("symmetric", both)):
        adjacency = NormalisedAdjacency.of(graph, "gcn", normalisation, loops)
        assert_pair(adjacency_pair(adjacency, undirected), expected)


def test_an_undirected_graph_keeps_one_matrix_for_both_ways():
    pair = propagation(small_graph(True))
    assert pair.transposed is pair.matrix
    moved = pair.to(torch.device("cpu"))
    assert moved.transposed is moved.matrix


def test_a_graph_without_edges_propagates_to_itself():
    graph = graph_of([], random_features(3, 2))
    dense = torch.from_numpy(np.array(graph.features))
    assert torch.equal(sparse_product(propagation(graph), dense), dense)
    assert torch.equal(sparse_product(propagation(graph, "sage"), dense), torch.zeros(3, 2))


def test_some_rows_of_sparse_features_are_those_rows_and_drop_the_same_values():
    features, dense = sparse_input()
    nodes = torch.tensor([5, 0, 2])
    some = features.rows(nodes)
    assert torch.equal(some.dense(), dense[nodes])
    assert torch.equal(
        some.with_dropout(0.5, 3).matrix.to_dense(), features.with_dropout(0.5, 3).matrix.to_dense()[nodes]
    )
    assert torch.equal(some.with_dropout(0.5, 3).transposed.to_dense(), some.with_dropout(0.5, 3).matrix.to_dense().T)


@pytest.mark.parametrize("undirected", [True, False])
def test_the_gradient_of_a_product_is_one_product_with_the_transpose(undirected):
    single = propagation(small_graph(undirected))
    pair = SparsePair(single.matrix.double(), single.transposed.double())
    dense = torch.rand(NUM_NODES, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: sparse_product(pair, x), dense)


def test_a_product_takes_dense_matrices_of_any_layout():
    pair = propagation(small_graph(False))
    wide = torch.rand(6, NUM_NODES)
    torch.testing.assert_close(sparse_product(pair, wide.T), pair.matrix.to_dense() @ wide.T)
    weight = torch.rand(NUM_NODES, 2, requires_grad=True)
    sparse_product(pair, weight).sum().backward()  # the gradient of a sum is one number, expanded
    torch.testing.assert_close(weight.grad, pair.matrix.to_dense().T @ torch.ones(NUM_NODES, 2))


def sparse_input():
    matrix = random_sparse_features(NUM_NODES, 6)
    features = prepare_features(graph_of(EDGES, matrix), "none")
    assert isinstance(features, SparseInput)
    return features, torch.from_numpy(matrix.toarray())


def test_sparse_features_multiply_as_dense_ones_do_and_so_do_their_gradients():
    features, dense = sparse_input()
    assert features.shape == (NUM_NODES, 6)
    weight, same = (torch.arange(18.0).reshape(6, 3).requires_grad_() for _ in range(2))
    target = torch.rand(NUM_NODES, 3)
    ours, theirs = sparse_product(features.pair, weight), dense @ same
    torch.testing.assert_close(ours, theirs)
    (ours * target).sum().backward()
    (theirs * target).sum().backward()
    torch.testing.assert_close(weight.grad, same.grad)
    assert torch.equal(features.dense(), dense)


def test_dropout_of_sparse_features_drops_the_same_values_in_both_directions():
    features, dense = sparse_input()
    before = features.dense().clone()
    pair = features.with_dropout(0.5, key=3)
    dropped = pair.matrix.to_dense()
    kept = dropped != 0
    assert torch.equal(pair.transposed.to_dense(), dropped.T)
    torch.testing.assert_close(dropped[kept], 2 * dense[kept])
    mean = sum(features.with_dropout(0.5, key).matrix.to_dense() for key in range(2000)) / 2000
    torch.testing.assert_close(mean, dense, rtol=0.1, atol=1e-6)
    assert torch.equal(features.with_dropout(0.5, key=3).matrix.to_dense(), dropped)
    assert not torch.equal(features.with_dropout(0.5, key=4).matrix.to_dense(), dropped)
    assert torch.equal(features.dense(), before)


def both_ways(product, undirected):
    """A product by a backend, and its gradient."""
    graph = graph_of(random_edges(400, 3000, seed=1).tolist(), random_features(400, 4), undirected)
    pair = adjacency_pair(NormalisedAdjacency.of(graph, "gcn"), undirected, product)
    dense = torch.from_numpy(np.random.RandomState(0).rand(400, 33).astype(np.float32)).requires_grad_()
    result = sparse_product(pair, dense)
    (result * torch.arange(33.0)).sum().backward()
    return result.detach(), dense.grad


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("product", ["numba", "torch", pytest.param("torch-sparse", marks=pytest.mark.torch_sparse)])
def test_all_backends_multiply_alike(product, undirected):
    torch.testing.assert_close(both_ways(product, undirected), both_ways("auto", undirected), rtol=1e-5, atol=1e-5)


def test_a_backend_that_is_not_installed_is_named_with_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_sparse", None)
    with pytest.raises(ConfigError, match=r"model\.product: torch-sparse is not installed; install it"):
        both_ways("torch-sparse", True)


@pytest.mark.parametrize("product", ["numba", "torch"])
def test_sums_and_their_gradients_stay_in_float32_where_dense_layers_do_not(product):
    expected = both_ways(product, True)
    with torch.autocast("cpu", torch.bfloat16):
        found = both_ways(product, True)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)  # types are compared too


@pytest.mark.slow
def test_no_warning_of_torch_reaches_the_user():
    program = (
        "import numpy as np, torch\n"
        "from tests.model.graphs import EDGES, NUM_NODES, graph_of, random_sparse_features\n"
        "from gscl_scale.config.sections import ModelConfig\n"
        "from gscl_scale.model.inputs import prepare_inputs\n"
        "from gscl_scale.model.model import build_model\n"
        "graph = graph_of(EDGES, random_sparse_features(NUM_NODES, 6))\n"
        "config = ModelConfig(width=4, feature_dropout=0.5)\n"
        "inputs = prepare_inputs(graph, config, torch.device('cpu'))\n"
        "build_model(config, 6, 0).encode(inputs, key=1).sum().backward()\n"
    )
    command = [sys.executable, "-W", "error::UserWarning", "-c", program]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
