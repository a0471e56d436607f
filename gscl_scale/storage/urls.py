"""The store that a user names, and the folder where this machine keeps copies of it."""

import hashlib
import os
from pathlib import Path

from gscl_scale.errors import FolderError
from gscl_scale.storage.stores import LocalStore, RemoteStore, Store
from gscl_scale.text import holds_secret

_CACHE = "GSCL_SCALE_CACHE"
_STORES = ("s3", "gs", "az")


def is_remote(where: str | Path) -> bool:
    """Whether this names an object store, not a folder."""
    return "://" in str(where)


def url_of(path: Path) -> str:
    """The URL of an object store that was made a path and has lost a slash by it; "" for any other path.

    >>> url_of(Path("s3://bucket/nodes.csv")), url_of(Path("nodes.csv"))
    ('s3://bucket/nodes.csv', '')
    """
    scheme, colon, rest = str(path).partition(":/")
    return f"{scheme}://{rest.lstrip('/')}" if colon and scheme in _STORES else ""


def store_at(where: str | Path) -> Store:
    """The store at a folder, or a URL such as s3://bucket/folder."""
    if not is_remote(where):
        return LocalStore(Path(where))
    _refuse_secrets(str(where))
    return RemoteStore(str(where))


def folder_of(where: str | Path) -> Path:
    """The folder of this machine to work in: the named one, or the copy of a URL's."""
    return cache_of(where) if is_remote(where) else Path(where)


def cache_of(where: str | Path) -> Path:
    """The folder of this machine for copies of files in a store: below GSCL_SCALE_CACHE, or ~/.cache/gscl-scale."""
    base = Path(os.environ.get(_CACHE) or Path.home() / ".cache" / "gscl-scale")
    name = hashlib.sha256(str(where).rstrip("/").encode()).hexdigest()[:16]
    return base.absolute() / name


def _refuse_secrets(url: str) -> None:
    """URLs are written into logs and records, where secrets must not be."""
    if holds_secret(url):
        raise FolderError(
            f"{url.split('://', 1)[0]}://…: expected a URL without secrets, which would be written into logs; "
            "set them in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY) or give the machine a role"
        )
