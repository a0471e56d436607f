"""Tables that nobody can read: one sentence, exit code 2, and nothing left behind."""

import contextlib
import io
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gscl_scale.cli.main import main

ROWS = 40
GOOD = {
    "id": [f"n{row}" for row in range(ROWS)],
    "age": [str(row * 7 % 60) for row in range(ROWS)],
    "joined": [f"2024-01-{row % 28 + 1:02d}" for row in range(ROWS)],
    "plan": [("gold", "free")[row % 2] for row in range(ROWS)],
    "note": [f"a note about {row} and more" for row in range(ROWS)],
    "label": [str(row % 3) for row in range(ROWS)],
    "split": [("train", "val", "test")[row % 3] for row in range(ROWS)],
}
EDGES = {"source": GOOD["id"][:-1], "target": GOOD["id"][1:]}
NUMBER = [*map(float, GOOD["age"])]


def text_of(columns):
    rows = zip(*columns.values(), strict=True)
    return "\n".join([",".join(columns), *(",".join(row) for row in rows)]) + "\n"


def with_cell(column, row, cell):
    return text_of({**GOOD, column: [*GOOD[column][:row], cell, *GOOD[column][row + 1 :]]})


def with_line(row, change):
    lines = text_of(GOOD).splitlines()
    return "\n".join([*lines[: row + 1], change(lines[row + 1]), *lines[row + 2 :]]) + "\n"


def edges_with(column, row, cell):
    return text_of({**EDGES, column: [*EDGES[column][:row], cell, *EDGES[column][row + 1 :]]})


def parquet_of(columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


PARQUET = parquet_of(GOOD)
rows = st.integers(0, ROWS - 2)
words = st.text("abcxyz_", min_size=3, max_size=8).filter(lambda word: word not in ("nan", "nil", "inf"))
BAD = st.one_of(
    # (file, content): bad cells of CSV files
    st.tuples(st.just("nodes.csv"), st.builds(with_cell, st.just("age"), rows, words.map("?{}".format))),
    st.tuples(st.just("nodes.csv"), st.builds(with_cell, st.just("age"), rows, st.sampled_from(["inf", "-1e39", "9e999"]))),
    st.tuples(st.just("nodes.csv"), st.builds(with_cell, st.just("joined"), rows, st.sampled_from(["2024-02-30", "soon"]))),
    st.tuples(st.just("nodes.csv"), st.builds(with_cell, st.just("id"), rows, st.sampled_from(["", "n39"]))),
    st.tuples(st.just("nodes.csv"), st.builds(with_cell, st.just("split"), rows, words)),
    # lines with a cell too many or too few, bytes that are no text, quotes without an end
    st.tuples(st.just("nodes.csv"), st.builds(with_line, rows, st.just(lambda line: line + ",more"))),
    st.tuples(st.just("nodes.csv"), st.builds(with_line, rows, st.just(lambda line: line.rpartition(",")[0]))),
    st.tuples(st.just("nodes.csv"), st.builds(with_line, rows, st.just(lambda line: line + ",\udcff\udcfe"))),
    st.tuples(st.just("nodes.csv"), st.builds(with_line, rows, st.just(lambda line: '"' + line))),
    # heads
    st.tuples(st.just("nodes.csv"), st.sampled_from(list(GOOD)).map(lambda name: text_of(GOOD).replace(name, "id", 1)).filter(
        lambda text: not text.startswith("id,age,joined,plan,note,label,split"))),
    st.tuples(st.just("nodes.csv"), st.sampled_from(["", "\n\n", "id", "id,age\n", "age\n1\n"])),
    st.tuples(st.just("edges.csv"), st.sampled_from(["", "source,target", "source;target\na;b\n", "source\nn1\n"])),
    # edges
    st.tuples(st.just("edges.csv"), st.builds(edges_with, st.sampled_from(list(EDGES)), rows, words | st.just(""))),
    # columns of Parquet files
    st.tuples(st.just("nodes.parquet"), st.sampled_from([
        {"id": NUMBER}, {"id": [[1]] * ROWS}, {"id": [None] * ROWS}, {"id": [True] * ROWS}, {"id": ["n1"] * ROWS},
        {"x": [[1.0]] * 39 + [[1.0, 2.0]]}, {"x": [[[1.0]]] * ROWS}, {"x": [float("inf")] * ROWS},
        {"split": NUMBER}, {"label": [[1]] * ROWS}, {"x": [1e300] * ROWS}, {"label": [{"x": 1}] * ROWS},
    ]).map(lambda change: parquet_of({**GOOD, **change}))),
    st.tuples(st.just("nodes.parquet"), st.floats(0, 0.99).map(lambda kept: PARQUET[: int(kept * len(PARQUET))])),
    st.tuples(st.just("nodes.csv.gz"), st.binary(max_size=200)),
    st.tuples(st.just("nodes.csv.zst"), st.binary(max_size=200)),
    st.tuples(st.just("nodes.txt"), st.just("id\n1\n")),
)  # fmt: skip


def ended(folder, *settings):
    """Exit code and standard error of `gscl-scale ingest`."""
    errors, sides = io.StringIO(), ["--set", f"graph.edges={folder / 'edges.csv'}"]
    command = ["gscl-scale", "ingest", "--source", "tables", "--run", str(folder / "run"), *sides, *settings]
    with mock.patch.object(sys, "argv", command), contextlib.redirect_stderr(errors), pytest.raises(SystemExit) as left:
        main()
        sys.exit(0)
    return left.value.code or 0, errors.getvalue()


@given(BAD)
@example(("nodes.csv", b"id\n\x00\n"))
@settings(max_examples=300, suppress_health_check=list(HealthCheck))
def test_malformed_tables_are_refused_in_one_sentence_and_nothing_is_left(bad):
    name, content = bad
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "edges.csv").write_text(text_of(EDGES))
        (folder / "nodes.csv").write_text(text_of(GOOD))
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode(errors="surrogateescape"))
        nodes = "nodes.csv" if name == "edges.csv" else name
        before = sorted(folder.iterdir())
        code, errors = ended(folder, "--set", f"graph.nodes={folder / nodes}")
        told = [line for line in errors.splitlines() if line.startswith("gscl-scale: ")]
        assert code == 2, (code, errors)
        assert len(told) == 1, errors
        assert str(folder / name) in told[0] or "edges.csv" in told[0], told
        assert "Traceback" not in errors
        assert sorted(folder.iterdir()) == before


def test_the_table_that_was_changed_is_good(tmp_path):
    (tmp_path / "edges.csv").write_text(text_of(EDGES))
    (tmp_path / "nodes.csv").write_text(text_of(GOOD))
    assert ended(tmp_path, "--set", f"graph.nodes={tmp_path / 'nodes.csv'}")[0] == 0
