"""Checksums of files and fingerprints of values."""

import hashlib
import json
from pathlib import Path
from typing import Any, BinaryIO

from gscl_scale.io.validate import size_of

_CHUNK = 1 << 22


def sha256_of(path: Path) -> str:
    """Checksum of a file's bytes."""
    size_of(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_in(file: BinaryIO, size: int) -> str:
    """Checksum of the next `size` bytes of an open file."""
    digest = hashlib.sha256()
    while size and (chunk := file.read(min(size, _CHUNK))):
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest()


def fingerprint_of(value: Any) -> str:
    """Checksum of any JSON value; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()
