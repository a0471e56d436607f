"""Levels of the sketch on disk: plain arrays that all tasks of a pass map, each writing the rows of its vertices."""

import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.files import naming
from gscl_scale.rings import Level, head_words

PASS_VERTICES = 16384  # rows of a task begin and end at whole pages, whatever the width


@dataclass(frozen=True)
class LevelFiles:
    """Where the balls of one radius are, for all nodes of a round; scratch that lives as long as its round is made."""

    folder: Path
    num_nodes: int
    width: int
    index_type: str

    @classmethod
    def of(
        cls, samples: Path, round_number: int, radius: int, num_nodes: int, width: int, index_type: str
    ) -> "LevelFiles":
        """The files of a radius in a samples folder."""
        return cls(scratch_folder(samples, round_number) / f"radius-{radius}", num_nodes, width, index_type)

    def create(self) -> None:
        """Make room for all rows; rows that are there stay."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, array in self._layout().items():
            path = self.folder / name
            size = array[0] * array[1] * np.dtype(array[2]).itemsize
            with naming(path):
                path.touch()
                if path.stat().st_size != size:
                    os.truncate(path, size)

    def map(self) -> Level:
        """All rows, read-only."""
        heads, tails, counts = (
            np.memmap(self.folder / name, dtype, "r", shape=(rows, columns))
            for name, (rows, columns, dtype) in self._layout().items()
        )
        return Level(heads, tails, counts)

    def write(self, first: int, level: Level) -> int:
        """Write the rows from vertex `first` on; returns their checksum."""
        checksum = 0
        for name, array in zip(self._layout(), (level.heads, level.tails, level.counts), strict=True):
            path = self.folder / name
            with naming(path), path.open("r+b") as file:
                file.seek(first * array.shape[1] * array.itemsize)
                file.write(array.data)
            checksum = zlib.crc32(array.data.cast("B"), checksum)
        return checksum

    def checksum(self, first: int, end: int) -> int:
        """Checksum of the rows first..end as they are on disk; -1 where there are none."""
        checksum = 0
        for name, (rows, columns, dtype) in self._layout().items():
            path, row_bytes = self.folder / name, columns * np.dtype(dtype).itemsize
            if not path.exists() or path.stat().st_size != rows * row_bytes:
                return -1
            with path.open("rb") as file:
                file.seek(first * row_bytes)
                checksum = zlib.crc32(file.read((end - first) * row_bytes), checksum)
        return checksum

    def row_bytes(self) -> int:
        """Bytes of a vertex."""
        return sum(columns * np.dtype(dtype).itemsize for _, columns, dtype in self._layout().values())

    def _layout(self) -> dict[str, tuple[int, int, npt.DTypeLike]]:
        words = head_words(self.width, self.num_nodes)
        columns: dict[str, tuple[int, Any]] = {
            "heads.raw": (words, np.uint64),
            "tails.raw": (self.width, self.index_type),
            "counts.raw": (4, self.index_type),
        }
        return {name: (self.num_nodes, number, dtype) for name, (number, dtype) in columns.items()}


def scratch_folder(samples: Path, round_number: int) -> Path:
    """Where the levels of a round live until its parts are written."""
    return samples / "scratch" / f"round-{round_number:03d}"
