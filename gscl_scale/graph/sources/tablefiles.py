"""Parquet and CSV files as a stream of record batches, with the place of each row."""

import contextlib
import gzip
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from gscl_scale.errors import GraphError
from gscl_scale.graph.sources.explain import explained
from gscl_scale.io.arrow import is_text
from gscl_scale.io.validate import size_of
from gscl_scale.machine import available_memory
from gscl_scale.text import in_words, listed, quoted

ROWS_AT_ONCE = 1 << 20
_VALUES_AT_ONCE = 1 << 24
_CSV_BLOCK = 1 << 24
_MOST_COLUMNS = 1 << 16  # of a CSV file
_MOST_BLANKS = 1000
_PARQUET_BUFFER = 1 << 20
_BYTES_OF_TEXT = 8
_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".csv.gz")


@dataclass(frozen=True)
class Part:
    """Some rows of a table; the first of them is row `first_row` of `path`, counted from 1."""

    path: Path
    first_row: int
    rows: pa.RecordBatch

    def where(self, at: int) -> str:
        """The place of a row of this part, for messages."""
        return f"{self.path}: row {self.first_row + at:,}"

    def text_or_numbers(self, name: str) -> pa.Array:
        """A column with dictionaries decoded, and views of text as text."""
        column = self.rows.column(name)
        if pa.types.is_string_view(column.type):
            return column.cast(pa.large_string())
        if not pa.types.is_dictionary(column.type):
            return column
        values = column.dictionary
        return pc.take(values.cast(pa.large_string()) if is_text(values.type) else values, column.indices)


def files_of(path: Path, key: str) -> list[Path]:
    """The files of a table in sorted order: the file itself, or all below a folder except hidden ones."""
    if not path.exists():
        raise GraphError(f"{path} does not exist; check graph.{key}")
    files = [path]
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file())
        files = [file for file in inside if not any(part[0] in "._" for part in file.relative_to(path).parts)]
    if not files:
        raise GraphError(f"{path} holds no table; expected .parquet, .csv or .csv.gz files, check graph.{key}")
    for file in files:
        if not file.name.lower().endswith(_PARQUET + _CSV):
            raise GraphError(f"{file}: unknown kind of table; expected a .parquet, .pq, .csv or .csv.gz file")
        size_of(file, GraphError)
    return files


def is_csv(path: Path) -> bool:
    """Whether the file is text: its columns have no types of their own."""
    return path.name.lower().endswith(_CSV)


def schema_of(path: Path, needed: Mapping[str, str | None]) -> pa.Schema:
    """Names and types of a file's columns; the types of a CSV file are guessed from its first rows.

    needed   the columns that it must have, each with the setting that names it, if one does
    """
    with _reading(path):
        if is_csv(path):
            _refuse_many_columns(path)
            with pa.csv.open_csv(path, _csv_options()) as reader:
                schema = reader.schema
        else:
            schema = pa.parquet.read_schema(path)
        names = schema.names  # UnicodeDecodeError where they are not text
    for name, key in needed.items():
        if names.count(name) != 1:
            kind = "no column" if name not in names else "more than one column"
            setting = f" (graph.{key})" if key else ""
            raise GraphError(f"{path}: {kind} {quoted(name)}{setting}; it has {listed(names)}")
    return schema


def _refuse_many_columns(path: Path) -> None:
    """Refuse a CSV file of so many columns that their readers alone, some kilobytes each, would fill the memory."""
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
        head = next((line for _ in range(_MOST_BLANKS) if (line := file.readline(_CSV_BLOCK)).strip() or not line), b"")
    if (number := head.partition(b"\r")[0].count(b",") + 1) > _MOST_COLUMNS:
        raise GraphError(
            f"{path}: its first line has at least {number:,} columns, expected at most {_MOST_COLUMNS:,}; write it as "
            "Parquet, with one column of lists"
        )


def num_rows(files: list[Path]) -> int | None:
    """Rows of all files by their metadata; None where one is CSV."""
    total = 0
    for path in files:
        if is_csv(path):
            return None
        with _reading(path):
            total += pa.parquet.read_metadata(path).num_rows
    return total


def stream(path: Path, columns: list[str], numbers: Collection[str] = ()) -> Iterator[Part]:
    """The rows of a file, a part at a time; CSV columns are text, except those of `numbers`."""
    first_row = 1
    with _reading(path):
        for rows in _csv_rows(path, columns, numbers) if is_csv(path) else _parquet_rows(path, columns):
            if rows.num_rows:
                yield Part(path, first_row, rows)
                first_row += rows.num_rows


def _parquet_rows(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
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
    with pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=_PARQUET_BUFFER, read_dictionary=shared) as file:
        for rows in file.iter_batches(batch_size=at_once, columns=columns):
            for name in columns:
                _refuse_bomb(rows.column(name), name, path)
            yield rows


def _refuse_bomb(column: pa.Array, name: str, path: Path) -> None:
    """Refuse shared texts that fill the memory once each row has its own."""
    if not (pa.types.is_dictionary(column.type) and is_text(column.type.value_type)):
        return
    lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
    size, memory = pc.sum(lengths.cast(pa.int64())).as_py() or 0, available_memory()
    if size > memory:
        raise GraphError(
            f"{path}: {quoted(name)} unpacks to {in_words(size)} of text and {in_words(memory)} of memory "
            "are available; write it again with shorter texts, or with integers"
        )


def _csv_rows(path: Path, columns: list[str], numbers: Collection[str]) -> Iterator[pa.RecordBatch]:
    types = {name: pa.large_string() for name in columns}
    options = pa.csv.ConvertOptions(include_columns=columns, column_types=types)
    with pa.csv.open_csv(path, _csv_options(), convert_options=options) as reader:
        first_row = 1
        for rows in reader:
            part = Part(path, first_row, rows)
            arrays = [_as_numbers(part, name) if name in numbers else rows[name] for name in columns]
            yield pa.record_batch(arrays, names=columns)
            first_row += rows.num_rows


def _as_numbers(part: Part, name: str) -> pa.Array:
    """Text as 64-bit floats; an empty field, NA and NaN are null."""
    text = part.rows.column(name)
    low = pc.utf8_lower(pc.utf8_trim_whitespace(text))
    low = pc.if_else(pc.is_in(low, pa.array(["", "na", "n/a", "nan", "null"], low.type)), None, low)
    truth = pc.index_in(low, pa.array(["false", "true"], low.type))
    low = pc.if_else(pc.is_valid(truth), pc.cast(pc.cast(truth, pa.string()), low.type), low)
    try:
        return pc.cast(low, pa.float64())
    except pa.ArrowInvalid:
        at = next(row for row in range(len(low)) if not _is_number(low[row : row + 1]))
        raise GraphError(
            f"{part.where(at)}: feature {quoted(name)} is {quoted(text[at].as_py())}, expected a number; correct it, "
            "or name the columns that are numbers in graph.feature_columns"
        ) from None


def _is_number(text: pa.Array) -> bool:
    try:
        pc.cast(text, pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _csv_options() -> Any:
    return pa.csv.ReadOptions(block_size=_CSV_BLOCK)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    broken = (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, OverflowError, zlib.error)
    with (
        explained(
            lambda error: f"{path} is truncated, empty, or not a table of its kind: {error}; write it again", *broken
        ),
        explained(
            lambda _: (
                f"{path} unpacks to more than the {in_words(available_memory())} of memory that are available; "
                "write it again in smaller pages, or use a machine with more memory"
            ),
            MemoryError,
        ),
    ):
        yield
