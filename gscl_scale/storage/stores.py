"""Two kinds of stores with one contract: a folder, and a bucket that `pyarrow.fs` opens."""

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, Protocol

import pyarrow.fs as arrow_fs

from gscl_scale.errors import AbsentError, FolderError, GsclError, RunError
from gscl_scale.io.atomic import link_or_copy, naming, publish
from gscl_scale.io.validate import read_text_bytes
from gscl_scale.storage.patience import is_final, patiently
from gscl_scale.text import shortened

_CHUNK = 1 << 22
_MOST_COPIED = 5_000_000_000  # bytes that S3 copies by one request


class Store(Protocol):
    """Files by name, with `/` between folder and file; what is there is whole.

    read        content, or None where there is no such file
    write       the file has the old content or the new one, at every moment
    create      False, and nothing is changed, where the file is there with other content: of several writers one
                succeeds, if no two write the same
    sizes       names of all files below a folder, with their bytes
    taken       bytes of all files; what has several names counts once
    upload      a file of this machine under a name; it must not be changed afterwards
    put         the first bytes of an open file under a name; others may append to it meanwhile
    copy        a file of the store under another name as well
    download    a file of the store at a path of this machine
    remove      a file, or a folder with all that is in it; nothing happens where there is none
    """

    @property
    def where(self) -> str: ...  # noqa: D102

    def read(self, name: str) -> bytes | None: ...  # noqa: D102

    def write(self, name: str, content: bytes) -> None: ...  # noqa: D102

    def create(self, name: str, content: bytes) -> bool: ...  # noqa: D102

    def sizes(self, folder: str = "") -> dict[str, int]: ...  # noqa: D102

    def taken(self) -> int: ...  # noqa: D102

    def upload(self, path: Path, name: str) -> None: ...  # noqa: D102

    def put(self, file: BinaryIO, size: int, name: str) -> None: ...  # noqa: D102

    def copy(self, name: str, other: str) -> None: ...  # noqa: D102

    def download(self, name: str, path: Path) -> None: ...  # noqa: D102

    def remove(self, name: str) -> None: ...  # noqa: D102


class LocalStore:
    """A folder of this machine, or of a disk that several machines mount."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    @property
    def where(self) -> str:
        """The folder."""
        return str(self.folder)

    def read(self, name: str) -> bytes | None:
        """See Store."""
        path = self.folder / name
        if not path.exists() or path.is_dir():
            return None
        return read_text_bytes(path)

    def write(self, name: str, content: bytes) -> None:
        """See Store."""
        with publish(self.folder / name) as temporary:
            temporary.write_bytes(content)

    def create(self, name: str, content: bytes) -> bool:
        """See Store; a hard link is made or not, on network filesystems as well."""
        path = self.folder / name
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            with naming(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                with temporary.open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                with contextlib.suppress(FileExistsError):
                    os.link(temporary, path)
            return self.read(name) == content
        finally:
            temporary.unlink(missing_ok=True)

    def sizes(self, folder: str = "") -> dict[str, int]:
        """See Store; files whose writing has not ended are left out."""
        sizes = {}
        for path in (self.folder / folder).rglob("*"):
            name = path.relative_to(self.folder)
            with contextlib.suppress(FileNotFoundError):
                if path.is_file() and not any(part.endswith(".tmp") for part in name.parts):
                    sizes[name.as_posix()] = path.stat().st_size
        return sizes

    def taken(self) -> int:
        """See Store."""
        bytes_of = {}
        for path in self.folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                stat = path.lstat()
                if S_ISREG(stat.st_mode):
                    bytes_of[stat.st_dev, stat.st_ino] = stat.st_size
        return sum(bytes_of.values())

    def upload(self, path: Path, name: str) -> None:
        """See Store; a second name of the same file where the filesystem can."""
        with publish(self.folder / name) as temporary:
            link_or_copy(path, temporary)

    def put(self, file: BinaryIO, size: int, name: str) -> None:
        """See Store."""
        with publish(self.folder / name) as temporary, temporary.open("wb") as target:
            _copy(file, size, target)

    def copy(self, name: str, other: str) -> None:
        """See Store."""
        self.upload(self.folder / name, other)

    def download(self, name: str, path: Path) -> None:
        """See Store."""
        if not (self.folder / name).is_file():
            raise AbsentError(f"{self.folder / name} is not there; {_CURE}")
        with publish(path) as temporary:
            link_or_copy(self.folder / name, temporary)

    def remove(self, name: str) -> None:
        """See Store."""
        path = self.folder / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


class RemoteStore:
    """A folder of an object store, such as s3://bucket/folder; every request is repeated while the store is in trouble.

    Addresses and secrets come from the environment and the machine, as for other tools of the same store.
    """

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._files, self._root = self._open()
        self._conditional = self._open_conditional()

    @property
    def where(self) -> str:
        """The URL."""
        return self._url

    def read(self, name: str) -> bytes | None:
        """See Store."""
        try:
            with self._asking(name):
                return patiently(self._read, name)
        except FileNotFoundError:
            return None

    def write(self, name: str, content: bytes) -> None:
        """See Store."""
        with self._asking(name):
            patiently(self._write, name, content)

    def create(self, name: str, content: bytes) -> bool:
        """See Store; by a conditional request, which `pyarrow.fs` does not offer."""
        from obstore import exceptions

        try:
            self._conditional.put(name, content, mode="create")
        except exceptions.AlreadyExistsError:
            # a request that is repeated because its answer was lost meets the file that it has made
            return self.read(name) == content
        except exceptions.BaseError as error:
            refused = (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, exceptions.NotFoundError)
            raise self._told(name, error, isinstance(error, refused)) from None
        return True

    def sizes(self, folder: str = "") -> dict[str, int]:
        """See Store."""
        base = f"{self._root}/{folder}".rstrip("/")
        selector = arrow_fs.FileSelector(base, recursive=True, allow_not_found=True)
        with self._asking(folder):
            found = patiently(self._files.get_file_info, selector)
        return {info.path[len(self._root) + 1 :]: info.size for info in found if info.type == arrow_fs.FileType.File}

    def taken(self) -> int:
        """See Store; nothing has two names there."""
        return sum(self.sizes().values())

    def upload(self, path: Path, name: str) -> None:
        """See Store."""
        with path.open("rb") as file:
            self.put(file, path.stat().st_size, name)

    def put(self, file: BinaryIO, size: int, name: str) -> None:
        """See Store."""
        with self._asking(name):
            patiently(self._put, file, size, name)

    def copy(self, name: str, other: str) -> None:
        """See Store; by the store itself."""
        with self._asking(other):
            patiently(self._copy_within, f"{self._root}/{name}", f"{self._root}/{other}")

    def download(self, name: str, path: Path) -> None:
        """See Store."""
        with publish(path) as temporary, self._asking(name):
            try:
                patiently(self._download, name, temporary)
            except FileNotFoundError:
                raise AbsentError(f"{self._url}/{name} is not there; {_CURE}") from None

    def remove(self, name: str) -> None:
        """See Store."""
        with self._asking(name):
            patiently(self._remove, f"{self._root}/{name}")

    def _open(self) -> tuple[Any, str]:
        try:
            files, root = arrow_fs.FileSystem.from_uri(self._url)
        except (OSError, ValueError, ImportError) as error:
            raise FolderError(f"{self._url}: {shortened(error)}; {_CURE}") from None
        return files, root.rstrip("/")

    def _open_conditional(self) -> Any:
        try:
            from obstore.store import from_url
        except ImportError:
            raise FolderError(
                f"{self._url}: runs and registries on object stores need one package more; "
                "pip install 'gscl-scale[cloud]'"
            ) from None
        try:
            return from_url(self._url, client_options={"allow_http": True})
        except ValueError as error:
            raise FolderError(
                f"{self._url}: {shortened(error)}; expected a store with conditional writes: s3://, gs://, az://, "
                "or a folder of a shared disk"
            ) from None

    @contextlib.contextmanager
    def _asking(self, name: str) -> Iterator[None]:
        """What the store refuses is told in one sentence."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._told(name, error, is_final(error)) from None

    def _told(self, name: str, error: Exception, final: bool) -> GsclError:
        """What is refused for good is for the user to mend; anything else failed, and may be tried again."""
        kind = FolderError if final else RunError
        return kind(f"{self._url}/{name}: {shortened(error)}; {_CURE}")

    def _read(self, name: str) -> bytes:
        with self._files.open_input_stream(f"{self._root}/{name}") as stream:
            return bytes(stream.read())

    def _write(self, name: str, content: bytes) -> None:
        with self._files.open_output_stream(f"{self._root}/{name}") as stream:
            stream.write(content)

    def _put(self, file: BinaryIO, size: int, name: str) -> None:
        with self._files.open_output_stream(f"{self._root}/{name}") as stream:
            _copy(file, size, stream)

    def _download(self, name: str, path: Path) -> None:
        with self._files.open_input_stream(f"{self._root}/{name}") as stream, path.open("wb") as file:
            shutil.copyfileobj(stream, file, _CHUNK)

    def _copy_within(self, path: str, other: str) -> None:
        if self._files.get_file_info(path).size <= _MOST_COPIED:
            self._files.copy_file(path, other)
            return
        with self._files.open_input_stream(path) as stream, self._files.open_output_stream(other) as target:
            shutil.copyfileobj(stream, target, _CHUNK)

    def _remove(self, path: str) -> None:
        info = self._files.get_file_info(path)
        if info.type == arrow_fs.FileType.Directory:
            self._files.delete_dir(path)
        elif info.type == arrow_fs.FileType.File:
            self._files.delete_file(path)


_CURE = "see that the store answers, that the bucket is there, and that this machine may read and write it"


def _copy(file: BinaryIO, size: int, target: Any) -> None:
    """The first bytes of an open file."""
    file.seek(0)
    while size and (chunk := file.read(min(size, _CHUNK))):
        target.write(chunk)
        size -= len(chunk)
