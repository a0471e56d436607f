"""The graph that every stage reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale import seeding
from gscl_scale.config.graph_size import FeatureBlocks, GraphSize
from gscl_scale.errors import FolderError, GraphError
from gscl_scale.graph.edge_weights import FILE, map_weights
from gscl_scale.graph.label_sets import LabelSets
from gscl_scale.graph.types import Manifest, SparseFeatures
from gscl_scale.graph.validate import refuse_damaged
from gscl_scale.io.arrow import column_of, map_array, map_arrow, numbers_of
from gscl_scale.io.checksum import sha256_of
from gscl_scale.io.json import read_json
from gscl_scale.io.validate import checked, size_of
from gscl_scale.runtime.threads import map_in_order, num_threads
from gscl_scale.text import quoted

FORMAT = 1
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Graph:
    """A graph of N nodes, as arrays mapped from a graph folder.

    indptr [N + 1], indices [E]   the neighbours of v are indices[indptr[v]:indptr[v + 1]], ascending, without v itself
                                  and without repeats; for undirected graphs u is a neighbour of v as v is of u
    edge_weights [E]              a positive weight of each neighbour, in undirected graphs the same in both directions;
                                  None where edges have no weights
    features [N, F] float32, or SparseFeatures
    labels [N] int64              class of each node, -1 where unknown; None where no node has one, or some have many
    label_sets                    the labels of each node where some have many, else None
    splits                        name -> [N] int8 of 0 (none), 1 (train), 2 (val), 3 (test)
    ids                           the user's ids, integers or strings, in the order of the user's node table

    Examples
    --------
    >>> import networkx as nx
    >>> import gscl_scale
    >>> graph = gscl_scale.fit(nx.path_graph(3), epochs=1, width=8).graph
    >>> graph.indices[graph.indptr[1] : graph.indptr[2]]
    array([0, 2], dtype=int32)
    """

    name: str
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[Any]
    features: npt.NDArray[np.float32] | SparseFeatures
    labels: npt.NDArray[np.int64] | None
    label_sets: LabelSets | None
    splits: dict[str, npt.NDArray[np.int8]]
    ids: pa.Array
    undirected: bool
    classes: list[str]
    fingerprint: str
    folder: Path
    manifest: Manifest = field(repr=False)
    edge_weights: npt.NDArray[np.float32] | None = None

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.indptr.size - 1

    @property
    def num_features(self) -> int:
        """F."""
        return self.features.width if isinstance(self.features, SparseFeatures) else self.features.shape[1]

    @property
    def labelled(self) -> npt.NDArray[np.bool_]:
        """Whether each node [N] has a label."""
        if self.label_sets is not None:
            return self.label_sets.counts > 0
        return np.zeros(self.num_nodes, bool) if self.labels is None else self.labels >= 0

    @property
    def feature_blocks(self) -> FeatureBlocks:
        """How many features are the user's, means of these over neighbours, and of the structure."""
        means, structural = self.manifest.get("neighbour_means", 0), self.manifest.get("structural_features", 0)
        return FeatureBlocks(self.num_features - means - structural, means, structural)

    @property
    def size(self) -> GraphSize:
        """What the settings that are `auto` depend on."""
        return GraphSize.of(self.num_nodes, self.feature_blocks, self.manifest.get("nonzero_features"))

    @property
    def num_structural(self) -> int:
        """How many of the last features were computed from the structure."""
        return self.feature_blocks.structural

    @property
    def feature_columns(self) -> list[str]:
        """The columns of the user's node table that the features were read from, in order; empty if unknown."""
        return self.manifest.get("feature_columns", [])

    @property
    def num_own(self) -> int:
        """How many features, the first ones, are the user's."""
        return self.feature_blocks.own

    def other_features(self, blocks: FeatureBlocks, columns: Sequence[str]) -> str:
        """Describe how the features differ from those of an encoder's training; "" if they do not."""
        words = "features per node", "means over neighbours", "structural features"
        for here, there, what in zip(self.feature_blocks, blocks, words, strict=True):
            if here != there:
                return f"{here:,} {what}, the encoder was trained on {there:,}"
        for number, (name, expected) in enumerate(zip(self.feature_columns, columns, strict=False), start=1):
            if name != expected:
                return f"{quoted(name)} as feature column {number}, the encoder was trained on {quoted(expected)}"
        return ""

    def refuse_other_features(
        self, blocks: FeatureBlocks, columns: Sequence[str], subject: str, run: Path | None = None, cure: str = ""
    ) -> None:
        """GraphError for a graph whose features an encoder would misread; `subject` begins its message.

        run    that of the encoder, whose encoding of columns a graph can be ingested with
        cure   the end of the message, where the graph is none of a folder
        """
        if other := self.other_features(blocks, columns):
            again = f", or ingest the tables with --set {quote(f'graph.encoding={run}')}" if run else ""
            cure = cure or f"bring the same columns in the same order (graph.feature_columns){again}"
            raise GraphError(f"{subject} has {other}; {cure}")

    def refuse_other_weights(self, weighted: bool, subject: str, cure: str = "") -> None:
        """GraphError for a graph with edge weights whose encoder was trained without, or the other way round.

        cure   the end of the message where weights are missing and the graph is none of a folder
        """
        if (self.edge_weights is not None) != weighted:
            here, there = ("no edge weights", "with some") if weighted else ("edge weights", "without any")
            usual = "ingest it as the encoder's graph (graph.weight_column, or the edge weights of the source)"
            raise GraphError(
                f"{subject} has {here}, and the encoder was trained {there}; {(weighted and cure) or usual}"
            )

    def identities(self) -> npt.NDArray[np.uint64]:
        """A 64-bit identity of each node that depends on the user's id alone, for keyed random numbers."""
        return seeding.identities_of(self.ids)

    def draws(self, key: np.uint64, first: int = 0, end: int | None = None) -> npt.NDArray[np.float64]:
        """A standard exponential draw for each node first..end: a function of the key and of the user's id alone."""
        return seeding.exponentials_of(key, self.ids[first:end])

    @classmethod
    def open(cls, folder: str | Path) -> "Graph":
        """Map the graph of a graph folder; FolderError for a folder with missing or damaged files."""
        folder = Path(folder)
        manifest = _read_manifest(folder)
        files = manifest["files"]
        graph = cls(
            name=manifest["name"],
            indptr=map_array(folder / "indptr.arrow", "indptr", "int64"),
            indices=map_array(folder / "indices.arrow", "indices", "int32", "int64"),
            features=_map_features(folder, manifest),
            labels=map_array(folder / "labels.arrow", "label", "int64") if "labels.arrow" in files else None,
            label_sets=_map_label_sets(folder, manifest),
            splits=_map_splits(folder / "splits.arrow") if "splits.arrow" in files else {},
            ids=column_of(map_arrow(folder / "ids.arrow"), "id", folder / "ids.arrow"),
            undirected=manifest["undirected"],
            classes=manifest["classes"],
            fingerprint=manifest["fingerprint"],
            folder=folder,
            manifest=manifest,
            edge_weights=map_weights(folder) if FILE in files else None,
        )
        refuse_damaged(graph, [*files, MANIFEST])
        return graph

    def verify(self, names: Sequence[str] = ()) -> None:
        """FolderError if the content of a file has changed since it was written; `open` compares sizes only.

        names   the files to read, such as those of the neighbours and the ids; all by default
        """
        files = self.manifest["files"]
        paths = [self.folder / name for name in names or files]
        for path, checksum in zip(paths, map_in_order(sha256_of, paths, num_threads()), strict=True):
            if checksum != files[path.name]["sha256"]:
                raise FolderError(f"{path} does not match its checksum; {_cure(self.folder)}")


def _cure(folder: Path) -> str:
    return f"delete {folder} and ingest the graph again"


def _read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder whose files all have the sizes that it names."""
    found = read_json(folder / MANIFEST)
    if found.get("format") != FORMAT:
        raise FolderError(
            f"{folder}: expected graph format {FORMAT}, got {quoted(found.get('format'))}; {_cure(folder)}"
        )
    manifest: Manifest = checked(Manifest, found, str(folder / MANIFEST), _cure(folder))
    for name, entry in manifest["files"].items():
        size = size_of(folder / name) if (folder / name).exists() else -1
        if size != entry["bytes"]:
            raise FolderError(
                f"{folder / name}: expected {entry['bytes']} bytes, got {'no file' if size < 0 else size}; "
                f"{_cure(folder)}"
            )
    return manifest


def _map_splits(path: Path) -> dict[str, npt.NDArray[np.int8]]:
    batch = map_arrow(path)
    return {name: numbers_of(column_of(batch, name, path), path, "int8") for name in batch.schema.names}


def _map_label_sets(folder: Path, manifest: Manifest) -> LabelSets | None:
    if "label_indptr.arrow" not in manifest["files"]:
        return None
    indptr = map_array(folder / "label_indptr.arrow", "indptr", "int64")
    return LabelSets(indptr, map_array(folder / "label_indices.arrow", "label", "int32"), manifest["classes"])


def _map_features(folder: Path, manifest: Manifest) -> npt.NDArray[np.float32] | SparseFeatures:
    if "features.arrow" in manifest["files"]:
        return map_array(folder / "features.arrow", "features", "float")
    return SparseFeatures(
        map_array(folder / "feature_indptr.arrow", "indptr", "int64"),
        map_array(folder / "feature_indices.arrow", "indices", "int32"),
        map_array(folder / "feature_values.arrow", "values", "float"),
        manifest["num_features"],
    )
