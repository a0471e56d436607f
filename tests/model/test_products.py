"""All backends of the sparse product give the same."""

import numpy as np
import pytest
import torch

from gscl_scale.errors import ConfigError
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.model.propagation import adjacency_pair, sparse_product
from tests.graphs import random_edges
from tests.model.graphs import graph_of, random_features

NUM_NODES = 400


def both_ways(product, undirected):
    """The product and its gradient."""
    graph = graph_of(random_edges(NUM_NODES, 3000, seed=1).tolist(), random_features(NUM_NODES, 4), undirected)
    pair = adjacency_pair(NormalisedAdjacency.of(graph, "gcn"), undirected, product)
    dense = torch.from_numpy(np.random.RandomState(0).rand(NUM_NODES, 33).astype(np.float32)).requires_grad_()
    result = sparse_product(pair, dense)
    (result * torch.arange(33.0)).sum().backward()
    return result.detach(), dense.grad


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("product", ["numba", "torch", pytest.param("torch-sparse", marks=pytest.mark.torch_sparse)])
def test_all_backends_multiply_alike(product, undirected):
    for ours, theirs in zip(both_ways(product, undirected), both_ways("auto", undirected), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_a_backend_that_is_not_installed_is_named_with_the_cure(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch_sparse", None)
    with pytest.raises(ConfigError, match=r"model\.product: torch-sparse is not installed; install it"):
        both_ways("torch-sparse", True)


@pytest.mark.parametrize("product", ["numba", "torch"])
def test_sums_and_their_gradients_stay_in_float32_where_dense_layers_do_not(product):
    expected = both_ways(product, True)
    with torch.autocast("cpu", torch.bfloat16):
        found = both_ways(product, True)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
