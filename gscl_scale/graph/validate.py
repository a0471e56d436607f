"""Whether the arrays of a graph folder are a graph: kernels trust their indices, whoever wrote the folder."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale.errors import FolderError
from gscl_scale.graph.types import SPLIT_CODES, SparseFeatures, cut_rows, is_csr
from gscl_scale.io.arrow import is_text
from gscl_scale.machine import release_mapped_pages

if TYPE_CHECKING:
    from gscl_scale.graph.graph import Graph

_ENTRIES_AT_ONCE = 1 << 22
_MOST_MAPPED = 4 << 30  # bytes of mapped files in memory above which they are released

Stamp = tuple[tuple[str, int, int, int], ...]

# Workers open their graph for every task, and a check reads all of it: so once per process for each state of the files.
_VALID: set[Stamp] = set()


def refuse_damaged(graph: "Graph", names: list[str]) -> None:
    """FolderError for a folder whose arrays do not fit together; checked again once one of the files has changed."""
    states = [(name, (graph.folder / name).stat()) for name in sorted(names)]
    stamp = (
        (str(graph.folder.absolute()), 0, 0, 0),
        *((name, state.st_ino, state.st_mtime_ns, state.st_size) for name, state in states),
    )
    if stamp in _VALID:
        return
    if flaw := _flaw_of_rows(graph) or _flaw_of_columns(graph) or _flaw_of_ids(graph.ids, graph.num_nodes):
        raise FolderError(f"{graph.folder} is damaged: {flaw}; delete {graph.folder} and ingest the graph again")
    _VALID.add(stamp)


def _flaw_of_rows(graph: "Graph") -> str:
    indptr, indices = graph.indptr, graph.indices
    if indptr.size < 2 or indptr[0] != 0 or indptr[-1] != indices.size:
        return f"indptr has {indptr.size:,} numbers and does not end at the {indices.size:,} of indices"
    for low, high in cut_rows(indptr, 0, graph.num_nodes, _ENTRIES_AT_ONCE):
        if (bad := int(_bad_row(indptr, indices, low, high, graph.num_nodes))) >= 0:
            return f"the neighbours of node {bad:,} are not an ascending list of other nodes"
        release_mapped_pages(_MOST_MAPPED, graph.folder)
    return "" if graph.edge_weights is None else _flaw_of_weights(graph.edge_weights, indices.size)


def _flaw_of_weights(weights: npt.NDArray[np.float32], entries: int) -> str:
    if weights.shape != (entries,):
        return f"{weights.size:,} edge weights for {entries:,} neighbours"
    for low in range(0, entries, _ENTRIES_AT_ONCE):
        part = weights[low : low + _ENTRIES_AT_ONCE]
        if not (np.isfinite(part) & (part > 0)).all():
            return "edge weights are not all positive numbers"
    return ""


def _flaw_of_columns(graph: "Graph") -> str:
    nodes, labels, features = graph.num_nodes, graph.labels, graph.features
    for name, codes in graph.splits.items():
        if codes.size != nodes or codes.min() < 0 or codes.max() > max(SPLIT_CODES.values()):
            return f"split {name!r:.40} is not one code for each of {nodes:,} nodes"
    if labels is not None and (labels.size != nodes or labels.min() < -1 or labels.max() >= len(graph.classes)):
        return f"labels are not one of {len(graph.classes):,} classes, or -1, for each of {nodes:,} nodes"
    if graph.label_sets is not None and (flaw := graph.label_sets.flaw(nodes)):
        return flaw
    if isinstance(features, SparseFeatures):
        width, values = features.width, features.values.size
        if width < 1 or not is_csr(features.indptr, features.indices, values, nodes, width):
            return f"sparse features are not {nodes:,} compressed rows of {width:,} columns"
    elif features.ndim != 2 or features.shape[0] != nodes:
        return f"features have shape {features.shape}, expected a row for each of {nodes:,} nodes"
    return ""


def _flaw_of_ids(ids: pa.Array, num_nodes: int) -> str:
    if not (is_text(ids.type) or pa.types.is_integer(ids.type)):
        return f"ids are of type {ids.type}, expected integers or text"
    if len(ids) != num_nodes:
        return f"{len(ids):,} ids for {num_nodes:,} nodes"
    try:
        ids.validate(full=is_text(ids.type))
    except pa.ArrowInvalid:
        return "ids are not valid text"
    return ""


def _bad_row(indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any], low: int, high: int, num_nodes: int) -> int:
    """The first row of low..high that does not ascend, or names a node outside 0..N-1 or its own; -1 if there is none.

    No kernel: commands that only look at a run would wait for numba.
    """
    ends = indptr[low : high + 1]
    lengths = np.diff(ends)
    if (outside := (ends[:-1] < 0) | (lengths < 0) | (ends[1:] > indices.size)).any():
        return low + int(outside.argmax())
    nodes, rows = indices[ends[0] : ends[-1]], np.repeat(np.arange(low, high), lengths)
    bad = (nodes < 0) | (nodes >= num_nodes) | (nodes == rows)
    bad[1:] |= (nodes[1:] <= nodes[:-1]) & (rows[1:] == rows[:-1])
    return int(rows[bad.argmax()]) if bad.any() else -1
