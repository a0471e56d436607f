"""Tables that nobody can read: one sentence, exit code 2, and nothing left behind."""

import contextlib
import io
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
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


def one_of(name, contents):
    return st.tuples(st.just(name), contents if isinstance(contents, st.SearchStrategy) else st.sampled_from(contents))


def cells(column, values):
    return one_of("nodes.csv", st.builds(with_cell, st.just(column), rows, values))


def lines(change):
    return one_of("nodes.csv", st.builds(with_line, rows, st.just(change)))


HEAD, REST = text_of(GOOD).split("\n", 1)
PARQUET = parquet_of(GOOD)
COLUMNS = [
    {"id": NUMBER}, {"id": [[1]] * ROWS}, {"id": [None] * ROWS}, {"id": [True] * ROWS}, {"id": ["n1"] * ROWS},
    {"x": [[1.0]] * 39 + [[1.0, 2.0]]}, {"x": [[[1.0]]] * ROWS}, {"x": [float("inf")] * ROWS}, {"x": [1e300] * ROWS},
    {"split": NUMBER}, {"label": [[0.5]] * ROWS}, {"label": [[1, 1]] * ROWS}, {"label": [{"x": 1}] * ROWS},
]  # fmt: skip
rows = st.integers(0, ROWS - 2)
words = st.text("abcxyz_", min_size=3, max_size=8).filter(lambda word: word not in ("nan", "nil", "inf"))
BAD = st.one_of(
    cells("age", words.map("?{}".format) | st.sampled_from(["inf", "-1e39", "9e999"])),
    cells("joined", st.sampled_from(["2024-02-30", "soon", "2024-13-01"])),
    cells("id", st.sampled_from(["", "n39"])),
    cells("split", words),
    lines(lambda line: line + ",more"),
    lines(lambda line: line.rpartition(",")[0]),
    lines(lambda line: line + ",\udcff\udcfe"),
    lines(lambda line: '"' + line),
    one_of("nodes.csv", [HEAD.replace(name, "id") + "\n" + REST for name in list(GOOD)[1:]]),
    one_of("nodes.csv", ["", "\n\n", "id", "id,age\n", "age\n1\n"]),
    one_of("edges.csv", ["", "source,target", "source;target\na;b\n", "source\nn1\n"]),
    one_of("edges.csv", st.builds(edges_with, st.sampled_from(list(EDGES)), rows, words | st.just(""))),
    one_of("nodes.parquet", [parquet_of({**GOOD, **change}) for change in COLUMNS]),
    one_of("nodes.parquet", st.floats(0, 0.99).map(lambda kept: PARQUET[: int(kept * len(PARQUET))])),
    one_of("nodes.csv.gz", st.binary(max_size=200)),
    one_of("nodes.csv.zst", st.binary(max_size=200)),
    one_of("nodes.txt", ["id\n1\n"]),
)


def ended(folder, nodes):
    """Exit code and standard error of `gscl-scale ingest`."""
    errors, code = io.StringIO(), 0
    tables = {"edges": folder / "edges.csv", "nodes": folder / nodes}
    settings = [part for key, path in tables.items() for part in ("--set", f"graph.{key}={path}")]
    command = ["gscl-scale", "ingest", "--source", "tables", "--run", str(folder / "run"), *settings]
    with mock.patch.object(sys, "argv", command), contextlib.redirect_stderr(errors):
        try:
            main()
        except SystemExit as left:
            code = left.code
    return code, errors.getvalue()


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
        before = sorted(folder.iterdir())
        code, errors = ended(folder, "nodes.csv" if name == "edges.csv" else name)
        told = [line for line in errors.splitlines() if line.startswith("gscl-scale: ")]
        assert code == 2, (code, errors)
        assert len(told) == 1, errors
        assert str(folder / name) in told[0] or "edges.csv" in told[0], told
        assert "Traceback" not in errors
        assert sorted(folder.iterdir()) == before


def test_the_table_that_was_changed_is_good(tmp_path):
    (tmp_path / "edges.csv").write_text(text_of(EDGES))
    (tmp_path / "nodes.csv").write_text(text_of(GOOD))
    assert ended(tmp_path, "nodes.csv")[0] == 0
