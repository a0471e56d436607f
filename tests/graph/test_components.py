import networkx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gscl_scale.graph.components import component_sizes


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))))
def test_components_are_those_of_networkx_whatever_the_direction_of_edges(given_graph):
    num_nodes, edges = given_graph
    edges = sorted(set(edges))
    degrees = np.bincount([source for source, _ in edges], minlength=num_nodes)
    indptr = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
    indices = np.array([target for _, target in edges], np.int32)
    graph = networkx.Graph(edges)
    graph.add_nodes_from(range(num_nodes))
    expected = sorted((len(part) for part in networkx.connected_components(graph)), reverse=True)
    assert component_sizes(indptr, indices).tolist() == expected
