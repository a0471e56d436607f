"""Files that are whole or absent: temporary name, flush, rename; checksums; JSON."""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import struct
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale.checked import checked, lines_of, listed, of_kind, parse_json, read_text_bytes, shortened, size_of
from gscl_scale.errors import FolderError, RunError

_CHUNK = 1 << 22
_ARROW = b"ARROW1\0\0"  # at the beginning, and without the zeros at the end
_END = 6
_SEAL = "checksum"
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


def write_text(path: Path, text: str) -> None:
    """Publish a text."""
    with publish(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Publish a JSON file; its last member is a checksum of all others."""
    plain = json.loads(json.dumps(value, default=str))
    write_text(path, json.dumps({**plain, _SEAL: _seal_of(plain)}, indent=2) + "\n")


def read_json(path: Path, kind: Any = dict[str, Any], cure: str = _CURE) -> dict[str, Any]:
    """Read a JSON value of a kind, such as a TypedDict, that gscl-scale wrote."""
    if not path.exists():
        raise FolderError(f"{path} does not exist; run the stage that writes it first")
    plain = parse_json(read_text_bytes(path), str(path), cure)
    if isinstance(plain, dict) and plain.pop(_SEAL, None) not in (None, _seal_of(plain)):
        raise FolderError(
            f"{path}: its content does not fit its {_SEAL}, it is damaged or was changed by another program; {cure}"
        )
    values: dict[str, Any] = checked(kind, plain, str(path), cure)
    return values


def _seal_of(plain: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(plain).encode()):08x}"


def read_json_lines(path: Path, kind: Any = dict[str, Any]) -> list[Any]:
    """The whole lines of a file of JSON lines, none if it is not there; one of another kind, or cut off, ends them."""
    lines = []
    for text in lines_of(path) if path.exists() else ():
        try:
            value = parse_json(text, str(path), "")
        except FolderError:
            break
        if of_kind(kind, value):
            break
        lines.append(value)
    return lines


def write_arrow(path: Path, columns: dict[str, pa.Array]) -> None:
    """Publish an uncompressed Arrow IPC file of one record batch, so that a reader can map it without a copy."""
    with publish(path) as temporary:
        put_arrow(temporary, columns)


def put_arrow(path: Path, columns: dict[str, pa.Array]) -> None:
    """The same for a file that the caller publishes."""
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(allow_64bit=True)) as file,
    ):
        file.write_batch(batch)


def map_arrow(path: Path) -> pa.RecordBatch:
    """Map a file of `write_arrow` into memory: nothing is read until it is used.

    What its head says is checked against the bytes that are there; what the columns hold is not looked at.
    """
    if (size := size_of(path)) < 2 * len(_ARROW):
        raise _damaged(path, "it ends too early")
    try:
        with pa.memory_map(str(path)) as file:
            whole = (file.read_at(len(_ARROW), 0), file.read_at(_END, size - _END)) == (_ARROW, _ARROW[:_END])
            if not whole:
                raise _damaged(path, "it is no whole Arrow file")
            file.seek(len(_ARROW))
            messages = pa.ipc.MessageReader.open_stream(file)
            head = messages.read_next_message()
            if head.type != "schema":  # read_schema would end the process
                raise _damaged(path, "it does not begin with its columns")
            schema = pa.ipc.read_schema(head)
            body = messages.read_next_message()
            if body.type != "record batch" or is_compressed(body.metadata.to_pybytes()):
                raise _damaged(path, "expected one uncompressed record batch")
            batch = pa.ipc.read_record_batch(body, schema)
            batch.validate()
            listed(schema.names)  # UnicodeDecodeError where they are no text
            with contextlib.suppress(StopIteration):
                messages.read_next_message()
                raise _damaged(path, "expected one record batch")
            return batch
    except StopIteration:
        raise _damaged(path, "it ends too early") from None
    except (OSError, pa.ArrowException, MemoryError, UnicodeDecodeError) as error:
        raise FolderError(f"{path} cannot be read: {shortened(error)}; {_CURE}") from None


def is_compressed(head: bytes) -> bool:
    """Whether the head of a record batch says that its buffers are compressed: Message.fbs and RecordBatch of Arrow."""
    header = _field(head, struct.unpack_from("<I", head)[0], 2)
    return bool(header and _field(head, header + struct.unpack_from("<I", head, header)[0], 3))


def _field(head: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffer's table is, 0 where it has none."""
    entries = table - struct.unpack_from("<i", head, table)[0]
    size = struct.unpack_from("<H", head, entries)[0]
    place = struct.unpack_from("<H", head, entries + 4 + 2 * number)[0] if 4 + 2 * number < size else 0
    return table + place if place else 0


def column_of(batch: pa.RecordBatch, name: str, path: Path) -> pa.Array:
    """A column of a mapped file, which must be there once and have no missing values."""
    if batch.schema.names.count(name) != 1:
        raise _damaged(path, f"expected one column {name}, got {listed(batch.schema.names)}")
    column = batch.column(name)
    if column.null_count:
        raise _damaged(path, f"{name} has missing values")
    return column


def numbers_of(column: pa.Array, path: Path, *kinds: str) -> npt.NDArray[Any]:
    """A column of numbers, of some types if any are given, as an array over the mapped file; lists become rows."""
    rows = pa.types.is_fixed_size_list(column.type)
    values = column.flatten() if rows else column
    if (kinds and str(values.type) not in kinds) or values.null_count or (rows and not column.type.list_size):
        raise _damaged(path, f"expected numbers of type {' or '.join(kinds)}, got {shortened(column.type, 80)}")
    array = values.to_numpy(zero_copy_only=True)
    return array.reshape(len(column), column.type.list_size) if rows else array


def map_array(path: Path, column: str, *kinds: str) -> npt.NDArray[Any]:
    """A column of numbers as a read-only array over the mapped file; lists of fixed size become rows."""
    return numbers_of(column_of(map_arrow(path), column, path), path, *kinds)


def _damaged(path: Path, what: str) -> FolderError:
    return FolderError(f"{path} is damaged: {what}; {_CURE}")


def as_rows(array: npt.NDArray[Any]) -> pa.Array:
    """A two-dimensional array as an Arrow column of fixed-size lists, without a copy where it is contiguous."""
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(array).reshape(-1)), array.shape[1])
