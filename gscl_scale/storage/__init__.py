"""Files on this machine, a shared disk or an object store: whole or absent, and created by one writer only."""

from gscl_scale.storage.folders import fetch_folder, keep_folder
from gscl_scale.storage.mirror import Mirror, kept_files, small_files, working_copy
from gscl_scale.storage.places import cache_of, folder_of, is_remote, store_at
from gscl_scale.storage.stores import LocalStore, RemoteStore, Store

__all__ = [
    "LocalStore",
    "Mirror",
    "RemoteStore",
    "Store",
    "cache_of",
    "fetch_folder",
    "folder_of",
    "is_remote",
    "keep_folder",
    "kept_files",
    "small_files",
    "store_at",
    "working_copy",
]
