"""Lines of text tables, cleaned for a reader that knows one delimiter: fast and by a regular expression alike."""

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gscl_scale.graph.sources import textfiles
from gscl_scale.graph.sources.dialect import Dialect

LINES = st.lists(st.text("ab# \t,", max_size=12), max_size=6)


@given(LINES, st.sampled_from([" ", ", ", "\t ", "; "]), st.sampled_from(["\n", "\r\n", "\r"]))
def test_both_ways_to_drop_blanks_agree(lines, separator, end):
    text, dialect = end.join(lines).encode(), Dialect(separator)

    def cells(cleaned):
        return [row for row in csv.reader(cleaned.decode().splitlines(), delimiter=dialect.delimiter) if row]

    fast, slow = dialect._without_blanks(text), dialect._without_blanks_around_quotes(text)
    assert cells(fast) == cells(slow)


@pytest.mark.parametrize("block", [7, 16, 1000])
def test_comments_and_blanks_go_wherever_blocks_end_and_quoted_cells_stay(tmp_path, monkeypatch, block):
    rows = "# a comment\n  x   y\n\n%z\n" + "".join(f'{v}\t"a  # {v}" \n  # of {v}\n' for v in range(50))
    (tmp_path / "edges.txt").write_bytes(b"\xef\xbb\xbf" + rows.encode())
    monkeypatch.setattr(textfiles, "_BLOCK", block)
    with textfiles._opened(tmp_path / "edges.txt", Dialect(" ", comment="#%")) as file:
        lines = b"".join(iter(lambda: file.read(11), b"")).decode().split("\n")
    assert [line for line in lines if line] == ["x\ty", *(f'{v}\t"a  # {v}"' for v in range(50))]
