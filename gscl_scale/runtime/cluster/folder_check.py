"""The check of a folder and of versions that runs on each machine of a cluster; it imports nothing else."""

import os
import socket
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("gscl-scale", "numpy", "numba", "pyarrow")  # results are equal bytes only where these are equal

_PATIENCE_S = 5.0  # network filesystems may show a new file late
_EVERY_S = 0.25


@dataclass(frozen=True)
class FolderReport:
    """The answer of a machine: the trouble with the folder there, "" if there is none, and its versions."""

    trouble: str
    versions: dict[str, str]


def check_folder(token: Path, text: str) -> FolderReport:
    """Read the token that another machine wrote, and write beside it: the folder is shared if both work."""
    return FolderReport(_read(token, text) or _write(token), installed_versions())


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


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"
