"""The lock of a run folder: one process works in it at a time."""

import contextlib
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from gscl_scale.errors import LeaseError
from gscl_scale.io.atomic import explain_disk_errors, hold_file_lock, is_temporary, remove_half_written

_LOCK = ".lock"
_OURS: set[Path] = set()  # locks of this process, which may enter a folder again


@contextlib.contextmanager
def lock_run(folder: Path) -> Iterator[None]:
    """Be the only process that works in a run folder; LeaseError if there is another one, on any machine.

    The operating system releases the lock of a killed process; its half-written files are deleted here. A folder that
    is no run, or is read-only, is not locked: whatever writes there raises an error.
    """
    path = (folder / _LOCK).absolute()
    if path in _OURS or (folder.exists() and not (may_be_run(folder) and os.access(folder, os.W_OK))):
        yield
        return
    with hold_file_lock(path, wait=False) as ours:
        if not ours:
            raise LeaseError(
                f"{folder} is being worked on by {path.read_text(encoding='utf-8').strip() or 'another process'}; "
                "wait until that has ended, or stop it, then rerun the command"
            )
        with explain_disk_errors(path):
            path.write_text(f"process {os.getpid()} of {socket.gethostname()}", encoding="utf-8")
        remove_half_written(folder)
        _OURS.add(path)
        is_finalizing = sys.is_finalizing  # a name of this frame: as Python ends, those of modules become None
        try:
            yield
        finally:
            if not is_finalizing():
                _OURS.remove(path)
                if folder.exists() and is_empty(folder):
                    shutil.rmtree(folder)


def may_be_run(folder: Path) -> bool:
    """Whether a folder holds a run, or nothing yet."""
    return folder.is_dir() and ((folder / "run.json").exists() or is_empty(folder))


def is_empty(folder: Path) -> bool:
    """Whether a folder holds nothing but leftovers."""
    return all(map(is_leftover, folder.iterdir()))


def is_leftover(path: Path) -> bool:
    """Whether a path is the lock, or a file that a killed process was writing."""
    return path.name == _LOCK or is_temporary(path)
