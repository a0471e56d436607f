"""Parquet and CSV files as a stream of record batches, with the place of each row."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from gscl_scale.errors import GraphError

ROWS_AT_ONCE = 1 << 20
_CSV_BLOCK = 1 << 24
_PARQUET_BUFFER = 1 << 20
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
        """A column with dictionaries decoded."""
        column = self.rows.column(name)
        return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


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
    return path


def schema_of(path: Path, needed: list[str]) -> pa.Schema:
    """Names and types of a file's columns; the types of a CSV file are a guess from its first rows."""
    with _explained(path):
        if is_csv(path):
            with pa.csv.open_csv(path, _csv_reading()) as reader:
                schema = reader.schema
        else:
            schema = pa.parquet.read_schema(path)
    for name in needed:
        if schema.names.count(name) != 1:
            kind = "no column" if name not in schema.names else "more than one column"
            raise GraphError(f"{path}: {kind} {name!r}; it has {', '.join(schema.names)}")
    return schema


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
    with pa.parquet.ParquetFile(path, pre_buffer=False, buffer_size=_PARQUET_BUFFER) as file:
        yield from file.iter_batches(batch_size=ROWS_AT_ONCE, columns=columns)


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
            f"{where} {first_row + at:,}: feature {name!r} is {text[at].as_py()!r}, expected a number; correct it, "
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
    except (pa.ArrowException, OSError, EOFError) as error:
        what = " ".join(str(error).split())
        raise GraphError(f"{path} is truncated, empty, or no table of its kind: {what}; write it again") from None
