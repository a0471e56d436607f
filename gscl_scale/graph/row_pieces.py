"""Rows of a graph built by tasks: each writes the rows of a bucket to files of its own, and one process joins them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gscl_scale.graph.csr import BuiltRows, EdgeBuckets, RowRange, rows_of
from gscl_scale.io.raw import append_bytes, map_numbers, new_folder
from gscl_scale.runtime.runner import Runner, run_in_order


@dataclass(frozen=True)
class _PieceTask:
    """A bucket with `size` entries, whose rows are built some at a time, and the folder for them."""

    bucket: RowRange
    size: int
    entries_at_once: int
    folder: Path


@dataclass(frozen=True)
class _Piece:
    """The rows of a bucket, in files."""

    bucket: RowRange
    folder: Path
    unequal: int

    def mapped(self) -> BuiltRows:
        """The rows; their pages are those of the files."""
        weights = map_numbers(self.folder / "weights", np.float32) if self.bucket.columns == 3 else None
        entries = map_numbers(self.folder / "entries", self.bucket.dtype)
        return BuiltRows(map_numbers(self.folder / "degrees", np.int64), entries, weights, self.unequal)

    def remove(self) -> None:
        """Remove the files."""
        for path in self.folder.iterdir():
            path.unlink()
        self.folder.rmdir()


def build_pieces(buckets: EdgeBuckets, memory_bytes: int, runner: Runner) -> Iterator[tuple[RowRange, BuiltRows]]:
    """The rows of all buckets in their order, built by tasks in so much memory each."""
    at_once = buckets.entries_at_once(memory_bytes, 1)
    tasks = [_PieceTask(bucket, size, at_once, buckets.folder) for bucket, size in buckets.all()]
    for piece in run_in_order(runner, _write_piece, tasks):
        yield piece.bucket, piece.mapped()
        piece.remove()


def _write_piece(task: _PieceTask) -> _Piece:
    folder, unequal = new_folder(task.folder, f"rows-{task.bucket.low}"), 0
    for part in task.bucket.cut(task.size, task.entries_at_once):
        _, rows = rows_of(part)
        append_bytes(folder / "degrees", rows.degrees)
        append_bytes(folder / "entries", rows.entries)
        if rows.weights is not None:
            append_bytes(folder / "weights", rows.weights)
        unequal += rows.unequal
    return _Piece(task.bucket, folder, unequal)
