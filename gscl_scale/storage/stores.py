"""Two kinds of stores with the same methods: a folder, and a folder of a bucket on an object store.

Files have names with `/` between folder and file. A reader sees a complete file or none.
"""

import contextlib
import errno
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, BinaryIO

from gscl_scale.errors import AbsentError, FolderError, RunError
from gscl_scale.io.atomic import explain_disk_errors, link_or_copy, make_folder, publish_file
from gscl_scale.io.validate import read_text_bytes
from gscl_scale.text import shortened

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

_CHUNK = 5 << 20  # the least part of an upload that S3 takes: slow networks bring it up in time
_MAX_PARTS = 9_000  # of one upload: S3 takes 10,000
_MAX_COPIED = 5_000_000_000  # bytes that S3 copies by one request
_CLIENT: "ClientConfig" = {"allow_http": True, "timeout": timedelta(minutes=2)}  # of one request
_RETRIES: "RetryConfig" = {
    "max_retries": 10,
    "retry_timeout": timedelta(minutes=3),
    "backoff": {"init_backoff": timedelta(seconds=0.5), "max_backoff": timedelta(seconds=15)},
}
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)  # file systems without hard links answer so, FUSE as well
_CURE = "check that the store answers, that the bucket exists, and that this machine may read and write it"


class LocalStore:
    """A folder of this machine, or of a disk that several machines mount."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    @property
    def where(self) -> str:
        """The folder or the URL."""
        return str(self.folder)

    def read(self, name: str) -> bytes | None:
        """Read a file; None if it does not exist."""
        path = self.folder / name
        if not path.exists() or path.is_dir():
            return None
        return read_text_bytes(path)

    def write(self, name: str, content: bytes) -> None:
        """Write a file; at every moment it has its old content or the new one."""
        with publish_file(self.folder / name) as temporary:
            temporary.write_bytes(content)

    def create(self, name: str, content: bytes) -> bool:
        """Create a file; False, and nothing changes, if it exists with other content.

        Of several writers one succeeds, if no two write the same. A hard link is atomic on network filesystems too.
        """
        path = self.folder / name
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            with explain_disk_errors(path):
                make_folder(path.parent)
                with temporary.open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                _link(temporary, path)
            return self.read(name) == content
        finally:
            temporary.unlink(missing_ok=True)

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Return the names of all complete files below a folder, with their bytes."""
        sizes = {}
        for path in (self.folder / folder).rglob("*"):
            name = path.relative_to(self.folder)
            with contextlib.suppress(FileNotFoundError):
                if path.is_file() and not any(part.endswith(".tmp") for part in name.parts):
                    sizes[name.as_posix()] = path.stat().st_size
        return sizes

    def size(self, name: str) -> int | None:
        """Return the bytes of a file; None if it does not exist."""
        path = self.folder / name
        return path.stat().st_size if path.is_file() else None

    def total_bytes(self) -> int:
        """Return the bytes of all files; a file with several names counts once."""
        bytes_of = {}
        for path in self.folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                stat = path.lstat()
                if S_ISREG(stat.st_mode):
                    bytes_of[stat.st_dev, stat.st_ino] = stat.st_size
        return sum(bytes_of.values())

    def upload(self, path: Path, name: str) -> None:
        """Put a file of this machine under a name, as a hard link if possible: it must not change afterwards."""
        with publish_file(self.folder / name) as temporary:
            link_or_copy(path, temporary)

    def put(self, file: BinaryIO, size: int, name: str) -> None:
        """Put the first bytes of an open file under a name; other processes may append to it meanwhile."""
        with publish_file(self.folder / name) as temporary, temporary.open("wb") as target:
            target.writelines(_chunks(file, size))

    def copy(self, name: str, other: str) -> None:
        """Put a file of the store under another name too; AbsentError if it does not exist."""
        self.download(name, self.folder / other)

    def download(self, name: str, path: Path) -> None:
        """Bring a file of the store to a path of this machine; AbsentError if it does not exist."""
        if not (self.folder / name).is_file():
            raise AbsentError(f"{self.folder / name} does not exist; {_CURE}")
        with publish_file(path) as temporary:
            link_or_copy(self.folder / name, temporary)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all files in it, if it exists."""
        path = self.folder / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


class RemoteStore:
    """A folder of an object store, such as s3://bucket/folder; a request that fails is repeated for about a minute.

    Addresses and secrets come from the environment and the machine, as for other tools of the same store.
    """

    def __init__(self, url: str) -> None:
        self.where = url.rstrip("/")
        self._store = _open_store(self.where)

    def read(self, name: str) -> bytes | None:
        """See LocalStore."""
        with contextlib.suppress(AbsentError), self._requests(name):
            return bytes(self._store.get(name).bytes())
        return None

    def write(self, name: str, content: bytes) -> None:
        """See LocalStore."""
        with self._requests(name):
            self._store.put(name, content)

    def create(self, name: str, content: bytes) -> bool:
        """See LocalStore."""
        from obstore.exceptions import AlreadyExistsError

        with self._requests(name):
            try:
                self._store.put(name, content, mode="create")
            except AlreadyExistsError:  # perhaps by the first of two equal requests, whose answer was lost
                return self.read(name) == content
        return True

    def sizes(self, folder: str = "") -> dict[str, int]:
        """See LocalStore."""
        with self._requests(folder):
            sizes = {file["path"]: file["size"] for page in self._store.list(folder) for file in page}
        # other tools mark a folder by an empty file, whose name comes without its last slash
        folders = {"", *(str(parent) for name in sizes for parent in PurePosixPath(name).parents)}
        return {name: size for name, size in sizes.items() if size or name not in folders}

    def size(self, name: str) -> int | None:
        """See LocalStore."""
        with contextlib.suppress(AbsentError), self._requests(name):
            return int(self._store.head(name)["size"])
        return None

    def total_bytes(self) -> int:
        """See LocalStore."""
        return sum(self.sizes().values())

    def upload(self, path: Path, name: str) -> None:
        """See LocalStore."""
        with path.open("rb") as file:
            self.put(file, path.stat().st_size, name)

    def put(self, file: BinaryIO, size: int, name: str) -> None:
        """See LocalStore."""
        content = _chunks(file, size) if size > _CHUNK else b"".join(_chunks(file, size))
        with self._requests(name):
            try:
                self._store.put(name, content, chunk_size=max(_CHUNK, size // _MAX_PARTS), max_concurrency=4)
            except FileNotFoundError:  # of an upload in parts, if the answer to its last request was lost
                if self._store.head(name)["size"] != size:
                    raise

    def copy(self, name: str, other: str) -> None:
        """See LocalStore; the store itself copies files that are not too large."""
        from obstore import open_writer

        with self._requests(other):
            size = self._store.head(name)["size"]
            if size <= _MAX_COPIED:
                self._store.copy(name, other)
                return
            target = open_writer(self._store, other)
            for chunk in self._ranges(name, size):
                target.write(chunk)
            target.close()

    def download(self, name: str, path: Path) -> None:
        """See LocalStore."""
        with publish_file(path) as temporary, self._requests(name), temporary.open("wb") as file:
            file.writelines(self._ranges(name, self._store.head(name)["size"]))

    def remove(self, name: str) -> None:
        """See LocalStore."""
        with contextlib.suppress(AbsentError), self._requests(name):
            self._store.delete([*self.sizes(name)] or name)

    def _ranges(self, name: str, size: int) -> Iterator[Any]:
        """Read a file by short requests: each is repeated by itself, and none lasts longer than the client waits."""
        for start in range(0, size, _CHUNK):
            yield self._store.get_range(name, start=start, end=min(start + _CHUNK, size))

    @contextlib.contextmanager
    def _requests(self, name: str) -> Iterator[None]:
        """Turn an error of the store into one sentence: a FolderError if repeating the request cannot help."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            reason = str(error).partition("Debug source")[0]
            refused = re.search(r"status code: 40[0134]\b", reason)
            kind = AbsentError if isinstance(error, FileNotFoundError) else FolderError if refused else RunError
            raise kind(f"{self.where}/{name}: {shortened(reason)}; {_CURE}") from None


Store = LocalStore | RemoteStore


def check_creation(store: Store, folder: str = "") -> None:
    """Raise now, not in the middle of the work, if the store cannot be written, or two writers can create one file.

    Some object stores ignore the condition of a request and overwrite the file. Nothing remains in the store.
    """
    name = f"{folder}/{uuid.uuid4().hex}.probe".lstrip("/")
    is_created = store.create(name, b"first")
    try:
        is_kept = is_created and not store.create(name, b"second")
    finally:
        store.remove(name)
    if not is_kept:
        raise FolderError(
            f"{store.where}: this store ignores conditional writes (If-None-Match): a second writer replaced a file "
            "that it should only have created, so two runs could overwrite each other's work; use S3, Google Cloud "
            "Storage, Azure or MinIO, a newer version of this store, or a folder of a shared disk"
        )


def _link(temporary: Path, path: Path) -> None:
    """Give a file its name, unless another file has it."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise FolderError(
            f"{path.parent}: the file system has no hard links, which keep two writers apart; choose a folder on a "
            "local disk, NFS or Lustre, or a URL such as s3://bucket/folder"
        ) from None


def _open_store(url: str) -> Any:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import HTTPStore, from_url
    except ImportError:
        raise FolderError(
            f"{url}: runs and registries on object stores need one more package; pip install 'gscl-scale[cloud]'"
        ) from None
    try:
        store = from_url(url, client_options=_CLIENT, retry_config=_RETRIES)
        if isinstance(store, HTTPStore):
            raise ValueError("a web server cannot be written")
    except (ValueError, BaseError) as error:
        reason = str(error).partition("Debug source")[0]
        raise FolderError(
            f"{url}: {shortened(reason)}; expected a store with conditional writes: s3://, gs://, az://, "
            "or a folder of a shared disk"
        ) from None
    return store


def _chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The first bytes of an open file."""
    file.seek(0)
    while size and (chunk := file.read(min(size, _CHUNK))):
        yield chunk
        size -= len(chunk)
