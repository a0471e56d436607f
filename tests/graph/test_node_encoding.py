"""Another table is read as the one that an encoder was trained on, or refused."""

import json
from pathlib import Path

import pytest

from gscl_scale.errors import FolderError, GraphError
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources.tables import encoding_in
from tests.graph.tables import PAIR, ingest

BEFORE = {
    "id": ["a", "b", "c", "d"],
    "age": [10.0, None, 30.0, 50.0],
    "plan": ["s", "t", "s", "t"],
    "since": ["1970-01-02", "1970-01-03", "1970-01-02", "1970-01-03"],
}
LATER = {
    "id": ["a", "b", "x"],
    "plan": ["t", "new", None],
    "extra": [1, 2, 3],
    "age": [None, 7.0, 8.0],
    "since": [None, "1970-01-05", "1970-01-06"],
}


@pytest.fixture
def before(tmp_path):
    ingest(tmp_path / "before", PAIR, BEFORE, kind=".csv")
    return tmp_path / "before"


def test_the_encoding_of_an_earlier_table_is_used_for_another_one(before, tmp_path):
    graph = ingest(tmp_path / "later", PAIR, LATER, kind=".csv", encoding=before)
    earlier = Graph.open(before / "graph")
    assert graph.feature_columns == earlier.feature_columns
    assert graph.feature_columns == ["age", "age is missing", "plan=s", "plan=t", "since (days)"]
    assert graph.features.tolist() == [[30, 1, 0, 1, 1.5], [7, 0, 0, 0, 4], [8, 0, 0, 0, 5]]
    assert graph.manifest["encoding"] == earlier.manifest["encoding"] == encoding_in(before / "graph")
    for note in (
        "column plan has values that its encoding does not know: new",
        "1 missing values of since are not marked: its encoding has seen none",
    ):
        assert note in graph.manifest["notes"]
    assert {one["name"]: one["made"] for one in graph.manifest["columns"]}["extra"].endswith(
        "not used by graph.encoding"
    )
    assert not any("left out" in note for note in graph.manifest["notes"])


def test_without_it_other_columns_are_refused_by_name(before, tmp_path):
    graph, earlier = ingest(tmp_path / "later", PAIR, LATER, kind=".csv"), Graph.open(before / "graph")
    with pytest.raises(
        GraphError, match=r"new has 'extra' as feature column 1.*; bring .*, or ingest .*--set graph.encoding=runs/a$"
    ):
        graph.refuse_other_features(earlier.feature_blocks, earlier.feature_columns, "new", Path("runs/a"))
    other = ingest(tmp_path / "other", PAIR, BEFORE | {"plan": ["s", "u", "s", "u"]}, kind=".csv")
    says = r"new has 'plan=u' as feature column 4, the encoder was trained on 'plan=t'.* \(graph.feature_columns\)$"
    with pytest.raises(GraphError, match=says):
        other.refuse_other_features(earlier.feature_blocks, earlier.feature_columns, "new")


@pytest.mark.parametrize(
    ("nodes", "sentence"),
    [
        (
            {"id": ["a", "b"], "age": [1, 2]},
            "column 'plan' is needed by graph.encoding, and the table has no such column",
        ),
        (LATER | {"age": [[1], [2], [3]]}, "column 'age' is read as number by graph.encoding, .* other values"),
        (LATER | {"age": ["x", "y", "z"]}, "row 1: feature 'age' is 'x', expected a number"),
    ],
)
def test_a_table_that_does_not_fit_an_encoding_is_refused(before, tmp_path, nodes, sentence):
    with pytest.raises(GraphError, match=sentence):
        ingest(tmp_path / "later", PAIR, nodes, encoding=before)


@pytest.mark.parametrize(
    "flaw",
    [{"width": 2}, {"kind": "days"}, {"kind": "hashed", "width": 65}, {"kind": "one-hot"}, {"width": 0, "fill": []}],
)
def test_an_encoding_that_nothing_wrote_is_refused(before, tmp_path, flaw):
    manifest = before / "graph/manifest.json"
    content = json.loads(manifest.read_text())
    content["encoding"][0] |= flaw
    del content["checksum"]
    manifest.write_text(json.dumps(content))
    with pytest.raises(FolderError, match="the stored encoding of column 'age' is damaged; ingest"):
        ingest(tmp_path / "a", PAIR, LATER, encoding=before)


def test_a_folder_without_an_encoding_is_refused(before, tmp_path):
    with pytest.raises(GraphError, match=r"graph.encoding: .* holds no graph; name the folder of a run"):
        ingest(tmp_path / "a", PAIR, LATER, encoding=tmp_path / "nowhere")
    manifest = before / "graph/manifest.json"
    content = json.loads(manifest.read_text())
    del content["encoding"], content["columns"], content["checksum"]
    manifest.write_text(json.dumps(content))
    Graph.open(before / "graph")  # as a folder of an earlier version
    with pytest.raises(GraphError, match="was not made from a node table, or by an earlier version; name another"):
        ingest(tmp_path / "b", PAIR, LATER, encoding=before)
