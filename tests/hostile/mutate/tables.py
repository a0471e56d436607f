"""Arrow and Parquet files with other tables, types and values."""

import io
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile.mutate.arrays import any_array
from tests.hostile.mutate.blind import NAMES, any_bytes, pick

BOMBS: list[Path] = []  # Parquet files that are small and hold much: too costly to be made for each input


def any_arrow(rng: Random, content: bytes) -> bytes:
    """An Arrow file with other bytes, or another batch."""
    return pick(rng, (45, lambda: any_bytes(rng, content)), (55, lambda: _other_arrow(rng, content)))


def _other_arrow(rng: Random, content: bytes) -> bytes:
    options = pa.ipc.IpcWriteOptions(compression=rng.choice((None, None, None, None, "zstd", "lz4")))
    sink = io.BytesIO()
    try:
        batch = pa.ipc.open_file(pa.BufferReader(content)).get_batch(0)
        table = any_table(rng, pa.Table.from_batches([batch]))
        with pa.ipc.new_file(sink, table.schema, options=options) as file:
            for one in table.to_batches() * rng.choice((1, 1, 1, 1, 2, 0)):
                file.write_batch(one)
    except pa.ArrowInvalid:
        return any_bytes(rng, content)
    return sink.getvalue()


def any_parquet(rng: Random, content: bytes) -> bytes:
    """A Parquet file with other bytes, or another table."""
    return pick(
        rng,
        (45, lambda: any_bytes(rng, content)),
        (1 if BOMBS else 0, lambda: rng.choice(BOMBS).read_bytes()),
        (43, lambda: _other_parquet(rng, content)),
        (11, lambda: any_bytes(rng, _other_parquet(rng, content))),
    )


def _other_parquet(rng: Random, content: bytes) -> bytes:
    sink = io.BytesIO()
    try:
        table = any_table(rng, pq.read_table(io.BytesIO(content)))
        pq.write_table(table, sink, compression=rng.choice(("none", "snappy", "zstd", "gzip", "brotli", "lz4")))
    except (pa.ArrowException, OSError):
        return any_bytes(rng, content)
    return sink.getvalue()


def parquet_bombs() -> Iterator[bytes]:
    """Small files of much: runs of one number, a long text that all rows share, a text as large as memory."""
    one = pa.array(np.zeros(4_000_000, np.int64))
    shared = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200_000, np.int32)), pa.array(["x" * 1_000_000]))
    large = pa.array(["x" * 1_500_000_000], pa.large_string())
    for column in (one, shared, large):
        sink = io.BytesIO()
        table = pa.table({"source": column, "target": column, "id": column})
        pq.write_table(table, sink, use_dictionary=column is not large, compression="zstd")
        yield sink.getvalue()


def any_table(rng: Random, table: pa.Table) -> pa.Table:
    """A table with another column."""
    name = rng.choice(table.column_names)
    column = table.column(name)
    return pick(
        rng,
        (8, lambda: table.drop_columns([name])),
        (6, lambda: table.append_column(rng.choice((name, "label", "split", "\0", "x" * 1000)), column)),
        (6, lambda: table.rename_columns([("other" if one == name else one) for one in table.column_names])),
        (5, lambda: table.slice(0, rng.choice((0, 1, table.num_rows // 2)))),
        (3, lambda: pa.concat_tables([table, table])),
        (72, lambda: table.set_column(table.column_names.index(name), name, any_column(rng, column.combine_chunks()))),
    )


def any_column(rng: Random, column: pa.Array) -> pa.Array:
    """A column of as many rows with other values or of another type."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    if pa.types.is_fixed_size_list(column.type):
        values = any_column(rng, column.values)
        size = rng.choice((column.type.list_size, 1, 3))
        return _repeated(pa.FixedSizeListArray.from_arrays(values[: len(values) // size * size], size), len(column))
    if pa.types.is_list(column.type):
        return _other_lists(rng, column)
    numbers = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if numbers and not column.null_count and rng.random() < 0.6:
        array = any_array(rng, column.to_numpy())
        if array.ndim == 1 and array.size == len(column) and array.dtype.kind in "iufb":
            return pa.array(array.astype(array.dtype.newbyteorder("=")))
    return _of_another_type(rng, len(column), column.type)


def _other_lists(rng: Random, column: pa.Array) -> pa.Array:
    values = any_column(rng, column.values)
    offsets = any_array(rng, column.offsets.to_numpy()).reshape(-1)
    if rng.random() < 0.4 and offsets.dtype == np.int32 and offsets.size == len(column) + 1:
        buffers = [None, pa.py_buffer(np.ascontiguousarray(offsets))]
        return pa.Array.from_buffers(pa.list_(values.type), len(column), buffers, children=[values])
    return pa.ListArray.from_arrays(column.offsets, values)


def _of_another_type(rng: Random, rows: int, kind: pa.DataType) -> pa.Array:
    counted, word = range(rows), rng.choice((*NAMES[:-1], None, "train", "nan", "-1", "1.5"))
    values, types = rng.choice(
        (
            ([None] * rows, (kind, pa.null(), pa.decimal128(10, 2))),
            ([str(row) for row in counted], (pa.string(), pa.large_string(), pa.string_view())),
            ([word] * rows, (pa.string(),)),
            ([[row, None] for row in counted], (None,)),
            ([[1.0] * (row % 3) for row in counted], (pa.list_(pa.float32()),)),
            ([{"a": 1}] * rows, (None,)),
            ([b"\xff\xfe"] * rows, (None,)),
            ([rng.choice((True, False, None)) for _ in counted], (None,)),
            (counted, (pa.uint64(), pa.timestamp("ns"))),
            ([2**63 + 1] * rows, (pa.uint64(),)),
            ([None, *range(rows - 1)][:rows], (pa.int64(),)),
            ([1.5] * rows, (pa.float16(), pa.float64())),
            ([[[1.0]]] * rows, (None,)),
        )
    )
    array = pa.array(values, rng.choice(types))
    return array.dictionary_encode() if pa.types.is_string(array.type) and rng.random() < 0.4 else array


def _repeated(column: pa.Array, rows: int) -> pa.Array:
    return column.take(pa.array(np.arange(rows) % max(1, len(column)))) if len(column) else column
