"""The graph that every stage reads."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale import seeding
from gscl_scale.errors import FolderError
from gscl_scale.files import map_array, map_arrow, read_json, sha256_of
from gscl_scale.graph.parallel import in_order, num_threads

FORMAT = 1
SPLIT_CODES = {"train": 1, "val": 2, "test": 3}
_NEEDED = ("name", "files", "num_features", "undirected", "classes", "fingerprint")


@dataclass(frozen=True)
class SparseFeatures:
    """Features as compressed sparse rows: `values[indptr[v]:indptr[v + 1]]` at columns `indices[...]`."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    width: int


@dataclass(frozen=True)
class Graph:
    """A graph of N nodes, as arrays mapped from a graph folder.

    indptr [N + 1], indices [E]   the neighbours of v are indices[indptr[v]:indptr[v + 1]], ascending, without v itself
                                  and without repeats; for undirected graphs u is a neighbour of v as v is of u
    features [N, F] float32, or SparseFeatures
    labels [N] int64              class of each node, -1 where unknown; None where no node has one
    splits                        name -> [N] int8 of 0 (none), 1 (train), 2 (val), 3 (test)
    ids                           the user's ids, integers or strings, in the order of the user's node table
    """

    name: str
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[Any]
    features: npt.NDArray[np.float32] | SparseFeatures
    labels: npt.NDArray[np.int64] | None
    splits: dict[str, npt.NDArray[np.int8]]
    ids: pa.Array
    undirected: bool
    classes: list[str]
    fingerprint: str
    folder: Path
    manifest: dict[str, Any] = field(repr=False)

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.indptr.size - 1

    @property
    def num_features(self) -> int:
        """F."""
        return self.features.width if isinstance(self.features, SparseFeatures) else self.features.shape[1]

    def identities(self) -> npt.NDArray[np.uint64]:
        """A 64-bit identity of each node that depends on the user's id alone, for keyed random numbers."""
        return seeding.identities_of(self.ids)

    @classmethod
    def open(cls, folder: Path) -> "Graph":
        """Map the graph of a graph folder; refuse a folder with missing or truncated files."""
        manifest = read_json(folder / "manifest.json")
        if manifest.get("format") != FORMAT:
            raise FolderError(
                f"{folder}: expected graph format {FORMAT}, got {manifest.get('format')!r}; ingest the graph again"
            )
        if lacking := [key for key in _NEEDED if key not in manifest]:
            raise FolderError(
                f"{folder / 'manifest.json'} is damaged: it lacks {', '.join(lacking)}; ingest the graph again"
            )
        _check_files(folder, manifest["files"])
        splits = map_arrow(folder / "splits.arrow") if "splits.arrow" in manifest["files"] else None
        return cls(
            name=manifest["name"],
            indptr=map_array(folder / "indptr.arrow", "indptr"),
            indices=map_array(folder / "indices.arrow", "indices"),
            features=_map_features(folder, manifest),
            labels=map_array(folder / "labels.arrow", "label") if "labels.arrow" in manifest["files"] else None,
            splits={name: splits.column(name).to_numpy() for name in splits.schema.names} if splits else {},
            ids=map_arrow(folder / "ids.arrow").column("id"),
            undirected=manifest["undirected"],
            classes=manifest["classes"],
            fingerprint=manifest["fingerprint"],
            folder=folder,
            manifest=manifest,
        )

    def verify(self) -> None:
        """Raise FolderError if a file has other content than was written: opening it compares sizes only."""
        files = self.manifest["files"]
        paths = [self.folder / name for name in files]
        for path, checksum in zip(paths, in_order(sha256_of, paths, num_threads()), strict=True):
            if checksum != files[path.name]["sha256"]:
                raise FolderError(
                    f"{path}: expected the content that was written, got other bytes; "
                    f"delete {self.folder} and ingest the graph again"
                )


def _check_files(folder: Path, files: dict[str, Any]) -> None:
    for name, entry in files.items():
        size = (folder / name).stat().st_size if (folder / name).exists() else -1
        if size != entry["bytes"]:
            raise FolderError(
                f"{folder / name}: expected {entry['bytes']} bytes, got {'no file' if size < 0 else size}; "
                f"delete {folder} and ingest the graph again"
            )


def _map_features(folder: Path, manifest: dict[str, Any]) -> npt.NDArray[np.float32] | SparseFeatures:
    if "features.arrow" in manifest["files"]:
        return map_array(folder / "features.arrow", "features")
    return SparseFeatures(
        map_array(folder / "feature_indptr.arrow", "indptr"),
        map_array(folder / "feature_indices.arrow", "indices"),
        map_array(folder / "feature_values.arrow", "values"),
        manifest["num_features"],
    )
