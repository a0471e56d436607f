"""Files that are whole or absent: temporary name, flush, rename; checksums; JSON."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale.errors import FolderError, RunError

_CHUNK = 1 << 22


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
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def is_temporary(path: Path) -> bool:
    """Whether a name is that of a file or folder which was never published: its attempt runs, or was killed."""
    return path.name.startswith(".") and path.name.endswith(".tmp")


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
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def fingerprint_of(value: Any) -> str:
    """Checksum of any JSON value; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Publish a JSON file."""
    with publish(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, default=str) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object that gscl-scale wrote."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FolderError(f"{path} does not exist; run the stage that writes it first") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise FolderError(f"{path} is damaged: not valid JSON ({error}); delete its folder and run again") from None
    if not isinstance(value, dict):
        raise FolderError(f"{path} is damaged: expected a JSON object; delete its folder and run again")
    return value


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file of JSON lines, none if it is not there; a line cut off by a kill ends them."""
    if not path.exists():
        return []
    lines = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            break
    return lines


def write_arrow(path: Path, columns: dict[str, pa.Array]) -> None:
    """Publish an uncompressed Arrow IPC file of one record batch, so that a reader can map it without a copy."""
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    with (
        publish(path) as temporary,
        pa.OSFile(str(temporary), "wb") as sink,
        pa.ipc.new_file(sink, batch.schema, options=pa.ipc.IpcWriteOptions(allow_64bit=True)) as file,
    ):
        file.write_batch(batch)


def map_arrow(path: Path) -> pa.RecordBatch:
    """Map a file of `write_arrow` into memory: nothing is read until it is used."""
    try:
        file = pa.ipc.open_file(pa.memory_map(str(path)))
        if file.num_record_batches == 1:
            return file.get_batch(0)
    except (OSError, pa.ArrowInvalid) as error:
        raise FolderError(f"{path} cannot be read: {error}; delete its folder and run again") from None
    raise FolderError(f"{path} is damaged: expected one record batch; delete its folder and run again")


def map_array(path: Path, column: str) -> npt.NDArray[Any]:
    """A column of numbers as a read-only array over the mapped file; lists of fixed size become rows."""
    values = map_arrow(path).column(column)
    if pa.types.is_fixed_size_list(values.type):
        return values.flatten().to_numpy(zero_copy_only=True).reshape(len(values), values.type.list_size)
    return values.to_numpy(zero_copy_only=True)


def as_rows(array: npt.NDArray[Any]) -> pa.Array:
    """A two-dimensional array as an Arrow column of fixed-size lists, without a copy where it is contiguous."""
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(array).reshape(-1)), array.shape[1])
