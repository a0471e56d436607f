"""Plain arrays in numpy's format: the head is read as text, not as Python, and believed only if the bytes are there."""

import math
import re
import struct
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from gscl_scale.errors import FolderError
from gscl_scale.io.validate import size_of
from gscl_scale.text import shortened

_MAGIC = b"\x93NUMPY"
_LONGEST_HEAD = 1 << 14
_HEAD = re.compile(
    r"""\{\s*(?:(?:'descr':\s*'(?P<kind>[^'\\]{1,20})'|'fortran_order':\s*(?P<turned>True|False)"""
    r"""|'shape':\s*\((?P<shape>[\d\s,L]*)\))\s*,?\s*){3}\}\s*"""
)
_KINDS = "biufcUS"
_MOST_AXES = 8
_AT_ONCE = 1 << 24

Head = tuple[tuple[int, ...], np.dtype[Any], bool]


def read_head(file: IO[bytes]) -> Head:
    """(shape, type, whether columns come first) of an array; ValueError for one that is no plain array."""
    start = file.read(8)
    if len(start) < 8 or start[:6] != _MAGIC or start[6] not in (1, 2, 3):
        raise ValueError("not an array of numpy")
    form = "<H" if start[6] == 1 else "<I"
    length = file.read(struct.calcsize(form))
    size = struct.unpack(form, length)[0] if len(length) == struct.calcsize(form) else _LONGEST_HEAD + 1
    text = file.read(size) if size <= _LONGEST_HEAD else b""
    found = _HEAD.fullmatch(text.decode("latin-1"))
    if found is None or None in found.groups():
        held = "pickled objects, which are never loaded" if b"O'" in text or b"|O" in text else "no plain array"
        raise ValueError(f"holds {held}")
    return _shape(found["shape"]), _dtype(found["kind"]), found["turned"] == "True"


def size_of_values(head: Head) -> int:
    """Bytes of an array."""
    shape, dtype, _ = head
    return math.prod(shape) * dtype.itemsize


def read_values(file: IO[bytes], head: Head, left: int) -> npt.NDArray[Any]:
    """The numbers after a head, where `left` bytes are; ValueError before room is made if these are not as many."""
    shape, dtype, turned = head
    if size_of_values(head) != left:
        raise ValueError(f"says {size_of_values(head):,} bytes of {dtype} {shape} and has {left:,}")
    values = np.empty(math.prod(shape), dtype)
    room, at = values.view(np.uint8), 0
    while at < left:
        part = file.read(min(_AT_ONCE, left - at))
        if not part:
            raise ValueError("ends too early")
        room[at : at + len(part)] = np.frombuffer(part, np.uint8)
        at += len(part)
    return values.reshape(shape, order="F" if turned else "C")


def read_array(path: Path, cure: str) -> npt.NDArray[Any]:
    """The array of a file that gscl-scale wrote."""
    size = size_of(path)
    try:
        with path.open("rb") as file:
            head = read_head(file)
            return read_values(file, head, size - file.tell())
    except (ValueError, OSError) as error:
        raise FolderError(f"{path} is damaged: {shortened(error)}; {cure}") from None


def _shape(text: str) -> tuple[int, ...]:
    if len(text) > 200:
        raise ValueError("has too many axes")
    shape = tuple(int(part.strip().rstrip("L")) for part in text.split(",") if part.strip())
    if len(shape) > _MOST_AXES or math.prod(max(axis, 1) for axis in shape) >= 2**60:
        raise ValueError(f"has shape {shortened(shape, 80)}, which no memory holds")
    return shape


def _dtype(text: str) -> np.dtype[Any]:
    try:
        dtype = np.dtype(text)
    except TypeError:
        raise ValueError(f"holds numbers of an unknown type {shortened(text, 20)}") from None
    if dtype.hasobject:
        raise ValueError("holds pickled objects, which are never loaded")
    if dtype.kind not in _KINDS or not dtype.itemsize:
        raise ValueError(f"holds {dtype}, expected numbers or text")
    return dtype
