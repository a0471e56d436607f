"""One column of numbers as an Arrow file, written a part at a time: only a part is ever in memory."""

import contextlib
import mmap
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale.io.atomic import publish_file

_BYTES_AT_ONCE = 1 << 24


class ColumnFile:
    """Rows of numbers, or of `width` numbers, that become the one record batch of an uncompressed Arrow IPC file.

    The body is appended first, behind room for the header, which is written last, when the number of rows is known.
    The bytes are those that pyarrow would write for the complete column.
    """

    def __init__(self, file: IO[bytes], name: str, dtype: npt.DTypeLike, width: int | None = None) -> None:
        self.dtype = np.dtype(dtype)
        self.num_rows = 0
        self._name, self._width = name, width
        self._room = len(self._frame(1)[0])
        self._file = file
        self._file.seek(self._room)

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Append rows [n], or [n, width]."""
        assert rows.dtype == self.dtype
        assert rows.shape[1:] == (() if self._width is None else (self._width,))
        self._file.write(np.ascontiguousarray(rows).data.cast("B") if rows.size else b"")
        self.num_rows += rows.shape[0]

    def finish(self) -> None:
        """Write the footer and the header around the rows."""
        header, footer = self._frame(self.num_rows)
        assert len(header) == self._room or not self.num_rows
        if not self.num_rows:
            self._file.seek(len(header))
        self._file.write(footer)
        self._file.seek(0)
        self._file.write(header)

    def _frame(self, rows: int) -> tuple[bytes, bytes]:
        """Header and footer of a file of so many rows: what pyarrow writes around a body that takes no disk."""
        size = rows * (self._width or 1) * self.dtype.itemsize
        with tempfile.TemporaryFile() as hole:
            hole.truncate(max(size, 1))
            with mmap.mmap(hole.fileno(), max(size, 1), access=mmap.ACCESS_READ) as body:
                return _around(pa.py_buffer(body), size, self._name, pa.from_numpy_dtype(self.dtype), self._width)


def _around(body: pa.Buffer, size: int, name: str, kind: pa.DataType, width: int | None) -> tuple[bytes, bytes]:
    values = pa.Array.from_buffers(kind, size * 8 // kind.bit_width, [None, body.slice(0, size)])
    column = values if width is None else pa.FixedSizeListArray.from_arrays(values, width)
    batch = pa.record_batch([column], names=[name])
    sink = _Frame(body.address)
    options = pa.ipc.IpcWriteOptions(allow_64bit=True)  # more than 2^31 numbers
    with pa.PythonFile(sink, "w") as file, pa.ipc.new_file(file, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return bytes(sink.before), bytes(sink.after)


class _Frame:
    """A file object that keeps what is written before and after the buffer at one address."""

    closed = False

    def __init__(self, address: int) -> None:
        self.before, self.after = bytearray(), bytearray()
        self._address, self._position, self._seen = address, 0, False

    def write(self, data: Any) -> int:
        if isinstance(data, pa.Buffer) and data.address == self._address:
            self._seen = True
        else:
            (self.after if self._seen else self.before).extend(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True


@contextlib.contextmanager
def column_file(path: Path, name: str, dtype: npt.DTypeLike, width: int | None = None) -> Iterator[ColumnFile]:
    """Publish a column; the block appends its rows."""
    with publish_file(path) as temporary, temporary.open("wb") as file:
        column = ColumnFile(file, name, dtype, width)
        yield column
        column.finish()


def write_column(path: Path, name: str, values: npt.NDArray[Any]) -> None:
    """Publish a column that is in memory, however long."""
    with column_file(path, name, values.dtype) as column:
        step = max(1, _BYTES_AT_ONCE // values.dtype.itemsize)
        for low in range(0, values.size, step):
            column.append(values[low : low + step])
