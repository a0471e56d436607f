"""Messages about a row of a text file name its line, whichever check refuses it."""

import re

import pytest

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources import textlines
from gscl_scale.graph.sources.dialect import Dialect
from gscl_scale.graph.sources.read import read
from gscl_scale.graph.sources.recognize import recognize
from tests.graph.test_encodings import written

NODES = "id,note\n" + "".join(f'{node},"one\n\ntwo"\n' for node in range(1, 9_001))
BAD = {
    "three cells": ("1,2,3", "has 3 cells"),
    "an empty end": ("1,", "target is empty"),
    "an unknown id": ("1,99999", "target 99999 is not an id"),
    "text": ("1,a17", "target is 'a17' and the node table's ids are integers"),
}


def ingest(edges, nodes=None, **given):
    config = TablesGraph.model_validate(recognize(edges, nodes, given).graph)
    write_graph(read(config), config, edges.parent / "graph")


def refused(tmp_path, edges, nodes=NODES, ending=".csv"):
    path = written(tmp_path / f"edges{ending}", edges.encode())
    (tmp_path / "nodes.csv").write_text(nodes)
    with pytest.raises(GraphError) as error:
        ingest(path, tmp_path / "nodes.csv")
    return str(error.value)


def edges_of(bad, at, separator=",", end="\n"):
    """A header, comments and blank lines, and a bad row in line `at`."""
    rows = ["# a comment", "", "source,target", *(f"{node},{node + 1}" for node in range(1, 9_000))]
    rows[5], rows[7:9] = "# another", ["", "  # and one"]
    rows[at - 1] = bad
    return end.join(rows).replace(",", separator)


@pytest.mark.parametrize("at", [60, 8_000])  # within the rows that are looked at first, and behind them
@pytest.mark.parametrize("bad", BAD)
def test_the_line_of_a_bad_row_is_the_same_in_all_messages(tmp_path, at, bad):
    row, says = BAD[bad]
    assert f"edges.csv: line {at:,}{' ' if 'cells' in says else ': '}{says}" in refused(tmp_path, edges_of(row, at))


@pytest.mark.parametrize(
    ("separator", "end", "ending"),
    [("   ", "\n", ".txt"), (" , ", "\r\n", ".csv.gz"), (";", "\r", ".csv"), ("\t", "\n", ".tsv.zst")],
)
def test_other_separators_ends_of_lines_and_packed_files_count_alike(tmp_path, separator, end, ending):
    for row, says in (("1,a17", r": target is 'a17'"), ("1,2,3", " has 3 cells")):
        message = refused(tmp_path, edges_of(row, 8_000, separator, end), ending=ending)
        assert re.search(rf"edges{ending}: line 8,000{says}", message), message


def test_a_cell_of_several_lines_counts_them(tmp_path):
    nodes = NODES.replace('\n8000,"one\n\ntwo"\n', "\n8000,short\n,empty\n")
    assert f"nodes.csv: line {1 + 3 * 7_999 + 2:,}: id is empty" in refused(tmp_path, "1,2\n2,3\n", nodes)


def test_the_size_line_of_a_matrix_is_no_row(tmp_path):
    path = tmp_path / "a.mtx"
    path.write_text("%%MatrixMarket matrix coordinate integer general\n% by hand\n3 3 3\n1 2 5\n2 3 0\n3 1 5\n")
    with pytest.raises(GraphError, match=r"a\.mtx: line 5: value is 0; expected"):
        ingest(path, weight_column="value")


def test_beyond_many_rows_a_message_does_not_wait_for_the_line(tmp_path, monkeypatch):
    path = written(tmp_path / "edges.csv", b"a,b\n1,2\n3,4\n5,6\n7,8,9\n")
    assert [textlines.line_of_row(path, Dialect(), row) for row in (1, 3)] == [2, 4]
    assert textlines.first_odd_row(path, Dialect()) == (5, ["7", "8", "9"], 2)
    monkeypatch.setattr(textlines, "_MOST_ROWS", 3)
    assert [textlines.line_of_row(path, Dialect(), row) for row in (1, 3)] == [2, None]
    assert textlines.first_odd_row(path, Dialect()) is None
