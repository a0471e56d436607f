"""Our import format: one numpy file of plain arrays (docs/graphs_sources.md)."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from gscl_scale.config.graphs import NpzGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.graph.sources.archive import Arrays, footprint, read_arrays, read_heads
from gscl_scale.graph.sources.array_edges import edges_of_arrays
from gscl_scale.graph.sources.splits import splits_from_masks
from gscl_scale.graph.types import SPLIT_CODES, SourceSize, is_csr
from gscl_scale.runtime.runner import Runner
from gscl_scale.text import join_names

_SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")
_MAY_BE_MAPPED = ("edge_index", "edge_weight", "x")
_NAMES = (*_MAY_BE_MAPPED, *_SPARSE, "y", *(f"{part}_mask" for part in SPLIT_CODES), "ids", "num_nodes")


def read(config: NpzGraph, scratch: Path | None = None, runner: Runner | None = None) -> GraphDraft:
    """Read and check the arrays of the file; see `archive.read_arrays` for `scratch`.

    runner   puts mapped edges into buckets by tasks
    """
    origin, arrays = str(config.path), read_arrays(config.path, _MAY_BE_MAPPED, scratch, _NAMES)
    others = [name for name in read_heads(config.path) if name not in _NAMES]
    if "edge_index" not in arrays:
        raise GraphError(f"{origin}: no array edge_index; expected integers of shape [2, E]")
    edge_index = arrays["edge_index"]
    if edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.dtype.kind not in "iu":
        raise GraphError(
            f"{origin}: edge_index has shape {edge_index.shape} and type {edge_index.dtype}, "
            "expected integers of shape [2, E]"
        )
    features = _features(arrays, origin)
    return GraphDraft(
        name=config.path.stem,
        origin=origin,
        num_nodes=_num_nodes(arrays, features, origin),
        edges=edges_of_arrays(edge_index, _weights(arrays, origin), runner),
        features=features,
        labels=arrays.get("y"),
        splits=_splits(arrays, origin),
        ids=_ids(arrays, origin),
        notes=[f"arrays that are not read: {join_names(others)}; those that are: {', '.join(_NAMES)}"]
        if others
        else [],
    )


def size(config: NpzGraph) -> SourceSize:
    """From the heads of the arrays; unknown where the file cannot be read, for `read` explains why."""
    try:
        heads = {name: head for name, head in read_heads(config.path).items() if name in _NAMES}
    except GraphError:
        return SourceSize()
    shape, takes = {name: head.shape for name, head in heads.items()}, footprint(heads, _MAY_BE_MAPPED)
    edges, rows = shape.get("edge_index", ()), shape.get("x") or shape.get("y") or shape.get("ids") or ()
    return SourceSize(
        num_nodes=rows[0] if rows else None,
        num_edges=edges[1] if len(edges) == 2 else None,
        num_features=shape["x"][1] if len(shape.get("x", ())) == 2 else 0 if "x_shape" in shape else None,
        fixed=takes.memory,
        unpacked=takes.disk,
        weighted="edge_weight" in heads,
        mapped="edge_index" in takes.mapped,
    )


def _weights(arrays: Arrays, origin: str) -> list[npt.NDArray[Any]]:
    """The weights of the edges, if there are any; a single column [E, 1] is welcome."""
    if "edge_weight" not in arrays:
        return []
    weights, edges = arrays["edge_weight"], arrays["edge_index"].shape[1]
    if weights.shape not in ((edges,), (edges, 1)) or weights.dtype.kind not in "iuf":
        raise GraphError(
            f"{origin}: edge_weight is {weights.dtype} of shape {weights.shape}, expected numbers of shape [{edges:,}]"
        )
    return [weights.reshape(-1)]


def _features(arrays: Arrays, origin: str) -> npt.NDArray[Any] | sp.csr_array | None:
    if "x" in arrays:
        if arrays["x"].ndim != 2:
            raise GraphError(f"{origin}: x has shape {arrays['x'].shape}, expected [N, F]")
        return arrays["x"]
    if not any(name in arrays for name in _SPARSE):
        return None
    if missing := [name for name in _SPARSE if name not in arrays]:
        raise GraphError(f"{origin}: sparse features lack {', '.join(missing)}; expected {', '.join(_SPARSE)}")
    data, indices, indptr, shape = (arrays[name] for name in _SPARSE)
    integers = all(array.dtype.kind in "iu" for array in (indices, indptr, shape))
    flat = all(array.ndim == 1 for array in (data, indices, indptr, shape))
    if not (integers and flat and shape.size == 2 and shape.min() >= 0 and data.dtype.kind in "iubf"):
        raise GraphError(f"{origin}: sparse features are not the arrays of a CSR matrix; see docs/graphs_sources.md")
    rows, columns = int(shape[0]), int(shape[1])
    if not is_csr(indptr, indices, data.size, rows, columns):
        raise GraphError(f"{origin}: x_indptr, x_indices and x_shape do not fit together; save the CSR matrix again")
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))


def _num_nodes(arrays: Arrays, features: npt.NDArray[Any] | sp.csr_array | None, origin: str) -> int:
    if (number := arrays.get("num_nodes")) is not None:
        if number.size != 1 or number.dtype.kind not in "iu":
            raise GraphError(f"{origin}: num_nodes expected one integer, got {number.dtype} of {number.shape}")
        return int(number.reshape(()))
    for name in ("y", "ids"):
        if name in arrays:
            if not arrays[name].ndim:
                raise GraphError(f"{origin}: {name} is a single value, expected one per node")
            return int(arrays[name].shape[0])
    if features is not None:
        return int(features.shape[0])
    edge_index = arrays["edge_index"]
    return int(edge_index.max()) + 1 if edge_index.size else 0


def _splits(arrays: Arrays, origin: str) -> dict[str, npt.NDArray[np.int8]]:
    masks = {part: arrays[f"{part}_mask"] for part in SPLIT_CODES if f"{part}_mask" in arrays}
    if not masks:
        return {}
    if missing := [f"{part}_mask" for part in SPLIT_CODES if part not in masks]:
        raise GraphError(f"{origin}: splits lack {', '.join(missing)}; give all three masks or none")
    boolean = all(mask.dtype == bool and mask.ndim in (1, 2) for mask in masks.values())
    if not boolean or len({mask.shape for mask in masks.values()}) > 1:
        raise GraphError(f"{origin}: masks are not boolean of one shape; expected bool [N] or [N, S]")
    return splits_from_masks(masks, origin)


def _ids(arrays: Arrays, origin: str) -> pa.Array | None:
    if "ids" not in arrays:
        return None
    ids = arrays["ids"]
    if ids.ndim != 1 or ids.dtype.kind not in "iuU":
        raise GraphError(f"{origin}: ids are {ids.dtype} of shape {ids.shape}, expected integers or text, one per node")
    return pa.array(ids.tolist()) if ids.dtype.kind == "U" else pa.array(ids.astype(ids.dtype.newbyteorder("=")))
