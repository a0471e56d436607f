"""Folders that a run writes to: permissions, file system and free space."""

import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from gscl_scale.cli.doctor.check import Finding
from gscl_scale.config.config import Config
from gscl_scale.config.graphs import PATHS
from gscl_scale.errors import GsclError
from gscl_scale.io.atomic import hold_file_lock
from gscl_scale.io.json import write_json
from gscl_scale.machine import free_disk
from gscl_scale.storage.mirror import Mirror
from gscl_scale.storage.urls import cache_of, folder_of, is_remote, store_at, url_of
from gscl_scale.text import format_bytes

_LITTLE = 1 << 30


def examine_places(config: Config, where: str) -> Iterator[Finding]:
    """The run folder, or its store and local copy; temporary files; the input files of the configuration."""
    if is_remote(where):
        yield _store(where)
    yield _folder("copy of the run" if is_remote(where) else "run folder", folder_of(where))
    yield _folder("temporary files", Path(tempfile.gettempdir()))
    yield from _inputs(config)


def existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    place = folder.absolute()
    while not place.is_dir():
        place = place.parent
    return place


def _folder(about: str, folder: Path) -> Finding:
    """Write, link and lock a file in the folder, or above it where it does not exist yet, and delete it again."""
    probe = existing(folder) / f".doctor-{uuid.uuid4().hex}"
    try:
        probe.mkdir()
        write_json(probe / "written.json", {})
        os.link(probe / "written.json", probe / "linked.json")
        with hold_file_lock(probe / "lock", wait=False) as ours:
            lockable = ours
    except (OSError, GsclError) as error:
        problem = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        cure = "choose a folder with write access on a file system with hard links"
        return Finding(about, "trouble", f"{folder}: {problem}", cure)
    finally:
        for name in ("written.json", "linked.json", "lock"):
            (probe / name).unlink(missing_ok=True)
        if probe.exists():
            probe.rmdir()
    if not lockable:
        cure = "mount it with locking, or choose another folder"
        return Finding(about, "trouble", f"{folder}: files cannot be locked", cure)
    free = free_disk(folder)
    found = f"{folder}: can be written, {format_bytes(free)} free"
    if free < _LITTLE:
        return Finding(about, "note", found, "free some space: precompute first prints how much it will write")
    return Finding(about, "ok", found)


def _store(where: str) -> Finding:
    try:
        Mirror(store_at(where), cache_of(where)).check()
    except GsclError as error:
        return Finding("object store", "trouble", where, str(error))
    return Finding("object store", "ok", f"{where}: can be written")


def _inputs(config: Config) -> Iterator[Finding]:
    for key in PATHS:
        path = getattr(config.graph, key, None)
        if isinstance(path, Path) and not url_of(path):  # tables of object stores are fetched when they are read
            about, absent = f"graph.{key}", f"{path} does not exist"
            if not path.exists() and config.graph.source in ("ogb", "pyg"):
                yield Finding(about, "note", absent, "nothing to do: the data set is downloaded there")
            elif not os.access(path, os.R_OK):
                cure = "correct the path or its permissions"
                yield Finding(about, "trouble", f"{absent}, or cannot be read", cure)
            else:
                yield Finding(about, "ok", str(path))
