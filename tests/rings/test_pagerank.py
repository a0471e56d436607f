import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gscl_scale.config.config import Config
from gscl_scale.rings.pagerank import pagerank
from gscl_scale.shards.reader import Samples
from tests.graphs import awkward_graphs, make_graph, make_samples, random_edges, random_weights
from tests.oracles import csr_of


def networkx_pagerank(indptr, indices, weights=None):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(indptr.size - 1))
    weights = np.ones(indices.size) if weights is None else weights
    rows = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    graph.add_weighted_edges_from(zip(rows.tolist(), indices.tolist(), weights.tolist(), strict=True))
    scores = nx.pagerank(graph, tol=1e-13, max_iter=2000)
    return np.array([scores[v] for v in range(indptr.size - 1)])


@given(graph=awkward_graphs(), undirected=st.booleans())
def test_pagerank_agrees_with_networkx(graph, undirected):
    edges, num_nodes = graph
    indptr, indices = csr_of(edges, num_nodes, undirected)
    assert pagerank(indptr, indices) == pytest.approx(networkx_pagerank(indptr, indices), abs=1e-8)


@given(graph=awkward_graphs(), undirected=st.booleans(), seed=st.integers(0, 9))
def test_pagerank_with_edge_weights_agrees_with_networkx(graph, undirected, seed):
    """Other weights in both directions of an edge, too."""
    edges, num_nodes = graph
    indptr, indices = csr_of(edges, num_nodes, undirected)
    weights = random_weights(indices.size, seed).astype(np.float32)
    expected = networkx_pagerank(indptr, indices, weights)
    assert pagerank(indptr, indices, weights) == pytest.approx(expected, abs=1e-8)


def test_samples_by_pagerank_read_the_edge_weights_and_rings_stay_hops(tmp_path):
    """One heavy edge moves the scores of the nodes; the rings have the same sizes."""
    config = Config.parse(
        {"rings": {"hops": 2, "width": 16, "per_ring": 4, "beyond": 8, "rounds": 1, "engine": "exact"}}
    ).rings.model_copy(update={"sampling": "pagerank"})
    edges, samples = random_edges(40, 80, seed=1), []
    for name, weights in (("plain", None), ("weighted", random_weights(80, seed=2))):
        graph = make_graph(tmp_path / name, edges, 40, weights=weights)
        make_samples(graph.folder, tmp_path / f"samples {name}", config)
        samples.append(Samples.open(tmp_path / f"samples {name}"))
        expected = networkx_pagerank(graph.indptr, graph.indices, graph.edge_weights)
        assert samples[-1].weights() == pytest.approx(expected, abs=1e-8)
    assert abs(samples[0].weights() - samples[1].weights()).max() > 1e-3
    plain, weighted = (one.part(0, 0, verify=False) for one in samples)
    np.testing.assert_array_equal(plain.ring_size, weighted.ring_size)


def test_scores_sum_to_one_with_dangling_and_isolated_nodes():
    indptr, indices = csr_of([(0, 1), (1, 2), (3, 2)], 6, undirected=False)
    assert pagerank(indptr, indices).sum() == pytest.approx(1)
