"""Verdicts on files that take long to check: each is found once in a process, or once on a machine."""

import contextlib
import json
import threading
from collections.abc import Callable
from pathlib import Path

from gscl_scale.io.atomic import hold_file_lock
from gscl_scale.io.checksum import fingerprint_of


class Verdicts:
    """What is wrong with files, "" for nothing; found once, as long as a file and what is expected of it stay the same.

    folder   of this machine: processes that have the same one find each verdict once among them, and the others wait
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._known: dict[str, str] = {}
        self._checking: dict[str, threading.Lock] = {}

    def of(self, path: Path, expected: object, find: Callable[[], str]) -> str:
        """The verdict on a file, by `find` where it is not known yet."""
        try:
            status = path.stat()
        except FileNotFoundError:
            return find()
        identity = [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]
        key = fingerprint_of([str(path), identity, expected])
        with self._checking.setdefault(key, threading.Lock()):
            if key not in self._known:
                self._known[key] = find() if self._folder is None else _once(self._folder / key, find)
            return self._known[key]


def _once(file: Path, find: Callable[[], str]) -> str:
    """What the first process has found and written into a file; the others wait until it has."""
    with hold_file_lock(file):
        with contextlib.suppress(ValueError):  # empty, or of a process that was killed while it wrote
            return str(json.loads(file.read_text()))
        verdict = find()
        file.write_text(json.dumps(verdict))
        return verdict
