"""Rows between the steps of a long computation, in files; a process that was stopped leaves a finished step behind."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from mmap import MADV_DONTNEED, PAGESIZE, mmap
from pathlib import Path

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from gscl_scale.errors import FolderError, RunError
from gscl_scale.io.atomic import explain_disk_errors
from gscl_scale.io.checksum import sha256_of
from gscl_scale.io.json import read_json, write_json

Rows = npt.NDArray[np.float32]
_SAVE_EVERY_S = 60.0
_NAMES = ("a", "b", "c")  # the last step, the next one, and the saved one
_STEP = "step.json"


class _Saved(TypedDict):
    made_from: str
    step: int
    file: str
    sha256: str


@contextlib.contextmanager
def kept_when_stopped(folder: Path) -> Iterator[Path]:
    """Yield a folder for files of steps; it stays only where the work is stopped, or fails, after a step was saved."""
    stays = False
    try:
        yield folder
    except (KeyboardInterrupt, RunError):
        stays = (folder / _STEP).exists()
        raise
    finally:
        if not stays:
            shutil.rmtree(folder, ignore_errors=True)


def release_pages(rows: Rows, part: slice = slice(None)) -> None:
    """Take some rows of a mapped file out of the memory of this process; they stay in the cache of the system."""
    low, high, _ = part.indices(len(rows))
    first, end = (-(-low * rows.strides[0] // PAGESIZE) * PAGESIZE, high * rows.strides[0] // PAGESIZE * PAGESIZE)
    if end > first:
        assert isinstance(rows.base, mmap)
        rows.base.madvise(MADV_DONTNEED, first, end - first)


class StepFiles:
    """Rows [N, width] after each step; every minute a finished step is saved.

    A later process whose rows are made from the same goes on after the saved step.

    done   number of finished steps
    """

    def __init__(self, folder: Path, made_from: str, shape: tuple[int, int]) -> None:
        self._folder, self._made_from, self._shape = folder, made_from, shape
        self._open: dict[str, Rows] = {}
        self._saved_at = time.monotonic()
        saved = self._read()
        self.done, self._now, self._saved = (saved["step"], saved["file"], saved["file"]) if saved else (0, "a", "")
        if not saved:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)

    def _read(self) -> _Saved | None:
        """The saved step, if it is one of the same rows and its files are whole."""
        if not (self._folder / _STEP).exists():
            return None
        try:
            saved = read_json(self._folder / _STEP, _Saved)
        except FolderError:  # damaged: all steps are computed again
            return None
        path = self._path(saved["file"])
        same = saved["made_from"] == self._made_from and path.exists() and sha256_of(path) == saved["sha256"]
        return saved if same else None

    @property
    def now(self) -> Rows:
        """The rows of the last finished step; before the first, a file to fill."""
        return self._rows(self._now)

    @property
    def next(self) -> Rows:
        """Where the rows of the next step go."""
        return self._rows(self._next_name())

    def finish(self) -> None:
        """The rows of the next step are complete."""
        self._now = self._next_name()
        self.done += 1
        if time.monotonic() - self._saved_at >= _SAVE_EVERY_S:
            self._save()

    def _save(self) -> None:
        path = self._path(self._now)
        with explain_disk_errors(path), path.open("rb") as file:
            os.fsync(file.fileno())
        saved = _Saved(made_from=self._made_from, step=self.done, file=self._now, sha256=sha256_of(path))
        write_json(self._folder / _STEP, saved)
        self._saved, self._saved_at = self._now, time.monotonic()

    def _next_name(self) -> str:
        return next(name for name in _NAMES if name not in (self._now, self._saved))

    def _rows(self, name: str) -> Rows:
        if name not in self._open:
            if name != self._saved:
                self._allocate(self._path(name))
            self._open[name] = np.memmap(self._path(name), np.float32, "r+", shape=self._shape)
        return self._open[name]

    def _allocate(self, path: Path) -> None:
        """A file of zeros with allocated blocks: the system kills a process whose mapped file finds the disk full."""
        with explain_disk_errors(path), path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, 4 * self._shape[0] * self._shape[1])

    def _path(self, name: str) -> Path:
        return self._folder / f"rows-{name}.raw"
