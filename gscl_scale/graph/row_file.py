"""Rows that do not fit the memory: a stream of them, and a temporary file that vanishes with its last reader."""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.errors import RunError

_BYTES_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class RowStream:
    """Rows of float32 [N, width] that come a part at a time."""

    shape: tuple[int, int]
    parts: Iterable[npt.NDArray[np.float32]]


class RowFile:
    """Rows of float32, appended a part at a time, then read any number of times; the first part sets the width."""

    def __init__(self) -> None:
        self.width: int | None = None
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (closed with its last reader)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):  # buffered rows that do not fit on the disk
            self._file.close()

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Append rows [n, width]."""
        with _temporary_files():
            self._file.write(np.ascontiguousarray(rows, np.float32).data)
        self.width = rows.shape[1]

    def mapped(self) -> npt.NDArray[np.float32]:
        """All rows [N, width], read as they are needed; the file stays as long as they are used."""
        assert self.width
        with _temporary_files():
            self._file.flush()
        return np.memmap(self._file, np.float32, "r").reshape(-1, self.width)

    def __iter__(self) -> Iterator[npt.NDArray[np.float32]]:
        assert self.width
        with _temporary_files():
            self._file.flush()
        self._file.seek(0)
        numbers = max(1, _BYTES_AT_ONCE // (4 * self.width)) * self.width
        while True:
            part: npt.NDArray[np.float32] = np.fromfile(self._file, np.float32, numbers)
            if not part.size:
                return
            yield part.reshape(-1, self.width)


@contextlib.contextmanager
def _temporary_files() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(
            f"{tempfile.gettempdir()}, the folder of temporary files: {error.strerror}; make room there, or set TMPDIR "
            "to a larger folder, and rerun the command"
        ) from None
