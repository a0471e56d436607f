"""The lock of a run folder: one process works in it at a time."""

import contextlib
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from gscl_scale.errors import LeaseError
from gscl_scale.io.atomic import clear_away, is_temporary, locked, naming

_LOCK = ".lock"


_OURS: set[Path] = set()  # locks that this process has


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Be the only process that works in a run folder; LeaseError if there is another one, on any machine.

    The system lets go of the lock of a killed process, whose half-written files go, and a process may come in again. A
    folder that is no run, or cannot be written, is left as it is: whoever writes there is told.
    """
    path = (folder / _LOCK).absolute()
    if path in _OURS or (folder.exists() and not (_may_be_run(folder) and os.access(folder, os.W_OK))):
        yield
        return
    with locked(path, wait=False) as ours:
        if not ours:
            raise LeaseError(
                f"{folder} is being worked on by {path.read_text(encoding='utf-8').strip() or 'another process'}; "
                "wait until that has ended, or stop it, then run again"
            )
        with naming(path):
            path.write_text(f"process {os.getpid()} of {socket.gethostname()}", encoding="utf-8")
        clear_away(folder)
        _OURS.add(path)
        try:
            yield
        finally:
            _OURS.remove(path)
            if folder.exists() and _is_empty(folder):
                shutil.rmtree(folder)


def _may_be_run(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    return (folder / "run.json").exists() or _is_empty(folder)


def _is_empty(folder: Path) -> bool:
    """Whether nothing was published there: what killed attempts have left does not count."""
    return all(_is_nothing(path) for path in folder.iterdir())


def _is_nothing(path: Path) -> bool:
    return path.name == _LOCK or is_temporary(path)
