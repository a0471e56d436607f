"""Files that are whole or absent: temporary name, flush, rename; checksums; JSON."""

import contextlib
import fcntl
import os
import re
import shutil
import socket
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

from gscl_scale.errors import FolderError, RunError
from gscl_scale.io.validate import size_of

_CURE = "delete its folder and run again"
_SURELY_LEFT_S = 3600.0  # whether a process of another machine runs cannot be seen from here


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Tell an error of the disk in one sentence that names the file; errors that name another file pass as they are."""
    try:
        yield
    except OSError as error:
        if error.errno is None or (error.filename and path.name not in str(error.filename)):
            raise
        raise RunError(
            f"{path}: {os.strerror(error.errno)}; finished work is kept and nothing half-written is left: "
            "mend this, then run the same command again"
        ) from None


@contextlib.contextmanager
def publish(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success flush it and rename it, on failure remove it."""
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}.tmp")
    try:
        with naming(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            _flush(temporary)
            temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):  # what could not be written cannot be removed: the first reason is told
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def flushing(path: Path) -> Iterator[None]:
    """Bring a file to the disk while the caller reads it."""
    with ThreadPoolExecutor(1) as beside:
        flushed = beside.submit(_flush, path)
        yield
        flushed.result()


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def is_temporary(path: Path) -> bool:
    """Whether a name is that of a file or folder which was never published: its attempt runs, or was killed."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


def clear_away(folder: Path) -> None:
    """Remove half-written files, at any depth, of processes that were killed; to be called before one writes there.

    Those of another process of this machine that runs stay, and so do young ones of other machines.
    """
    ending = re.compile(rf"\.{re.escape(socket.gethostname())}-(\d+)\.tmp$")
    for path in half_written(folder):
        with contextlib.suppress(OSError):  # it has been published, or its folder cannot be written, which others tell
            ours = ending.search(path.name)
            left = not _is_another(int(ours[1])) if ours else time.time() - path.stat().st_mtime > _SURELY_LEFT_S
            if left:
                path.unlink()


def half_written(folder: Path) -> list[Path]:
    """Files at any depth that were never published, as far as folders can be read and do not vanish meanwhile."""
    found = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    return [path for path in found if is_temporary(path)]


def _is_another(process: int) -> bool:
    """Whether a process of this machine runs and is not this one: in containers all have the same number."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextlib.contextmanager
def publish_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder beside `path`; on success it takes the place of `path`, on failure it is removed.

    Leftovers of a killed attempt are cleared first, so nothing is ever mistaken for a finished folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        if path.is_dir():
            shutil.rmtree(path)
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def scratch_folder(folder: Path, name: str) -> Iterator[Path]:
    """The path of a folder for the time being, for others to make; those that a kill has left go as well."""
    for left in folder.glob(f".{name}-*.tmp"):
        shutil.rmtree(left, ignore_errors=True)
    scratch = folder / f".{name}-{uuid.uuid4().hex}.tmp"
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[bool]:
    """Go on when no other process, on any machine, is in this block with the same path; a killed one is not.

    Without `wait` go on at once, and yield whether this process may.
    """
    with naming(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink():
            raise FolderError(f"{path} leads elsewhere; delete it")
        if path.exists():
            size_of(path)
        file = path.open("a")  # what the one who has it has written stays
    with file:
        with naming(path):
            ours = _lock(file, wait)
        yield ours


def _lock(file: IO[str], wait: bool) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def link_or_copy(source: Path, target: Path) -> None:
    """The same content at another path: a second name where the filesystem can, else a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def write_text(path: Path, text: str) -> None:
    """Publish a text."""
    with publish(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
