"""Edges to ids that are not in the node table."""

import pytest

from gscl_scale.errors import GraphError
from tests.graph.tables import ingest, named_rows

EDGES = {"source": ["a", "z", "b", "y"], "target": ["b", "a", "y", "z"]}
NODES = {"id": ["b", "a"], "age": [4.0, 8.0], "label": ["u", "v"], "split": ["train", "test"]}


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_such_nodes_are_added_without_features_or_labels(tmp_path, kind):
    graph = ingest(tmp_path, EDGES, NODES, kind=kind, unknown_ids="add")
    assert graph.ids.to_pylist() == ["b", "a", "y", "z"]
    assert named_rows(graph) == {"a": {"b", "z"}, "b": {"a", "y"}, "y": {"b", "z"}, "z": {"a", "y"}}
    assert graph.feature_columns == ["age", "age is missing"]
    assert graph.features.tolist() == [[4, 0], [8, 0], [6, 1], [6, 1]]
    assert graph.labels.tolist() == [0, 1, -1, -1]
    assert graph.splits["split"].tolist() == [1, 3, 0, 0]
    assert "2 nodes that only edges name: added (graph.unknown_ids)" in graph.manifest["notes"]


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_such_edges_are_dropped_and_counted(tmp_path, kind):
    graph = ingest(tmp_path, EDGES, NODES, kind=kind, unknown_ids="drop")
    assert named_rows(graph) == {"a": {"b"}, "b": {"a"}}
    assert graph.feature_columns == ["age"]
    assert "3 edges to ids that are not in the node table: dropped (graph.unknown_ids)" in graph.manifest["notes"]


def test_numbers_are_added_as_numbers_and_dropped_if_they_are_none(tmp_path):
    edges, nodes = "source,target\n1,2\n2,7\n,1\n1,a17\n007,1\n", "id,label\n2,0\n1,3\n"
    graph = ingest(tmp_path / "drop", edges, nodes, kind=".csv", unknown_ids="drop")
    assert named_rows(graph) == {1: {2}, 2: {1}}
    assert any(note.startswith("4 edges to ids") for note in graph.manifest["notes"])
    graph = ingest(tmp_path / "add", edges[:22], nodes, kind=".csv", unknown_ids="add")
    assert (graph.ids.to_pylist(), graph.labels.tolist()) == ([2, 1, 7], [0, 1, -1])
    with pytest.raises(GraphError, match=r"line 5: source is 'a17' and the node table's ids|line 4: source is empty"):
        ingest(tmp_path / "text", edges, nodes, kind=".csv", unknown_ids="add")


def test_where_all_ids_are_known_nothing_changes(tmp_path):
    prints = {
        how: ingest(tmp_path / how, {"source": ["a"], "target": ["b"]}, NODES, unknown_ids=how).fingerprint
        for how in ("refuse", "add", "drop")
    }
    assert len(set(prints.values())) == 1


def test_the_refusal_names_the_setting_and_adding_needs_something_for_missing_features(tmp_path):
    with pytest.raises(GraphError, match=r"row 2: source 'z' is not an id of .*graph.unknown_ids=add \(or drop\)"):
        ingest(tmp_path / "a", EDGES, NODES)
    with pytest.raises(GraphError, match=r"adds nodes without features; set graph.missing to mean or zero"):
        ingest(tmp_path / "b", EDGES, NODES, unknown_ids="add", missing="refuse")


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("ids", "name", "alike"),
    [(["01", "02"], "1", "01"), (["anna", "b"], "Anna", "anna"), (["a", "b"], " a", "a"), (["a", "b"], "c", None)],
)
def test_an_id_that_is_only_spelt_otherwise_is_named(tmp_path, kind, ids, name, alike):
    edges = {"source": [ids[1], name], "target": [ids[0], ids[0]]}
    says = f"which has {alike!r}; write the ids of both tables alike" if alike else "add the node or drop the edge"
    with pytest.raises(GraphError, match=says):
        ingest(tmp_path, edges, {"id": ids, "size": [1.0, 2.0]}, kind=kind)
