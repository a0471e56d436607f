"""Rows that are too many for memory, in a file without a name that vanishes with its last reader."""

import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt


class RowFile:
    """Rows of float32, appended a part at a time and then mapped; the first part sets the width."""

    def __init__(self) -> None:
        self.width: int | None = None
        self._num_rows = 0
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  (closed by __exit__)

    def __enter__(self) -> "RowFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Append rows [n, width]."""
        self._file.write(np.ascontiguousarray(rows, np.float32).data)
        self.width = rows.shape[1]
        self._num_rows += rows.shape[0]

    def mapped(self) -> npt.NDArray[np.float32] | None:
        """All rows [N, width], None where there are none; the array outlives the open file and frees the disk."""
        self._file.flush()
        if not self._num_rows or not self.width:
            return None
        return np.memmap(self._file, np.float32, "r+", shape=(self._num_rows, self.width))
