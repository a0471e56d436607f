"""Sparse products whose gradient is a product with the transposed matrix: normalised adjacency and sparse features."""

import functools
import warnings
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from gscl_scale.errors import ConfigError
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.model import kernels, keyed_random
from gscl_scale.model.fused import product as fused
from gscl_scale.model.fused.availability import runs_fused
from gscl_scale.model.keyed_random import StepKey

SpmmBackend = Literal["auto", "numba", "torch", "torch-sparse", "triton"]


@dataclass(frozen=True)
class SparsePair:
    """A sparse matrix and its transpose, both as compressed sparse rows; one object where they are equal.

    long   on a GPU: how the long rows of each are shared out
    """

    matrix: Tensor
    transposed: Tensor
    product: SpmmBackend = "auto"
    long: tuple[fused.LongRows | None, fused.LongRows | None] = (None, None)

    def to(self, device: torch.device) -> "SparsePair":
        """The pair on a device."""
        matrix = self.matrix.to(device)
        transposed = matrix if self.transposed is self.matrix else self.transposed.to(device)
        long = self.long
        if device.type == "cuda" and self.matrix.device.type == "cpu":
            found = [fused.LongRows.of(one.crow_indices()) for one in (self.matrix, self.transposed)]
            long = (found[0] and found[0].to(device), found[1] and found[1].to(device))
        return SparsePair(matrix, transposed, self.product, long)

    @functools.cached_property
    def _turned(self) -> tuple[Tensor, Tensor]:
        """For each entry of the transpose: its place in the matrix, and its column; found without a wait."""
        column = self.matrix.col_indices()
        order = column.sort(stable=True).indices
        return order, entry_rows(self.matrix.crow_indices(), column.shape[0])[order].to(column.dtype)

    def with_edge_dropout(
        self, share: float, key: StepKey, rows: Tensor | None, columns: Tensor | None
    ) -> "SparsePair":
        """The pair with a share of its entries dropped and the others scaled up; a node's own entry stays.

        `rows` and `columns` name the nodes of the rows and columns (None: all nodes in order); whether an entry is
        dropped depends on `key` and its two nodes.
        """
        column = self.matrix.col_indices()
        row = entry_rows(self.matrix.crow_indices(), column.shape[0])
        receiver, sender = row if rows is None else rows[row], column if columns is None else columns[column]
        kept = keyed_random.uniform_entries(key, receiver, sender) >= share
        values = self.matrix.values() * (kept / (1 - share)).masked_fill(receiver == sender, 1.0)
        matrix = _with_values(self.matrix, values)
        order, back = self._turned
        transposed = _csr(self.transposed.crow_indices(), back, values[order], matrix.shape[::-1])
        return replace(self, matrix=matrix, transposed=transposed)


def adjacency_pair(adjacency: NormalisedAdjacency, undirected: bool, product: SpmmBackend = "auto") -> SparsePair:
    """The normalised adjacency of a whole graph as a matrix, whose row v gathers from the neighbours of v."""
    rows = np.repeat(adjacency.row_scale, np.diff(adjacency.indptr))
    values = rows * adjacency.column_scale[adjacency.indices]
    if adjacency.weights is not None:
        values *= adjacency.weights
    shape = (adjacency.num_nodes, adjacency.num_nodes)
    matrix = sp.csr_array((values, adjacency.indices, adjacency.indptr), shape=shape)
    if adjacency.loops:
        matrix = sp.csr_array(matrix + sp.diags_array(adjacency.row_scale * adjacency.column_scale, format="csr"))
    forward = csr_tensor(matrix.indptr, matrix.indices, matrix.data, shape)
    if undirected and adjacency.symmetric:
        return SparsePair(forward, forward, product)
    back = matrix.T.tocsr()
    return SparsePair(forward, csr_tensor(back.indptr, back.indices, back.data, shape), product)


@dataclass(frozen=True)
class SparseInput:
    """Sparse features X [R, F] of some nodes, ready for X @ W and for dropout of the stored values.

    pair          X and its transpose
    order [nnz]   stored value i of the transpose is stored value order[i] of X
    nodes [R]     the nodes of the rows; None: all nodes
    """

    pair: SparsePair
    order: Tensor
    nodes: Tensor | None = None

    @classmethod
    def of(
        cls,
        features: SparseFeatures,
        values: npt.NDArray[np.float32],
        product: SpmmBackend = "auto",
        nodes: Tensor | None = None,
    ) -> "SparseInput":
        """Features with these (scaled) values in place of the stored ones."""
        shape = (features.indptr.size - 1, features.width)
        numbers = np.arange(values.size, dtype=np.int64)
        back = sp.csr_array((numbers, features.indices, features.indptr), shape=shape).T.tocsr()
        order = torch.from_numpy(back.data)
        transposed = csr_tensor(back.indptr, back.indices, values[back.data], shape[::-1])
        matrix = csr_tensor(features.indptr, features.indices, values, shape)
        return cls(SparsePair(matrix, transposed, product), order, nodes)

    @property
    def shape(self) -> tuple[int, int]:
        """(R, F)."""
        return self.pair.matrix.shape[0], self.pair.matrix.shape[1]

    def to(self, device: torch.device) -> "SparseInput":
        """The features on a device."""
        nodes = None if self.nodes is None else self.nodes.to(device)
        return SparseInput(self.pair.to(device), self.order.to(device), nodes)

    def rows(self, nodes: Tensor) -> "SparseInput":
        """The features of some nodes."""
        matrix, nodes = self.pair.matrix, nodes.cpu()
        indptr, indices, values = _arrays(matrix.cpu())
        taken = SparseFeatures(indptr, indices, values, self.shape[1]).take(nodes.numpy())
        return SparseInput.of(taken, taken.values, self.pair.product, nodes).to(matrix.device)

    def with_dropout(self, share: float, key: StepKey) -> SparsePair:
        """X with a share of the stored values dropped, by node, column and `key`, and the others scaled up."""
        if share == 0:
            return self.pair
        matrix = self.pair.matrix
        row = entry_rows(matrix.crow_indices(), matrix.col_indices().shape[0])
        kept = (
            keyed_random.uniform_entries(key, row if self.nodes is None else self.nodes[row], matrix.col_indices())
            >= share
        )
        return self._with_values(matrix.values() * kept / (1 - share))

    def masked(self, columns: Tensor) -> "SparseInput":
        """The features with each column multiplied by its entry of `columns` [F], 0 or 1."""
        matrix = self.pair.matrix
        return SparseInput(self._with_values(matrix.values() * columns[matrix.col_indices()]), self.order, self.nodes)

    def _with_values(self, values: Tensor) -> SparsePair:
        back = _with_values(self.pair.transposed, values[self.order])
        return replace(self.pair, matrix=_with_values(self.pair.matrix, values), transposed=back)

    def dense(self) -> Tensor:
        """All of X as a dense matrix."""
        return self.pair.matrix.to_dense()


def sparse_product(pair: SparsePair, dense: Tensor, rounded: bool = False) -> Tensor:
    """matrix @ dense; its gradient in `dense` is one more such product, by the transposed matrix.

    Everything sparse in the package goes through here: the one place for another backend. `rounded` allows a result in
    the precision of `dense`, for callers that would round it themselves.
    """
    if not _by_kernel(dense, pair.product):
        dense = dense.to(pair.matrix.dtype)  # of lower precision under autocast
    dtype = dense.dtype if rounded else pair.matrix.dtype
    result: Tensor = _SparseProduct.apply(pair, dense, dtype)  # type: ignore[no-untyped-call]  # torch's apply
    return result


def pattern_times_dense(indptr: Tensor, indices: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    """The product of compressed sparse rows with dense columns, without a gradient."""
    return _multiply(_csr(indptr, indices, values, (indptr.shape[0] - 1, dense.shape[0])), dense, "auto", dense.dtype)


def entry_rows(indptr: Tensor, number: int) -> Tensor:
    """The row of each of so many entries of compressed sparse rows; as the number is given, no device is waited for."""
    return torch.repeat_interleave(indptr.diff().long(), output_size=number)


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pair: SparsePair, dense: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.pair, ctx.dtype = pair, dense.dtype
        return _multiply(pair.matrix, dense, pair.product, dtype, pair.long[0])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None]:
        return None, _multiply(ctx.pair.transposed, gradient, ctx.pair.product, ctx.dtype, ctx.pair.long[1]), None


def _by_kernel(dense: Tensor, product: SpmmBackend) -> bool:
    return product in ("auto", "triton") and runs_fused(dense)


def _multiply(
    matrix: Tensor, dense: Tensor, product: SpmmBackend, dtype: torch.dtype, long: fused.LongRows | None = None
) -> Tensor:
    """By the backend asked for; numba's is the fastest on the CPU, ours on a GPU (docs/training_speed.md).

    The kernel reads any precision, and its result has `dtype`; for the others all is in the precision of the matrix.
    """
    if _by_kernel(dense, product):
        return fused.csr_product(matrix.crow_indices(), matrix.col_indices(), matrix.values(), dense, dtype, long)
    on_cpu = dense.device.type == "cpu"
    if product == "torch-sparse":
        return _by_torch_sparse(matrix, dense)
    if on_cpu and product != "torch":
        indptr, indices, values = _arrays(matrix)
        columns = dense.detach().contiguous().numpy()
        return torch.from_numpy(kernels.sparse_times_dense(indptr, indices, values, columns))
    with torch.autocast(dense.device.type, enabled=False):  # it would take both in lower precision, unlike the gradient
        # on the CPU its own kernel is about 1.4 times as fast here as the one behind @
        return torch.sparse.mm(matrix, dense, "sum") if on_cpu else matrix @ dense


def _by_torch_sparse(matrix: Tensor, dense: Tensor) -> Tensor:
    try:
        from torch_sparse import SparseTensor, matmul
    except ImportError:
        raise ConfigError(
            "model.product: torch-sparse is not installed; install it as docs/training_speed.md says, or set it to auto"
        ) from None
    sparse = SparseTensor(
        rowptr=matrix.crow_indices().long(), col=matrix.col_indices().long(), value=matrix.values(),
        sparse_sizes=matrix.shape, is_sorted=True, trust_data=True,
    )  # fmt: skip
    result: Tensor = matmul(sparse, dense, reduce="sum")
    return result


def csr_tensor(
    indptr: npt.NDArray[Any], indices: npt.NDArray[Any], values: npt.NDArray[np.float32], shape: tuple[int, int]
) -> Tensor:
    """Compressed sparse rows over arrays; these are copied only where torch may not have them as they are.

    Pointers become int32 where they fit, and arrays that are mapped read-only are copied.
    """
    kind = np.int32 if indptr[-1] < 2**31 else np.int64
    return _csr(_tensor(indptr, kind), _tensor(indices, kind), _tensor(values, np.float32), shape)


def _tensor(array: npt.NDArray[Any], kind: npt.DTypeLike) -> Tensor:
    return torch.from_numpy(array.astype(kind, copy=not array.flags.writeable))


def _arrays(matrix: Tensor) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    return matrix.crow_indices().numpy(), matrix.col_indices().numpy(), matrix.values().numpy()


def _with_values(matrix: Tensor, values: Tensor) -> Tensor:
    return _csr(matrix.crow_indices(), matrix.col_indices(), values, matrix.shape)


def _csr(indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    _take_beta_warning()
    return torch.sparse_csr_tensor(indptr, indices, values, size=shape, check_invariants=False)


@functools.cache
def _take_beta_warning() -> None:
    """torch warns once per process that CSR tensors are young; take the warning here, where nobody sees it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.sparse_csr_tensor(torch.tensor([0, 0]), torch.zeros(0, dtype=torch.int64), torch.zeros(0), size=(1, 1))
