"""Rows beside a graph, which a pandas index or a dict may name."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from gscl_scale.errors import GraphError
from tests.test_forms import read


def labels_in(graph, **beside):
    found, _ = read(graph, **beside)
    if found.label_sets is not None:
        rows = found.label_sets.of(np.arange(found.num_nodes))
        return [[found.classes[one] for one in np.flatnonzero(row)] for row in rows]
    return [found.classes[code] if code >= 0 else None for code in found.labels]


def test_rows_with_an_index_of_ids_are_put_in_the_order_of_the_nodes():
    graph = nx.path_graph(4)
    labels = pd.Series(["a", "b", "a", "c"])
    for given in (labels, labels.iloc[::-1], labels.loc[[2, 0, 3, 1]], labels.to_dict()):
        assert labels_in(graph, labels=given) == ["a", "b", "a", "c"]
    rows = pd.DataFrame({"x": [1.0, 2.0, 4.0, 8.0]})
    found, _ = read(graph, {"structure": "none"}, features=rows.iloc[::-1])
    assert found.features[:].ravel().tolist() == rows.x.tolist()
    grid = nx.grid_2d_graph(1, 3)  # whose ids are text
    assert labels_in(grid, labels={(0, 0): "a", (0, 2): "b"}) == ["a", None, "b"]
    assert labels_in(grid, labels={(0, 0): 10, (0, 2): 9}) == ["10", None, "9"]
    edges = pd.DataFrame({"source": ["x", "y"], "target": ["y", "z"], "km": [2.0, 3.0]}, index=[7, 5])
    nodes = pd.DataFrame({"id": ["x", "y", "z"], "age": [1, 2, 3], "kind": ["a", "a", "b"]}, index=[4, 9, 2])
    kinds = nodes.pop("kind")
    for given in (kinds, kinds.iloc[::-1], kinds.set_axis(nodes.id).iloc[::-1], kinds.to_numpy()):
        assert labels_in(edges, nodes=nodes, labels=given) == ["a", "a", "b"]
    numbered = pd.DataFrame({"id": [2, 0, 1], "age": [1, 2, 3]})
    with pytest.raises(
        GraphError, match=r"labels: its index may hold the ids of the nodes or the rows of nodes, which"
    ):
        read(pd.DataFrame({"source": [0], "target": [1]}), nodes=numbered, labels=kinds.set_axis([2, 1, 0]))
    for given in (edges.km, edges.km.iloc[::-1], edges.km.reset_index(drop=True)):
        assert read(edges, weights=given)[0].edge_weights.tolist() == [2, 2, 3, 3]


def test_a_node_may_have_a_list_of_labels():
    graph = nx.path_graph(4)
    expected = [["a", "b"], ["b"], [], ["a"]]
    lists = [["a", "b"], ["b"], None, "a"]
    for given in (lists, pd.Series(lists), {0: ("b", "a"), 1: {"b"}, 3: ["a"]}):
        assert labels_in(graph, labels=given) == expected
    assert labels_in(graph, labels=[["a", "b"]] * 4) == [["a", "b"]] * 4
    assert labels_in(graph, labels=[[0, 1], [1, 1]] * 2) == [["1"], ["0", "1"]] * 2
