"""Our import format: one numpy file of plain arrays (docs/graphs.md)."""

import zipfile
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.sparse as sp

from gscl_scale.config import NpzGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import Draft
from gscl_scale.graph.graph import SPLIT_CODES

_SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")
_MASKS = {f"{part}_mask": code for part, code in SPLIT_CODES.items()}


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


def _load(path: Any) -> dict[str, npt.NDArray[Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise GraphError(f"{path}: expected a .npz file of named arrays, got a single array")
            return {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise GraphError(f"{path} does not exist; check graph.path") from None
    except IsADirectoryError:
        raise GraphError(f"{path} is a folder; graph.path expects a .npz file") from None
    except ValueError as error:
        if "pickle" in str(error).lower():
            raise GraphError(
                f"{path} holds pickled objects, which are never loaded; save plain arrays with numpy.savez"
            ) from None
        raise GraphError(f"{path} cannot be read as .npz: {error}") from None
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError) as error:
        raise GraphError(f"{path} is truncated or no .npz file: {error}; make it again with numpy.savez") from None


def _features(arrays: dict[str, npt.NDArray[Any]], origin: str) -> npt.NDArray[Any] | sp.csr_array | None:
    if "x" in arrays:
        return arrays["x"]
    present = [name for name in _SPARSE if name in arrays]
    if not present:
        return None
    if missing := [name for name in _SPARSE if name not in arrays]:
        raise GraphError(f"{origin}: sparse features lack {', '.join(missing)}; expected {', '.join(_SPARSE)}")
    data, indices, indptr, shape = (arrays[name] for name in _SPARSE)
    if (
        shape.size != 2
        or data.dtype.kind not in "iubf"
        or indices.dtype.kind not in "iu"
        or indptr.dtype.kind not in "iu"
    ):
        raise GraphError(f"{origin}: sparse features are not the pieces of a CSR matrix; see docs/graphs.md")
    rows, columns = int(shape[0]), int(shape[1])
    if (
        indptr.size != rows + 1
        or indptr[0] != 0
        or indptr[-1] != data.size
        or indices.size != data.size
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
            return int(array.shape[0]) if array.ndim else 0
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
    if len(shapes) > 1 or any(mask.dtype != bool for mask in masks.values()):
        raise GraphError(f"{origin}: masks are not boolean of one shape; expected bool [N] or [N, S]")
    codes = np.zeros(next(iter(shapes)), np.int8)
    for name, mask in masks.items():
        if (codes[mask] > 0).any():
            raise GraphError(f"{origin}: a node is in more than one part of a split; expected disjoint masks")
        codes[mask] = _MASKS[name]
    codes = codes.reshape(codes.shape[0], -1) if codes.size else codes.reshape(0, 1)
    return {f"split_{number}": np.ascontiguousarray(codes[:, number]) for number in range(codes.shape[1])}


def _ids(arrays: dict[str, npt.NDArray[Any]], origin: str) -> pa.Array | None:
    if "ids" not in arrays:
        return None
    ids = arrays["ids"]
    if ids.ndim != 1 or ids.dtype.kind not in "iuU":
        raise GraphError(f"{origin}: ids are {ids.dtype} of shape {ids.shape}, expected integers or text, one per node")
    return pa.array(ids if ids.dtype.kind != "U" else ids.tolist())
