"""A run folder on an object store: this machine works on a copy, which is pushed to the store while the work goes on.

A push uploads the new files, each to a key that no other push uses, and last creates its index, which names every file
of the folder with key and checksum. So the newest index is always complete, however many processes push there, and
whenever one of them wakes up. A file is uploaded as it was at one moment, even if others go on writing it, and
manifests go before the files that they name.

Of two processes that push to the same place the slower one finds its number taken, or a later one there, and ends. For
other tools the store then copies the files that people read to their plain names.
"""

import contextlib
import hashlib
import json
import os
import re
import signal
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NotRequired

from typing_extensions import TypedDict

from gscl_scale.errors import AbsentError, GsclError, LeaseError, OvertakenError
from gscl_scale.io.checksum import sha256_in
from gscl_scale.io.json import read_json, write_json
from gscl_scale.io.validate import Count, FileEntry, NameBelow
from gscl_scale.storage.stores import Store, check_creation
from gscl_scale.storage.transfer import fetch_file, in_parallel, value_in
from gscl_scale.storage.urls import cache_of, is_remote, store_at

_PUSHES = ".pushes"
_NOTE = ".mirror.json"
_EVERY_S = 30.0
_SMALL = 1 << 20
_ATTEMPTS = 5
_INNER = {"graph", "samples", "checkpoints"}  # folders that gscl-scale alone reads
_CURE = "choose another --run, or remove it there to start again"


class _Entry(FileEntry):
    key: NameBelow


class _Index(TypedDict):
    files: dict[NameBelow, _Entry]


class _Note(TypedDict):
    """The push that a folder of this machine builds on.

    `sha256` is that of the index: a run that was removed and started again has other pushes of the same numbers.
    """

    push: Count
    sha256: NotRequired[str]


@contextlib.contextmanager
def working_copy(where: str | Path) -> Iterator[Path]:
    """Yield the run folder to work on: the named folder, or a copy of a URL's, pushed there meanwhile."""
    if not is_remote(where):
        yield Path(where)
        return
    folder = cache_of(where)
    if os.environ.get("RANK", "0") != "0":  # of the processes of torchrun the first one keeps the copy
        yield folder
        return
    mirror = Mirror(store_at(where), folder)
    mirror.check()
    mirror.pull()
    with _pushing(mirror):
        yield folder


def kept_files(where: str | Path, purpose: str, wanted: Callable[[str], bool]) -> Path:
    """A folder of this machine, kept for the same purpose, with the wanted files of a run on an object store."""
    folder = cache_of(f"{where}/{purpose}")
    Mirror(store_at(where), folder).pull(lambda name, _: wanted(name))
    return folder


@contextlib.contextmanager
def small_files(where: str | Path) -> Iterator[Path]:
    """Yield a run folder for reading only; of a URL's it has the small files, such as manifests and figures."""
    if not is_remote(where):
        yield Path(where)
        return
    with tempfile.TemporaryDirectory(prefix="gscl-scale-") as scratch:
        Mirror(store_at(where), Path(scratch)).pull(lambda _, size: size <= _SMALL)
        yield Path(scratch)


@contextlib.contextmanager
def _pushing(mirror: "Mirror") -> Iterator[None]:
    """Push now and then, and at the end; a push that fails is repeated the next time.

    When another process was faster the work is interrupted, and OvertakenError raised.
    """
    over, overtaken, last_push = threading.Event(), threading.Event(), True
    ignored: tuple[type[Exception], ...] = (GsclError, OSError)

    def push(interrupt: Callable[[], None]) -> None:
        while not over.wait(_EVERY_S):
            try:
                mirror.push()
            except OvertakenError:
                overtaken.set()
                interrupt()
                return
            except (GsclError, OSError):
                continue

    try:
        with _interruptible() as interrupt:
            pushing = threading.Thread(target=push, args=(interrupt,), name="mirror", daemon=True)
            pushing.start()
            try:
                yield
            finally:
                over.set()
                pushing.join()
        ignored = ()
    except LeaseError:  # another process of this machine works in the copy, and pushes it
        last_push = False
        raise
    except (KeyboardInterrupt, SystemExit) as leaving:  # the command line turns an interrupt into an exit
        if overtaken.is_set():
            raise mirror.overtaken() from None
        if isinstance(leaving, SystemExit) and not leaving.code:
            ignored = ()
        raise
    finally:
        if last_push:
            with contextlib.suppress(*ignored):  # after an error the user reads that one
                mirror.push()


@contextlib.contextmanager
def _interruptible() -> Iterator[Callable[[], None]]:
    """Yield a function with which another thread raises KeyboardInterrupt in the main thread, if this is that."""
    main = threading.main_thread()
    if threading.current_thread() is not main:
        yield lambda: None
        return
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)  # SIGINT may be ignored, in the background
    try:
        yield lambda: signal.pthread_kill(main.ident or 0, signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def _index_name(number: int) -> str:
    return f"{_PUSHES}/{number:08d}.json"


def _newest(names: Iterable[str]) -> int:
    """The last push whose index is among these names; 0 if there is none."""
    return max((_number_in(name) for name in names if name == _index_name(_number_in(name))), default=0)


def _number_in(name: str) -> int:
    """The push that a file belongs to; 0 if it belongs to none."""
    digits = re.match(rf"{re.escape(_PUSHES)}/(\d{{8}})", name)
    return int(digits[1]) if digits else 0


class Mirror:
    """A folder of this machine and its copy in a store."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self._folder = store, folder
        self._name = uuid.uuid4().hex
        self._uploaded: dict[str, tuple[tuple[int, int], _Entry]] = {}  # size and time, and the entry of the index

    def check(self) -> None:
        """Raise now, not at the end of the work, if the store cannot be written or would mix the pushes of two."""
        check_creation(self._store, _PUSHES)

    def pull(self, wanted: Callable[[str, int], bool] = lambda *_: True) -> None:
        """Bring the files with `wanted(name, size)` here as they were pushed last, unless this folder builds on that.

        Pushes of others since then replace what was written here meanwhile.
        """
        for attempt in range(_ATTEMPTS):
            number = _newest(self._store.sizes(_PUSHES))
            try:
                self._pull(number, wanted)
            except GsclError:
                last = attempt + 1 == _ATTEMPTS
                if last or _newest(self._store.sizes(_PUSHES)) == number:  # else others have pushed, and tidied up
                    raise
            else:
                return

    def _pull(self, number: int, wanted: Callable[[str, int], bool]) -> None:
        index, checksum = self._index(number)
        if self._known() == (number, checksum):
            return
        names = [path for path, entry in index.items() if wanted(path, entry["bytes"])]
        in_parallel(
            lambda path: fetch_file(self._store, index[path]["key"], self._folder / path, index[path], _CURE), names
        )
        for path in set(self._files()) - set(index):
            (self._folder / path).unlink()
        self._note(number, checksum)

    def push(self) -> None:
        """Bring what is new to the store; OvertakenError if another process has pushed there since."""
        known, checksum = self._known()
        number = known + 1
        before, checksum_there = self._index(known)
        if checksum != checksum_there:
            raise self.overtaken()
        after: dict[str, _Entry] = {}
        for path in sorted(self._files(), key=lambda path: not path.endswith((".json", ".jsonl"))):
            with contextlib.suppress(FileNotFoundError):  # gone since
                after[path] = self._upload(path, before.get(path), number)
        if after == before:
            return
        content = json.dumps({"files": after}, indent=1).encode()
        if not self._store.create(_index_name(number), content):
            raise self.overtaken()
        there = self._store.sizes(_PUSHES)
        if _newest(there) > number:  # others were faster by so much that the index of this number was tidied up
            self._store.remove(_index_name(number))
            raise self.overtaken()
        self._note(number, hashlib.sha256(content).hexdigest())
        self._uploaded = {path: self._uploaded[path] for path in after}  # other keys are dropped now
        self._tidy(number, before, after, there)

    def _upload(self, path: str, before: _Entry | None, number: int) -> _Entry:
        """Upload a file as it is now, unless it is there; its checksum is computed only if size or time differ."""
        with (self._folder / path).open("rb") as file:
            stat = os.fstat(file.fileno())
            state, size = (stat.st_size, stat.st_mtime_ns), stat.st_size
            if path in self._uploaded and self._uploaded[path][0] == state:
                return self._uploaded[path][1]
            sha256 = sha256_in(file, size)
            if before and (before["bytes"], before["sha256"]) == (size, sha256):
                entry = before
            else:
                entry = _Entry(bytes=size, sha256=sha256, key=f"{_PUSHES}/{number:08d}-{self._name}/{path}")
                self._store.put(file, size, entry["key"])
            self._uploaded[path] = state, entry
            return entry

    def _tidy(self, number: int, before: dict[str, _Entry], index: dict[str, _Entry], there: Iterable[str]) -> None:
        """Copy new files to the plain names for readers of the store, and remove what no index needs any more.

        `there`: names of pushes, read when this one was the newest.
        """
        for path, entry in index.items():
            if entry != before.get(path) and not _INNER & set(path.split("/")):
                with contextlib.suppress(AbsentError):  # another process has tidied up
                    self._store.copy(entry["key"], path)
        for path in before.keys() - index.keys():
            self._store.remove(path)
        needed = {entry["key"] for entry in index.values()} | {_index_name(number)}
        for name in there:
            if name not in needed and _number_in(name) <= number:  # others may have started the next one
                self._store.remove(name)

    def overtaken(self) -> OvertakenError:
        """The error where another process has pushed to the same place."""
        return OvertakenError(
            f"{self._store.where}: another process works in this run folder and has pushed since; "
            "end one of them, and run again"
        )

    def _known(self) -> tuple[int, str]:
        """The push that the folder here builds on: its number, and the checksum of its index."""
        if not (self._folder / _NOTE).exists():
            return 0, ""
        note = read_json(self._folder / _NOTE, _Note)
        return int(note["push"]), str(note.get("sha256", ""))

    def _note(self, number: int, checksum: str) -> None:
        write_json(self._folder / _NOTE, {"push": number, "sha256": checksum})

    def _index(self, number: int) -> tuple[dict[str, _Entry], str]:
        """The files of a push, and the checksum of its index."""
        if not number:
            return {}, ""
        text = self._store.read(_index_name(number))
        if text is None:
            raise self.overtaken()
        index: _Index = value_in(_Index, text, f"{self._store.where}/{_index_name(number)}", _CURE)
        return index["files"], hashlib.sha256(text).hexdigest()

    def _files(self) -> list[str]:
        """Finished files: neither hidden, nor being written, nor scratch."""
        names = (path.relative_to(self._folder) for path in self._folder.rglob("*") if path.is_file())
        return sorted(
            name.as_posix()
            for name in names
            if not any(part.startswith(".") or part == "scratch" for part in name.parts)
        )
