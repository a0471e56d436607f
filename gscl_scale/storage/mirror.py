"""A run folder on an object store: this machine works on a copy, which is pushed to the store while the work goes on.

A push uploads what is new, each file to a key that no other push uses, and last creates its index, which names every
file of the folder with key and checksum. So the newest index is always whole, however many processes push there, and
whenever one of them wakes up. What is uploaded is a file as it was at one moment, however others go on writing it, and
manifests go before the files that they name.

Of two processes that push to the same place the slower one finds its number taken, or a later one there, and ends. For
other tools the store copies what people read to its plain name afterwards.
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
from typing import Any, NotRequired

from typing_extensions import TypedDict

from gscl_scale.errors import GsclError, LeaseError, OvertakenError
from gscl_scale.io.checksum import sha256_in
from gscl_scale.io.json import read_json, write_json
from gscl_scale.io.validate import Count, FileEntry, NameBelow
from gscl_scale.storage.stores import Store
from gscl_scale.storage.transfer import at_once, fetch_file, value_in
from gscl_scale.storage.urls import cache_of, is_remote, store_at

_PUSHES = ".pushes"
_NOTE = ".mirror.json"
_EVERY_S = 30.0
_SMALL = 1 << 20
_AGAIN = 5
_INNER = {"graph", "samples", "checkpoints"}  # folders that gscl-scale alone reads

Index = dict[str, dict[str, Any]]


class _Entry(FileEntry):
    key: NameBelow


class _Pushed(TypedDict):
    files: dict[NameBelow, _Entry]


class _Note(TypedDict):
    push: Count
    sha256: NotRequired[str]  # of the index: a run that was removed and made anew has other pushes of the same numbers


@contextlib.contextmanager
def working_copy(where: str | Path) -> Iterator[Path]:
    """The run folder to work on: the folder that is named, or a copy of what a URL names, pushed there meanwhile."""
    if not is_remote(where):
        yield Path(where)
        return
    folder = cache_of(where)
    if os.environ.get("RANK", "0") != "0":  # a follower of torchrun: the first process keeps the copy
        yield folder
        return
    mirror = Mirror(store_at(where), folder)
    mirror.check()
    mirror.pull()
    with _pushing(mirror):
        yield folder


def kept_files(where: str | Path, purpose: str, wanted: Callable[[str], bool]) -> Path:
    """A folder of this machine, kept for the same purpose, with those files of a run on an object store."""
    folder = cache_of(f"{where}/{purpose}")
    Mirror(store_at(where), folder).pull(lambda name, _: wanted(name))
    return folder


@contextlib.contextmanager
def small_files(where: str | Path) -> Iterator[Path]:
    """A run folder to look at only: of what a URL names its small files, such as manifests and figures."""
    if not is_remote(where):
        yield Path(where)
        return
    with tempfile.TemporaryDirectory(prefix="gscl-scale-") as scratch:
        Mirror(store_at(where), Path(scratch)).pull(lambda _, size: size <= _SMALL)
        yield Path(scratch)


@contextlib.contextmanager
def _pushing(mirror: "Mirror") -> Iterator[None]:
    """Push now and then, and at the end; a push that fails is tried again the next time.

    When another process was faster the work is interrupted, and OvertakenError raised.
    """
    over, overtaken, failed, ours = threading.Event(), threading.Event(), True, True

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
        failed = False
    except SystemExit as leaving:  # the command line makes one of an interrupt
        if overtaken.is_set():
            raise mirror.overtaken() from None
        failed = bool(leaving.code)
        raise
    except LeaseError:  # another process of this machine works in the copy, and pushes it
        ours = False
        raise
    except KeyboardInterrupt:
        if overtaken.is_set():
            raise mirror.overtaken() from None
        raise
    finally:
        with contextlib.suppress(*((GsclError, OSError) if failed else ())):  # the reason that is told is the first one
            if ours:
                mirror.push()


@contextlib.contextmanager
def _interruptible() -> Iterator[Callable[[], None]]:
    """What another thread calls to raise KeyboardInterrupt in the main thread; nothing happens to work elsewhere."""
    main = threading.main_thread()
    if threading.current_thread() is not main:
        yield lambda: None
        return
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)  # SIGINT may be ignored, in the background
    try:
        yield lambda: signal.pthread_kill(main.ident or 0, signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def _name_of(number: int) -> str:
    """The index of a push."""
    return f"{_PUSHES}/{number:08d}.json"


def _newest(names: Iterable[str]) -> int:
    """The last push whose index is among these names; 0 where there is none."""
    return max((_number_in(name) for name in names if name == _name_of(_number_in(name))), default=0)


def _number_in(name: str) -> int:
    """The push that a file belongs to; 0 where it belongs to none."""
    digits = re.match(rf"{re.escape(_PUSHES)}/(\d{{8}})", name)
    return int(digits[1]) if digits else 0


class Mirror:
    """A folder of this machine and its copy in a store."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self._folder = store, folder
        self._name = uuid.uuid4().hex
        self._seen: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {}  # size, time, and what an index says

    def check(self) -> None:
        """Raise now, not at the end of the work, if the store cannot be written."""
        probe = f"{_PUSHES}/{uuid.uuid4().hex}.probe"
        self._store.write(probe, b"")
        self._store.remove(probe)

    def pull(self, wanted: Callable[[str, int], bool] = lambda *_: True) -> None:
        """Bring the folder here as it was pushed last, unless what is here builds on that; `wanted(name, size)` of it.

        What others have pushed since is taken, and what was made here meanwhile goes.
        """
        for attempt in range(_AGAIN):
            number = _newest(self._store.sizes(_PUSHES))
            try:
                self._pull(number, wanted)
            except GsclError:
                last = attempt + 1 == _AGAIN
                if last or _newest(self._store.sizes(_PUSHES)) == number:  # else others have pushed, and tidied up
                    raise
            else:
                return

    def _pull(self, number: int, wanted: Callable[[str, int], bool]) -> None:
        index, mark = self._index(number)
        if self._known() == (number, mark):
            return
        names = [path for path, entry in index.items() if wanted(path, entry["bytes"])]
        at_once(lambda path: self._fetch(path, index[path]), names)
        for path in set(self._files()) - set(index):
            (self._folder / path).unlink()
        self._note(number, mark)

    def push(self) -> None:
        """Bring what is new to the store; OvertakenError if another process has pushed there since."""
        known, mark = self._known()
        number = known + 1
        before, mark_there = self._index(known)
        if mark != mark_there:
            raise self.overtaken()
        after: Index = {}
        for manifests in (True, False):
            for path in self._files():
                if path.endswith((".json", ".jsonl")) == manifests:
                    with contextlib.suppress(FileNotFoundError):  # gone since
                        after[path] = self._uploaded(path, before.get(path), number)
        if after == before:
            return
        content = json.dumps({"files": after}, indent=1).encode()
        if not self._store.create(_name_of(number), content):
            raise self.overtaken()
        there = self._store.sizes(_PUSHES)
        if _newest(there) > number:  # others were faster by so much that the index of this number was tidied up
            self._store.remove(_name_of(number))
            raise self.overtaken()
        self._note(number, hashlib.sha256(content).hexdigest())
        self._seen = {path: self._seen[path] for path in after}  # other keys are dropped now
        self._tidy(number, before, after, there)

    def _uploaded(self, path: str, before: dict[str, Any] | None, number: int) -> dict[str, Any]:
        """Upload a file as it is now, unless it is there; what the index says of it.

        Its checksum is taken again only where size or time differ.
        """
        with (self._folder / path).open("rb") as file:
            stat = os.fstat(file.fileno())
            seen = (stat.st_size, stat.st_mtime_ns)
            if path in self._seen and self._seen[path][0] == seen:
                return self._seen[path][1]
            entry: dict[str, Any] = {"bytes": stat.st_size, "sha256": sha256_in(file, stat.st_size)}
            if before and {name: before[name] for name in entry} == entry:
                entry = before
            else:
                entry["key"] = f"{_PUSHES}/{number:08d}-{self._name}/{path}"
                self._store.put(file, stat.st_size, entry["key"])
            self._seen[path] = seen, entry
            return entry

    def _tidy(self, number: int, before: Index, index: Index, there: Iterable[str]) -> None:
        """Let the plain names be what they are for a reader of the store, and drop what no index needs any more.

        `there`: names of pushes, read when this one was the newest.
        """
        for path, entry in index.items():
            if entry != before.get(path) and not _INNER & set(path.split("/")):
                with contextlib.suppress(FileNotFoundError):  # another process has tidied up
                    self._store.copy(entry["key"], path)
        for path in before.keys() - index.keys():
            self._store.remove(path)
        needed = {entry["key"] for entry in index.values()} | {_name_of(number)}
        for name in there:
            if name not in needed and _number_in(name) <= number:  # others may have begun the next one
                self._store.remove(name)

    def _fetch(self, path: str, entry: dict[str, Any]) -> None:
        cure = "choose another --run, or remove it there to begin again"
        fetch_file(self._store, entry["key"], self._folder / path, entry, cure)

    def overtaken(self) -> OvertakenError:
        """What is told of another process that has pushed to the same place."""
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

    def _note(self, number: int, mark: str) -> None:
        write_json(self._folder / _NOTE, {"push": number, "sha256": mark})

    def _index(self, number: int) -> tuple[Index, str]:
        """What a push has left there, and the checksum of its index."""
        if not number:
            return {}, ""
        text = self._store.read(_name_of(number))
        if text is None:
            raise self.overtaken()
        cure = "choose another --run, or remove it there to begin again"
        files: Index = value_in(_Pushed, text, f"{self._store.where}/{_name_of(number)}", cure)["files"]
        return files, hashlib.sha256(text).hexdigest()

    def _files(self) -> list[str]:
        """Finished files: none that is hidden, or being written, or scratch."""
        names = (path.relative_to(self._folder) for path in self._folder.rglob("*") if path.is_file())
        return sorted(
            name.as_posix()
            for name in names
            if not any(part.startswith(".") or part == "scratch" for part in name.parts)
        )
