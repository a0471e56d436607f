"""Whether the arrays of a graph folder are a graph: kernels trust their indices, whoever wrote the folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gscl_scale.errors import FolderError
from gscl_scale.graph.types import cut
from gscl_scale.kernel import kernel
from gscl_scale.machine import let_go_of_files

if TYPE_CHECKING:
    from gscl_scale.graph.graph import Graph
    from gscl_scale.graph.types import SparseFeatures

_AT_ONCE = 1 << 26  # entries
_MAPPED = 4 << 30  # bytes of mapped files in memory above which they are given back

Stamp = tuple[tuple[str, int, int, int], ...]

_SOUND: set[Stamp] = set()


def refuse_unsound(graph: "Graph", stamp: Stamp) -> None:
    """FolderError for a folder whose arrays do not fit together; looked at once as long as its files are the same."""
    if stamp in _SOUND:
        return
    if reason := _rows(graph) or _columns(graph) or _ids(graph):
        raise FolderError(f"{graph.folder} is damaged: {reason}; delete {graph.folder} and ingest the graph again")
    _SOUND.add(stamp)


def stamp_of(folder: Path, names: list[str]) -> Stamp:
    """What changes when a file of the folder does."""
    found = [(name, (folder / name).stat()) for name in sorted(names)]
    return ((str(folder.absolute()), 0, 0, 0), *((name, of.st_ino, of.st_mtime_ns, of.st_size) for name, of in found))


def _rows(graph: "Graph") -> str:
    indptr, indices = graph.indptr, graph.indices
    if indptr.size < 2 or indptr[0] != 0 or indptr[-1] != indices.size:
        return f"indptr has {indptr.size:,} numbers and does not end at the {indices.size:,} of indices"
    for low, high in cut(indptr, 0, graph.num_nodes, _AT_ONCE):
        if (bad := int(_bad_row(indptr, indices, low, high, graph.num_nodes))) >= 0:
            return f"the neighbours of node {bad:,} are no ascending list of other nodes"
        let_go_of_files(_MAPPED, graph.folder)
    return ""


def _columns(graph: "Graph") -> str:
    from gscl_scale.graph.types import SPLIT_CODES, SparseFeatures

    for name, codes in graph.splits.items():
        if codes.size != graph.num_nodes or codes.min() < 0 or codes.max() > max(SPLIT_CODES.values()):
            return f"split {name!r:.40} is not one code for each of {graph.num_nodes:,} nodes"
    labels = graph.labels
    if labels is not None and (
        labels.size != graph.num_nodes or labels.min() < -1 or labels.max() >= len(graph.classes)
    ):
        return f"labels are not one of {len(graph.classes):,} classes, or -1, for each of {graph.num_nodes:,} nodes"
    if isinstance(graph.features, SparseFeatures):
        return _sparse(graph.features, graph.num_nodes)
    if graph.features.ndim != 2 or graph.features.shape[0] != graph.num_nodes:
        return f"features have shape {graph.features.shape}, expected a row for each of {graph.num_nodes:,} nodes"
    return ""


def _sparse(features: "SparseFeatures", num_nodes: int) -> str:
    ends, columns = features.indptr, features.indices
    fits = ends.size == num_nodes + 1 and ends[0] == 0 and ends[-1] == columns.size == features.values.size
    if not fits or (np.diff(ends) < 0).any():
        return f"the pieces of sparse features are no rows of {num_nodes:,} nodes"
    if features.width < 1 or (columns.size and (columns.min() < 0 or columns.max() >= features.width)):
        return f"sparse features name columns outside 0 to {features.width - 1:,}"
    return ""


def _ids(graph: "Graph") -> str:
    kind = graph.ids.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return f"ids are of type {kind}, expected integers or text"
    if len(graph.ids) != graph.num_nodes:
        return f"{len(graph.ids):,} ids for {graph.num_nodes:,} nodes"
    if not pa.types.is_integer(kind):
        try:
            graph.ids.validate(full=True)
        except pa.ArrowInvalid:
            return "ids are no text"
    return ""


@kernel
def _bad_row(indptr: Any, indices: Any, low: int, high: int, num_nodes: int) -> int:
    """The first of some rows that is not ascending within 0..N-1 and without the node itself; -1 where all are."""
    for row in range(low, high):
        if indptr[row] < 0 or indptr[row + 1] < indptr[row] or indptr[row + 1] > indices.size:
            return row
        before = -1
        for at in range(indptr[row], indptr[row + 1]):
            node = indices[at]
            if node <= before or node >= num_nodes or node == row:
                return row
            before = node
    return -1
