"""From what a source read to a finished graph folder."""

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from gscl_scale import seeding
from gscl_scale.config import GraphConfig
from gscl_scale.errors import GraphError
from gscl_scale.files import as_rows, fingerprint_of, publish_folder, sha256_of, write_arrow, write_json
from gscl_scale.graph.csr import CsrCounts, EdgeSpool, build_csr, index_dtype
from gscl_scale.graph.graph import FORMAT, Graph
from gscl_scale.graph.structure import structural_features

Edges = tuple[npt.NDArray[Any], npt.NDArray[Any]]
_ROWS_AT_ONCE = 65536


@dataclass
class Draft:
    """What a source read: edges as a stream of (source, target) index arrays, and the nodes' columns.

    features   [N, F] numbers (a mapped file is welcome), a scipy CSR matrix, or None for features of the structure
    labels     [N] integers (negative: unknown), floats (NaN: unknown), or strings (None: unknown)
    splits     name -> [N] int8 codes of SPLIT_CODES, 0 for nodes in no part
    ids        the user's ids; None for 0..N-1
    origin     file or data set, for messages
    notes      what was done to the input, one sentence each
    """

    name: str
    origin: str
    num_nodes: int
    edges: Iterable[Edges]
    features: npt.NDArray[Any] | sp.csr_matrix | sp.csr_array | None = None
    labels: npt.NDArray[Any] | None = None
    splits: dict[str, npt.NDArray[np.int8]] = field(default_factory=dict)
    ids: pa.Array | None = None
    notes: list[str] = field(default_factory=list)


def write_graph(draft: Draft, config: GraphConfig, folder: Path) -> Graph:
    """Check a draft, build its rows, and publish the graph folder; on any error nothing is left behind."""
    _check_columns(draft)
    notes = list(draft.notes)
    with publish_folder(folder) as out, tempfile.TemporaryDirectory(dir=out) as scratch:
        room = Path(scratch)
        spool = EdgeSpool(room, draft.num_nodes, draft.origin)
        for source, target in draft.edges:
            spool.add(source, target)
        indptr, indices, counts = build_csr(spool, config.undirected, room, config.memory_mb << 20)
        spool.close()
        write_arrow(out / "indptr.arrow", {"indptr": pa.array(indptr)})
        write_arrow(out / "indices.arrow", {"indices": pa.array(indices)})

        ids = draft.ids if draft.ids is not None else pa.array(np.arange(draft.num_nodes, dtype=np.int64))
        write_arrow(out / "ids.arrow", {"id": ids})
        features = draft.features
        if features is None:
            features = structural_features(
                indptr, indices, seeding.identities_of(ids), config.structural_features, room
            )
            notes.append(
                f"the graph brings no features: {config.structural_features} were made from its structure "
                "(see docs/graphs.md)"
            )
        num_features = _write_features(out, features, draft.origin)
        classes: list[str] = []
        if draft.labels is not None:
            codes, classes = encode_labels(draft.labels)
            if classes:
                write_arrow(out / "labels.arrow", {"label": pa.array(codes)})
        if draft.splits:
            write_arrow(out / "splits.arrow", {name: pa.array(codes) for name, codes in draft.splits.items()})
        notes += _count_notes(counts, np.diff(indptr), config.undirected)
        _write_manifest(out, draft, config, counts, num_features, classes, notes)
        del indices, features  # the scratch files that they map are removed next
    return Graph.open(folder)


def encode_labels(labels: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Classes numbered in sorted order, -1 where a label is unknown, and their names.

    >>> encode_labels(np.array([7, -1, 3]))
    (array([ 1, -1,  0]), ['3', '7'])
    """
    if labels.dtype.kind in "OUS":
        known = np.array([label is not None and label == label for label in labels], bool)
        named = labels[known].astype(str)
    else:
        known = labels >= 0  # NaN is not
        named = labels[known].astype(np.int64)
    classes, inverse = np.unique(named, return_inverse=True)
    codes = np.full(labels.size, -1, np.int64)
    codes[known] = inverse
    return codes, [str(name) for name in classes]


def _check_columns(draft: Draft) -> None:
    if draft.num_nodes < 1:
        raise GraphError(f"{draft.origin}: the graph is empty; expected at least one node")
    lengths = {"features": draft.features, "labels": draft.labels, **draft.splits}
    for name, column in lengths.items():
        if column is not None and column.shape[0] != draft.num_nodes:
            raise GraphError(
                f"{draft.origin}: {name} has {column.shape[0]:,} rows, expected one per node ({draft.num_nodes:,})"
            )
    if draft.ids is not None:
        if len(draft.ids) != draft.num_nodes:
            raise GraphError(f"{draft.origin}: {len(draft.ids):,} ids for {draft.num_nodes:,} nodes; expected one each")
        if draft.ids.null_count:
            raise GraphError(f"{draft.origin}: {draft.ids.null_count:,} nodes have no id; give every node its own")
        if (distinct := len(pc.unique(draft.ids))) != draft.num_nodes:
            counts = pc.value_counts(draft.ids)
            example = counts.field("values")[pc.index(pc.greater(counts.field("counts"), 1), True).as_py()]
            raise GraphError(
                f"{draft.origin}: {draft.num_nodes - distinct:,} node ids are repeated, such as {example.as_py()!r}; "
                "give every node one row"
            )
    labels = draft.labels
    if labels is not None and labels.ndim != 1:
        raise GraphError(f"{draft.origin}: labels have shape {labels.shape}, expected one class per node")
    if labels is not None and labels.dtype.kind not in "iubfOUS":
        raise GraphError(f"{draft.origin}: labels are of type {labels.dtype}, expected integers or names")
    if labels is not None and labels.dtype.kind == "f":
        known = labels[np.isfinite(labels)]
        if known.size and not np.array_equal(known, np.round(known)):
            raise GraphError(f"{draft.origin}: labels are fractions, expected classes; give integers or names")


def _write_features(out: Path, features: npt.NDArray[Any] | sp.csr_matrix | sp.csr_array, origin: str) -> int:
    """Write dense rows or sparse pieces as float32, checked for numbers that are not finite."""
    if features.ndim != 2 or features.shape[1] == 0:
        raise GraphError(f"{origin}: features have shape {features.shape}, expected one row of numbers per node")
    if sp.issparse(features):
        features = sp.csr_array(features)
        features.sort_indices()
        values = features.data.astype(np.float32)
        if not np.isfinite(values).all():
            row = int(np.searchsorted(features.indptr, np.argmin(np.isfinite(values)), side="right")) - 1
            raise GraphError(f"{origin}: features of node {row:,} are not finite; replace NaN and infinity")
        write_arrow(out / "feature_indptr.arrow", {"indptr": pa.array(features.indptr.astype(np.int64))})
        write_arrow(out / "feature_indices.arrow", {"indices": pa.array(features.indices.astype(np.int32))})
        write_arrow(out / "feature_values.arrow", {"values": pa.array(values)})
        return int(features.shape[1])
    if features.dtype.kind not in "iubf":
        raise GraphError(f"{origin}: features are of type {features.dtype}, expected numbers")
    for low in range(0, features.shape[0], _ROWS_AT_ONCE):
        finite = np.isfinite(features[low : low + _ROWS_AT_ONCE]).all(axis=1)
        if not finite.all():
            row = low + int(np.argmin(finite))
            raise GraphError(f"{origin}: features of node {row:,} are not finite; replace NaN and infinity")
    write_arrow(out / "features.arrow", {"features": as_rows(np.asarray(features, np.float32))})
    return int(features.shape[1])


def _count_notes(counts: CsrCounts, degrees: npt.NDArray[np.int64], undirected: bool) -> list[str]:
    notes = []
    if counts.self_loops:
        notes.append(f"{counts.self_loops:,} self-loops dropped")
    sides = 2 if undirected else 1
    if repeats := (counts.edges_given - counts.self_loops) * sides - counts.entries:
        kind = "repeated edges merged" if not undirected else "repeated edges merged (both directions count)"
        notes.append(f"{repeats // sides:,} {kind}")
    if isolated := int((degrees == 0).sum()) if undirected else 0:
        notes.append(f"{isolated:,} nodes have no neighbour: they take part as far nodes, their own rings are empty")
    return notes


def _write_manifest(
    out: Path,
    draft: Draft,
    config: GraphConfig,
    counts: CsrCounts,
    num_features: int,
    classes: list[str],
    notes: list[str],
) -> None:
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)} for path in sorted(out.glob("*.arrow"))
    }
    content = {name: entry["sha256"] for name, entry in files.items()}
    manifest = {
        "format": FORMAT,
        "name": config.name or draft.name,
        "undirected": config.undirected,
        "num_nodes": draft.num_nodes,
        "num_entries": counts.entries,
        "edges_given": counts.edges_given,
        "self_loops": counts.self_loops,
        "index_type": np.dtype(index_dtype(draft.num_nodes)).name,
        "num_features": num_features,
        "classes": classes,
        "splits": list(draft.splits),
        "notes": notes,
        "options": config.model_dump(mode="json"),
        "files": files,
        "fingerprint": fingerprint_of({"undirected": config.undirected, "classes": classes, **content}),
    }
    write_json(out / "manifest.json", manifest)
