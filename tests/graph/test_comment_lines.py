"""Comment lines of edge lists: known by the first rows, and refused where they first come later."""

import re

import pytest

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources.read import read
from gscl_scale.graph.sources.recognize import recognize

NUMBERS = [f"{v} {v + 1}" for v in range(8000)]  # the first 64 KiB are looked at
TEXTS = [f"p{v} p{v + 1}" for v in range(8000)]


def ingest(tmp_path, lines, **given):
    path = tmp_path / "edges.txt"
    path.write_text("\n".join(lines))
    config = TablesGraph.model_validate(recognize(path, None, given).graph)
    return write_graph(read(config), config, tmp_path / "graph")


def with_late(lines, late):
    return [*lines[:7900], late, *lines[7900:]]


@pytest.mark.parametrize(
    ("lines", "late", "mark"),
    [
        (NUMBERS, "# the second part of it", "#"),
        (NUMBERS, "  %words", "%"),
        (NUMBERS, "// two", "//"),
        (NUMBERS, "#second part", "#"),
        (TEXTS, "# two", "#"),
        (TEXTS, "%% two", "%"),
        (TEXTS, "// 3 4", "//"),
    ],
)
def test_a_late_comment_line_is_refused_with_its_place_and_skipped_once_it_is_named(tmp_path, lines, late, mark):
    with pytest.raises(GraphError) as refused:
        ingest(tmp_path, with_late(lines, late))
    told = rf"line 7,901 begins as a comment does: '{late.strip()}'; add --set 'graph.comment=\"{mark}\"'"
    assert re.search(told, str(refused.value))
    assert ingest(tmp_path, with_late(lines, late), comment=mark).num_nodes == 8001


@pytest.mark.parametrize(("late", "given"), [("#p7 p9", {}), ("//p7 p9", {}), ("# p9", {"comment": ""})])
def test_a_late_row_that_begins_with_a_mark_may_be_an_edge(tmp_path, late, given):
    graph = ingest(tmp_path, with_late(TEXTS, late), **given)
    assert graph.num_nodes == 8002
    assert late.split()[0] in graph.ids.to_pylist()


def test_a_late_comment_line_below_a_header_has_the_number_of_its_line(tmp_path):
    for late in ("# of five words or more", "# two"):
        with pytest.raises(GraphError, match="line 7,902 begins as a comment does"):
            ingest(tmp_path, ["source target", *with_late(NUMBERS, late)])


def test_lines_after_two_slashes_are_comments_from_the_beginning(tmp_path):
    assert ingest(tmp_path, ["// made by hand", "//", "1 2", "2 3 ", "// end", "3 1"]).indices.size == 6
    paths = ingest(tmp_path, ["/a /b", "/b /c", "//x", "/c /a"], comment="//")
    assert paths.ids.to_pylist() == ["/a", "/b", "/c"]


def test_ids_that_begin_with_a_mark_may_stand_beside_numbers(tmp_path):
    assert ingest(tmp_path, [f"#{tag}\t{user}" for tag in "abc" for user in range(9)]).num_nodes == 12
