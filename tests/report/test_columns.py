"""The table of columns on the page of a run that was made from a node table."""

import pytest

from gscl_scale.graph.graph import Graph
from gscl_scale.report.columns_section import columns
from gscl_scale.report.run_data import RunData
from tests.graph.tables import PAIR, ingest

HOSTILE = "<script>alert(1)</script>"


def section(graph: Graph | None) -> str:
    return columns(RunData(metrics={}, statistics={}, graph=graph))


def test_every_column_has_a_row_and_no_name_is_markup(tmp_path):
    nodes = {"id": ["a", "b"], HOSTILE: [1.0, None], "tags": [["x"], ["x"]], "both": [{"x": 1}, {"x": 2}]}
    found = section(ingest(tmp_path, PAIR, nodes))
    assert "<script" not in found
    for cells in (
        ("id", "text", "0", "2", "id of the node"),
        (
            HOSTILE.replace("<", "&lt;").replace(">", "&gt;"),
            "integer",
            "1",
            "1",
            "a number; missing ones become 1 and are marked",
        ),
        ("both", "other", "0", "-", "left out: neither numbers, dates nor text"),
    ):
        name, *others = cells
        row = f'<th scope="row" dir="auto">{name}</th>' + "".join(f'<td dir="auto">{cell}</td>' for cell in others)
        assert row in found, cells


@pytest.mark.parametrize(("more", "shown"), [(20, False), (40, True)])
def test_many_columns_are_shown_on_a_click(tmp_path, more, shown):
    nodes = {"id": ["a", "b"]} | {f"x{number}": [number, 1.5] for number in range(more)}
    assert ("<details>" in section(ingest(tmp_path, PAIR, nodes))) is shown


def test_a_graph_without_a_node_table_has_no_such_section(tmp_path):
    assert section(ingest(tmp_path, PAIR)) == section(None) == ""
