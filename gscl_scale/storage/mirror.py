"""A run folder on an object store: this machine works on a copy, which is pushed to the store while the work goes on.

A push uploads what is new, and last creates its index, which names every file of the folder with key and checksum. What
an earlier index names is never overwritten before a later index is there, so that the newest index is always whole. Of
two processes that push to the same place the slower one finds its number taken, and ends.
"""

import contextlib
import json
import os
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from gscl_scale.checked import Count, FileEntry, NameBelow
from gscl_scale.errors import GsclError, RunError
from gscl_scale.files import read_json, sha256_of, write_json
from gscl_scale.storage.folders import at_once, fetch_file, value_in
from gscl_scale.storage.places import cache_of, is_remote, store_at
from gscl_scale.storage.stores import Store

_PUSHES = ".pushes"
_NOTE = ".mirror.json"
_EVERY_S = 30.0
_SMALL = 1 << 20

Index = dict[str, dict[str, Any]]


class _Entry(FileEntry):
    key: NameBelow


class _Pushed(TypedDict):
    files: dict[NameBelow, _Entry]


class _Note(TypedDict):
    push: Count


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
    """Push now and then, and at the end; a push that fails is tried again the next time."""
    over, failed = threading.Event(), True

    def push() -> None:
        while not over.wait(_EVERY_S):
            with contextlib.suppress(GsclError, OSError):
                mirror.push()

    pushing = threading.Thread(target=push, name="mirror", daemon=True)
    pushing.start()
    try:
        yield
        failed = False
    except SystemExit as leaving:
        failed = bool(leaving.code)
        raise
    finally:
        over.set()
        pushing.join()
        with contextlib.suppress(*((GsclError, OSError) if failed else ())):  # the reason that is told is the first one
            mirror.push()


class Mirror:
    """A folder of this machine and its copy in a store."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self._folder = store, folder
        self._seen: dict[str, tuple[int, int]] = {}

    def check(self) -> None:
        """Raise now, not at the end of the work, if the store cannot be written."""
        probe = f"{_PUSHES}/{uuid.uuid4().hex}.probe"
        self._store.write(probe, b"")
        self._store.remove(probe)

    def pull(self, wanted: Callable[[str, int], bool] = lambda *_: True) -> None:
        """Bring the folder here as it was pushed last, unless what is here builds on that; `wanted(name, size)` of it.

        What others have pushed since is taken, and what was made here meanwhile goes.
        """
        number = self._newest()
        if number == self._known():
            return
        index = self._index(number)
        names = [path for path, entry in index.items() if wanted(path, entry["bytes"])]
        at_once(lambda path: self._fetch(path, index[path]), names)
        for path in set(self._files()) - set(index):
            (self._folder / path).unlink()
        write_json(self._folder / _NOTE, {"push": number})

    def push(self) -> None:
        """Bring what is new to the store; RunError if another process has pushed there since."""
        number = self._known()
        before = self._index(number)
        key_of = f"{_PUSHES}/{number + 1:08d}"
        after: Index = {}
        changed = []
        for path in self._files():
            with contextlib.suppress(FileNotFoundError):  # gone since: what is made while we look comes next time
                entry = self._entry(path, before.get(path))
                if entry != before.get(path):
                    entry["key"] = f"{key_of}/{path}" if path in before else path
                    self._store.upload(self._folder / path, entry["key"])
                    changed.append(path)
                after[path] = entry
        if after == before:
            return
        content = json.dumps({"files": after}, indent=1).encode()
        if not self._store.create(f"{key_of}.json", content):
            raise self._overtaken()
        write_json(self._folder / _NOTE, {"push": number + 1})
        self._tidy(number + 1, after, changed)

    def _entry(self, path: str, before: dict[str, Any] | None) -> dict[str, Any]:
        """What the index says of a file as it is now; its checksum is taken again only where size or time differ."""
        stat = (self._folder / path).stat()
        seen = (stat.st_size, stat.st_mtime_ns)
        if before and self._seen.get(path) == seen:
            return before
        entry = {"bytes": stat.st_size, "sha256": sha256_of(self._folder / path)}
        self._seen[path] = seen
        if before and {name: before[name] for name in entry} == entry:
            return before
        return entry

    def _tidy(self, number: int, index: Index, changed: list[str]) -> None:
        """Let the plain names be what they are for a reader of the store, and drop what no index needs any more."""
        for path in changed:
            if index[path]["key"] != path and (self._folder / path).exists():
                self._store.upload(self._folder / path, path)
        needed = {entry["key"] for entry in index.values()} | {f"{_PUSHES}/{number:08d}.json"}
        for name in self._store.sizes(_PUSHES):
            if name not in needed:
                self._store.remove(name)

    def _fetch(self, path: str, entry: dict[str, Any]) -> None:
        cure = "choose another --run, or remove it there to begin again"
        fetch_file(self._store, entry["key"], self._folder / path, entry, cure)

    def _overtaken(self) -> RunError:
        return RunError(
            f"{self._store.where}: another process works in this run folder and has pushed since; "
            "end one of them, and run again"
        )

    def _newest(self) -> int:
        names = (name.removeprefix(f"{_PUSHES}/").removesuffix(".json") for name in self._store.sizes(_PUSHES))
        return max((int(name) for name in names if name.isdigit()), default=0)

    def _known(self) -> int:
        """The push that the folder here builds on."""
        note = self._folder / _NOTE
        return int(read_json(note, _Note)["push"]) if note.exists() else 0

    def _index(self, number: int) -> Index:
        if not number:
            return {}
        text = self._store.read(f"{_PUSHES}/{number:08d}.json")
        if text is None:
            raise self._overtaken()
        cure = "choose another --run, or remove it there to begin again"
        files: Index = value_in(_Pushed, text, f"{self._store.where}/{_PUSHES}/{number:08d}.json", cure)["files"]
        return files

    def _files(self) -> list[str]:
        """Finished files: none that is hidden, or being written, or scratch."""
        names = (path.relative_to(self._folder) for path in self._folder.rglob("*") if path.is_file())
        return sorted(
            name.as_posix()
            for name in names
            if not any(part.startswith(".") or part == "scratch" for part in name.parts)
        )
