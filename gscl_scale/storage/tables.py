"""Tables on an object store, copied to a temporary folder of this machine before they are read."""

import shutil
import tempfile
import weakref
from pathlib import Path, PurePath

from gscl_scale.errors import FolderError
from gscl_scale.io.atomic import explain_disk_errors
from gscl_scale.storage.stores import Store
from gscl_scale.storage.transfer import in_parallel
from gscl_scale.storage.urls import store_at


class ScratchFolder:
    """A temporary folder that goes with the last reader of its files; it may be below a given one."""

    def __init__(self, below: Path | None = None) -> None:
        if below:
            with explain_disk_errors(below):
                below.mkdir(parents=True, exist_ok=True)
        self.path = Path(tempfile.mkdtemp(prefix="gscl-scale-tables-", dir=below))
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def fetch_files(url: str, below: Path | None = None) -> tuple[ScratchFolder, list[PurePath]]:
    """Copy the file, or all files of the folder, at a URL; returns their names below the temporary folder."""
    store, sizes = files_at(url)
    scratch = ScratchFolder(below)
    in_parallel(lambda name: store.download(name, scratch.path / name), sizes)
    return scratch, [PurePath(name) for name in sorted(sizes)]


def files_at(url: str) -> tuple[Store, dict[str, int]]:
    """The store of a table, and the names and sizes of its files there."""
    folder, _, name = url.rstrip("/").rpartition("/")
    store = store_at(folder)
    size = store.size(name)
    if size is not None:
        return store, {name: size}
    store = store_at(url)
    sizes = {name: size for name, size in store.sizes().items() if not is_hidden(PurePath(name))}
    if not sizes:
        raise FolderError(f"{url} does not exist, or is empty; check its name, and that this machine may read it")
    return store, sizes


def is_hidden(name: PurePath) -> bool:
    """Whether a file below a folder is no table of it, such as `_SUCCESS`."""
    return any(part[0] in "._" for part in name.parts)
