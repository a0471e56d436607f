"""The input files of a graph, and whether they have changed since it was read."""

import contextlib
from pathlib import Path
from typing import Any

from gscl_scale.config.config import Config
from gscl_scale.errors import GsclError
from gscl_scale.io.atomic import explain_disk_errors
from gscl_scale.io.checksum import sha256_of
from gscl_scale.storage.tables import files_at
from gscl_scale.storage.urls import url_of

_NO_TIME = -1  # of a file of an object store, which is known by its size alone

Inputs = dict[str, list[Any]]  # size, time in ns and, once read, SHA-256 of each file, by its path


def input_state(config: Config) -> Inputs:
    """Size and time of every file that the graph section names."""
    state: Inputs = {}
    for key in config.graph.INPUT_FILES:
        named = getattr(config.graph, key)
        if named is not None and url_of(named):
            state |= _remote_state(url_of(named))
        elif named is not None:
            for path in sorted(named.rglob("*")) if named.is_dir() else [named]:
                if path.is_file() and not _is_hidden(path, named):
                    state[str(path)] = _size_and_time(path)
    return state


def _remote_state(url: str) -> Inputs:
    """Sizes of the files at a URL; nothing is known, and no change noticed, while the store does not answer."""
    with contextlib.suppress(GsclError):
        store, sizes = files_at(url)
        return {f"{store.where}/{name}": [size, _NO_TIME] for name, size in sizes.items()}
    return {}


def _is_hidden(path: Path, folder: Path) -> bool:
    """Whether a file below a folder is no table of it, such as `_SUCCESS`."""
    return path.is_relative_to(folder) and any(part[0] in "._" for part in path.relative_to(folder).parts)


def _size_and_time(path: Path) -> list[Any]:
    return [path.stat().st_size, path.stat().st_mtime_ns]


def with_checksums(state: Inputs) -> Inputs:
    """The same state with the checksum of every unchanged file, which recognises it in a copy with another time."""
    known = {}
    for path, seen in state.items():
        with explain_disk_errors(Path(path)):
            checksum = sha256_of(Path(path)) if seen[1] != _NO_TIME else ""
            known[path] = [*seen, checksum] if checksum and _size_and_time(Path(path)) == seen else seen
    return known


def changed_inputs(config: Config, before: Inputs, now: Inputs) -> list[str]:
    """Files that differ between two states; new and deleted ones count only in a folder of tables."""
    named = [getattr(config.graph, key, None) for key in ("edges", "nodes")]
    paths = [path for path in named if isinstance(path, Path)]
    folders = [path for path in paths if path.is_dir()]
    urls = [f"{url_of(path)}/" for path in paths if url_of(path)]
    answering = [url for url in urls if any(path.startswith(url) for path in now)]
    inside = (*(f"{folder}/" for folder in folders), *answering)
    known = tuple(prefix for prefix in inside if any(path.startswith(prefix) for path in before))
    return sorted(
        path
        for path in {*before, *now}
        if not any(_is_hidden(Path(path), folder) for folder in folders)
        and (_has_changed(path, before[path], now[path]) if path in before and path in now else path.startswith(known))
    )


def _has_changed(path: str, before: list[Any], now: list[Any]) -> bool:
    """Whether the content of a file has changed; a copy with another time has not."""
    if before[:2] == now:
        return False
    size, *_, checksum = before
    return size != now[0] or len(before) < 3 or sha256_of(Path(path)) != checksum
