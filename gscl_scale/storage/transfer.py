"""Complete folders in a store: the files first, and last an index with their checksums; without it there is nothing."""

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from gscl_scale.errors import AbsentError, FolderError
from gscl_scale.io.checksum import sha256_of
from gscl_scale.io.validate import FileEntry, NameBelow, checked, parse_json
from gscl_scale.storage.stores import Store

INDEX = "index.json"
_AT_ONCE = 8


class Index(TypedDict):
    """The index of a kept folder, as far as it is read here; names lead nowhere but into the folder."""

    files: dict[NameBelow, FileEntry]


def upload_folder(
    folder: Path, store: Store, name: str, files: Iterable[str], about: Mapping[str, object]
) -> dict[str, Any]:
    """Put files of a folder under a name of the store, then their index, which has the values of `about` too."""
    entries: dict[str, FileEntry] = {}

    def put(file: str) -> None:
        path = folder / file
        entries[file] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
        store.upload(path, f"{name}/{file}")

    in_parallel(put, files)
    index = {**about, "files": dict(sorted(entries.items()))}
    store.write(f"{name}/{INDEX}", (json.dumps(index, indent=2) + "\n").encode())
    return index


def fetch_folder(store: Store, name: str, folder: Path, wanted: Callable[[str], bool] = bool) -> None:
    """Bring the wanted files of a kept folder to this machine; a file with the right bytes stays as it is."""
    files = index_of(store, name)["files"]
    in_parallel(
        lambda file: fetch_file(store, f"{name}/{file}", folder / file, files[file], "gscl-scale registry rollback"),
        filter(wanted, files),
    )


def fetch_file(store: Store, name: str, path: Path, entry: FileEntry, cure: str) -> None:
    """Bring a file with the size and checksum of an entry, unless it is here; FolderError if the store has others."""
    if _matches(path, entry):
        return
    with contextlib.suppress(AbsentError):  # reported below
        store.download(name, path)
    if not _matches(path, entry):
        path.unlink(missing_ok=True)
        raise FolderError(
            f"{store.where}/{name} does not match its checksum, so the copy in the store is damaged; {cure}"
        )


def index_of(store: Store, name: str) -> dict[str, Any]:
    """The index of a kept folder."""
    text = store.read(f"{name}/{INDEX}")
    if text is None:
        raise FolderError(
            f"{store.where}/{name} does not exist, or copying it was cut off; run gscl-scale registry list"
        )
    index: dict[str, Any] = value_in(Index, text, f"{store.where}/{name}/{INDEX}", "use another version")
    return index


def value_in(kind: Any, text: bytes, where: str, cure: str) -> Any:
    """A JSON value of a kind, from a file of a store."""
    return checked(kind, parse_json(text, where, cure), where, cure)


def _matches(path: Path, entry: FileEntry) -> bool:
    return path.exists() and path.stat().st_size == entry["bytes"] and sha256_of(path) == entry["sha256"]


def in_parallel(work: Callable[[str], None], files: Iterable[str]) -> None:
    """Call a function for several files at a time; the first error is raised."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(work, files))
