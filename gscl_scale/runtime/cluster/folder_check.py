"""The check of folder, versions and memory that runs on each machine of a cluster; it imports nothing heavy."""

import fcntl
import os
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from gscl_scale.machine import available_memory

PACKAGES = ("gscl-scale", "numpy", "numba", "pyarrow")  # results are equal bytes only where these are equal

SLICE = 4096  # bytes: a page, at the beginning of which the blocks of all files in slices begin

_PATIENCE_S = 5.0  # network filesystems may show a new file late
_EVERY_S = 0.25


@dataclass(frozen=True)
class FolderReport:
    """The answer of a machine: the trouble with the folder there, "" if there is none, its versions, its free bytes."""

    trouble: str
    versions: dict[str, str]
    memory: int


def check_folder(token: Path, text: str, number: int) -> FolderReport:
    """Read the token that another machine wrote, write beside it, find its lock, and write slice `number` of its file.

    Whether the slice is kept is seen by `lost_slices`.
    """
    trouble = _read(token, text) or _write(token) or _lock(lock_beside(token)) or _write_slice(token, number)
    return FolderReport(trouble, installed_versions(), available_memory())


def lock_beside(token: Path) -> Path:
    """The file that the writer of the token has locked."""
    return token.with_suffix(".lock.tmp")


def slices_beside(token: Path) -> Path:
    """The file that each machine writes a slice of."""
    return token.with_suffix(".slices.tmp")


def slice_content(number: int) -> bytes:
    """What is written into a slice: no zeros."""
    return bytes([1 + number % 255]) * SLICE


def lost_slices(path: Path, numbers: Iterable[int]) -> list[int]:
    """The slices that are not in the file as they were written."""
    until = time.monotonic() + _PATIENCE_S
    while True:
        content = path.read_bytes()
        lost = [one for one in numbers if content[one * SLICE : (one + 1) * SLICE] != slice_content(one)]
        if not lost or time.monotonic() > until:
            return lost
        time.sleep(_EVERY_S)


def installed_versions() -> dict[str, str]:
    """Versions of the packages that decide the bytes of a result."""
    return {name: _version(name) for name in PACKAGES}


def _read(token: Path, text: str) -> str:
    until = time.monotonic() + _PATIENCE_S
    while not token.exists():
        if time.monotonic() > until:
            return "does not see it"
        time.sleep(_EVERY_S)
    try:
        return "" if token.read_text(encoding="utf-8") == text else "sees another folder there"
    except OSError as error:
        return f"cannot read in it ({error.strerror})"


def _write(token: Path) -> str:
    path = token.with_name(f".{token.name}.{socket.gethostname()}-{os.getpid()}.tmp")
    try:
        path.write_text("", encoding="utf-8")
        path.unlink()
    except OSError as error:
        return f"cannot write in it ({error.strerror})"
    return ""


def _lock(path: Path) -> str:
    """Another machine holds this lock: it must not be had here as well."""
    try:
        with path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ""
    except OSError as error:
        return f"cannot lock a file in it ({error.strerror})"
    return "does not see locks that another machine holds in it (mounted with nolock, local_lock or localflock?)"


def _write_slice(token: Path, number: int) -> str:
    try:
        with slices_beside(token).open("r+b") as file:
            file.seek(number * SLICE)
            file.write(slice_content(number))
    except OSError as error:
        return f"cannot write into a part of a file in it ({error.strerror})"
    return ""


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
