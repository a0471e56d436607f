"""Ids in files: columns that do not fit the memory are appended, then mapped."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale import machine
from gscl_scale.graph.sources.tableids import SHORT_TEXT, is_integer_text, short_text
from gscl_scale.graph.types import ID_SHARE
from gscl_scale.io.arrow import is_text
from gscl_scale.io.atomic import explain_disk_errors
from gscl_scale.io.raw import append_bytes
from gscl_scale.runtime.runner import Runner, run_in_order
from gscl_scale.runtime.threads import map_in_order, num_threads
from gscl_scale.storage.tables import ScratchFolder

Task = TypeVar("Task")
Result = TypeVar("Result")

IDS_AT_ONCE = 1 << 20
_END = np.dtype(np.int64)  # of a text
_SHORT_END = np.dtype(np.int32)


class IdScratch:
    """Where ids wait that do not fit the memory: a folder that is made once it is needed.

    resident   bytes of ids and their table that stay in memory: none where tasks of a runner share the work
    at_once    bytes for the parts of the others that are looked at together, or by each task
    """

    def __init__(self, memory_mb: int, folder: Path | None = None, runner: Runner | None = None) -> None:
        self.resident = 0 if runner else machine.available_memory() // ID_SHARE
        self.at_once = memory_mb << 20
        self.runner = runner
        self._given = folder
        self._own: ScratchFolder | None = None

    @cached_property
    def folder(self) -> Path:
        """The folder; without a given one it goes with this object."""
        if self._given is None:
            self._own = ScratchFolder()
            return self._own.path
        with explain_disk_errors(self._given):
            self._given.mkdir(parents=True, exist_ok=True)
        return self._given

    @property
    def workers(self) -> int:
        """Tasks that run at once."""
        return self.runner.workers if self.runner else num_threads()

    def run(self, function: Callable[[Task], Result], tasks: Iterable[Task], threads: int) -> Iterator[Result]:
        """Results in the order of the tasks: of the runner, or on so many threads of this process."""
        return run_in_order(self.runner, function, tasks) if self.runner else map_in_order(function, tasks, threads)

    def new_folder(self, name: str) -> Path:
        """An empty folder below it."""
        folder = self.folder / name
        with explain_disk_errors(folder):
            folder.mkdir()
        return folder


@dataclass(frozen=True)
class IdFile:
    """Ids without missing ones: integers as they are, of text the bytes, and in a second file where each ends.

    kind   a type of integers, or large_string
    """

    path: Path
    kind: pa.DataType

    @property
    def _ends(self) -> Path:
        return self.path.with_name(f"{self.path.name}.ends")

    def append(self, ids: pa.Array) -> None:
        """Append ids that can be of this type."""
        if not is_text(self.kind):
            append_bytes(self.path, ids.cast(self.kind).to_numpy(zero_copy_only=False))
            return
        ends, text = text_of(ids)
        size = self.path.stat().st_size if self.path.exists() else None
        moved = ends - (ends[0] - (size or 0))
        append_bytes(self.path, text[ends[0] : ends[-1]])
        append_bytes(self._ends, moved if size is None else moved[1:])  # it begins with 0, as Arrow's offsets do

    def mapped(self) -> pa.Array:
        """All ids; their pages are those of the files, which the system takes back."""
        if not self.path.exists():
            return pa.array([], self.kind)
        if not is_text(self.kind):
            held = _map(self.path)
            return pa.Array.from_buffers(self.kind, held.size * 8 // self.kind.bit_width, [None, held])
        ends = _map(self._ends)
        return pa.Array.from_buffers(self.kind, ends.size // _END.itemsize - 1, [None, ends, _map(self.path)])

    def parts(self) -> Iterator[pa.Array]:
        """All ids, some at a time."""
        return slices(self.mapped())

    def as_type(self, kind: pa.DataType) -> pa.Array:
        """All ids, mapped: integers of another type if that can hold them, text of the plain string type likewise."""
        if is_text(self.kind):
            return self._short()
        narrow = IdFile(self.path.with_name(f"{self.path.name}-{kind}"), kind)
        if kind == self.kind or is_text(kind):
            return self.mapped()
        try:
            for ids in self.parts():
                narrow.append(ids)
        except pa.ArrowInvalid:  # larger numbers
            return self.mapped()
        return narrow.mapped()

    def _short(self) -> pa.Array:
        ids = self.mapped()
        if not 0 <= self.path.stat().st_size < SHORT_TEXT:
            return ids
        ends = self.path.with_name(f"{self.path.name}.short-ends")
        for low in range(0, len(ids) + 1, IDS_AT_ONCE):
            count = min(IDS_AT_ONCE, len(ids) + 1 - low)
            append_bytes(ends, np.fromfile(self._ends, _END, count, offset=low * _END.itemsize).astype(_SHORT_END))
        self._ends.unlink()
        return pa.Array.from_buffers(pa.string(), len(ids), [None, _map(ends), _map(self.path)])

    def remove(self) -> None:
        """Remove the files; what is mapped stays readable."""
        for path in (self.path, self._ends):
            path.unlink(missing_ok=True)


class IdColumn:
    """The ids of a node table, part by part: in memory, or in a file once they are too many.

    guess   whether texts become integers if all are written like that
    """

    def __init__(self, scratch: IdScratch, guess: bool) -> None:
        self.types: set[pa.DataType] = set()
        self._scratch, self._integers = scratch, guess
        self._waiting: list[pa.Array] = []
        self._bytes = 0
        self._file: IdFile | None = None

    def add(self, ids: pa.Array) -> None:
        """Add some ids."""
        self.types.add(ids.type)
        self._waiting.append(ids)
        self._bytes += ids.nbytes
        self._integers = self._integers and all_integers(ids)
        if 2 * self._bytes > self._scratch.resident:  # twice where they are put together
            self._file = self._file or IdFile(self._scratch.folder / "ids", ids.type)
            for part in self._waiting if len(self.types) == 1 else ():
                self._file.append(part)
            self._waiting = []

    def joined(self) -> pa.Array:
        """All ids, which are of one type, as one array; it is mapped where they are in a file."""
        if self._file is None:
            joined = pa.concat_arrays(self._waiting)
            return short_text(joined.cast(pa.int64()) if self._integers else joined)
        if not self._integers:
            return self._file.as_type(self._file.kind)
        numbers = IdFile(self._scratch.folder / "numbers", pa.int64())
        for part in self._file.parts():
            numbers.append(part)
        self._file.remove()
        return numbers.mapped()


def all_integers(text: pa.Array) -> bool:
    """Whether all texts are integers as programs write them."""
    return bool(pc.all(is_integer_text(text)).as_py())


def slices(ids: pa.Array) -> Iterator[pa.Array]:
    """An array, some ids at a time."""
    return (ids[low : low + IDS_AT_ONCE] for low in range(0, len(ids), IDS_AT_ONCE))


def text_of(ids: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Where texts end, behind the beginning of the first, and the bytes that hold them."""
    texts = ids.cast(pa.large_string())
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return ends, np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)


def _map(path: Path) -> pa.Buffer:
    """The bytes of a file; of an empty one nothing is mapped."""
    if not path.stat().st_size:
        return pa.py_buffer(b"")
    with pa.memory_map(str(path)) as file:
        return file.read_buffer()
