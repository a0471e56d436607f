"""Numbers with a decimal comma, or with commas between thousands, as spreadsheets of many countries write them."""

import numpy as np
import pyarrow as pa
import pytest

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources.cells import DECIMAL_COMMA, numbers_of, sure_commas
from gscl_scale.graph.sources.node_cells import read_cells, shown_columns
from gscl_scale.graph.sources.read import read
from tests.graph.tables import PAIR, ingest, tables

BALANCES = ["1.234,50", "-3,1", "12", "n/a", "7.000", "0,125"]
NUMBERS = [1234.5, -3.1, 12, np.nan, 7000, 0.125]


def people(cells, **others):
    return {"id": [f"n{row}" for row in range(len(cells))], "balance": cells, **others}


EDGES = {"source": ["n0", "n1"], "target": ["n1", "n2"]}


@pytest.mark.parametrize("kind", [".csv", ".parquet"])
def test_a_column_of_them_is_one_of_numbers(tmp_path, kind):
    graph = ingest(tmp_path, EDGES, people(BALANCES), kind=kind, missing="zero")
    assert graph.feature_columns == ["balance", "balance is missing"]
    assert graph.features[:, 0].tolist() == np.float32(np.nan_to_num(NUMBERS)).tolist()
    balance = graph.manifest["columns"][1]
    assert (balance["type"], balance["missing"]) == ("number", 1)
    assert balance["made"].startswith("a number (decimal comma); missing ones")
    config = tables(tmp_path / "again", EDGES, people(BALANCES), kind=kind)
    (cells,) = read_cells(config, graph, shown_columns(config, graph), np.arange(6))
    np.testing.assert_array_equal(cells.numbers, NUMBERS)


@pytest.mark.parametrize(
    ("cells", "made"),
    [
        (["1,234.5", "2,000,000.25", "3.75"], "a number (comma between thousands: 1,234 is 1234)"),
        (["1,234", "-12", "n/a"], "a number (comma between thousands: 1,234 is 1234); missing ones"),
        (["1,234.50", "2000.25", "3,100.75"], "words and letters"),  # one of them has no comma where others have
        (["1,234.50", "2,00.25", "3,100.75"], "words and letters"),
        (["1,234", "0,567", "9,012"], "a number (decimal comma)"),
        (["12", "567", "7.5"], "a number"),
        (["1.5", "2.5", "3.5"], "a number"),
        (["1,5", "2.5", "3,5"], "words and letters"),
        (["1,5", "5,678", "9,012"], "a number (decimal comma)"),
    ],
)
def test_only_where_nothing_else_can_be_meant(tmp_path, cells, made):
    graph = ingest(tmp_path, EDGES, people(cells, age=[1, 2, 3]))
    assert graph.manifest["columns"][1]["made"].startswith(made)


def test_a_mistake_among_them_is_refused_with_its_place(tmp_path):
    cells = [f"{row},5" for row in range(40)] + ["1.5"]
    with pytest.raises(GraphError, match=r"row 41: feature 'balance' is '1.5', expected a number with a decimal comma"):
        ingest(tmp_path, EDGES, people(cells))


def test_the_encoding_reads_another_table_in_either_way(tmp_path):
    ingest(tmp_path / "before", EDGES, people(["1,5", "2,5", "4,25"]))
    for kind, cells in enumerate((["3", "5.000,5"], [3.0, 5000.5])):
        graph = ingest(
            tmp_path / str(kind), {k: v[:1] for k, v in EDGES.items()}, people(cells), encoding=tmp_path / "before"
        )
        assert graph.features[:, 0].tolist() == [3, 5000.5]


def test_commas_between_thousands_are_no_part_of_a_number(tmp_path):
    cells = ["1,234.50", "-2,000,000", "7", "n/a", "999.5"]
    (tmp_path / "nodes.csv").write_text("id;income\n" + "".join(f"n{at};{cell}\n" for at, cell in enumerate(cells)))
    (tmp_path / "edges.csv").write_text("source;target\nn0;n1\nn1;n2\n")
    config = TablesGraph(
        source="tables", edges=tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv", separator="semicolon",
        nodes_separator="semicolon", missing="zero",
    )  # fmt: skip
    graph = write_graph(read(config), config, tmp_path / "graph")
    assert graph.features[:, 0].tolist() == [1234.5, -2e6, 7, 0, 999.5]
    income = graph.manifest["columns"][1]
    assert (income["type"], income["missing"], income["distinct"]) == ("number", 1, 5)
    (shown,) = read_cells(config, graph, shown_columns(config, graph), np.arange(5))
    np.testing.assert_array_equal(shown.numbers, [1234.5, -2e6, 7, np.nan, 999.5])
    other = {"id": ["n0", "n1"], "income": ["0,5", "7"]}
    with pytest.raises(GraphError, match=r"'income' is '0,5', expected a number with a comma between thousands"):
        ingest(tmp_path / "other", {"source": ["n0"], "target": ["n1"]}, other, encoding=tmp_path)


def test_weights_may_have_them_all_or_none(tmp_path):
    edges = {**EDGES, "w": ["1.234,5", "2"]}
    graph = ingest(tmp_path / "a", edges, kind=".csv", weight_column="w")
    assert sorted(set(graph.edge_weights)) == [2, 1234.5]
    with pytest.raises(GraphError, match=r"line 3: w is not a number: '1,5'; expected the weight of the edge"):
        ingest(tmp_path / "b", {**EDGES, "w": ["2.5", "1,5"]}, kind=".csv", weight_column="w")
    with pytest.raises(GraphError, match=r"line 2: w is not a number: '1,234'"):
        ingest(tmp_path / "c", {**EDGES, "w": ["1,234", "5,678"]}, kind=".csv", weight_column="w")


def test_a_later_weight_that_is_written_otherwise_is_refused(tmp_path):
    edges = {"source": ["a"] * 6, "target": list("bcdefg"), "w": ["1,5", "2,5", "3", "4", "5", "6.5"]}
    with pytest.raises(GraphError, match=r"row 6: w is not a number with a decimal comma: '6.5'"):
        ingest(tmp_path, edges, weight_column="w")


def test_a_cell_is_read_by_its_digits():
    cells = pa.array(["1,5", " +0,125 ", "12.345.678,9", "1.23,4", "1,2,3", "", None, "x", "1,234", "1234,567", "7"])
    found = numbers_of(cells, DECIMAL_COMMA)
    expected = [1.5, 0.125, 12345678.9, *[np.nan] * 5, 1.234, 1234.567, 7]
    np.testing.assert_array_equal(found.values, expected)
    assert found.odd.tolist() == [False] * 3 + [True, True, False, False, True] + [False] * 3
    assert sure_commas(cells).tolist() == [True] * 3 + [False] * 6 + [True, False]


def test_words_of_a_pair_stay_text(tmp_path):
    graph = ingest(tmp_path, PAIR, {"id": ["a", "b"], "at": ["1,5 m", "2,5 m"]})
    assert graph.manifest["columns"][1]["type"] == "text"
