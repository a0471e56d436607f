"""Files and folders that are complete or absent: written under a temporary name, flushed, renamed."""

import contextlib
import errno
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

CURE = "delete its folder and run again"
NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)  # the place is wrong, and no second attempt helps
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)
_ABANDONED_S = 3600.0  # this machine cannot see whether a process of another machine runs


@contextlib.contextmanager
def explain_disk_errors(path: Path) -> Iterator[None]:
    """Turn an error of the disk into one sentence that names the file; errors that name another file pass unchanged.

    FolderError where nothing may be written or read at all, RunError for a full disk and the like.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or (error.filename and path.name not in str(error.filename)):
            raise
        if error.errno in NOT_ALLOWED:
            raise FolderError(
                f"{path}: {os.strerror(error.errno)}; finished work is kept and no partial file remains: get access to "
                "it, or choose another folder"
            ) from None
        raise RunError(
            f"{path}: {os.strerror(error.errno)}; finished work is kept and no partial file remains: "
            "fix this and rerun the command"
        ) from None


def make_folder(folder: Path) -> None:
    """Create a folder and those above it, unless it exists; FolderError where there cannot be one."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise FolderError(
            f"{error.filename}: a part of this path is a file, expected a folder; choose another --run or --out"
        ) from None
    except FileNotFoundError as error:  # the file system has no new folders, such as /proc
        raise FolderError(f"{error.filename}: no folder can be created here; choose another one") from None


@contextlib.contextmanager
def publish_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success flush it and rename it, on failure remove it."""
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}-{os.getpid()}.tmp")
    try:
        with explain_disk_errors(path):
            make_folder(path.parent)
            yield temporary
            _flush(temporary)
            temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):  # such as on a read-only disk; the error of writing is reported
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def flushing(path: Path) -> Iterator[None]:
    """Flush a file to the disk while the caller reads it."""
    with ThreadPoolExecutor(1) as pool:
        flushed = pool.submit(_flush, path)
        yield
        flushed.result()


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def is_temporary(path: Path) -> bool:
    """Whether a file or folder was never published: its writer still runs, or was killed."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


def remove_half_written(folder: Path) -> None:
    """Remove the half-written files of killed processes, at any depth; call it before writing there.

    Files of another running process of this machine stay, and so do young ones of other machines.
    """
    ending = re.compile(rf"\.{re.escape(socket.gethostname())}-(\d+)\.tmp$")
    for path in half_written(folder):
        with contextlib.suppress(OSError):  # published meanwhile, or in a folder where writing will fail anyway
            ours = ending.search(path.name)
            if not _is_another(int(ours[1])) if ours else time.time() - path.stat().st_mtime > _ABANDONED_S:
                path.unlink()


def half_written(folder: Path) -> list[Path]:
    """Files at any depth that were never published; folders that cannot be read are skipped."""
    paths = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return [path for path in paths if is_temporary(path)]


def _is_another(process: int) -> bool:
    """Whether a process of this machine runs and is not this one: in containers all have the same number."""
    return process != os.getpid() and is_running(process)


def is_running(process: int) -> bool:
    """Whether a process of this machine runs."""
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # it runs for another user
    return True


@contextlib.contextmanager
def publish_folder(path: Path) -> Iterator[Path]:
    """Yield an empty temporary folder beside `path`; on success it replaces `path`, on failure it is removed."""
    make_folder(path.parent)
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
    """Yield the path of a temporary folder for others to create; folders of killed processes are removed."""
    for abandoned in folder.glob(f".{name}-*.tmp"):
        shutil.rmtree(abandoned, ignore_errors=True)
    scratch = folder / f".{name}-{uuid.uuid4().hex}.tmp"
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def hold_file_lock(path: Path, wait: bool = True) -> Iterator[bool]:
    """Hold a lock file inside the block; a killed process releases it. Other processes, on any machine, wait.

    Without `wait`, enter at once and yield whether this process holds the lock.
    """
    with explain_disk_errors(path):
        make_folder(path.parent)
        if path.is_symlink():
            raise FolderError(f"{path} is a symbolic link, expected a lock file; delete it")
        if path.exists():
            size_of(path)
        file = path.open("a")  # its holder's text stays
    with file:
        with explain_disk_errors(path):
            holds = _lock(file, path.parent, wait)
        yield holds


def _lock(file: IO[str], folder: Path, wait: bool) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        raise FolderError(
            f"{folder}: files cannot be locked here ({os.strerror(error.errno)}), so that two commands could work here "
            "at once; mount it with locks (NFS without nolock, Lustre with flock), or choose another folder"
        ) from None
    return True


def link_or_copy(source: Path, target: Path) -> None:
    """Put the content of a file at another path: as a hard link where the filesystem can, else as a copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def write_text(path: Path, text: str) -> None:
    """Publish a text file."""
    with publish_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
