"""Text files of tables as record batches of text."""

import contextlib
import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from gscl_scale.errors import GraphError
from gscl_scale.graph.sources.dialect import Dialect, mark_of
from gscl_scale.graph.sources.textlines import first_odd_row
from gscl_scale.text import quoted, shortened

_BLOCK = 1 << 24
_MOST_COLUMNS = 1 << 16
_ODD_ROW = re.compile(r"Expected \d+ columns, got \d+: ")  # of pyarrow


def names_in(path: Path, dialect: Dialect, multiline: bool, shown: str) -> list[str]:
    """The names of the columns."""
    line = _first_line(path, dialect)
    _refuse_many_columns(line.count(dialect.delimiter.encode()) + 1, shown)
    if dialect.names:
        return list(dialect.names)
    if not dialect.header:
        cells = next(csv.reader([line.decode("utf-8-sig")], delimiter=dialect.delimiter), [])
        return [f"column_{number}" for number in range(1, len(cells) + 1)]
    with _reader(path, dialect, multiline, shown) as reader:
        names: list[str] = reader.schema.names
        return names


def rows_in(path: Path, dialect: Dialect, columns: list[str], multiline: bool, shown: str) -> Iterator[pa.RecordBatch]:
    """The rows as record batches of the wanted columns; all cells are text."""
    names = None if dialect.header else names_in(path, dialect, multiline, shown)
    types = {name: pa.large_string() for name in columns}
    options = pa.csv.ConvertOptions(include_columns=columns, column_types=types)
    with _reader(path, dialect, multiline, shown, names, options) as reader:
        yield from reader


def comment_flaw(where: str, line: str) -> str:
    """What is wrong with a row that begins as comments do, where no setting says whether it is one."""
    skip, keep = (f"--set 'graph.comment=\"{mark}\"'" for mark in (mark_of(line.lstrip()), ""))
    shown = quoted(" ".join(line.split()))
    return f"{where} begins as a comment does: {shown}; add {skip} to skip such lines, or {keep} if it is an edge"


@contextlib.contextmanager
def _reader(
    path: Path, dialect: Dialect, multiline: bool, shown: str, names: list[str] | None = None, options: Any = None
) -> Iterator[Any]:
    """A reader of record batches; GraphError for a row of another length, which may be a comment."""
    parsing = pa.csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=multiline)
    reading = pa.csv.ReadOptions(block_size=_BLOCK, column_names=names)
    try:
        with _opened(path, dialect) as source, pa.csv.open_csv(source, reading, parsing, options) as reader:
            yield reader
    except pa.ArrowInvalid as error:
        odd = first_odd_row(path, dialect) if _ODD_ROW.search(str(error)) else None
        if odd is None:
            raise
        raise GraphError(_flaw_of_length(shown, dialect, *odd)) from None


def _flaw_of_length(shown: str, dialect: Dialect, line: int, cells: list[str], width: int) -> str:
    where, row = f"{shown}: line {line:,}", dialect.delimiter.join(cells)
    if dialect.comment is None and mark_of(row.lstrip()):
        return comment_flaw(where, row)
    return f"{where} has {len(cells)} cells ({shortened(row, 60)}), the first row has {width}; correct or drop the line"


def _opened(path: Path, dialect: Dialect) -> Any:
    """The file, unpacked; its lines are cleaned only where the dialect asks for it."""
    stream = pa.input_stream(str(path), compression="detect")
    return stream if dialect.is_plain else _CleanLines(stream, dialect)


def _first_line(path: Path, dialect: Dialect) -> bytes:
    with _opened(path, dialect) as file:
        head = b""
        while (more := file.read(_BLOCK if head else 1 << 16)) and len(head) < _BLOCK:
            head = (head + more).lstrip(b"\r\n \t" if dialect.delimiter != "\t" else b"\r\n ")
            if b"\n" in head or b"\r" in head:
                break
    return head.partition(b"\n")[0].partition(b"\r")[0]


def _refuse_many_columns(number: int, shown: str) -> None:
    """Refuse a file of so many columns that their readers alone, some kilobytes each, would fill the memory."""
    if number > _MOST_COLUMNS:
        raise GraphError(
            f"{shown}: its first line has at least {number:,} columns, expected at most {_MOST_COLUMNS:,}; write it as "
            "Parquet, with one column of lists"
        )


class _CleanLines(io.RawIOBase):
    """The lines of a stream as its dialect cleans them, some whole lines at a time."""

    def __init__(self, stream: Any, dialect: Dialect) -> None:
        self._stream, self._dialect = stream, dialect
        self._rest, self._ready, self._ended = b"", b"", False
        self._skip, self._begun = dialect.skipped, False

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes, fewer only at the end."""
        while not self._ended and (size < 0 or len(self._ready) < size):
            self._ready += self._next_lines()
        end = len(self._ready) if size < 0 else size
        out, self._ready = self._ready[:end], self._ready[end:]
        return out

    def close(self) -> None:
        """Close the stream too."""
        self._stream.close()
        super().close()

    def _next_lines(self) -> bytes:
        more = self._stream.read(_BLOCK)
        self._ended = not more
        lines, end, self._rest = (self._rest + more).rpartition(b"\n")
        if self._ended:
            lines, end, self._rest = lines + end + self._rest, b"", b""
        lines += end
        if not self._begun and lines:
            self._begun, lines = True, lines.removeprefix(b"\xef\xbb\xbf")
        lines = self._dialect.clean(lines)
        while self._skip and lines.strip():
            lines = lines.lstrip().partition(b"\n")[2]
            self._skip -= 1
        return lines
