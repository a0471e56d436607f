"""What `gscl_scale.fit` takes as a graph, and what it takes beside one."""

import subprocess
import sys
import uuid

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

import gscl_scale
from gscl_scale import NodeEmbedder
from gscl_scale.errors import ConfigError, GraphError
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources.given import Beside
from gscl_scale.graph.sources.objects import given_graph
from gscl_scale.stages.fit import config_for, graph_of
from tests import forms
from tests.test_fit import SMALL


@pytest.fixture(scope="module")
def expected():
    graph, beside = forms.draft()
    return np.asarray(gscl_scale.fit(graph, SMALL, **beside))


@pytest.mark.parametrize("form", [*forms.IN_MEMORY, *forms.IN_FOLDER], ids=lambda form: form.__name__)
def test_one_graph_gives_equal_vectors_in_every_form(form, expected, tmp_path):
    if needed := {forms.dgl_graph: "dgl", forms.polars_tables: "polars"}.get(form):
        pytest.importorskip(needed)
    graph, beside = form(tmp_path) if form in forms.IN_FOLDER else form()
    embeddings = gscl_scale.fit(graph, SMALL, **beside)
    np.testing.assert_array_equal(embeddings, expected)
    np.testing.assert_array_equal(embeddings.ids, np.arange(forms.NODES))
    np.testing.assert_array_equal(embeddings.graph.labels, forms.arrays()[-1])


def test_a_wrong_object_is_refused_with_all_forms():
    with pytest.raises(GraphError) as refused:
        gscl_scale.fit({0: [1], 1: [2]})
    assert str(refused.value).startswith(
        "expected a graph, got dict; give a networkx Graph or DiGraph, an igraph Graph,"
    )
    for word in ("scipy", "edge_index", "pandas, polars or pyarrow", "HeteroData", "DGL", "path", "GraphDraft"):
        assert word in str(refused.value)


def test_no_library_is_imported_that_no_object_comes_from():
    program = "import sys, gscl_scale.graph.sources.objects; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"networkx", "igraph", "pandas", "polars", "torch", "torch_geometric", "dgl"} & set(modules)
    assert "scipy" in modules


def hetero(**types):
    made = HeteroData()
    for name, size in types.items():
        made[name].num_nodes = size
        made[name, "likes", name].edge_index = forms.edge_index_torch()[0]
    return made


EDGES = pd.DataFrame({"source": [1, 2], "target": [2, 3]})
TOWNS = pd.DataFrame({"id": [1, 2, 3], "town": ["Rome", None, "Oslo"]})
MORE = pd.DataFrame({"id": range(6), "town": ["Rome", None, "Oslo"] * 2})
LEAK = "values of the column 'town' of nodes, which would be trained on as a feature; give its name: labels='town'"


@pytest.mark.parametrize(
    ("graph", "beside", "sentence"),
    [
        (np.zeros((4, 2), np.int64), {}, r"edge_index is int64 of shape \(4, 2\), expected .* transpose it with .T"),
        (np.zeros((3, 3), np.int64), {}, "give an adjacency matrix as scipy.sparse.csr_array"),
        (np.zeros((2, 5)), {}, r"edge_index is float64 of shape \(2, 5\), expected integers"),
        (np.array([[0, -1], [1, 1]]), {}, "-1"),
        (sp.csr_array((2, 3)), {}, r"the adjacency has shape \(2, 3\), expected \[N, N\]"),
        (np.array([[0], [1]]), {"weights": [1, 2]}, "expected a number for each of 1 edges"),
        (np.array([[0], [9]]), {"features": [[1.0], [2.0]]}, "9"),
        (np.array([[0], [1]]), {"labels": "y"}, "an edge_index .* has no column or attribute 'y'; give an array"),
        (np.array([[0], [1]]), {"nodes": EDGES}, "nodes: an edge_index .* takes no nodes beside it; only an edge"),
        (hetero(user=300, film=300), {}, r"2 types of nodes \(user, film\) and 2 of edges .*to_homogeneous"),
        (Data(), {}, "no edges; expected edge_index"),
        (Data(edge_index=forms.edge_index_torch()[0]), {"labels": "group"}, "no attribute 'group'; it has edge_index"),
        (nx.Graph(), {}, "the networkx graph is empty; expected at least one node"),
        (nx.path_graph(3), {"labels": "club"}, "the networkx graph has no node attribute 'club'; it has none"),
        (nx.path_graph(3), {"weights": "km"}, "the networkx graph has no edge attribute 'km'"),
        (nx.path_graph(3), {"weights": [1.0]}, "expected a number for each of 2 edges"),
        (pd.DataFrame({"buys": [1, 2, 5], "what": [5, 6, 7]}), {}, "edges in .*: 'buys' and 'what' both hold 5; if .*"
         "name both ends: graph__source_column='buys', graph__target_column='what'; otherwise write ids that differ"),
        (pd.DataFrame({"when": ["2024-01-01", "2024-01-02"], "who": ["a", "b"]}), {}, "'when' has dates; if these are "
         "nodes, name both ends: graph__source_column='when', graph__target_column='who'"),
        (pd.DataFrame({"who": [*"abcdefghij"], "job": [*"xy" * 5], "age": range(10)}), {}, "a 'who' of its own, as in a"
         r" table of nodes, which is read beside one of edges: fit\(EDGES, nodes=...\); if it has edges, name both"),
        (pd.DataFrame({"who": [1]}), {}, "edges in memory has one column, who; expected two columns of ids"),
        (EDGES, {"nodes": EDGES}, "nodes in memory: no column 'id' .*; it has .*; name another: graph__id_column="),
        (EDGES, {"nodes": pd.DataFrame({"id": [7]})}, r'or let graph__unknown_ids="add" \(or drop\) do so'),
        (EDGES, {"nodes": pd.DataFrame({"id": [1, 2]})}, "edges in memory: row 2: target 3 is not an id of the node"),
        (EDGES, {"nodes": [1, 2, 3]}, "nodes: expected a table of pandas, polars or pyarrow, or the path"),
        (EDGES, {"labels": [1, 2]}, "labels has 2 rows, expected one per node"),
        (EDGES, {"nodes": pd.DataFrame({"id": ["01"]})}, "are text; read .in pandas with dtype=str. both tables"),
        (EDGES, {"weights": "km"}, "no column 'km'"),
        (pd.DataFrame({"source": [1, "a"], "target": [2, 3]}), {}, "memory: column 'source' mixes types, as in 1 "
         r"and 'a'; make it text: df\['source'\] = df\['source'\].astype\(str\)"),
        (EDGES, {"nodes": pd.DataFrame({"id": [1, 2], "x": ["a", 2]})}, "nodes in memory: column 'x' mixes types"),
        (pd.DataFrame({"source": [uuid.UUID(int=1)], "target": [uuid.UUID(int=2)]}), {}, "source is of type extens.*, "
         r"expected integers or text; make it text: df\['source'\] = df\['source'\].astype\(str\)"),
        (EDGES, {"nodes": TOWNS, "labels": TOWNS.town}, LEAK),
        (EDGES, {"nodes": pa.Table.from_pandas(TOWNS), "labels": ["Rome", None, "Oslo"]}, LEAK),
        (EDGES, {"nodes": MORE, "labels": np.array([0, -1, 1, 0, -1, 1])}, "these are codes of the values of the col"),
        (EDGES, {"labels": pd.Series([7, 8, 9], index=[1, 2, 4])}, "labels: expected rows in the order of the nodes or "
         r"indexed like them, and the index has 4, which is none of them; give .* with .to_numpy\(\)"),
        (EDGES, {"features": pd.DataFrame({"x": [1, 2, 3]}, index=[1, 1, 2])}, "does not have each of them once"),
        (EDGES, {"labels": {1: "a", 7: "b"}}, "labels: 7 is a key of the dict and no node of the graph; expected ids"),
        (EDGES, {"weights": pd.Series([1, 2], index=[1, 2])}, "the index has 2, .*; give the index of the table of"),
        (nx.Graph([("a", "b", {"since": "old"}), ("b", "c")]), {"weights": "since"}, "graph: 'since' of the edge "
         "from .a. to .b. is .old., expected a number; correct it, give a number per edge: weights="),
        (nx.Graph([(0, 1, {"weight": {"kg": 3}}), (1, 2)]), {}, "'weight' of the edge from 0 to 1 is {'kg': 3}, exp"),
        (nx.path_graph(3), {"weights": pd.Series([1, 2], index=[1, 2])}, "the index has 1, .*; give rows in the order"),
        (EDGES, {"labels": "town"}, "labels: 'town' is a column of a table of nodes; give that too: nodes=..."),
        (EDGES, {"features": ["age"]}, "features: 'age' is a column of a table of nodes; give that too"),
        (EDGES.astype(float), {}, "of type double, expected integers or text; pandas has decimals where an id is miss"),
        ([(0, 1), (1, 2)], {}, r"a graph, got list; of pairs of numbers give numpy.array\(pairs\).T, of others pandas"),
        (nx.Graph([(1, "1"), ("1", "b")]), {}, "the nodes 1 and '1' both become the text '1'; give one of them"),
        ("nowhere.csv", {}, "nowhere.csv does not exist; give the path of an edge file"),
        (EDGES, {"nodes": "nowhere.csv"}, "nowhere.csv does not exist"),
    ],
)  # fmt: skip
def test_what_fits_not_is_refused_in_a_sentence_and_nothing_is_left(graph, beside, sentence, tmp_path):
    with pytest.raises(GraphError, match=sentence):
        gscl_scale.fit(graph, SMALL | {"graph": {}}, run=tmp_path / "run", **beside)
    assert not (tmp_path / "run").exists()


def read(graph, section=None, **beside):
    """(graph, its manifest's notes) as a run would have it."""
    given = given_graph(graph, Beside(**beside))
    with graph_of(given, config_for(given, {"graph": section or {}})) as found:
        return Graph.open(found.folder), found.manifest["notes"]


def test_networkx_nodes_are_ids_and_attributes_are_read_if_they_are_named():
    graph = nx.Graph([("ann", "bob", {"weight": 2.0}), ("bob", "cy")])
    nx.set_node_attributes(graph, {"ann": 31, "bob": 44}, "age")
    nx.set_node_attributes(graph, {"ann": "x", "bob": "y", "cy": "x"}, "team")
    found, notes = read(graph)
    assert found.ids.to_pylist() == ["ann", "bob", "cy"]
    assert found.edge_weights.tolist() == [2, 2, 1, 1]  # an edge without weight has weight 1
    text = nx.Graph([("ann", "bob", {"km": "2.5"}), ("bob", "cy")])
    assert read(text, weights="km")[0].edge_weights.tolist() == [2.5, 2.5, 1, 1]
    assert (found.num_own, found.labels) == (0, None)
    assert "node attributes that are not read: age, team; features=[...] reads those that it names" in notes
    found, notes = read(graph, labels="team", features=["age"])
    assert found.feature_columns == ["age", "age is missing"]
    assert (found.classes, found.labels.tolist()) == (["x", "y"], [0, 1, 0])
    assert not any("not read" in note for note in notes)


def test_other_networkx_nodes_become_text_and_a_directed_graph_says_how_it_is_read():
    found, notes = read(nx.grid_2d_graph(2, 2))
    assert found.ids.to_pylist() == ["(0, 0)", "(0, 1)", "(1, 0)", "(1, 1)"]
    assert any(note.startswith("nodes are not all integers or text: ids are their text") for note in notes)
    graph = nx.DiGraph([(0, 1), (1, 2)])
    found, notes = read(graph)
    assert found.undirected
    assert any(note.startswith("the graph is directed; edges are followed in both") for note in notes)
    found, notes = read(graph, {"undirected": False})
    assert (found.indices.tolist(), any("directed;" in note for note in notes)) == ([1, 2], False)


def test_a_sparse_tensor_is_an_adjacency():
    found, _ = read(
        torch.sparse_coo_tensor([[0, 1], [1, 2]], [1.0, 0.5], (4, 4), check_invariants=True), {"undirected": False}
    )
    assert (found.num_nodes, found.indices.tolist(), found.edge_weights.tolist()) == (4, [1, 2], [1, 0.5])


@pytest.mark.parametrize("names", [("src", "dst"), ("From", "To"), ("u", "v"), ("town", "next"), ("target", "source")])
def test_usual_names_of_columns_are_recognized(names):
    edges = pd.DataFrame({names[0]: ["b", "c"], names[1]: ["c", "a"]}, index=[7, 5])
    found, _ = read(edges, {"undirected": False})
    ends = {
        (found.ids[v].as_py(), found.ids[u].as_py())
        for v in range(3)
        for u in found.indices[slice(*found.indptr[v : v + 2])]
    }
    assert ends == {("b", "c"), ("c", "a")} if names[0] != "target" else {("c", "b"), ("a", "c")}


def test_columns_are_those_that_are_named_then_those_of_the_config_then_the_usual_ones():
    edges = pd.DataFrame({"src": [1, 2], "dst": [2, 3], "weight": [1.0, 2.0], "km": [5.0, 7.0], "miles": [3.0, 4.0]})
    assert set(read(edges)[0].edge_weights.tolist()) == {1, 2}
    assert set(read(edges, {"weight_column": "km"})[0].edge_weights.tolist()) == {5, 7}
    assert set(read(edges, {"weight_column": "km"}, weights="miles")[0].edge_weights.tolist()) == {3, 4}
    assert set(read(edges, weights=np.array([8, 9]))[0].edge_weights.tolist()) == {8, 9}
    nodes = pd.DataFrame({"age": [31, 44, 52], "team": list("xyx")}, index=[3, 1, 2])
    found, _ = read(edges, nodes=nodes, labels="team", features=["age"])
    assert (found.ids.to_pylist(), found.feature_columns, found.classes) == ([3, 1, 2], ["age"], ["x", "y"])
    found, _ = read(edges, {"unknown_ids": "add"}, nodes=nodes.iloc[:2])
    assert found.ids.to_pylist() == [3, 1, 2]


def test_ends_without_usual_names_are_found_as_in_files():
    table = {"kunde": ["a", "b"], "freund": ["b", "c"], "when": ["2024-01-01", "2024-01-02"], "gewicht": [2.0, 3.0]}
    found, _ = read(pd.DataFrame(table))
    assert (found.ids.to_pylist(), set(found.edge_weights.tolist())) == (["a", "b", "c"], {2, 3})
    pairs = pd.DataFrame({"buys": [1, 2, 5], "what": [5, 6, 7]})
    named = {"source_column": "buys", "target_column": "what"}
    given = given_graph(pairs, Beside(settings=named))
    with graph_of(given, config_for(given, {"graph": named})) as found:
        assert found.num_nodes == 5
    found, _ = read(pd.DataFrame([[0, 1], [1, 2]]))
    assert found.num_nodes == 3


def test_ids_without_a_usual_name_are_the_first_column_with_a_value_of_its_own_in_each_row():
    edges = pd.DataFrame({"src": ["m1", "m2"], "dst": ["m2", "m3"]})
    nodes = pd.DataFrame({"city": list("xyx"), "member no": ["m1", "m2", "m3"], "code": list("uvw")})
    found, _ = read(edges, nodes=nodes)
    assert found.ids.to_pylist() == ["m1", "m2", "m3"]
    with pytest.raises(GraphError, match="'nobody'"):
        read(edges, {"id_column": "nobody"}, nodes=nodes)


def test_a_gap_in_an_attribute_of_a_graph_made_from_a_table_is_a_gap():
    graph = nx.from_pandas_edgelist(EDGES)
    nx.set_node_attributes(graph, {1: "x", 2: np.nan, 3: "y"}, "team")
    nx.set_node_attributes(graph, {1: np.nan, 2: "left", 3: "right"}, "side")
    found, _ = read(graph, labels="team", features=["side"])
    assert (found.classes, found.labels.tolist()) == (["x", "y"], [0, -1, 1])
    assert found.feature_columns == ["side=left", "side=right", "side is missing"]


def test_a_file_of_nodes_beside_a_table_is_recognized_as_on_the_command_line(tmp_path):
    (tmp_path / "nodes.csv").write_text("kind;weight in kg;person\na;1.5;1\n;2.5;2\na;3.5;3\n")
    found, _ = read(EDGES, nodes=str(tmp_path / "nodes.csv"))
    assert found.ids.to_pylist() == [1, 2, 3]
    assert "weight in kg" in found.feature_columns


def test_named_ends_of_a_file_are_those_that_are_read(tmp_path):
    (tmp_path / "calls.csv").write_text("day,from whom,to whom\n2026-03-01,a,b\n2026-03-02,b,c\n")
    with pytest.raises(GraphError, match=r"'day' has dates; name both ends: graph__source_column='from whom'"):
        gscl_scale.fit(tmp_path / "calls.csv", SMALL | {"graph": {}})
    named = {"source_column": "from whom", "target_column": "to whom"}
    given = given_graph(tmp_path / "calls.csv", Beside(settings=named))
    with graph_of(given, config_for(given, {"graph": named})) as found:
        assert found.ids.to_pylist() == ["a", "b", "c"]


def test_an_embedder_takes_the_columns_of_a_table_by_set_params_and_says_so():
    edges = pd.DataFrame({"day": ["x", "y", "z"], "caller": [1, 2, 3], "called": [2, 3, 1]})
    names = {"graph__source_column": "caller", "graph__target_column": "called"}
    with pytest.raises(ConfigError, match="give graph__source_column to set_params"):
        NodeEmbedder(SMALL).fit(edges, **names)
    plain = {name: section for name, section in SMALL.items() if name != "graph"}
    embedder = NodeEmbedder(plain).set_params(**names)
    assert embedder.get_params()["graph__source_column"] == "caller"
    assert embedder.fit_transform(edges).shape[0] == 3


def test_a_lazy_frame_of_polars_is_answered_with_how_it_becomes_a_table():
    pl = pytest.importorskip("polars")
    for graph, beside in ((pl.from_pandas(EDGES).lazy(), {}), (EDGES, {"nodes": pl.from_pandas(TOWNS).lazy()})):
        with pytest.raises(GraphError, match=r"expected a .* got LazyFrame; call \.collect\(\) on it$"):
            gscl_scale.fit(graph, **beside)


def test_text_and_categories_of_polars_are_read():
    pl = pytest.importorskip("polars")
    edges = pl.DataFrame({"source": ["a", "b", "b"], "target": ["b", "c", "d"]})
    kinds = pl.Series(["red", "red", "blue", "blue"], dtype=pl.Categorical)
    found, _ = read(edges, nodes=pl.DataFrame({"id": list("abcd"), "kind": kinds}))
    assert found.feature_columns == ["kind=blue", "kind=red"]


def test_new_nodes_of_a_table_are_read_as_those_of_the_training_and_need_no_labels():
    edges, nodes = (table.to_pandas() for table in (forms.pyarrow_tables()[0], forms.pyarrow_tables()[1]["nodes"]))
    nodes["town"] = np.where(nodes.id % 2, "north", "south")
    nodes = nodes.rename(columns={"label": "group"})
    embedder = NodeEmbedder({**SMALL, "graph": {"structure": "none"}})
    vectors = embedder.fit_transform(edges, nodes=nodes, labels="group")
    np.testing.assert_allclose(embedder.transform(edges, nodes=nodes), vectors, atol=1e-6)
    few = nodes[nodes.town == "north"].drop(columns="group")  # in which the column town has one value
    inside = edges[edges.source.isin(few.id) & edges.target.isin(few.id)]
    assert embedder.transform(pa.Table.from_pandas(inside), nodes=few).shape == (150, 8)
    with pytest.raises(
        GraphError, match="nodes in memory: column 'town' is missing; the nodes had it in the training: give"
    ):
        embedder.transform(edges, nodes=nodes.drop(columns="town"))
    with pytest.raises(
        GraphError, match="column 'town' was read as one-hot in the training, and has other values here"
    ):
        embedder.transform(edges, nodes=nodes.assign(town=[[1.0]] * len(nodes)))


def test_a_graph_without_the_nodes_of_the_training_is_answered_with_their_columns():
    plain = {name: section for name, section in SMALL.items() if name != "graph"}
    embedder = NodeEmbedder(plain).fit(EDGES, nodes=MORE[["id"]].assign(age=range(6), town="x"), features=["age"])
    with pytest.raises(GraphError, match=r"bring the columns of the training by nodes=... or features=\[...\]: age$"):
        embedder.transform(EDGES)


def test_weights_that_were_given_in_the_training_are_asked_for_again():
    plain = {name: section for name, section in SMALL.items() if name != "graph"}
    embedder = NodeEmbedder(plain).fit(EDGES, weights=[1.0, 2.0])
    assert embedder.transform(EDGES, weights=[1.0, 2.0]).shape[0] == 3
    with pytest.raises(
        GraphError, match=r"no edge weights, and the encoder was trained with some; give weights=... as"
    ):
        embedder.transform(EDGES)


BELOW_0 = {
    "networkx": lambda: nx.Graph([(0, 1, {"weight": -1.0}), (1, 2, {"weight": 2.0})]),
    "sparse": lambda: sp.csr_array(np.array([[0, -1, 0], [0, 0, 2], [0, 0, 0]])),
    "table": lambda: EDGES.assign(weight=[-1.0, 2.0]),
    "pyg": lambda: Data(edge_index=torch.tensor([[0, 1], [1, 2]]), edge_weight=torch.tensor([-1.0, 2.0])),
}


@pytest.mark.parametrize("form", BELOW_0)
def test_weights_false_leaves_the_weights_of_a_graph_out_as_the_refusal_of_one_says(form):
    graph = BELOW_0[form]()
    with pytest.raises(GraphError, match=r"-1; expected a number above 0 .*weights=False"):
        gscl_scale.fit(graph, SMALL | {"graph": {}})
    assert read(graph, weights=False)[0].edge_weights is None
    plain = {name: section for name, section in SMALL.items() if name != "graph"}
    embedder = NodeEmbedder(plain).fit(graph, weights=False)
    assert embedder.transform(graph, weights=False).shape[0] == 3


def test_weights_of_files_are_left_out_too(tmp_path):
    np.savez(tmp_path / "few.npz", edge_index=np.array([[0, 1], [1, 2]]), edge_weight=np.array([1.0, 2.0]))
    EDGES.assign(weight=[1.0, 2.0]).to_csv(tmp_path / "few.csv", index=False)
    for name in ("few.npz", "few.csv"):
        assert gscl_scale.fit(tmp_path / name, SMALL | {"graph": {}}, weights=False).graph.edge_weights is None
    with pytest.raises(GraphError, match="the folder of a run or a graph takes no weights beside it"):
        given_graph(gscl_scale.fit(EDGES, SMALL | {"graph": {}}, run=tmp_path / "run").folder, Beside(weights=False))


def test_no_column_of_weights_leaves_those_of_a_networkx_graph_out():
    graph = BELOW_0["networkx"]()
    found = gscl_scale.fit(graph, SMALL | {"graph": {}}, graph__weight_column=None)
    assert found.graph.edge_weights is None


def test_a_run_of_tables_in_memory_is_read_again_and_other_tables_are_refused(tmp_path):
    edges, beside = forms.pandas_tables()
    first = gscl_scale.fit(edges, SMALL, run=tmp_path / "run", **beside)
    again = gscl_scale.fit(edges, SMALL, run=tmp_path / "run", **beside)
    np.testing.assert_array_equal(first, again)
    with pytest.raises(gscl_scale.GsclError, match="was made from another graph"):
        gscl_scale.fit(edges.iloc[1:], SMALL, run=tmp_path / "run", **beside)


def test_notes_and_refusals_about_the_columns_of_a_table_in_memory_name_settings_of_python():
    edges = pd.DataFrame({"source": range(100), "target": np.arange(100)[::-1]})
    nodes = pd.DataFrame({"id": range(100), "zip": [f"{row:05}" for row in range(100)], "age": range(5, 405, 4)})
    _, notes = read(edges, nodes=nodes)
    assert any("or give its type: graph__column_types={'zip': 'category'}" in note for note in notes)
    nodes["age"] = [*nodes.age[:-1].astype(str), "old"]
    with pytest.raises(GraphError, match=r"'age' is 'old', .*: graph__column_types=\{'age': 'category'\} \(or text"):
        read(edges, nodes=nodes)
