"""A device without numbers, which counts what a real one would do: `meta`, with rules for the sparse operations."""

import contextlib
import weakref
from collections import Counter
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from gscl_scale.model.fused import availability

META = torch.device("meta")
_ATEN = torch.ops.aten
#: operations that start nothing on a device: another view of the same memory, or memory that nobody has written
_FREE = {
    "view", "_unsafe_view", "reshape", "t", "transpose", "permute", "expand", "slice", "select", "unbind", "split",
    "split_with_sizes", "detach", "alias", "unsqueeze", "squeeze", "as_strided", "empty", "empty_like", "new_empty",
    "empty_strided", "new_empty_strided", "_sparse_compressed_tensor_unsafe", "sparse_csr_tensor", "crow_indices",
    "col_indices", "ccol_indices", "row_indices", "values", "is_same_size", "lift_fresh", "resize_", "diagonal",
}  # fmt: skip


#: operations for whose result a real device is waited for, though this one has an answer
_WAITS = {
    "masked_scatter_backward",
    "masked_select",
    "bincount",
    "equal",
    "unique_dim",
    "unique_consecutive",
    "_unique2",
}


#: operations of ours that start more than one kernel: (in Triton, others)
KERNELS = {"attend_gradient": (2, 0), "member_products_gradient": (2, 0), "prelu_gradient": (1, 1)}


class MetaDevice(TorchDispatchMode):
    """Counts launches, copies to the device and waits for it while it is active.

    launches   operations on the device, by name
    copied     bytes of each copy to the device
    peak       most bytes that tensors took at once of those made since it is active
    distinct   what `nonzero` finds: its size depends on numbers that are not there, and a device is waited for
    """

    def __init__(self, distinct: int = 0) -> None:
        super().__init__()
        self.launches, self.copied, self.waits, self.distinct = Counter(), [], 0, distinct
        self.peak, self._taken, self._alive = 0, 0, {}

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        for one in _strided((arguments, named)):
            self._take(one.untyped_storage(), before=True)
        found = self._run(function, arguments, named or {})
        for one in _strided(found):
            self._take(one.untyped_storage())
        return found

    def _take(self, storage, before=False):
        """Count the memory of a tensor as long as it is alive; of those that were there before only know them."""
        key, number = storage._cdata, 0 if before else storage.nbytes()
        if key in self._alive:
            return

        def free(_):
            del self._alive[key]
            self._taken -= number

        self._alive[key] = weakref.ref(storage, free)
        self._taken += number
        self.peak = max(self.peak, self._taken)

    def _run(self, function, arguments, named):
        name = function.overloadpacket.__name__
        tensors = [one for one in torch.utils._pytree.tree_leaves((arguments, named)) if isinstance(one, torch.Tensor)]
        there = any(one.device == META for one in tensors)
        if name == "nonzero" and there:
            self.waits += 1
            self.launches[name] += 1
            return torch.empty(self.distinct, arguments[0].dim(), dtype=torch.int64, device=META)
        self.waits += name in _WAITS and there
        if name == "_to_copy" and tensors[0].layout == torch.sparse_csr:
            matrix, device = tensors[0], named["device"]  # torch loses the entries on their way to this device
            parts = (matrix.crow_indices(), matrix.col_indices(), matrix.values())
            self.copied.extend(part.nbytes for part in parts)
            parts = (torch.empty_like(part, device=device) for part in parts)
            return torch.sparse_csr_tensor(*parts, size=matrix.shape, check_invariants=False)
        if (found := _sparse(name, arguments)) is not None:
            self.launches[name] += 1
            return found
        found = function(*arguments, **named)
        if isinstance(found, torch.Tensor) and found.device == META and tensors and not there:
            self.copied.append(tensors[0].nbytes)
        elif (there or (isinstance(found, torch.Tensor) and found.device == META)) and name not in _FREE:
            self.launches[name] += sum(KERNELS.get(name, (1,)))
        return found


def _strided(tree):
    leaves = torch.utils._pytree.tree_leaves(tree)
    return [x for x in leaves if isinstance(x, torch.Tensor) and x.device == META and x.layout == torch.strided]


def _sparse(name, arguments):
    """The result of an operation on compressed sparse rows, with the rules of a real device for shapes and types."""
    if name in ("mm", "_sparse_mm", "addmm") and any(one.layout == torch.sparse_csr for one in arguments):
        matrix, dense = arguments[-2:]
        assert matrix.shape[1] == dense.shape[0]
        assert matrix.dtype == dense.dtype
        assert matrix.crow_indices().shape[0] == matrix.shape[0] + 1
        assert matrix.col_indices().shape == matrix.values().shape
        assert matrix.crow_indices().dtype == matrix.col_indices().dtype
        return torch.empty(matrix.shape[0], dense.shape[1], dtype=dense.dtype, device=META)
    if name == "_to_sparse_csc":
        matrix = arguments[0]
        pointers = torch.empty(matrix.shape[1] + 1, dtype=matrix.crow_indices().dtype, device=META)
        rows, values = torch.empty_like(matrix.col_indices()), torch.empty_like(matrix.values())
        return torch.sparse_csc_tensor(pointers, rows, values, size=matrix.shape, check_invariants=False)
    return None


@contextlib.contextmanager
def meta_autocast():
    """What autocast does on a GPU to the operations that we use there; torch has none for this device."""
    real = torch.autocast
    with mock.patch.object(torch, "autocast", lambda kind, dtype=torch.bfloat16, enabled=True, **cache: (
        Casts(dtype, enabled) if kind == "meta" else real(kind, dtype, enabled=enabled, **cache)
    )):  # fmt: skip
        yield


_CAST_TO = [None]  # by the innermost autocast that is active


class Casts(TorchFunctionMode):
    """Casts what dense products read."""

    PRODUCTS = frozenset({torch.addmm, torch.mm, torch.matmul, torch.nn.functional.linear, torch.Tensor.matmul,
                          torch.Tensor.__matmul__, torch.Tensor.__rmatmul__})  # fmt: skip

    def __init__(self, dtype, enabled):
        super().__init__()
        self.dtype = dtype if enabled else None

    def __enter__(self):
        _CAST_TO.append(self.dtype)
        return super().__enter__()

    def __exit__(self, *error):
        _CAST_TO.pop()
        return super().__exit__(*error)

    def __torch_function__(self, function, types, arguments=(), named=None):
        dtype = _CAST_TO[-1]
        if function in self.PRODUCTS and dtype is not None:
            arguments, named = torch.utils._pytree.tree_map_only(
                torch.Tensor, lambda one: one.to(dtype) if one.dtype == torch.float32 else one, (arguments, named)
            )
        return function(*arguments, **(named or {}))


@contextlib.contextmanager
def meta_kernels():
    """The device has the fused kernels."""
    real = availability.has_kernels
    with mock.patch.object(availability, "has_kernels", lambda device: device == META or real(device)):
        yield
