"""The graph that every stage reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import TypedDict

from gscl_scale import seeding
from gscl_scale.errors import FolderError, GraphError
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.graph.validate import refuse_unsound, stamp_of
from gscl_scale.io.arrow import column_of, map_array, map_arrow, numbers_of
from gscl_scale.io.checksum import sha256_of
from gscl_scale.io.json import read_json
from gscl_scale.io.validate import Count, FileEntry, FileName, of_kind, size_of
from gscl_scale.runtime.threads import in_order, num_threads
from gscl_scale.text import quoted

FORMAT = 1
_INDEX = ("int32", "int64")


class Manifest(TypedDict):
    """What a graph folder says of itself, as far as it is read."""

    name: str
    files: dict[FileName, FileEntry]
    num_nodes: Count
    num_entries: Count
    num_features: Count
    undirected: bool
    classes: list[str]
    fingerprint: str
    notes: list[str]
    splits: NotRequired[list[str]]
    feature_columns: NotRequired[list[str]]


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

    @property
    def feature_columns(self) -> list[str]:
        """The columns of the user's node table that the features were read from, in their order; empty if unknown."""
        columns: list[str] = self.manifest.get("feature_columns", [])
        return columns

    def other_features(self, width: int, columns: Sequence[str]) -> str:
        """What is other about the features than in the graph of a training; empty where they are the same."""
        if self.num_features != width:
            return f"{self.num_features:,} features per node, the encoder was trained on {width:,}"
        for number, (found, expected) in enumerate(zip(self.feature_columns, columns, strict=False), start=1):
            if found != expected:
                return f"{quoted(found)} as feature column {number}, the encoder was trained on {quoted(expected)}"
        return ""

    def refuse_other_features(self, width: int, columns: Sequence[str], told: str) -> None:
        """Refuse a graph that an encoder would read wrongly."""
        if other := self.other_features(width, columns):
            raise GraphError(f"{told} has {other}; bring the same columns in the same order (graph.feature_columns)")

    def identities(self) -> npt.NDArray[np.uint64]:
        """A 64-bit identity of each node that depends on the user's id alone, for keyed random numbers."""
        return seeding.identities_of(self.ids)

    @classmethod
    def open(cls, folder: str | Path) -> "Graph":
        """Map the graph of a graph folder; refuse a folder with missing or truncated files."""
        folder = Path(folder)
        manifest = read_json(folder / "manifest.json")
        if manifest.get("format") != FORMAT:
            raise FolderError(
                f"{folder}: expected graph format {FORMAT}, got {quoted(manifest.get('format'))}; "
                f"delete {folder} and ingest the graph again"
            )
        if hindrance := of_kind(Manifest, manifest):
            raise FolderError(
                f"{folder / 'manifest.json'} is damaged: {hindrance}; delete {folder} and ingest the graph again"
            )
        files = manifest["files"]
        _check_files(folder, files)
        graph = cls(
            name=manifest["name"],
            indptr=map_array(folder / "indptr.arrow", "indptr", "int64"),
            indices=map_array(folder / "indices.arrow", "indices", *_INDEX),
            features=_map_features(folder, manifest),
            labels=map_array(folder / "labels.arrow", "label", "int64") if "labels.arrow" in files else None,
            splits=_map_splits(folder / "splits.arrow") if "splits.arrow" in files else {},
            ids=column_of(map_arrow(folder / "ids.arrow"), "id", folder / "ids.arrow"),
            undirected=manifest["undirected"],
            classes=manifest["classes"],
            fingerprint=manifest["fingerprint"],
            folder=folder,
            manifest=manifest,
        )
        refuse_unsound(graph, stamp_of(folder, [*files, "manifest.json"]))
        return graph

    def verify(self, names: Sequence[str] = ()) -> None:
        """Raise FolderError if a file has other content than was written: opening it compares sizes only.

        names   only these files, those of the neighbours and the ids for instance; without them all
        """
        files = self.manifest["files"]
        paths = [self.folder / name for name in names or files]
        for path, checksum in zip(paths, in_order(sha256_of, paths, num_threads()), strict=True):
            if checksum != files[path.name]["sha256"]:
                raise FolderError(
                    f"{path}: expected the content that was written, got other bytes; "
                    f"delete {self.folder} and ingest the graph again"
                )


def _check_files(folder: Path, files: dict[str, Any]) -> None:
    for name, entry in files.items():
        size = size_of(folder / name) if (folder / name).exists() else -1
        if size != entry["bytes"]:
            raise FolderError(
                f"{folder / name}: expected {entry['bytes']} bytes, got {'no file' if size < 0 else size}; "
                f"delete {folder} and ingest the graph again"
            )


def _map_splits(path: Path) -> dict[str, npt.NDArray[np.int8]]:
    batch = map_arrow(path)
    return {name: numbers_of(column_of(batch, name, path), path, "int8") for name in batch.schema.names}


def _map_features(folder: Path, manifest: dict[str, Any]) -> npt.NDArray[np.float32] | SparseFeatures:
    if "features.arrow" in manifest["files"]:
        return map_array(folder / "features.arrow", "features", "float")
    return SparseFeatures(
        map_array(folder / "feature_indptr.arrow", "indptr", "int64"),
        map_array(folder / "feature_indices.arrow", "indices", "int32"),
        map_array(folder / "feature_values.arrow", "values", "float"),
        manifest["num_features"],
    )
