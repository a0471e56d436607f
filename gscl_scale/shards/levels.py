"""Levels of the sketch on disk: plain arrays that all tasks of a pass map, each writing the rows of its vertices."""

import contextlib
import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from gscl_scale.errors import TaskError
from gscl_scale.io.atomic import explain_disk_errors
from gscl_scale.machine import num_cores
from gscl_scale.rings.sketch.level import Level, head_words

PASS_SHIFT = 14  # blocks of a pass have 2^14 vertices: their rows begin at a whole page, whatever the width


@dataclass(frozen=True)
class LevelFiles:
    """The balls of one radius around all nodes; the files are removed once their round is finished."""

    folder: Path
    num_nodes: int
    width: int
    index_type: str

    @classmethod
    def of(
        cls, samples: Path, round_number: int, radius: int, num_nodes: int, width: int, index_type: str
    ) -> "LevelFiles":
        """The files of a radius in a samples folder."""
        return cls(levels_folder(samples, round_number) / f"radius-{radius}", num_nodes, width, index_type)

    def create(self) -> None:
        """Make room for all rows; rows that are on disk stay."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for path, columns, dtype in self._layout():
            size = self.num_nodes * columns * dtype.itemsize
            with explain_disk_errors(path):
                path.touch()
                if path.stat().st_size != size:
                    os.truncate(path, size)

    def map(self) -> Level:
        """All rows, read-only."""
        table, heads, tails = (
            np.memmap(path, dtype, "r", shape=(self.num_nodes, columns)) for path, columns, dtype in self._layout()
        )
        return Level(table, heads, tails.reshape(-1), self.width, PASS_SHIFT)

    def load(self, first: int = 0, end: int | None = None, threads: int | None = None) -> Level:
        """All rows, or the blocks from first to end, in memory: large pages make reading at random twice as fast."""
        number = (self.num_nodes if end is None else end) - first
        table, heads, tails = (np.empty((number, columns), dtype) for _, columns, dtype in self._layout())
        level = Level(table, heads, tails.reshape(-1), self.width, PASS_SHIFT)
        paths = [path for path, _, _ in self._layout()]
        with contextlib.ExitStack() as stack:
            of_table, of_heads, of_tails = (stack.enter_context(_open_pieces(path)) for path in paths)

            def fill(at: int) -> None:
                block, start = _block(level, at, min(at + (1 << PASS_SHIFT), number)), at * self.width
                _read(of_table, first + at, block.table)
                num_heads, num_tails = block.used()
                if not _has_room(block, num_heads, num_tails):
                    raise TaskError(f"{self.folder} is damaged; run the same command again")
                _read(of_heads, first + at, heads[at : at + num_heads])
                _read(of_tails, first * self.width + start, level.tails[start : start + num_tails])

            with ThreadPoolExecutor(threads or num_cores()) as pool:
                list(pool.map(fill, range(0, number, 1 << PASS_SHIFT)))
        return level

    def load_rows(self, first: int, end: int) -> Level:
        """The rows first..end, wherever they begin."""
        low = first >> PASS_SHIFT << PASS_SHIFT
        return self.load(low, end, threads=1).rows(np.arange(first - low, end - low))

    def write(self, first: int, level: Level) -> int:
        """Write the rows from vertex `first` on, the beginning of a block; returns their checksum."""
        num_heads, num_tails = level.used()
        arrays = (level.table, level.heads[:num_heads], level.tails[:num_tails])
        for (path, columns, dtype), array in zip(self._layout(), arrays, strict=True):
            with explain_disk_errors(path), path.open("r+b") as file:
                file.seek(first * columns * dtype.itemsize)
                file.write(array.data)
        return _checksum(*arrays)

    def checksum(self, first: int, end: int) -> int:
        """Checksum of the rows first..end on disk; -1 where there are none, or they name what is not there."""
        for path, columns, dtype in self._layout():
            if not path.exists() or path.stat().st_size != self.num_nodes * columns * dtype.itemsize:
                return -1
        level = self.map()
        block, start = _block(level, first, end), first * self.width
        num_heads, num_tails = block.used()
        tails = level.tails[start : start + max(num_tails, 0)]
        if not _has_room(block, num_heads, num_tails) or not _fits(block, tails, num_heads, self.num_nodes):
            return -1
        return _checksum(block.table, level.heads[first : first + num_heads], tails)

    @property
    def item(self) -> int:
        """Bytes of a rank."""
        return np.dtype(self.index_type).itemsize

    def row_bytes(self) -> int:
        """The most bytes that a vertex takes."""
        return sum(columns * dtype.itemsize for _, columns, dtype in self._layout())

    def _layout(self) -> list[tuple[Path, int, "np.dtype[Any]"]]:
        """Path, columns and type of the table, the heads and the tails."""
        index = np.dtype(self.index_type)
        return [
            (self.folder / "table.raw", 6, index),
            (self.folder / "heads.raw", head_words(self.width, self.num_nodes), np.dtype(np.uint64)),
            (self.folder / "tails.raw", self.width, index),
        ]


def _block(level: Level, first: int, end: int) -> Level:
    return Level(level.table[first:end], level.heads, level.tails, level.width)


def _has_room(block: Level, num_heads: int, num_tails: int) -> bool:
    """Whether a block has room for what it claims to have filled."""
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


def _checksum(*arrays: npt.NDArray[Any]) -> int:
    checksum = 0
    for array in arrays:
        checksum = zlib.crc32(array.data, checksum)
    return checksum


@contextlib.contextmanager
def _open_pieces(path: Path) -> Iterator[IO[bytes]]:
    """A file of which pieces are read whole: what the system would read ahead of them is not all needed."""
    with path.open("rb", buffering=0) as file:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        yield file


def _read(file: IO[bytes], first: int, rows: npt.NDArray[Any]) -> None:
    """Fill rows from row `first` of a file on; several threads may."""
    left, at = rows.data.cast("B") if rows.size else memoryview(b""), first * rows.strides[0]
    while left:
        if not (read := os.pread(file.fileno(), len(left), at)):
            raise TaskError(f"{file.name} ends too early; run the same command again")
        left[: len(read)] = read
        left, at = left[len(read) :], at + len(read)


def levels_folder(samples: Path, round_number: int) -> Path:
    """The folder of what the tasks of a round share until its parts are written."""
    return samples / "scratch" / f"round-{round_number:03d}"
