"""Pickles that torch-geometric opens in a data set's folder: only arrays and plain values are made of them."""

import contextlib
import pickle
import sys
import threading
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from gscl_scale.graph.types import is_csr
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
_ALLOWED = {
    "builtins": _PLAIN,
    "__builtin__": _PLAIN,  # of Python 2, which wrote the files of Planetoid
    "_codecs": {"encode"},
    "collections": {"OrderedDict", "defaultdict"},
    "copyreg": {"_reconstructor"},
    "copy_reg": {"_reconstructor"},
    "numpy": {"dtype", "ndarray"},
    "torch": {"Size", "device", *_STORAGES},
    "torch._utils": {"_rebuild_tensor", "_rebuild_tensor_v2"},
    "torch.storage": {"_load_from_bytes"},  # which opens a pickle that the hook sees as well
}
_ALLOWED_BELOW = {
    ("numpy.core.", "numpy._core."): {"_frombuffer", "_reconstruct", "scalar"},
    ("scipy.sparse.",): {kind.__name__ for kind in _SPARSE},
    ("torch_geometric.data.",): {"Data", "DataEdgeAttr", "DataTensorAttr", "GlobalStorage"},
}
# Python calls its audit hooks for every name that a pickle asks for, whatever code opens it. A hook cannot be removed,
# so it is added once, and acts for the threads that are inside `only_arrays`.
_guarded = threading.local()


@contextlib.contextmanager
def only_arrays() -> Iterator[None]:
    """Inside the block, UnpicklingError for a pickle of this thread that names anything but arrays and plain values."""
    _add_hook()
    _guarded.on = True
    for kind in _SPARSE:
        kind.__setstate__ = _set_state
    try:
        yield
    finally:
        _guarded.on = False
        for kind in _SPARSE:
            del kind.__setstate__


@cache
def _add_hook() -> None:
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "pickle.find_class" and getattr(_guarded, "on", False):
        module, name = arguments
        below = (names for roots, names in _ALLOWED_BELOW.items() if str(module).startswith(roots))
        if name not in _ALLOWED.get(module, next(below, set())):
            raise pickle.UnpicklingError(
                f"a pickle among its files asks for {shortened(f'{module}.{name}', 80)}, and only arrays are taken"
            )


def _set_state(matrix: Any, state: Any) -> None:
    """Compiled code of scipy trusts the indices of a matrix; a pickle may hold any."""
    if not (isinstance(state, dict) and _is_matrix(state, matrix.format)):
        raise pickle.UnpicklingError("the indices of a sparse matrix among its files do not fit its shape")
    vars(matrix).update(state)


def _is_matrix(state: Any, form: str) -> bool:
    """Whether the attributes of compressed rows or columns fit together."""
    ends, indices, values, shape = (state.get(name) for name in ("indptr", "indices", "data", "_shape"))
    if not all(isinstance(array, np.ndarray) and array.ndim == 1 for array in (ends, indices, values)):
        return False
    sizes = isinstance(shape, tuple) and len(shape) == 2 and all(type(size) is int and size >= 0 for size in shape)
    if not (sizes and ends.dtype.kind == indices.dtype.kind == "i" and values.dtype.kind in "biuf"):
        return False
    return is_csr(ends, indices, values.size, *(shape if form == "csr" else shape[::-1]))
