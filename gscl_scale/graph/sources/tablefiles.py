"""Parquet and CSV files as a stream of record batches, with the place of each row."""

import contextlib
import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from gscl_scale.errors import GraphError
from gscl_scale.io.validate import size_of
from gscl_scale.machine import available_memory
from gscl_scale.text import in_words, listed, quoted, shortened

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
        return pc.take(values.cast(pa.large_string()) if _is_text(values.type) else values, column.indices)


def files_of(path: Path, key: str) -> list[Path]:
    """The table's files in sorted order: the file itself, or all below a folder but hidden ones."""
    if not path.exists():
        raise GraphError(f"{path} does not exist; check graph.{key}")
    if not path.is_dir():
        return [_known(path)]
    inside = sorted(file for file in path.rglob("*") if file.is_file())
    visible = [file for file in inside if not any(part[0] in "._" for part in file.relative_to(path).parts)]
    if not visible:
        raise GraphError(f"{path} holds no table; expected .parquet, .csv or .csv.gz files, check graph.{key}")
    return [_known(file) for file in visible]


def is_csv(path: Path) -> bool:
    """Whether the file is text: its columns have no types of their own."""
    return path.name.lower().endswith(_CSV)


def _known(path: Path) -> Path:
    if not path.name.lower().endswith(_PARQUET + _CSV):
        raise GraphError(f"{path}: unknown kind of table; expected a name ending in .parquet, .pq, .csv or .csv.gz")
    size_of(path, GraphError)
    return path


def schema_of(path: Path, needed: Mapping[str, str | None]) -> pa.Schema:
    """Names and types of a file's columns; the types of a CSV file are a guess from its first rows.

    needed   the columns that it must have, each with the setting that names it, if one does
    """
    with _explained(path):
        if is_csv(path):
            _refuse_columns(path)
            with pa.csv.open_csv(path, _csv_reading()) as reader:
                schema = reader.schema
        else:
            schema = pa.parquet.read_schema(path)
        names = schema.names  # UnicodeDecodeError where they are no text
    for name, key in needed.items():
        if names.count(name) != 1:
            kind = "no column" if name not in names else "more than one column"
            by = f" (graph.{key})" if key else ""
            raise GraphError(f"{path}: {kind} {quoted(name)}{by}; it has {listed(names)}")
    return schema


def _refuse_columns(path: Path) -> None:
    """Refuse a head of so many columns that their readers alone, some kilobytes each, would fill the memory."""
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
        with _explained(path):
            total += pa.parquet.read_metadata(path).num_rows
    return total


def stream(path: Path, columns: list[str], numbers: tuple[str, ...] = ()) -> Iterator[Part]:
    """The rows of a file, some at a time; CSV columns are text, but for those of `numbers`."""
    first_row = 1
    with _explained(path):
        for rows in _csv_rows(path, columns, numbers) if is_csv(path) else _parquet_rows(path, columns):
            if rows.num_rows:
                yield Part(path, first_row, rows)
                first_row += rows.num_rows


def _parquet_rows(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    # pyarrow's own choice, pre_buffer, keeps all that was read of the file until it is closed
    shared = _shared_texts(path, columns)
    with pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=_PARQUET_BUFFER, read_dictionary=shared) as file:
        for rows in file.iter_batches(batch_size=_rows_at_once(file.metadata, columns), columns=columns):
            for name in columns:
                _refuse_bomb(rows.column(name), name, path)
            yield rows


def _rows_at_once(metadata: Any, columns: list[str]) -> int:
    """Few where rows are long, such as lists of features."""
    paths = [metadata.schema.column(at).path for at in range(metadata.num_columns)]
    wanted = [
        at for at, path in enumerate(paths) if any(path == name or path.startswith(f"{name}.") for name in columns)
    ]
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    values = sum(group.column(at).num_values for group in groups for at in wanted)
    return min(ROWS_AT_ONCE, max(1, _VALUES_AT_ONCE * metadata.num_rows // max(1, values)))


def _shared_texts(path: Path, columns: list[str]) -> list[str]:
    """Columns of text with few bytes for a row: many rows share a text, and how long that is only reading it tells."""
    metadata, schema = pa.parquet.read_metadata(path), pa.parquet.read_schema(path)
    of = {metadata.schema.column(at).path: at for at in range(metadata.num_columns)}
    texts = [name for name in columns if name in of and _is_text(schema.field(name).type)]
    chunks = {
        name: [metadata.row_group(group).column(of[name]) for group in range(metadata.num_row_groups)] for name in texts
    }
    return [
        name for name in texts
        if any(chunk.total_uncompressed_size < _BYTES_OF_TEXT * chunk.num_values for chunk in chunks[name])
    ]  # fmt: skip


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _refuse_bomb(column: pa.Array, name: str, path: Path) -> None:
    """Refuse texts that take more memory than there is once each row has its own."""
    if not (pa.types.is_dictionary(column.type) and _is_text(column.type.value_type)):
        return
    lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
    whole, memory = pc.sum(lengths.cast(pa.int64())).as_py() or 0, available_memory()
    if whole > memory:
        raise GraphError(
            f"{path}: {quoted(name)} unpacks to {in_words(whole)} of text and {in_words(memory)} of memory "
            "are available; write it again with shorter texts, or with integers"
        )


def _csv_rows(path: Path, columns: list[str], numbers: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    types = {name: pa.large_string() for name in columns}
    options = pa.csv.ConvertOptions(include_columns=columns, column_types=types)
    with pa.csv.open_csv(path, _csv_reading(), convert_options=options) as reader:
        first_row = 1
        for rows in reader:
            arrays = [
                _as_numbers(rows.column(name), f"{path}: row", name, first_row) if name in numbers else rows[name]
                for name in columns
            ]
            yield pa.record_batch(arrays, names=columns)
            first_row += rows.num_rows


def _as_numbers(text: pa.Array, where: str, name: str, first_row: int) -> pa.Array:
    """Text as 64-bit floats; an empty field, NA and NaN are null."""
    low = pc.utf8_lower(pc.utf8_trim_whitespace(text))
    low = pc.if_else(pc.is_in(low, pa.array(["", "na", "n/a", "nan", "null"], low.type)), None, low)
    truth = pc.index_in(low, pa.array(["false", "true"], low.type))
    low = pc.if_else(pc.is_valid(truth), pc.cast(pc.cast(truth, pa.string()), low.type), low)
    try:
        return pc.cast(low, pa.float64())
    except pa.ArrowInvalid:
        at = next(row for row, value in enumerate(low) if not _is_number(value.as_py()))
        raise GraphError(
            f"{where} {first_row + at:,}: feature {quoted(name)} is {quoted(text[at].as_py())}, expected a number; "
            "correct it, "
            "or name the columns that are numbers in graph.feature_columns"
        ) from None


def _is_number(text: str | None) -> bool:
    try:
        pc.cast(pa.array([text], pa.string()), pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _csv_reading() -> Any:
    return pa.csv.ReadOptions(block_size=_CSV_BLOCK)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except (MemoryError, pa.ArrowMemoryError):
        raise GraphError(
            f"{path} unpacks to more than the {in_words(available_memory())} of memory that are available; write it "
            "again in smaller pages, or use a machine with more memory"
        ) from None
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, OverflowError, zlib.error) as error:
        raise GraphError(
            f"{path} is truncated, empty, or no table of its kind: {shortened(error)}; write it again"
        ) from None
