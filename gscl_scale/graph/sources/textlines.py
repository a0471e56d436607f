"""Lines of a text file, for messages: where a row begins, where rows differ in length, and what is not UTF-8."""

import contextlib
import csv
import io
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path, PurePath

from gscl_scale.graph.sources.dialect import Dialect, open_packed

_UNPACK = {".gz": "gzip -dc", ".zst": "zstd -dc"}
_TABLE = re.compile(r"(\.\w+)(\.gz|\.zst)?$")
_MOST_ROWS = 1 << 25  # read once more for a message: about two minutes


def line_of_row(path: Path, dialect: Dialect, row: int) -> int | None:
    """The line of a file in which a row of its table begins, both counted from 1; None beyond many rows."""
    at = row - 1 + dialect.header + dialect.skipped
    rows = itertools.islice(_rows(path, dialect), at, at + 1) if at < _MOST_ROWS else iter(())
    return next((line for line, _ in rows), None)


def first_odd_row(path: Path, dialect: Dialect) -> tuple[int, list[str], int] | None:
    """The line and the cells of the first row with more or fewer cells than the first one, and the number of these."""
    rows = itertools.islice(_rows(path, dialect), dialect.skipped, _MOST_ROWS)
    _, first = next(rows, (0, []))
    return next(((line, cells, len(first)) for line, cells in rows if len(cells) != len(first)), None)


def _rows(path: Path, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file, and the line in which each begins; comments and blank lines are none."""
    with open_packed(path) as packed, io.BufferedReader(packed) as file:  # type: ignore[type-var]  # has readinto
        lines = io.TextIOWrapper(file, "utf-8-sig", "replace", newline="")
        reader = csv.reader((_clean(line, dialect) for line in lines), delimiter=dialect.delimiter)
        with contextlib.suppress(csv.Error):  # a cell of hundreds of kilobytes
            while True:
                begins = reader.line_num + 1
                cells = next(reader, None)
                if cells is None:
                    return
                if cells:
                    yield begins, cells


def _clean(line: str, dialect: Dialect) -> str:
    return line if dialect.is_plain else dialect.clean(line.encode()).decode()


def encoding_flaw(path: Path, shown: str, encoding: str = "WINDOWS-1252") -> str:
    """What is wrong with a text file of another encoding, and the command that converts it."""
    line = 1 if encoding == "UTF-16" else _first_other_line(path)
    name = PurePath(shown).name if "://" in shown else shown  # of a file of an object store: that of your copy
    target = shlex.quote(_TABLE.sub(r"-utf8\1", name))
    convert, file = f"iconv -f {encoding} -t UTF-8", shlex.quote(name)
    unpack = _UNPACK.get(PurePath(name).suffix.lower())
    command = f"{unpack} {file} | {convert} > {target}" if unpack else f"{convert} {file} > {target}"
    likely = "" if encoding == "UTF-16" else ", if that is its encoding"
    return f"{shown}: line {line:,} is not UTF-8 text; convert the file{likely}: {command}"


def _first_other_line(path: Path) -> int:
    """The number of the first line that is not UTF-8."""
    with open_packed(path) as packed, io.BufferedReader(packed) as file:  # type: ignore[type-var]  # has readinto
        return next((number for number, line in enumerate(file, start=1) if not _is_utf_8(line)), 1)


def _is_utf_8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
