"""Parquet and text files as a stream of record batches, with the place of each row."""

import contextlib
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from gscl_scale.errors import GraphError
from gscl_scale.graph.sources import textfiles
from gscl_scale.graph.sources.cells import null_where
from gscl_scale.graph.sources.dialect import MATRIX, SEPARATORS, TEXT, Dialect
from gscl_scale.graph.sources.explain import explained, where_it_begins
from gscl_scale.graph.sources.textlines import encoding_flaw, line_of_row
from gscl_scale.io.arrow import is_text
from gscl_scale.io.validate import size_of
from gscl_scale.machine import available_memory
from gscl_scale.storage.tables import fetch_files, is_hidden
from gscl_scale.storage.urls import url_of
from gscl_scale.text import format_bytes, join_names, quoted

ROWS_AT_ONCE = 1 << 20
_VALUES_AT_ONCE = 1 << 24
_PARQUET_BUFFER = 1 << 20
_BYTES_OF_TEXT = 8
_PARQUET = (".parquet", ".pq")
_KINDS = "a .parquet, .pq, .csv, .tsv, .txt, .edges or .mtx file, or one of these texts packed as .gz or .zst"
_BY_ENDING = Dialect(separator="")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_NOT_UTF_8 = re.compile("'utf-8' codec|invalid UTF8")  # of Python and of pyarrow


@dataclass(frozen=True)
class TableFile:
    """A file of a table.

    path        where it can be read
    shown       its name in messages; by default its path
    partition   columns that the names of its folders give, such as {"country": "NL"} for `country=NL/1.parquet`
    multiline   whether a cell of a text file may have several lines, which makes reading slower
    dialect     how a text file holds the table
    scratch     what keeps a copy of a file of an object store in place
    table       the rows themselves, if they are in memory; `path` is then their name
    missing     cells that mean that a value is missing
    groups      the first row group of a Parquet file that is read, and the first that is not any more; None: all
    """

    path: Path
    shown: str = ""
    partition: Mapping[str, str | None] = field(default_factory=dict)
    multiline: bool = False
    dialect: Dialect = Dialect()  # noqa: RUF009  # it is frozen
    scratch: object = None
    table: pa.Table | None = None
    missing: tuple[str, ...] = ()
    groups: tuple[int, int] | None = None

    def __str__(self) -> str:
        return self.shown or str(self.path)

    @property
    def is_csv(self) -> bool:
        """Whether the file is text: its columns have no types of their own."""
        return self.path.name.lower().endswith(TEXT + MATRIX)


@dataclass(frozen=True)
class Place:
    """The place of a row, for messages: the line of a text file, which is looked for when it is shown; else the row."""

    file: TableFile
    row: int

    def __str__(self) -> str:
        line = line_of_row(self.file.path, self.file.dialect, self.row) if self.file.is_csv else None
        return f"{self.file}: row {self.row:,}" if line is None else f"{self.file}: line {line:,}"


@dataclass(frozen=True)
class Part:
    """Some rows of a table; the first of them is row `first_row` of its file, counted from 1."""

    file: TableFile
    first_row: int
    rows: pa.RecordBatch

    def where(self, at: int) -> Place:
        """The place of a row of this part."""
        return Place(self.file, self.first_row + at)

    def text_or_numbers(self, name: str) -> pa.Array:
        """A column with dictionaries decoded, and views of text as text."""
        column = self.rows.column(name)
        if pa.types.is_string_view(column.type):
            return column.cast(pa.large_string())
        if not pa.types.is_dictionary(column.type):
            return column
        values = column.dictionary
        return pc.take(values.cast(pa.large_string()) if is_text(values.type) else values, column.indices)

    def values(self, name: str) -> pa.Array:
        """The same, null where a cell is one of those that mean that a value is missing."""
        column = self.text_or_numbers(name)
        return null_where(column, self.file.missing) if self.file.missing else column


def files_of(path: Path, key: str, dialect: Dialect = _BY_ENDING, scratch_in: Path | None = None) -> list[TableFile]:
    """The files of a table in sorted order: the file itself, or all below a folder except hidden ones.

    Files of an object store are copied to a temporary folder, below `scratch_in` if it is given. `dialect` is that of
    text files.
    """
    shown, scratch = url_of(path) or str(path), None
    if url_of(path):
        scratch, names = fetch_files(shown, scratch_in)
    elif path.is_dir():
        names = sorted(file.relative_to(path) for file in path.rglob("*") if file.is_file())
        names = [name for name in names if not is_hidden(name)]
    elif path.exists():
        names = [PurePath()]
    else:
        raise GraphError(f"{path} does not exist{where_it_begins(path)}; check graph.{key}")
    if not names:
        raise GraphError(f"{shown} holds no table; expected {_KINDS}, check graph.{key}")
    place = scratch.path if scratch else path
    return [
        _checked(TableFile(place / name, _below(shown, name), partition_of(name), key == "nodes", dialect, scratch))
        for name in names
    ]


def _checked(file: TableFile) -> TableFile:
    if not file.path.name.lower().endswith(_PARQUET + TEXT + MATRIX):
        raise GraphError(f"{file}: unknown kind of table; expected {_KINDS}")
    size_of(file.path, GraphError)
    return replace(file, dialect=file.dialect.of_file(file.path)) if file.is_csv else file


def _below(shown: str, name: PurePath) -> str:
    return shown if name in (PurePath(), PurePath(PurePath(shown).name)) else f"{shown.rstrip('/')}/{name}"


def partition_of(name: PurePath) -> dict[str, str | None]:
    """The columns that the folders of a file name, as Hive and Spark do.

    >>> partition_of(PurePath("country=NL/day=2024-01-01/1.parquet"))
    {'country': 'NL', 'day': '2024-01-01'}
    """
    pairs = [folder.partition("=") for folder in name.parts[:-1] if "=" in folder]
    return {unquote(column): None if value == _NO_VALUE else unquote(value) for column, _, value in pairs}


def schema_of(file: TableFile, needed: Mapping[str, str | None]) -> pa.Schema:
    """Names and types of a file's columns; those of a CSV file are text.

    needed   the columns that it must have, each with the setting that names it, if one does
    """
    with _reading(file):
        schema = _stored_schema(file)
        for column in file.partition:
            schema = schema.append(pa.field(column, pa.large_string())) if column not in schema.names else schema
        names = schema.names  # UnicodeDecodeError where they are not text
    for name, key in needed.items():
        if names.count(name) != 1:
            kind = "no column" if name not in names else "more than one column"
            setting = f" (graph.{key})" if key else ""
            cure = f"; name another: graph__{key}=..." if key and file.table is not None else ""
            there = f"it has {join_names(names)}{cure}"
            raise GraphError(f"{file}: {kind} {quoted(name)}{setting}; {_in_one_cell(file, name, names) or there}")
    return schema


def _in_one_cell(file: TableFile, name: str, names: list[str]) -> str:
    """What to set where all names stand in one cell, cut by a separator other than that of the settings; else nothing.

    >>> _in_one_cell(TableFile(Path("edges.csv")), "to", ["from;to"])
    "it has one, 'from;to': set graph.separator to semicolon"
    """
    if not file.is_csv or len(names) != 1:
        return ""
    cutting = [word for word, character in SEPARATORS.items() if name in names[0].split(character)]
    setting = "nodes_separator" if file.multiline else "separator"  # tables of nodes may have such cells
    return f"it has one, {quoted(names[0])}: set graph.{setting} to {cutting[0]}" if cutting else ""


def _stored_schema(file: TableFile) -> pa.Schema:
    if file.table is not None:
        return file.table.schema
    return _text_schema(file) if file.is_csv else pa.parquet.read_schema(file.path)


def _text_schema(file: TableFile) -> pa.Schema:
    names = textfiles.names_in(file.path, file.dialect, file.multiline, str(file))
    return pa.schema([(name, pa.large_string()) for name in names])


def num_rows(files: list[TableFile]) -> int | None:
    """Rows of all files by their metadata; None where one is text that does not tell."""
    total = 0
    for file in files:
        if file.is_csv:
            if file.dialect.rows is None:
                return None
            total += file.dialect.rows
            continue
        with _reading(file):
            total += pa.parquet.read_metadata(file.path).num_rows
    return total


def sections_of(files: list[TableFile], number: int) -> list[list[TableFile]]:
    """All rows as about so many lists of files in their order: whole files, or runs of row groups of Parquet files."""
    sizes = [size_of(file.path, GraphError) for file in files]
    share = max(1, sum(sizes) // number)
    sections: list[list[TableFile]] = [[]]
    filled = 0.0
    for file, size in zip(files, sizes, strict=True):
        runs = _runs_of(file, size // share)
        for run in runs:
            sections[-1].append(run)
            filled += size / len(runs)
            if filled >= share:
                sections.append([])
                filled = 0.0
    return [section for section in sections if section]


def _runs_of(file: TableFile, number: int) -> list[TableFile]:
    """A file as at most so many runs of row groups, if it is a Parquet file."""
    with _reading(file):
        groups = 1 if file.is_csv else pa.parquet.read_metadata(file.path).num_row_groups
    number = min(number, groups)
    if number < 2:
        return [file]
    return [replace(file, groups=(groups * run // number, groups * (run + 1) // number)) for run in range(number)]


def stream(file: TableFile, columns: list[str]) -> Iterator[Part]:
    """The rows of a file, a part at a time; columns of text files and of the folders' names are text."""
    first_row, expected = 1, file.dialect.rows
    with _reading(file):
        if file.groups:
            metadata = pa.parquet.read_metadata(file.path)
            first_row += sum(metadata.row_group(group).num_rows for group in range(file.groups[0]))
        stored = [name for name in columns if name not in file.partition or name in _stored_schema(file).names]
        for rows in _rows(file, stored):
            if rows.num_rows:
                yield Part(file, first_row, _with_partition(rows, file, columns))
                first_row += rows.num_rows
    if expected is not None and first_row - 1 != expected:
        raise GraphError(f"{file} has {first_row - 1:,} entries, its size line says {expected:,}; write it again")


def _rows(file: TableFile, columns: list[str]) -> Iterator[pa.RecordBatch]:
    if file.table is not None:
        return iter(file.table.select(columns).to_batches(ROWS_AT_ONCE))
    return _text_rows(file, columns) if file.is_csv else _parquet_rows(file, columns)


def _with_partition(rows: pa.RecordBatch, file: TableFile, columns: list[str]) -> pa.RecordBatch:
    for name in columns:
        if name not in rows.schema.names:
            value = pa.scalar(file.partition[name], pa.large_string())
            rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    return rows


def _parquet_rows(file: TableFile, columns: list[str]) -> Iterator[pa.RecordBatch]:
    path = file.path
    metadata, schema = pa.parquet.read_metadata(path), pa.parquet.read_schema(path)
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    chunks: dict[str, list[Any]] = {}  # of the wanted columns, or of their nested values
    for at in range(metadata.num_columns):
        name = metadata.schema.column(at).path
        if any(name == column or name.startswith(f"{column}.") for column in columns):
            chunks[name] = [group.column(at) for group in groups]
    # few rows at once where rows are long, such as lists of features
    num_values = sum(chunk.num_values for column in chunks.values() for chunk in column)
    at_once = min(ROWS_AT_ONCE, max(1, _VALUES_AT_ONCE * metadata.num_rows // max(1, num_values)))
    # few bytes per row: rows share a text, and only reading shows how long it is
    shared = [
        name
        for name in columns
        if name in chunks
        and is_text(schema.field(name).type)
        and any(chunk.total_uncompressed_size < _BYTES_OF_TEXT * chunk.num_values for chunk in chunks[name])
    ]
    # pyarrow's default, pre_buffer, keeps all that was read of the file until it is closed
    with pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=_PARQUET_BUFFER, read_dictionary=shared) as opened:
        wanted = list(range(*(file.groups or (0, metadata.num_row_groups))))
        for rows in opened.iter_batches(batch_size=at_once, columns=columns, row_groups=wanted):
            for name in columns:
                _refuse_bomb(rows.column(name), name, file)
            yield rows


def _refuse_bomb(column: pa.Array, name: str, file: TableFile) -> None:
    """Refuse shared texts that fill the memory once each row has its own."""
    if not (pa.types.is_dictionary(column.type) and is_text(column.type.value_type)):
        return
    lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
    size, memory = pc.sum(lengths.cast(pa.int64())).as_py() or 0, available_memory()
    if size > memory:
        raise GraphError(
            f"{file}: {quoted(name)} unpacks to {format_bytes(size)} of text and {format_bytes(memory)} of memory "
            "are available; write it again with shorter texts, or with integers"
        )


def _text_rows(file: TableFile, columns: list[str]) -> Iterator[pa.RecordBatch]:
    return textfiles.rows_in(file.path, file.dialect, columns, file.multiline, str(file))


@contextlib.contextmanager
def _reading(file: TableFile) -> Iterator[None]:
    broken = (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, OverflowError, zlib.error)
    with (
        explained(lambda error: _flaw(file, error), *broken),
        explained(
            lambda _: (
                f"{file} unpacks to more than the {format_bytes(available_memory())} of memory that are available; "
                "write it again in smaller pages, or use a machine with more memory"
            ),
            MemoryError,
        ),
    ):
        yield


def _flaw(file: TableFile, error: str) -> str:
    if file.is_csv and _NOT_UTF_8.search(error):
        return encoding_flaw(file.path, str(file))
    return f"{file} is truncated, empty, or not a table of its kind: {error}; write it again"
