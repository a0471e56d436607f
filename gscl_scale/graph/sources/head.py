"""The first rows of a table as text, and how its file holds them: looked at, or refused where that is ambiguous."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from gscl_scale.errors import GraphError
from gscl_scale.graph.sources.column_names import find_ends, is_known
from gscl_scale.graph.sources.dialect import (
    MARKS,
    MATRIX,
    SEPARATORS,
    Dialect,
    first_bytes,
    is_surely_comment,
    mark_of,
    marks_of,
    matrix_dialect,
    separator_of,
    word_of,
)
from gscl_scale.graph.sources.textlines import encoding_flaw, line_of_row
from gscl_scale.text import join_names, quoted, shortened

Rows = list[list[str]]

_BYTES = 1 << 16
_ROWS = 2000
_BINARY = {b"PAR1": "a Parquet file", b"\x1f\x8b": "packed with gzip", b"(\xb5/\xfd": "packed with zstd",
           b"PK": "a zip or Excel file"}  # fmt: skip
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_NOTHING = {"", "na", "n/a", "nan", "null", "none", "?", "-"}
_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})([t ]\d{1,2}:\d{2}.*)?", re.IGNORECASE
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Asked:
    """What the user has set already of a text table; None or missing: to be recognized.

    prefix   of the settings: "" for the edge table, "nodes_" for the node table
    """

    prefix: str = ""
    separator: str | None = None
    header: bool | None = None
    comment: str | None = None
    comments: bool = True  # whether there may be comment lines


@dataclass(frozen=True)
class Head:
    """The first rows of a table.

    named      whether the file names its columns
    settings   how a text file holds the table, as settings of the graph
    how        the same in words
    in_memory  whether it is no file
    """

    names: list[str]
    rows: Rows
    named: bool = True
    settings: dict[str, object] = field(default_factory=dict)
    how: str = ""
    in_memory: bool = False

    def column(self, name: str) -> list[str]:
        """The cells of a column."""
        at = self.names.index(name)
        return [row[at] for row in self.rows]


def head_of(path: Path, asked: Asked) -> Head:
    """Look at the first rows of a Parquet or text file."""
    if path.name.lower().endswith((".parquet", ".pq")):
        return _parquet_head(path)
    if path.name.lower().endswith(MATRIX):
        dialect = matrix_dialect(path)
        rows = _split(*_sample(path), dialect)[1:]
        return Head(list(dialect.names), rows, False, how=f"a Matrix Market file of {dialect.rows:,} entries")
    return _text_head(path, asked)


def _text_head(path: Path, asked: Asked) -> Head:
    text, cut = _sample(path)
    comment = (asked.comment if asked.comment is not None else _marks_in(text)) if asked.comments else ""
    separator = separator_of(asked.separator) if asked.separator else _separator_in(text, comment, path, asked)
    rows = _split(text, cut, Dialect(separator, comment=comment))
    if not rows:
        raise GraphError(f"{path} holds no rows; expected one {'node' if asked.prefix else 'edge'} per line")
    _refuse_ragged(rows, path, Dialect(separator, False, comment), asked)
    if asked.separator is None and separator.strip() and any(cell != cell.strip() for row in rows for cell in row):
        separator += " "
        rows = _split(text, cut, Dialect(separator, comment=comment))
    if asked.comment is None and comment:
        _refuse_edges_like_comments(text, separator, comment, len(rows[0]), path)
    header = asked.header if asked.header is not None else _has_header(rows, path, asked)
    names = rows[0] if header else [f"column_{number}" for number in range(1, len(rows[0]) + 1)]
    settings: dict[str, object] = {"separator": asked.separator or word_of(separator), "header": header}
    settings |= {"comment": comment} if comment else {}
    words = [f"separator {word_of(separator)}", "header" if header else "no header"]
    words += [f"comments {' and '.join(marks_of(comment))}"] if comment else []
    kept = {asked.prefix + key: value for key, value in settings.items()}
    return Head(names, rows[header:], header, kept, ", ".join(words))


def _parquet_head(path: Path) -> Head:
    from gscl_scale.graph.sources.tablefiles import TableFile, schema_of, stream

    file = TableFile(path)
    names = schema_of(file, {}).names
    part = next(stream(file, names), None)
    return Head(names, _rows_of(part.rows) if part else [], how="Parquet")


def head_of_table(table: pa.Table) -> Head:
    """The first rows of a table in memory; pandas and polars number columns that have no names."""
    names = table.column_names
    counted = (str(number) for number in range(len(names))), (f"column_{number}" for number in range(len(names)))
    return Head(names, _rows_of(table), names not in [*map(list, counted)], how="a table", in_memory=True)


def _rows_of(table: pa.Table | pa.RecordBatch) -> Rows:
    columns = (column.to_pylist() for column in table.slice(0, _ROWS).columns)
    return [list(row) for row in zip(*([*map(_text, column)] for column in columns), strict=True)]


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _sample(path: Path) -> tuple[str, bool]:
    """The first lines of a text file, without one that is cut off, and whether there are more."""
    content = first_bytes(path, _BYTES)
    for begins, kind in _BINARY.items():
        if content.startswith(begins):
            raise GraphError(f"{path} is {kind}, which its name does not say; rename it, or save it as UTF-8 text")
    if content.startswith(_UTF_16):
        raise GraphError(encoding_flaw(path, str(path), "UTF-16"))
    if b"\0" in content:
        raise GraphError(f"{path} is no text; expected lines of cells")
    cut = len(content) == _BYTES
    if cut:
        content = content.rpartition(b"\n")[0] or content
    try:
        return content.decode("utf-8-sig"), cut
    except UnicodeDecodeError:
        raise GraphError(encoding_flaw(path, str(path))) from None


def _lines(text: str) -> list[str]:
    return re.split(r"\r\n|\r|\n", text)


def _split(text: str, cut: bool, dialect: Dialect) -> Rows:
    """The rows of a text as cells; blank lines are none, nor is the last row where it may be cut off."""
    lines = _lines(dialect.clean(text.encode()).decode())
    cut = cut or len(lines) > _ROWS
    rows = [row for row in csv.reader(lines[:_ROWS], delimiter=dialect.delimiter) if row]
    return rows[:-1] if cut and len(rows) > 1 else rows


def _marks_in(text: str) -> str:
    """The characters that begin comment lines; where all lines begin so, ids may: only those with a blank behind."""
    lines = [line.lstrip() for line in _lines(text) if line.strip()]
    some = any(not mark_of(line) for line in lines)
    begun = {mark_of(line) for line in lines if some or is_surely_comment(line)}
    return "".join(mark for mark in MARKS if mark in begun)


def _separator_in(text: str, comment: str, path: Path, asked: Asked) -> str:
    """The character that cuts all lines into the same number of cells, at least two."""
    counts = {
        separator: {len(row) for row in _split(text, False, Dialect(separator, comment=comment))}
        for separator in SEPARATORS.values()
    }
    if not counts[" "]:
        return ","  # there are no rows, which is said next
    even = [separator for separator, found in counts.items() if len(found) == 1 and min(found) > 1]
    strong = [separator for separator in even if separator != " "]
    if "\t" in strong:
        return "\t"
    if len(strong) > 1 or (strong and " " in even and _may_be_blanks(text, comment, strong[0])):
        words = [word_of(separator) for separator in (strong if len(strong) > 1 else even)]
        raise GraphError(
            f"{path}: {' and '.join(words)} both cut all lines into cells; name one: "
            f"{_or(asked.prefix + 'separator', words)}"
        )
    uneven = [
        separator for separator, found in counts.items() if separator != " " and len(found) > 1 and min(found) > 1
    ]
    if strong or (even and not uneven):
        return (strong or even)[0]
    if uneven:
        return uneven[0]  # the row that differs is named next
    if counts[" "] == {1} and asked.prefix:
        return ","  # a node table of one column
    if len(counts[" "]) > 1 and min(counts[" "]) > 1:
        return " "
    raise GraphError(
        f"{path}: no separator ({join_names(list(SEPARATORS))}) cuts its lines into the same number of cells, two or "
        f"more; a line is {quoted(next((line for line in _lines(text) if line.strip()), ''))}; write one edge per line"
    )


def _may_be_blanks(text: str, comment: str, separator: str) -> bool:
    """Whether blanks may be what separates, and not the other separator: it is in no end of an edge then."""
    rows = _split(text, False, Dialect(" ", comment=comment))
    return all(separator not in cell for row in rows for cell in row[:2])


def _or(key: str, values: Sequence[str]) -> str:
    """Ways to say a setting, to paste."""
    return " or ".join(f"--set graph.{key}={value}" for value in values)


def _refuse_ragged(rows: Rows, path: Path, dialect: Dialect, asked: Asked) -> None:
    width = len(rows[0])
    for number, row in enumerate(rows, start=1):
        if len(row) != width:
            line = line_of_row(path, dialect, number) or number
            raise GraphError(
                f"{path}: line {line:,} has {len(row)} cells ({shortened(', '.join(row), 60)}), the first row has "
                f"{width} ({shortened(', '.join(rows[0]), 60)}); write one {'node' if asked.prefix else 'edge'} per "
                f"line, or name another separator with --set graph.{asked.prefix}separator"
            )


def _refuse_edges_like_comments(text: str, separator: str, comment: str, width: int, path: Path) -> None:
    """Refuse a line that begins like a comment and has the cells of a row: ids may begin so too."""
    for line in _lines(text):
        mark = mark_of(line.lstrip())
        if mark not in marks_of(comment) or is_surely_comment(line.lstrip()):
            continue
        cells = _split(line.lstrip().removeprefix(mark), False, Dialect(separator))
        if cells and len(cells[0]) == width and not any(map(is_known, cells[0])):
            raise GraphError(
                f"{path}: the line {quoted(line)} is a comment or a row; say which: "
                f"--set 'graph.comment=\"{comment}\"' or --set 'graph.comment=\"\"'"
            )


def _has_header(rows: Rows, path: Path, asked: Asked) -> bool:
    """Whether the first row names the columns; GraphError where nothing tells."""
    first, rest = rows[0], rows[1:]
    columns = [[row[at] for row in rest] for at in range(len(first))]
    seen = {cell for column in columns[:2] for cell in column}
    ends = find_ends(first)
    if not first[0] or (ends and not seen & set(ends) and not (len(ends[0]) == 1 and {*map(len, seen)} == {1})):
        return True
    if any(is_known(cell) and cell not in seen for cell in first):
        return True
    tells = {_tells(cell, column) for cell, column in zip(first, columns, strict=True)} - {None}
    if len(tells) == 1:
        return tells.pop() is True
    if not tells and not asked.prefix and seen & set(first[:2]):
        return False
    raise GraphError(
        f"{path}: the first row ({shortened(', '.join(first), 80)}) names the columns or is "
        f"{'a node' if asked.prefix else 'an edge'}; say which: {_or(asked.prefix + 'header', ['true', 'false'])}"
    )


def _tells(cell: str, column: Sequence[str]) -> bool | None:
    """Whether a cell is the name of its column, by the form of the others: numbers, or words with digits."""
    others = [other for other in column if other.strip().lower() not in _NOTHING]
    if cell.strip().lower() in _NOTHING:
        return None
    if all(map(_is_number, others)):
        return not _is_number(cell) if others or _is_number(cell) else None
    return True if all(map(_has_digit, others)) and not _has_digit(cell) else None


def _is_number(cell: str) -> bool:
    return bool(_NUMBER.fullmatch(cell.strip()))


def _has_digit(cell: str) -> bool:
    return any(character.isdigit() for character in cell)


def integers_in(cells: Sequence[str]) -> set[str]:
    """The distinct cells that are whole numbers; empty if any is none."""
    return set(cells) if all(re.fullmatch(r"-?\d{1,18}", cell) for cell in cells) else set()


def are_dates(cells: Sequence[str]) -> bool:
    """Whether the cells are dates, with a time or not, where they hold anything."""
    some = [cell for cell in cells if cell.strip().lower() not in _NOTHING]
    return bool(some) and all(_DATE.fullmatch(cell.strip()) for cell in some)


def numbers_of(cells: Sequence[str]) -> list[float] | None:
    """The cells as numbers; None if one is none, or there are no cells."""
    return [float(cell) for cell in cells] if cells and all(map(_is_number, cells)) else None
