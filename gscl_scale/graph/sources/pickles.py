"""Pickles that torch-geometric opens in a data set's folder: arrays are made of them, and nothing else is called."""

import contextlib
import pickle
import sys
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from gscl_scale.text import shortened

_PLAIN = {
    "bool",
    "bytearray",
    "bytes",
    "complex",
    "dict",
    "float",
    "frozenset",
    "int",
    "list",
    "object",
    "set",
    "slice",
}
_SPARSE: tuple[Any, ...] = (sp.csr_matrix, sp.csc_matrix, sp.csr_array, sp.csc_array)
_STORAGES = {f"{kind}Storage" for kind in ("Bool", "Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double")}
_DATA = {"Data", "DataEdgeAttr", "DataTensorAttr", "GlobalStorage"}
_TAKEN = {
    "builtins": _PLAIN,
    "__builtin__": _PLAIN,  # of Python 2, as Planetoid is kept
    "_codecs": {"encode"},
    "collections": {"OrderedDict", "defaultdict"},
    "copyreg": {"_reconstructor"},
    "copy_reg": {"_reconstructor"},
    "numpy": {"dtype", "ndarray"},
    "torch": {"Size", "device", *_STORAGES},
    "torch._utils": {"_rebuild_tensor", "_rebuild_tensor_v2"},
    "torch.storage": {"_load_from_bytes"},  # which comes back here
}
_TAKEN_BELOW = {
    ("numpy.core.", "numpy._core."): {"_frombuffer", "_reconstruct", "scalar"},
    ("scipy.sparse.",): {kind.__name__ for kind in _SPARSE},
    ("torch_geometric.data.",): _DATA,
}
_guarded = threading.local()


@contextlib.contextmanager
def only_arrays() -> Iterator[None]:
    """Within the block, UnpicklingError for a pickle of this thread that names anything but arrays and plain values."""
    _watch()
    _guarded.on = True
    for kind in _SPARSE:
        kind.__setstate__ = _take_state
    try:
        yield
    finally:
        _guarded.on = False
        for kind in _SPARSE:
            del kind.__setstate__


def _take_state(matrix: Any, state: Any) -> None:
    """Compiled code of scipy trusts the indices of a matrix; a pickle may hold any."""
    if not (isinstance(state, dict) and _is_sound(state, matrix.format)):
        raise pickle.UnpicklingError("the indices of a sparse matrix among its files lead elsewhere")
    vars(matrix).update(state)


def _pieces(state: dict[str, Any]) -> list[Any]:
    return [state.get(name) for name in ("indptr", "indices", "data", "_shape")]


def _is_sound(state: dict[str, Any], form: str) -> bool:
    """Whether the pieces of compressed rows or columns fit together; scipy's own check passes over some that do not."""
    ends, indices, values, shape = _pieces(state)
    arrays = all(isinstance(array, np.ndarray) and array.ndim == 1 for array in (ends, indices, values))
    sizes = isinstance(shape, tuple) and len(shape) == 2 and all(type(size) is int and size >= 0 for size in shape)
    if not (arrays and sizes and ends.dtype.kind == indices.dtype.kind == "i" and values.dtype.kind in "biuf"):
        return False
    rows, columns = shape if form == "csr" else shape[::-1]
    if ends.size != rows + 1 or ends[0] != 0 or ends[-1] != indices.size or values.size != indices.size:
        return False
    return bool((np.diff(ends) >= 0).all() and (not indices.size or (indices.min() >= 0 and indices.max() < columns)))


@cache
def _watch() -> None:
    """Python tells its hooks of every name that a pickle asks for, whoever opens it; a hook can refuse."""
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "pickle.find_class" and getattr(_guarded, "on", False):
        module, name = arguments
        below = (names for roots, names in _TAKEN_BELOW.items() if str(module).startswith(roots))
        if name not in _TAKEN.get(module, next(below, set())):
            raise pickle.UnpicklingError(
                f"a pickle among its files asks for {shortened(f'{module}.{name}', 80)}, and only arrays are taken"
            )
