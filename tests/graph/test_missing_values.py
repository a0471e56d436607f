"""Cells that mean that a value is missing: those of the user, and numbers that look like them."""

import shlex

import numpy as np
import pandas as pd
import pytest

from gscl_scale.config.config import Config
from gscl_scale.errors import GraphError
from gscl_scale.graph.sources.column_profile import Lowest
from gscl_scale.retrain.work_folder import encoding_before
from tests.graph.tables import PAIR, ingest, tables
from tests.test_forms import read

AGES = ["31", "Not asked", "-999", "44", "", "52"]
NODES = {
    "id": [*"abcdef"],
    "age": AGES,
    "height": [170.5, -999.0, 160.0, -999.0, 181.0, 175.0],
    "city": ["Oslo", "not asked", "Oslo", "Voss", "Voss", "Oslo"],
    "label": ["x", "y", "-999", "x", "y", "not asked"],
}


def column(graph, name):
    return graph.features[:, graph.feature_columns.index(name)].tolist()


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_the_cells_that_the_user_names_are_missing_in_features_and_labels(tmp_path, kind):
    values = ["not asked", -999]
    graph = ingest(tmp_path, PAIR, NODES, kind=kind, missing_values=values, missing="zero")
    assert column(graph, "age") == [31, 0, 0, 44, 0, 52]
    assert column(graph, "age is missing") == [0, 1, 1, 0, 1, 0]
    assert column(graph, "height") == [170.5, 0, 160, 0, 181, 175]
    assert column(graph, "city is missing") == [0, 1, 0, 0, 0, 0]
    assert graph.classes == ["x", "y"]
    assert graph.labels.tolist() == [0, 1, -1, 0, 1, -1]
    assert {one["name"]: one["missing"] for one in graph.manifest["columns"]}["age"] == 3


def test_ids_are_never_missing_and_a_table_in_memory_is_read_alike():
    edges = pd.DataFrame({"source": ["a", "-999"], "target": ["-999", "b"]})
    nodes = pd.DataFrame({"id": ["a", "-999", "b"], "age": [3, -999, 5]})
    graph, _ = read(edges, {"missing_values": [-999]}, nodes=nodes)
    assert graph.ids.to_pylist() == ["a", "-999", "b"]
    assert column(graph, "age is missing") == [0, 1, 0]


def test_a_refused_cell_names_the_option_that_makes_it_missing(tmp_path):
    ages = [str(row % 50) for row in range(300)]
    ages[10::100] = ["n.a.?", "n.a.?", "can't say"]
    nodes = {"id": [*"ab", *map(str, range(298))], "age": ages}
    says = r"line 12: feature 'age' is 'n.a.\?', expected a number \(3 such cells\); .*--set (.*), or read the column"
    with pytest.raises(GraphError, match=says) as refused:
        ingest(tmp_path / "a", PAIR, nodes, kind=".csv")
    words = shlex.split(str(refused.value).partition("as missing: --set ")[2].partition(", or read")[0])
    assert words == ['graph.missing_values=["can\'t say", "n.a.?"]']
    graph = ingest(tmp_path / "b", PAIR, nodes, kind=".csv", missing_values=["can't say", "n.a.?"])
    assert sum(column(graph, "age is missing")) == 3
    with pytest.raises(GraphError, match=r"as missing: graph__missing_values=\[\"can't say\", \"n.a.\?\"\], or"):
        read(pd.DataFrame(PAIR), nodes=pd.DataFrame(nodes))


def test_of_many_odd_cells_some_are_named(tmp_path):
    ages = [str(row % 50) for row in range(300)]
    ages[10::40] = [f"about {row}" for row in range(8)]
    with pytest.raises(GraphError, match=r'missing_values=\["about 0", "about 1", "about 2", "about 3", \.\.\.\]'):
        ingest(tmp_path, PAIR, {"id": [*"ab", *range(298)], "age": ages}, kind=".csv")


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ([31, -999, 44, -999, 52], "(2 of -999)"),
        ([31, 999, 44, 999, 52], "(2 of 999)"),
        ([31.5, 9999, 44, 9999, 0], "(2 of 9999)"),
        ([31, -999, 44, 60, 52], None),  # once
        ([-31, -999, 44, -999, 52], None),  # there are other negative numbers
        ([31, 999, 444, 999, 52], None),  # others are nearly as large
        ([99, 99, 7, 8, 9], None),
        ([-999, -999, -999], None),
    ],
)
@pytest.mark.parametrize("as_text", [False, True])
def test_numbers_that_look_like_sentinels_are_noted(tmp_path, numbers, told, as_text):
    nodes = {"id": [*"abcde"[: len(numbers)]], "size": numbers}
    graph = ingest(tmp_path, PAIR, nodes, kind=".csv" if as_text else ".parquet")
    notes = [note for note in graph.manifest["notes"] if "far from all others" in note]
    assert len(notes) == (told is not None)
    if told:
        assert f"of their column: size {told}; if they mean a missing value: --set " in notes[0]


def test_the_lowest_number_of_a_stream_does_not_depend_on_how_it_is_cut():
    numbers = np.random.default_rng(1).integers(0, 9, 200).astype(np.float64)
    for pieces in (1, 3, 50, 200):
        lowest = Lowest()
        for part in np.array_split(numbers, pieces):
            lowest.add(part)
        assert (lowest.number, lowest.times, lowest.above) == (0, int((numbers == 0).sum()), 1)


def test_a_night_learns_its_columns_again_where_other_cells_are_missing(tmp_path):
    graph = ingest(tmp_path, PAIR, NODES, missing_values=["-999"])
    config = Config(graph=tables(tmp_path, PAIR, NODES, missing_values=["-999"]))
    assert encoding_before(config, graph) == graph.manifest["encoding"] != []
    other = Config(graph=tables(tmp_path, PAIR, NODES))
    assert encoding_before(other, graph) == []
    del graph.manifest["options"]["missing_values"]  # as an earlier version wrote it
    assert encoding_before(config, graph) == []
    assert encoding_before(other, graph) == graph.manifest["encoding"]
