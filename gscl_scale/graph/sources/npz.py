"""Our import format: one numpy file of plain arrays (docs/graphs.md)."""

import contextlib
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from gscl_scale.config.graphs import NpzGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import Draft
from gscl_scale.graph.sources.splits import splits_from_masks
from gscl_scale.graph.types import SPLIT_CODES, Size
from gscl_scale.io.npy import Head, read_head, read_values, size_of_values
from gscl_scale.io.validate import size_of
from gscl_scale.machine import available_memory
from gscl_scale.text import in_words, shortened

Read = TypeVar("Read")

_DAMAGE = (OSError, EOFError, ValueError, KeyError, struct.error, zipfile.BadZipFile, zlib.error, NotImplementedError)
_SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")
_MASKS = tuple(f"{part}_mask" for part in SPLIT_CODES)


def read(config: NpzGraph) -> Draft:
    """Read and check the arrays of the file."""
    path = config.path
    arrays = _load(path)
    if "edge_index" not in arrays:
        raise GraphError(f"{path}: no array edge_index; expected integers of shape [2, E]")
    edge_index = arrays["edge_index"]
    if edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.dtype.kind not in "iu":
        raise GraphError(
            f"{path}: edge_index has shape {edge_index.shape} and type {edge_index.dtype}, "
            "expected integers of shape [2, E]"
        )
    features = _features(arrays, str(path))
    return Draft(
        name=path.stem,
        origin=str(path),
        num_nodes=_num_nodes(arrays, features, str(path)),
        edges=[(edge_index[0], edge_index[1])],
        features=features,
        labels=arrays.get("y"),
        splits=_splits(arrays, str(path)),
        ids=_ids(arrays, str(path)),
    )


def size(config: NpzGraph) -> Size:
    """From the headers of the arrays; nothing where the file cannot be read, which reading it will explain."""
    try:
        with _archive(config.path) as archive:
            heads = {name: _head(archive, member) for name, member in _members(archive).items()}
    except GraphError:
        return Size()
    shape = {name: head[0] for name, head in heads.items()}
    edges, rows = shape.get("edge_index", ()), shape.get("x") or shape.get("y") or shape.get("ids") or ()
    return Size(
        num_nodes=rows[0] if rows else None,
        num_edges=edges[1] if len(edges) == 2 else None,
        num_features=shape["x"][1] if len(shape.get("x", ())) == 2 else 0 if "x_shape" in shape else None,
        fixed=sum(size_of_values(head) for head in heads.values()),
    )


def _load(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The plain arrays of the file."""
    with _archive(path) as archive:
        return {name: _array(archive, member) for name, member in _members(archive).items()}


@contextlib.contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive, and what is wrong with it in one sentence."""
    if not path.exists():
        raise GraphError(f"{path} does not exist; check graph.path")
    if path.is_dir():
        raise GraphError(f"{path} is a folder; graph.path expects a .npz file")
    size_of(path, GraphError)
    try:
        with path.open("rb") as file:
            if file.read(6) == b"\x93NUMPY":
                raise GraphError(f"{path}: expected a .npz file of named arrays, got a single array")
            with zipfile.ZipFile(file) as archive:
                yield archive
    except GraphError:
        raise
    except _DAMAGE as error:
        raise GraphError(
            f"{path} is truncated or no .npz file: {shortened(error) or 'it ends too early'}; make it again with "
            "numpy.savez"
        ) from None


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The arrays by name; only what numpy writes is read: stored or deflated, each name once."""
    members = {member.filename.removesuffix(".npy"): member for member in archive.infolist()}
    if len(members) != len(archive.infolist()):
        raise GraphError(f"{archive.filename}: a name is given to several arrays; save each once with numpy.savez")
    for name, member in members.items():
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & 1:
            raise GraphError(
                f"{archive.filename}: {shortened(name, 60)} is packed in a way that numpy does not write; "
                "save it with numpy.savez"
            )
    return members


def _head(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Head:
    with archive.open(member) as file:
        return _told(archive, member, lambda: read_head(file))


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    """An array, once its bytes are known to be as many as its head says, and to fit the memory."""
    with archive.open(member) as file:
        head = _told(archive, member, lambda: read_head(file))
        size, memory = size_of_values(head), available_memory()
        if size > memory:
            raise GraphError(
                f"{archive.filename}: {shortened(member.filename, 60)} takes {in_words(size)} of memory and "
                f"{in_words(memory)} are available; use a machine with more memory, or write tables"
            )
        return _told(archive, member, lambda: read_values(file, head, member.file_size - file.tell()))


def _told(archive: zipfile.ZipFile, member: zipfile.ZipInfo, read: Callable[[], Read]) -> Read:
    try:
        return read()
    except ValueError as error:
        raise GraphError(
            f"{archive.filename}: {shortened(member.filename, 60)} {shortened(error)}; "
            "save plain arrays with numpy.savez"
        ) from None


def _features(arrays: dict[str, npt.NDArray[Any]], origin: str) -> npt.NDArray[Any] | sp.csr_array | None:
    if "x" in arrays:
        if arrays["x"].ndim != 2:
            raise GraphError(f"{origin}: x has shape {arrays['x'].shape}, expected [N, F]")
        return arrays["x"]
    present = [name for name in _SPARSE if name in arrays]
    if not present:
        return None
    if missing := [name for name in _SPARSE if name not in arrays]:
        raise GraphError(f"{origin}: sparse features lack {', '.join(missing)}; expected {', '.join(_SPARSE)}")
    data, indices, indptr, shape = (arrays[name] for name in _SPARSE)
    integers = all(array.dtype.kind in "iu" for array in (indices, indptr, shape))
    flat = all(array.ndim == 1 for array in (data, indices, indptr, shape))
    if not (integers and flat and shape.size == 2 and shape.min() >= 0 and data.dtype.kind in "iubf"):
        raise GraphError(f"{origin}: sparse features are not the pieces of a CSR matrix; see docs/graphs.md")
    rows, columns = int(shape[0]), int(shape[1])
    if (
        indptr.size != rows + 1
        or indptr[0] != 0
        or not indptr[-1] == indices.size == data.size
        or (np.diff(indptr) < 0).any()
        or (indices.size and (indices.min() < 0 or indices.max() >= columns))
    ):
        raise GraphError(f"{origin}: x_indptr, x_indices and x_shape do not fit together; save the CSR matrix again")
    return sp.csr_array((data, indices, indptr), shape=(rows, columns))


def _num_nodes(arrays: dict[str, npt.NDArray[Any]], features: Any, origin: str) -> int:
    for name in ("num_nodes", "y", "ids"):
        if name in arrays:
            array = arrays[name]
            if name == "num_nodes":
                if array.size != 1 or array.dtype.kind not in "iu":
                    raise GraphError(f"{origin}: num_nodes expected one integer, got {array.dtype} of {array.shape}")
                return int(array.reshape(()))
            if not array.ndim:
                raise GraphError(f"{origin}: {name} is a single value, expected one per node")
            return int(array.shape[0])
    if features is not None:
        return int(features.shape[0])
    edge_index = arrays["edge_index"]
    return int(edge_index.max()) + 1 if edge_index.size else 0


def _splits(arrays: dict[str, npt.NDArray[Any]], origin: str) -> dict[str, npt.NDArray[np.int8]]:
    masks = {name: arrays[name] for name in _MASKS if name in arrays}
    if not masks:
        return {}
    if missing := [name for name in _MASKS if name not in masks]:
        raise GraphError(f"{origin}: splits lack {', '.join(missing)}; give all three masks or none")
    shapes = {mask.shape for mask in masks.values()}
    one_shape = len(shapes) == 1 and all(mask.dtype == bool and mask.ndim in (1, 2) for mask in masks.values())
    if not one_shape:
        raise GraphError(f"{origin}: masks are not boolean of one shape; expected bool [N] or [N, S]")
    return splits_from_masks({name.removesuffix("_mask"): mask for name, mask in masks.items()}, origin)


def _ids(arrays: dict[str, npt.NDArray[Any]], origin: str) -> pa.Array | None:
    if "ids" not in arrays:
        return None
    ids = arrays["ids"]
    if ids.ndim != 1 or ids.dtype.kind not in "iuU":
        raise GraphError(f"{origin}: ids are {ids.dtype} of shape {ids.shape}, expected integers or text, one per node")
    return pa.array(ids.tolist()) if ids.dtype.kind == "U" else pa.array(ids.astype(ids.dtype.newbyteorder("=")))
