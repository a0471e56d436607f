"""Folders that a run writes to: can they do what it needs, and is there room?"""

import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from gscl_scale.cli.doctor.check import Finding, note, ok, trouble
from gscl_scale.config.config import Config
from gscl_scale.errors import GsclError
from gscl_scale.io.atomic import locked
from gscl_scale.io.json import write_json
from gscl_scale.machine import free_disk
from gscl_scale.storage.mirror import Mirror
from gscl_scale.storage.urls import cache_of, folder_of, is_remote, store_at
from gscl_scale.text import in_words

_LITTLE = 1 << 30


def examine_places(config: Config, where: str) -> Iterator[Finding]:
    """The run folder, or the store and the copy on this machine; temporary files; what the configuration reads."""
    if is_remote(where):
        yield _store(where)
    yield _folder("copy of the run" if is_remote(where) else "run folder", folder_of(where))
    yield _folder("temporary files", Path(tempfile.gettempdir()))
    yield from _inputs(config)


def existing(folder: Path) -> Path:
    """The folder, or the one nearest above it that is there."""
    place = folder.absolute()
    while not place.is_dir():
        place = place.parent
    return place


def _folder(about: str, folder: Path) -> Finding:
    """Write, rename, link and lock where the folder is or would be made; nothing is left behind."""
    probe = existing(folder) / f".doctor-{uuid.uuid4().hex}"
    try:
        probe.mkdir()
        write_json(probe / "written.json", {})
        os.link(probe / "written.json", probe / "linked.json")
        with locked(probe / "lock", wait=False) as ours:
            lockable = ours
    except (OSError, GsclError) as error:
        told = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        return trouble(about, f"{folder}: {told}", "choose a folder that can be written and that knows hard links")
    finally:
        for left in ("written.json", "linked.json", "lock"):
            (probe / left).unlink(missing_ok=True)
        if probe.exists():
            probe.rmdir()
    if not lockable:
        return trouble(about, f"{folder}: files cannot be locked", "mount it with locking, or choose another folder")
    return _room(about, folder)


def _room(about: str, folder: Path) -> Finding:
    free = free_disk(folder)
    found = f"{folder}: can be written, {in_words(free)} free"
    if free < _LITTLE:
        return note(about, found, "make room: precompute says before its start how much it will write")
    return ok(about, found)


def _store(where: str) -> Finding:
    try:
        Mirror(store_at(where), cache_of(where)).check()
    except GsclError as error:
        return trouble("object store", where, str(error))
    return ok("object store", f"{where}: can be written")


def _inputs(config: Config) -> Iterator[Finding]:
    for key in ("path", "edges", "nodes"):
        named = getattr(config.graph, key, None)
        if isinstance(named, Path):
            if not named.exists() and config.graph.source in ("ogb", "pyg"):
                yield note(f"graph.{key}", f"{named} is not there", "nothing: the data set is downloaded there")
            elif not os.access(named, os.R_OK):
                yield trouble(f"graph.{key}", f"{named} is not there, or cannot be read", "mend the path or its rights")
            else:
                yield ok(f"graph.{key}", str(named))
