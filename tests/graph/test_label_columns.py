"""Node tables with many labels per node."""

import numpy as np
import pyarrow as pa
import pytest

from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError, GraphError
from gscl_scale.graph.sources import tablefiles
from tests.graph.tables import PAIR, ingest

IDS = {"id": ["a", "b", "c", "d"]}


def labels_of(graph):
    """The names of each node's labels."""
    matrix = graph.label_sets.of(np.arange(graph.num_nodes))
    return [[name for name, has in zip(graph.classes, row, strict=True) if has] for row in matrix]


@pytest.mark.parametrize(
    ("cells", "names"),
    [
        ([["red", "blue"], ["blue"], [], None], ["blue", "red"]),
        ([["red ", " blue"], ["blue", None, ""], [], None], ["blue", "red"]),
        ([[10, 9], [9], [], None], ["9", "10"]),
        (pa.array([["red", "blue"], ["blue"], [], None], pa.large_list(pa.string())), ["blue", "red"]),
    ],
)
def test_a_list_column_has_the_labels_of_each_node(tmp_path, cells, names):
    graph = ingest(tmp_path, PAIR, IDS | {"label": cells})
    assert graph.labels is None
    assert (graph.classes, labels_of(graph)) == (names, [names, names[:1], [], []])
    summary = next(one for one in graph.manifest["columns"] if one["name"] == "label")
    assert summary["made"] == "label"


@pytest.mark.parametrize("kind", [".parquet", ".csv"])
@pytest.mark.parametrize(("sign", "separator"), [(";", ";"), (";", "semicolon"), (",", "comma"), (" / ", " / ")])
def test_text_is_split_at_the_separator(tmp_path, kind, sign, separator):
    nodes = IDS | {"kind": [f"red{sign} blue", f"blue{sign}blue", "", None]}
    graph = ingest(tmp_path, PAIR, nodes, kind=kind, label_column="kind", label_separator=separator)
    assert labels_of(graph) == [["blue", "red"], ["blue"], [], []]


@pytest.mark.parametrize("kind", [".parquet", ".csv"])
@pytest.mark.parametrize("one", [1, True, 1.0])
def test_several_columns_mark_the_labels_of_each_node(tmp_path, kind, one):
    zero = type(one)(0)
    nodes = IDS | {
        "red": [one, zero, None, zero],
        "tall": [one, one, zero, zero],
        "none": [zero] * 4,
        "x": [1, 2, 3, 4],
    }
    graph = ingest(tmp_path, PAIR, nodes, kind=kind, label_column=["tall", "red", "none"], structure="none")
    assert labels_of(graph) == [["red", "tall"], ["tall"], [], []]
    assert (graph.classes, graph.num_features) == (["red", "tall"], 1)
    assert [one["made"] for one in graph.manifest["columns"]].count("label") == 3


@pytest.mark.parametrize(
    ("names", "word"),
    [
        (["news", "news;sport", "sport;art", "art; news"], "semicolon"),
        (["a|b", "b|c", "a|c", "a"], "pipe"),
        (["a,b", "b,c", "a,c", "b"], "comma"),
        (["Paris, France", "Lyon, France", "Rome, Italy", ""], ""),
        (["a;b", "c", "d", "e"], ""),
        (["a", "b", "c", "c"], ""),
    ],
)
def test_cells_that_seem_to_have_several_labels_get_a_note(tmp_path, names, word):
    graph = ingest(tmp_path, PAIR, IDS | {"label": names}, kind=".csv")
    assert graph.label_sets is None
    told = [note for note in graph.manifest["notes"] if "graph.label_separator" in note]
    seems = f"column label seems to have several labels in a cell; --set graph.label_separator={word} splits them"
    assert told == ([seems] if word else [])


def test_lists_with_one_name_each_are_classes(tmp_path):
    graph = ingest(tmp_path, PAIR, IDS | {"label": [["x"], ["y"], [], ["x"]]})
    assert (graph.classes, graph.labels.tolist(), graph.label_sets) == (["x", "y"], [0, 1, -1, 0], None)


def test_labels_are_read_a_part_at_a_time_and_nodes_that_only_edges_name_have_none(tmp_path, monkeypatch):
    monkeypatch.setattr(tablefiles, "ROWS_AT_ONCE", 1)
    edges = {"source": ["a", "z"], "target": ["b", "a"]}
    graph = ingest(tmp_path, edges, IDS | {"label": [["x", "y"], ["z"], ["y"], []]}, unknown_ids="add")
    assert labels_of(graph) == [["x", "y"], ["z"], ["y"], [], []]


REFUSED = {
    "a mark of 2": ({"p": [1, 2, 0, 0], "q": [0, 0, 0, 1]}, {"label_column": ["p", "q"]}, "row 2: label 'p' is 2"),
    "a mark in words": (
        {"p": ["1", "0", "?", "maybe"], "q": [0, 0, 0, 1]},
        {"label_column": ["p", "q"]},
        "row 4: label 'p' is 'maybe', expected 0 or 1 in each of several label columns",
    ),
    "marks that are lists": (
        {"p": [[1], [0], [1], [1]], "q": [0, 0, 0, 1]},
        {"label_column": ["p", "q"]},
        "label 'p' is of type list<.*>, expected 0 and 1",
    ),
    "a column that is not there": ({}, {"label_column": ["p", "q"]}, r"no column 'p' \(graph.label_column\)"),
    "numbers to split": (
        {"label": [1, 2, 3, 4]},
        {"label_separator": ";"},
        "'label' is of type int64, and graph.label_separator splits text; leave graph.label_separator out",
    ),
    "a label twice": ({"label": [["x"], ["y", "x", "y"], [], []]}, {}, "row 2: 'label' has a label twice"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_labels_are_refused_in_one_sentence(tmp_path, case):
    columns, options, sentence = REFUSED[case]
    with pytest.raises(GraphError, match=sentence) as caught:
        ingest(tmp_path, PAIR, IDS | columns, **options)
    assert str(caught.value).startswith(str(tmp_path))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "graph").exists()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"label_column": ["p", "q"], "label_separator": ";"}, "label_column names 2; leave label_separator out"),
        ({"label_column": None, "label_separator": ";"}, "label_column names 0; leave label_separator out"),
        ({"label_column": ["p", "p"]}, "label_column names a column twice"),
        ({"label_column": []}, "graph.label_column"),
        ({"label_separator": ""}, "graph.label_separator"),
    ],
)
def test_settings_of_labels_that_do_not_fit_together_are_refused(settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Config.parse({"graph": {"source": "tables", "edges": "edges.csv", **settings}})
