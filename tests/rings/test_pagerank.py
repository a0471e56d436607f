import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gscl_scale.rings.pagerank import pagerank
from tests.graphs import awkward_graphs
from tests.oracles import csr_of


def networkx_pagerank(indptr, indices):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(indptr.size - 1))
    graph.add_edges_from((v, u) for v in range(indptr.size - 1) for u in indices[indptr[v] : indptr[v + 1]].tolist())
    scores = nx.pagerank(graph, tol=1e-13, max_iter=2000)
    return np.array([scores[v] for v in range(indptr.size - 1)])


@given(graph=awkward_graphs(), undirected=st.booleans())
def test_pagerank_agrees_with_networkx(graph, undirected):
    edges, num_nodes = graph
    indptr, indices = csr_of(edges, num_nodes, undirected)
    assert pagerank(indptr, indices) == pytest.approx(networkx_pagerank(indptr, indices), abs=1e-8)


def test_scores_sum_to_one_with_dangling_and_isolated_nodes():
    indptr, indices = csr_of([(0, 1), (1, 2), (3, 2)], 6, undirected=False)
    assert pagerank(indptr, indices).sum() == pytest.approx(1)
