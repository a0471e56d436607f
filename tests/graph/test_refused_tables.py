"""Edge and node tables that are refused."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources import tablefiles, textfiles
from gscl_scale.graph.sources.read import read
from tests.graph.tables import AB, PAIR, ingest, save, tables

REFUSED = {
    "an unknown id": (
        {"source": ["a", "z"], "target": ["b", "a"]},
        AB,
        "edges.parquet: row 2: source 'z' is not an id",
    ),
    "an unknown number": ({"source": [1], "target": [4]}, {"id": [1, 2]}, "row 1: target 4 is not an id"),
    "numbers for text": ({"source": [1], "target": [2]}, AB, "are integers and those of the node table are text"),
    "text for numbers": (PAIR, {"id": [1, 2]}, "are text and those of the node table are integers; write both"),
    "two kinds of ends": ({"source": ["a"], "target": [2]}, None, "ids in target are integers and those in source"),
    "no source": ({"target": ["b"]}, AB, r"no column 'source' \(graph.source_column\); it has target"),
    "no id": (PAIR, {"key": ["a", "b"]}, r"nodes.parquet: no column 'id' \(graph.id_column\); it has key"),
    "an empty end": (
        {"source": ["a", None], "target": ["b", "a"]},
        AB,
        "row 2: source is empty; expected an id, correct or drop the row, or let --set graph.unknown_ids=drop do so",
    ),
    "an empty text": ({"source": ["a", ""], "target": ["b", "a"]}, None, "row 2: source is empty"),
    "an empty id": (PAIR, {"id": ["a", "b", None]}, "row 3: id is empty"),
    "ids of floats": (
        {"source": [1.0], "target": [2.0]},
        None,
        "source is of type double, expected integers or text; pandas has",
    ),
    "huge ids": (
        dict.fromkeys(("source", "target"), pa.array([2**63], pa.uint64())),
        None,
        r"2\^63; write them as text",
    ),
    "no nodes": (PAIR, {"id": pa.array([], pa.string())}, "has no rows; expected one row per node"),
    "no edges and no nodes": (dict.fromkeys(("source", "target"), pa.array([], pa.string())), None, "empty"),
    "an unknown part": (PAIR, AB | {"split": ["train", "dev"]}, "row 2: split is 'dev', expected train, val, test"),
    "a part of numbers": (PAIR, AB | {"split": [1, 2]}, "split is of type int64, expected text"),
    "labels that are lists of fractions": (PAIR, AB | {"label": [[0.5], [1]]}, "expected lists of names or whole"),
    "labels that are a vector": (PAIR, AB | {"label": [[0, 1], [0, 0]]}, "row 2: 'label' has a label twice, expected"),
    "labels that are lists of lists": (PAIR, AB | {"label": [[["a"]], [["b"]]]}, "expected lists of names or whole"),
    "labels that are structures": (PAIR, AB | {"label": [{"x": 1}, {"x": 2}]}, "expected integers or text"),
    "an empty feature": (PAIR, AB | {"x": [1.0, None]}, "row 2: feature 'x' is empty; fill it"),
    "a list with a gap": (PAIR, AB | {"x": [[1, 2], [3, None]]}, "row 2: feature 'x' is empty"),
    "an empty list": (PAIR, AB | {"x": [[1, 2], None]}, "row 2: feature 'x' is empty"),
    "lists of two lengths": (PAIR, AB | {"x": [[1, 2], [3]]}, "row 2: feature 'x' has 1 numbers, the rows before"),
    "lists of lists": (PAIR, AB | {"x": [[[1]], [[2]]]}, "expected lists of numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_tables_are_refused_in_one_sentence(tmp_path, case):
    edges, nodes, sentence = REFUSED[case]
    with pytest.raises(GraphError, match=sentence) as caught:
        ingest(tmp_path, edges, nodes, missing="refuse")
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "graph").exists()


WEIGHTS = {
    "a missing one": ([1.0, None, 2.0], "edges.parquet: row 2: kg is missing: None; expected the weight of the edge"),
    "NaN": ([1.0, float("nan"), 2.0], "row 2: kg is missing"),
    "zero": ([1.0, 0.0, 2.0], "row 2: kg is 0; expected a number above 0 .*: an edge of weight 0 is no edge, drop it"),
    "a negative one": ([1.0, 2.0, -3.5], "row 3: kg is -3.5; expected a number above 0"),
    "infinity": ([1.0, float("inf"), 2.0], "row 2: kg is inf; expected"),
    "too much": ([1.0, 1e300, 2.0], "row 2: kg is 1e\\+300; expected"),
    "text": (["1", "2", "many"], "row 3: kg is not a number: 'many'"),
    "a list": ([[1.0], [2.0], [3.0]], "kg is of type list<.*>, expected weights .graph.weight_column."),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_weights_that_are_none_are_refused_with_row_and_column(tmp_path, case):
    weights, sentence = WEIGHTS[case]
    edges = {"source": ["a", "b", "c"], "target": ["b", "c", "d"], "kg": weights}
    with pytest.raises(GraphError, match=sentence) as caught:
        ingest(tmp_path, edges, weight_column="kg")
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "graph").exists()


def test_a_weight_column_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(GraphError, match=r"no column 'kg' \(graph.weight_column\); it has source, target"):
        ingest(tmp_path, PAIR, weight_column="kg")
    with pytest.raises(ValueError, match="weight_column is 'target', which holds ids; name the column of the weights"):
        tables(tmp_path, PAIR, weight_column="target")


def test_a_feature_column_that_cannot_be_read_is_refused_when_it_is_named(tmp_path):
    nodes = AB | {"both": [{"x": 1}, {"x": 2}], "empty": [None, ""], "title": ["x", "y"]}
    with pytest.raises(GraphError, match=r"feature 'both' is of type struct<.*, expected numbers, dates, text"):
        ingest(tmp_path / "a", PAIR, nodes, feature_columns=["both"])
    with pytest.raises(GraphError, match=r"feature 'empty' has no values; leave it out of graph.feature_columns"):
        ingest(tmp_path / "b", PAIR, nodes, feature_columns=["empty"])
    with pytest.raises(GraphError, match=r"no column 'height' \(graph.feature_columns\); it has id, both, empty"):
        ingest(tmp_path / "c", PAIR, nodes, feature_columns=["height"])
    with pytest.raises(GraphError, match=r"row 1: feature 'title' is 'x', expected a number \(2 such cells\); correct"):
        ingest(tmp_path / "d", PAIR, nodes, column_types={"title": "number"})


def test_lists_that_change_their_length_between_files_are_refused(tmp_path):
    save(tmp_path / "nodes" / "1.parquet", {"id": ["a"], "x": [[1, 2]]})
    save(tmp_path / "nodes" / "2.parquet", {"id": ["b"], "x": [[1]]})
    config = tables(tmp_path, PAIR).model_copy(update={"nodes": tmp_path / "nodes"})
    with pytest.raises(GraphError, match=r"2.parquet: row 1: feature 'x' has 1 numbers, the rows before have 2"):
        read(config)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "is truncated, empty, or not a table"),
        ("source,target", "is truncated, empty, or not a table"),
        ("source,target\n1,2\n3\n", r"line 3 has 1 cells \(3\), the first row has 2; correct or drop the line"),
        ("source,target\n1,\n", "line 2: target is empty"),
        ("source,source\n1,2\n", "more than one column 'source'"),
        (
            "source;target\n1;2\n",
            r"no column 'source' \(graph.source_column\); it has one, 'source;target': set graph.sep",
        ),
        ("one|two\n1|2\n", r"no column 'source' \(graph.source_column\); it has one\|two$"),
        ("source,target\n1,a17\n", "line 2: target is 'a17' and the node table's ids are integers"),
        ("source,target\n1,2\n1,9\n", "line 3: target 9 is not an id"),
        (b"source,target\n\xff\xfe,3\n", "line 2 is not UTF-8 text"),
    ],
)
def test_bad_csv_files_are_refused_in_one_sentence(tmp_path, content, sentence):
    with pytest.raises(GraphError, match=sentence) as caught:
        ingest(tmp_path, content, {"id": [1, 2, 3]}, kind=".csv")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [".parquet", ".csv.gz"])
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_truncated_files_are_refused(tmp_path, kind, kept):
    ends = np.random.default_rng(0).integers(0, 1000, (5000, 2))
    config = tables(tmp_path, {"source": ends[:, 0], "target": ends[:, 1]}, kind=kind)
    whole = config.edges.read_bytes()
    config.edges.write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(GraphError, match=rf"edges{kind} is truncated, empty, or not a table"):
        read(config)


def test_a_parquet_file_with_damaged_pages_is_refused(tmp_path):
    config = tables(tmp_path)
    content = config.edges.read_bytes()
    config.edges.write_bytes(content[:4] + bytes(56) + content[60:])
    with pytest.raises(GraphError, match="is truncated, empty, or not a table"):
        write_graph(read(config), config, tmp_path / "graph")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("none.csv", "not exist; check graph.edges"), ("empty", "holds no table"), ("a.doc", "unknown kind of table")],
)
def test_a_path_to_no_table_is_refused(tmp_path, name, sentence):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.doc").touch()
    with pytest.raises(GraphError, match=sentence):
        read(TablesGraph(source="tables", edges=tmp_path / name))


@pytest.mark.parametrize(("kind", "place"), [(".parquet", "row 100"), (".csv", "line 101")])
def test_rows_are_counted_across_all_batches_of_a_file(tmp_path, monkeypatch, kind, place):
    monkeypatch.setattr(tablefiles, "ROWS_AT_ONCE", 7)
    monkeypatch.setattr(textfiles, "_BLOCK", 64)
    edges = {"source": [1] * 99 + [4], "target": [2] * 100}
    with pytest.raises(GraphError, match=f"{place}: source 4 is not an id"):
        ingest(tmp_path / "edges", edges, {"id": [1, 2]}, kind=kind)
    nodes = {"id": range(100), "x": [1.0] * 99 + [None], "split": [None] * 100}
    table = pd.DataFrame(nodes).convert_dtypes().to_dict("list")
    with pytest.raises(GraphError, match=f"{place}: feature 'x' is empty"):
        ingest(tmp_path / "empty", PAIR, table, kind=kind, missing="refuse")


def test_a_number_that_is_none_is_refused_with_its_line_in_the_whole_csv_file(tmp_path, monkeypatch):
    monkeypatch.setattr(textfiles, "_BLOCK", 64)
    rows = "".join(f"{number},{number}\n" for number in range(99))
    with pytest.raises(GraphError, match=r"nodes.csv: line 101: feature 'x' is 'abc', expected a number"):
        read(tables(tmp_path, PAIR, f"id,x\n{rows}99,abc\n", kind=".csv"))
