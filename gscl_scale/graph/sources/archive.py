"""Arrays of a file of `numpy.savez`: small ones are loaded, the large ones that a source names are mapped."""

import contextlib
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy.typing as npt

from gscl_scale.errors import GraphError
from gscl_scale.graph.sources.explain import explained, where_it_begins
from gscl_scale.io.atomic import explain_disk_errors
from gscl_scale.io.npy import Header, check_size, map_values, read_header, read_values
from gscl_scale.io.validate import size_of
from gscl_scale.machine import available_memory, free_disk
from gscl_scale.text import format_bytes, shortened

Arrays = dict[str, npt.NDArray[Any]]
Read = TypeVar("Read")

LEAST_MAPPED = 64 << 20  # bytes of an array
_DAMAGE = (OSError, EOFError, ValueError, KeyError, struct.error, zipfile.BadZipFile, zlib.error, NotImplementedError)
_SAVE = "write it again with numpy.savez"
_BYTES_AT_ONCE = 1 << 24
_LOCAL_HEADER, _LENGTHS = 30, slice(26, 30)  # bytes of a zip member before its name, and where its two lengths are


class ArrayHead(NamedTuple):
    """What the head of an array says; `stored`: as it is, so that it can be mapped where it is."""

    header: Header
    stored: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.header.shape

    @property
    def num_bytes(self) -> int:
        """Bytes of the array's values."""
        return self.header.num_bytes


class Footprint(NamedTuple):
    """What reading some arrays takes: bytes in memory, bytes of disk for unpacked ones, and which are mapped."""

    memory: int
    disk: int
    mapped: frozenset[str]


def footprint(heads: dict[str, ArrayHead], may_be_mapped: Collection[str]) -> Footprint:
    """What `read_arrays` takes for arrays with these heads."""
    mapped = {name for name, head in heads.items() if name in may_be_mapped and head.num_bytes >= LEAST_MAPPED}
    memory = sum(head.num_bytes for name, head in heads.items() if name not in mapped)
    return Footprint(memory, sum(heads[name].num_bytes for name in mapped if not heads[name].stored), frozenset(mapped))


def read_heads(path: Path) -> dict[str, ArrayHead]:
    """The heads of the arrays of a file; GraphError where it is none."""
    return _load(path, _head)


def read_arrays(
    path: Path,
    may_be_mapped: Collection[str],
    scratch: Path | None,
    names: Collection[str] | None = None,
    cure: str = _SAVE,
) -> Arrays:
    """Read arrays of a file, all or those of some names; GraphError where it is damaged, or does not fit the memory.

    may_be_mapped   large arrays of these names are mapped; their checksums are compared first
    scratch         a folder for mapped arrays that are compressed in the file; None: temporary files
    cure            of a damaged file, for the message
    """

    def read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
        head = _head(archive, member)
        if member.filename.removesuffix(".npy") in may_be_mapped and head.num_bytes >= LEAST_MAPPED:
            return _map(archive, member, head, scratch)
        return _array(archive, member, head.header)

    return _load(path, read, names, cure)


def _load(
    path: Path,
    read: Callable[[zipfile.ZipFile, zipfile.ZipInfo], Read],
    names: Collection[str] | None = None,
    cure: str = _SAVE,
) -> dict[str, Read]:
    """Read each array of the file, or its head."""
    if not path.exists():
        raise GraphError(f"{path} does not exist{where_it_begins(path)}; check graph.path")
    if path.is_dir():
        raise GraphError(f"{path} is a folder; graph.path expects a .npz file")
    size_of(path, GraphError)
    sentence = "{} is truncated or not a .npz file: {}; {}"
    with explained(lambda error: sentence.format(path, error, cure), *_DAMAGE), path.open("rb") as file:
        if file.read(6) == b"\x93NUMPY":
            raise GraphError(f"{path}: expected a .npz file of named arrays, got a single array")
        with zipfile.ZipFile(file) as archive:
            members = _members(archive).items()
            return {name: read(archive, member) for name, member in members if names is None or name in names}


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The arrays by name; only what numpy writes is read: stored or deflated, each name once."""
    members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
    if len(members) != len(archive.infolist()):
        raise GraphError(f"{archive.filename}: several arrays have one name; save each once with numpy.savez")
    for member in members.values():
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & 1:
            raise GraphError(f"{_place(archive, member)} is compressed as numpy does not do; save it with numpy.savez")
    return members


def _place(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> str:
    return f"{archive.filename}: {shortened(member.filename, 60)}"


def _plain(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> contextlib.AbstractContextManager[None]:
    return explained(lambda error: f"{_place(archive, member)} {error}; save plain arrays with numpy.savez", ValueError)


def _head(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> ArrayHead:
    with archive.open(member) as file, _plain(archive, member):
        return ArrayHead(read_header(file), member.compress_type == zipfile.ZIP_STORED)


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, header: Header) -> npt.NDArray[Any]:
    """Read an array if it fits the memory."""
    if header.num_bytes > (memory := available_memory()):
        raise GraphError(
            f"{_place(archive, member)} takes {format_bytes(header.num_bytes)} of memory and "
            f"{format_bytes(memory)} are available; use a machine with more memory, or write tables"
        )
    with archive.open(member) as file, _plain(archive, member):
        return read_values(file, header, member.file_size)


def _map(archive: zipfile.ZipFile, member: zipfile.ZipInfo, head: ArrayHead, scratch: Path | None) -> npt.NDArray[Any]:
    """Map an array where it is, or unpacked; zipfile compares the checksum of what is read to its end."""
    with archive.open(member) as file:
        with _plain(archive, member):
            check_size(head.header, member.file_size)
        if head.stored:
            while file.read(_BYTES_AT_ONCE):
                pass
            return map_values(Path(str(archive.filename)), head.header, _first_byte(archive, member))
        folder = scratch or Path(tempfile.gettempdir())
        if head.num_bytes > (free := free_disk(folder)):
            raise GraphError(
                f"{_place(archive, member)} unpacks to {format_bytes(head.num_bytes)} and {format_bytes(free)} of disk "
                f"are free in {folder.parent if scratch else folder}; choose another --run on a larger disk"
            )
        return _unpack(file, head.header, scratch)


def _first_byte(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """Where the content of a stored member begins in the file of the archive."""
    with Path(str(archive.filename)).open("rb") as file:
        file.seek(member.header_offset)
        lengths = struct.unpack("<HH", file.read(_LOCAL_HEADER)[_LENGTHS])
    return member.header_offset + _LOCAL_HEADER + sum(lengths)


def _unpack(packed: IO[bytes], header: Header, scratch: Path | None) -> npt.NDArray[Any]:
    if scratch:
        scratch.mkdir(parents=True, exist_ok=True)
    with (
        explain_disk_errors(scratch or Path(tempfile.gettempdir())),
        tempfile.NamedTemporaryFile(dir=scratch, suffix=".npy", delete=scratch is None) as file,
    ):
        shutil.copyfileobj(packed, file, _BYTES_AT_ONCE)
        file.flush()
        return map_values(Path(file.name), header, 0)  # also of a file that is deleted now
