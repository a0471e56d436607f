"""Arrow files of one uncompressed record batch, mapped without a copy."""

import contextlib
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale.errors import FolderError
from gscl_scale.io.atomic import CURE, publish_file
from gscl_scale.io.validate import size_of
from gscl_scale.text import join_names, shortened

_BEGINNING, _END = b"ARROW1\0\0", b"ARROW1"
_NUMPY = {"halffloat": "float16", "float": "float32", "double": "float64"}  # other numbers have the same name in numpy


def write_arrow(path: Path, columns: dict[str, pa.Array]) -> None:
    """Publish an Arrow IPC file of one uncompressed record batch, which a reader can map without a copy."""
    with publish_file(path) as temporary:
        put_arrow(temporary, columns)


def put_arrow(path: Path, columns: dict[str, pa.Array]) -> None:
    """Write the same to a file that the caller publishes."""
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(allow_64bit=True)) as file,
    ):
        file.write_batch(batch)


def map_arrow(path: Path, whole: bool = False) -> pa.RecordBatch:
    """Map a file of `write_arrow` into memory: nothing is read until it is used; `whole`: read all of it at once.

    Its metadata is checked against the bytes of the file; the values of the columns are not.
    """
    if (size := size_of(path)) < 2 * len(_BEGINNING):
        raise _damaged(path, "it ends too early")
    try:
        with pa.BufferReader(path.read_bytes()) if whole else pa.memory_map(str(path)) as file:
            ends = file.read_at(len(_BEGINNING), 0), file.read_at(len(_END), size - len(_END))
            if ends != (_BEGINNING, _END):
                raise _damaged(path, "it is not a complete Arrow file")
            file.seek(len(_BEGINNING))
            messages = pa.ipc.MessageReader.open_stream(file)
            head = messages.read_next_message()
            if head.type != "schema":  # read_schema would end the process
                raise _damaged(path, "it does not begin with a schema")
            schema = pa.ipc.read_schema(head)
            body = messages.read_next_message()
            if body.type != "record batch" or _is_compressed(body.metadata.to_pybytes()):
                raise _damaged(path, "expected one uncompressed record batch")
            batch = pa.ipc.read_record_batch(body, schema)
            batch.validate()
            join_names(schema.names)  # UnicodeDecodeError where they are no text
            with contextlib.suppress(StopIteration):
                messages.read_next_message()
                raise _damaged(path, "expected one record batch")
            return batch
    except StopIteration:
        raise _damaged(path, "it ends too early") from None
    except (OSError, pa.ArrowException, MemoryError, UnicodeDecodeError) as error:
        raise FolderError(f"{path} cannot be read: {shortened(error)}; {CURE}") from None


def _is_compressed(head: bytes) -> bool:
    """Whether a message says that its buffers are compressed; its tables are those of Arrow's Message.fbs."""
    header = _field(head, struct.unpack_from("<I", head)[0], 2)
    return bool(header and _field(head, header + struct.unpack_from("<I", head, header)[0], 3))


def _field(head: bytes, table: int, number: int) -> int:
    """Position of a field of a flatbuffer's table, 0 if it is absent."""
    entries = table - struct.unpack_from("<i", head, table)[0]
    size = struct.unpack_from("<H", head, entries)[0]
    place = struct.unpack_from("<H", head, entries + 4 + 2 * number)[0] if 4 + 2 * number < size else 0
    return table + place if place else 0


def column_of(batch: pa.RecordBatch, name: str, path: Path) -> pa.Array:
    """Return the one column of that name; it may have no missing values."""
    if batch.schema.names.count(name) != 1:
        raise _damaged(path, f"expected one column {name}, got {join_names(batch.schema.names)}")
    column = batch.column(name)
    if column.null_count:
        raise _damaged(path, f"{name} has missing values")
    return column


def arrow_of(values: npt.NDArray[Any]) -> pa.Array:
    """View an array of numbers as an Arrow column; copy it only if it is not contiguous, or of truth values.

    `pa.array` and `to_numpy` import pandas wherever that is installed, which takes a third of a second.
    """
    held = np.packbits(values, bitorder="little") if values.dtype == np.bool_ else np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, [None, pa.py_buffer(held)])


def numpy_of(column: pa.Array) -> npt.NDArray[Any]:
    """View a column of numbers without missing values as an array; truth values are copied."""
    held = column.buffers()[1] if len(column) else b""
    if pa.types.is_boolean(column.type):
        bits = np.unpackbits(np.frombuffer(held, np.uint8), count=column.offset + len(column), bitorder="little")
        return bits[column.offset :].view(np.bool_)
    kind = np.dtype(_NUMPY.get(str(column.type), str(column.type)))  # to_pandas_dtype needs pandas in pyarrow 18
    return np.frombuffer(held, kind, len(column), column.offset * kind.itemsize) if len(column) else np.empty(0, kind)


def text_of(words: Iterable[str]) -> pa.Array:
    """A column of words. Bytes of the shell that are no letters become question marks."""
    written = [word.encode(errors="replace") for word in words]
    ends = np.cumsum([0, *map(len, written)], dtype=np.int64)
    return pa.LargeStringArray.from_buffers(len(written), pa.py_buffer(ends), pa.py_buffer(b"".join(written)))


def numbers_of(column: pa.Array, path: Path, *kinds: str) -> npt.NDArray[Any]:
    """View a column of numbers, of one of some types if any are given, as an array; fixed-size lists become rows."""
    rows = pa.types.is_fixed_size_list(column.type)
    values = column.flatten() if rows else column
    if (kinds and str(values.type) not in kinds) or values.null_count or (rows and not column.type.list_size):
        raise _damaged(path, f"expected numbers of type {' or '.join(kinds)}, got {shortened(column.type, 80)}")
    array = numpy_of(values)
    return array.reshape(len(column), column.type.list_size) if rows else array


def map_array(path: Path, column: str, *kinds: str) -> npt.NDArray[Any]:
    """Map a column of numbers as a read-only array; fixed-size lists become rows."""
    return numbers_of(column_of(map_arrow(path), column, path), path, *kinds)


def _damaged(path: Path, what: str) -> FolderError:
    return FolderError(f"{path} is damaged: {what}; {CURE}")


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def as_rows(array: npt.NDArray[Any]) -> pa.Array:
    """View a two-dimensional array as an Arrow column of fixed-size lists; copy it only if it is not contiguous."""
    return pa.FixedSizeListArray.from_arrays(arrow_of(array.reshape(-1)), array.shape[1])
