"""Levels of the sketch on disk: plain arrays that all tasks of a pass map, each writing the rows of its vertices."""

import contextlib
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.errors import TaskError
from gscl_scale.io.atomic import naming
from gscl_scale.machine import num_cores
from gscl_scale.rings.sketch.level import Level, head_words

PASS_SHIFT = 14  # a task of a pass has a block of 2^14 vertices: its rows begin at a whole page, whatever the width


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
        table, heads, tails = (
            np.memmap(self.folder / name, dtype, "r", shape=(rows, columns))
            for name, (rows, columns, dtype) in self._layout().items()
        )
        return Level(table, heads, tails.reshape(-1), self.width, PASS_SHIFT)

    def load(self) -> Level:
        """The same in memory, where large pages make reading at random about twice as fast."""
        arrays = [np.empty(shape, dtype) for *shape, dtype in self._layout().values()]
        table, heads, tails = arrays[0], arrays[1], arrays[2].reshape(-1)
        with contextlib.ExitStack() as files:
            of_table, of_heads, of_tails = (
                files.enter_context((self.folder / name).open("rb")) for name in self._layout()
            )

            def fill(first: int) -> None:
                block = Level(table[first : first + (1 << PASS_SHIFT)], heads, tails, self.width)
                _read(of_table, first, block.table)
                num_heads, num_tails = block.used()
                if not _has_room(block, num_heads, num_tails):
                    raise TaskError(f"{self.folder} is damaged; run the same command again")
                start = first * self.width
                _read(of_heads, first, heads[first : first + num_heads])
                _read(of_tails, start, tails[start : start + num_tails])

            with ThreadPoolExecutor(num_cores()) as pool:
                list(pool.map(fill, range(0, self.num_nodes, 1 << PASS_SHIFT)))
        return Level(table, heads, tails, self.width, PASS_SHIFT)

    def write(self, first: int, level: Level) -> int:
        """Write the rows from vertex `first` on, the beginning of a block; returns their checksum."""
        num_heads, num_tails = level.used()
        pieces = (level.table, level.heads[:num_heads], level.tails[:num_tails])
        checksum = 0
        for (name, (_, columns, dtype)), piece in zip(self._layout().items(), pieces, strict=True):
            path = self.folder / name
            with naming(path), path.open("r+b") as file:
                file.seek(first * columns * np.dtype(dtype).itemsize)
                file.write(piece.data)
            checksum = zlib.crc32(piece.data.cast("B") if piece.size else b"", checksum)
        return checksum

    def checksum(self, first: int, end: int) -> int:
        """Checksum of the rows first..end as they are on disk; -1 where there are none."""
        for name, (rows, columns, dtype) in self._layout().items():
            path = self.folder / name
            if not path.exists() or path.stat().st_size != rows * columns * np.dtype(dtype).itemsize:
                return -1
        whole = self.map()
        block = Level(whole.table[first:end], whole.heads, whole.tails, self.width)
        num_heads, num_tails = block.used()
        start = first * self.width
        if not _has_room(block, num_heads, num_tails) or not _fits(
            block, whole.tails[start : start + num_tails], num_heads, self.num_nodes
        ):
            return -1
        checksum = 0
        for piece in (block.table, whole.heads[first : first + num_heads], whole.tails[start : start + num_tails]):
            checksum = zlib.crc32(np.ascontiguousarray(piece).data.cast("B") if piece.size else b"", checksum)
        return checksum

    def row_bytes(self) -> int:
        """Bytes of a vertex at the most."""
        return sum(columns * np.dtype(dtype).itemsize for _, columns, dtype in self._layout().values())

    def _layout(self) -> dict[str, tuple[int, int, npt.DTypeLike]]:
        columns: dict[str, tuple[int, Any]] = {
            "table.raw": (6, self.index_type),
            "heads.raw": (head_words(self.width, self.num_nodes), np.uint64),
            "tails.raw": (self.width, self.index_type),
        }
        return {name: (self.num_nodes, number, dtype) for name, (number, dtype) in columns.items()}


def _has_room(block: Level, num_heads: int, num_tails: int) -> bool:
    """Whether what a block says that it has filled is not more than it can."""
    rows = block.table.shape[0]
    return 0 <= num_heads <= rows and 0 <= num_tails <= rows * block.width


def _fits(block: Level, tails: npt.NDArray[Any], num_heads: int, num_nodes: int) -> bool:
    """Whether the rows of a block name only bits, entries and nodes that are there: kernels trust them."""
    bits, entries, heads, starts = (block.table[:, column].astype(np.int64) for column in (0, 1, 4, 5))
    rows = (
        (bits >= 0) & (bits <= 64 * block.words) & (entries >= 0) & (entries <= block.width)
        & (starts >= 0) & (starts + entries <= tails.size) & (heads >= 0) & ((bits == 0) | (heads < num_heads))
    )  # fmt: skip
    return bool(rows.all() and (not tails.size or (tails.min() >= 0 and tails.max() < num_nodes)))


def _read(file: BufferedReader, first: int, rows: npt.NDArray[Any]) -> None:
    """Fill rows from the place of row `first` in a file, whoever else reads it."""
    start, filled = first * rows.strides[0], 0
    left = rows.data.cast("B") if rows.size else memoryview(b"")
    while filled < left.nbytes:
        number = os.preadv(file.fileno(), [left[filled:]], start + filled)
        if not number:
            raise TaskError(f"{file.name} ends too early; run the same command again")
        filled += number


def scratch_folder(samples: Path, round_number: int) -> Path:
    """Where the levels of a round live until its parts are written."""
    return samples / "scratch" / f"round-{round_number:03d}"
