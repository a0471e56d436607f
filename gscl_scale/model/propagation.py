"""Sparse products: the normalised adjacency and sparse features, with the transposed matrix kept for the way back."""

import functools
import warnings
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from gscl_scale.errors import ConfigError
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.model import kernels, noise

SpmmBackend = Literal["auto", "numba", "torch", "torch-sparse"]


@dataclass(frozen=True)
class SparsePair:
    """A sparse matrix and its transpose, both as compressed sparse rows; one object where they are equal."""

    matrix: Tensor
    transposed: Tensor
    product: SpmmBackend = "auto"

    def to(self, device: torch.device) -> Self:
        """The pair on a device."""
        matrix = self.matrix.to(device)
        transposed = matrix if self.transposed is self.matrix else self.transposed.to(device)
        return type(self)(matrix, transposed, self.product)

    def thinned(self, share: float, key: int, rows: Tensor | None, columns: Tensor | None) -> "SparsePair":
        """A share of the entries dropped, by numbers of the two nodes, the others scaled up; a node's own entry stays.

        `rows` and `columns` say which nodes these are; None: all nodes in order.
        """
        matrix = self.matrix
        row = torch.arange(matrix.shape[0], device=matrix.device).repeat_interleave(matrix.crow_indices().diff())
        column = matrix.col_indices()
        receiver, sender = row if rows is None else rows[row], column if columns is None else columns[column]
        kept = noise.uniform_entries(key, receiver, sender) >= share
        values = matrix.values() * torch.where(receiver == sender, 1.0, kept / (1 - share))
        thin = _with_values(matrix, values)
        back = thin.to_sparse_csc()  # its columns are the rows of the transpose
        shape = (matrix.shape[1], matrix.shape[0])
        return SparsePair(thin, _csr(back.ccol_indices(), back.row_indices(), back.values(), shape), self.product)


class Propagation(SparsePair):
    """The matrix that carries messages: row v gathers from the neighbours of v."""

    @classmethod
    def of(cls, messages: NormalisedAdjacency, undirected: bool, product: SpmmBackend = "auto") -> "Propagation":
        """The matrix of all messages of a graph."""
        rows = np.repeat(messages.row_scale, np.diff(messages.indptr))
        values = rows * messages.column_scale[messages.indices]
        shape = (messages.num_nodes, messages.num_nodes)
        matrix = sp.csr_array((values, messages.indices, messages.indptr), shape=shape)
        if messages.loops:
            matrix = sp.csr_array(matrix + sp.diags_array(messages.row_scale * messages.column_scale, format="csr"))
        forward = _csr_of(matrix)
        if undirected and messages.symmetric:
            return cls(forward, forward, product)
        return cls(forward, _csr_of(sp.csr_array(matrix.T.tocsr())), product)


@dataclass(frozen=True)
class SparseInput:
    """Sparse features X [R, F] of some nodes, ready for X @ W and for dropout of the stored values.

    whole         X and its transpose
    order [nnz]   stored value i of the transpose is stored value order[i] of X
    nodes [R]     whose rows these are; None: all nodes
    """

    whole: SparsePair
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
        return cls._of(sp.csr_array((values, features.indices, features.indptr), shape=shape), product, nodes)

    @classmethod
    def _of(cls, matrix: sp.csr_array, product: SpmmBackend, nodes: Tensor | None) -> "SparseInput":
        numbers = np.arange(matrix.data.size, dtype=np.int64)
        back = sp.csr_array(sp.csr_array((numbers, matrix.indices, matrix.indptr), shape=matrix.shape).T.tocsr())
        forward = _csr_of(matrix)
        order = torch.from_numpy(back.data)
        transposed = _csr(*_pointers(back.indptr, back.indices), forward.values()[order], matrix.shape[::-1])
        return cls(SparsePair(forward, transposed, product), order, nodes)

    @property
    def shape(self) -> tuple[int, int]:
        """(R, F)."""
        return self.whole.matrix.shape[0], self.whole.matrix.shape[1]

    def to(self, device: torch.device) -> "SparseInput":
        """The features on a device."""
        nodes = None if self.nodes is None else self.nodes.to(device)
        return SparseInput(self.whole.to(device), self.order.to(device), nodes)

    def rows(self, nodes: Tensor) -> "SparseInput":
        """The features of some nodes."""
        whole = self.whole.matrix.cpu()
        parts = (part.numpy() for part in (whole.values(), whole.col_indices(), whole.crow_indices()))
        chosen = sp.csr_array(tuple(parts), shape=self.shape)[nodes.cpu().numpy()]
        device = self.whole.matrix.device
        return SparseInput._of(sp.csr_array(chosen), self.whole.product, nodes.cpu()).to(device)

    def pair(self, dropout: float = 0.0, key: int = 0) -> SparsePair:
        """The features with a share of the stored values dropped, by numbers of that key, and the others scaled up."""
        if dropout == 0:
            return self.whole
        matrix = self.whole.matrix
        row = torch.arange(self.shape[0], device=matrix.device).repeat_interleave(matrix.crow_indices().diff())
        nodes = row if self.nodes is None else self.nodes[row]
        kept = noise.uniform_entries(key, nodes, matrix.col_indices()) >= dropout
        return self._with(matrix.values() * kept / (1 - dropout))

    def masked(self, kept: Tensor) -> "SparseInput":
        """The features with columns [F] multiplied by 0 or 1."""
        matrix = self.whole.matrix
        return SparseInput(self._with(matrix.values() * kept[matrix.col_indices()]), self.order, self.nodes)

    def _with(self, values: Tensor) -> SparsePair:
        back = _with_values(self.whole.transposed, values[self.order])
        return SparsePair(_with_values(self.whole.matrix, values), back, self.whole.product)

    def dense(self) -> Tensor:
        """All of X, for layers that cannot do with less."""
        return self.whole.matrix.to_dense()


def sparse_product(pair: SparsePair, dense: Tensor) -> Tensor:
    """matrix @ dense, with one more such product, by the transposed matrix, as its gradient in `dense`.

    Everything sparse in the package goes through here: the one place for another backend.
    """
    dense = dense.to(pair.matrix.dtype)  # of lower precision under autocast
    result: Tensor = _Product.apply(pair.matrix, pair.transposed, dense, pair.product)  # type: ignore[no-untyped-call]
    return result


def pattern_times_dense(indptr: Tensor, indices: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    """The product of compressed sparse rows with dense columns, without a gradient."""
    return _multiply(_csr(indptr, indices, values, (indptr.shape[0] - 1, dense.shape[0])), dense, "auto")


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transposed: Tensor, dense: Tensor, product: SpmmBackend) -> Tensor:
        ctx.transposed, ctx.product = transposed, product
        return _multiply(matrix, dense, product)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor, None]:
        return None, None, _multiply(ctx.transposed, gradient, ctx.product), None


def _multiply(matrix: Tensor, dense: Tensor, product: SpmmBackend) -> Tensor:
    """By the backend asked for; on the CPU numba's is the fastest (docs/training.md)."""
    on_cpu = dense.device.type == "cpu"
    if product == "torch-sparse":
        return _by_torch_sparse(matrix, dense)
    if on_cpu and product != "torch":
        indptr, indices, values = matrix.crow_indices().numpy(), matrix.col_indices().numpy(), matrix.values().numpy()
        return torch.from_numpy(
            kernels.sparse_times_dense(indptr, indices, values, dense.detach().contiguous().numpy())
        )
    with torch.autocast(dense.device.type, enabled=False):  # it would take both in lower precision, unlike the gradient
        # on the CPU its own kernel is about 1.4 times as fast here as the one behind @
        return torch.sparse.mm(matrix, dense, "sum") if on_cpu else matrix @ dense


def _by_torch_sparse(matrix: Tensor, dense: Tensor) -> Tensor:
    try:
        from torch_sparse import SparseTensor, matmul
    except ImportError:
        raise ConfigError(
            "model.product: torch-sparse is not installed; install it as docs/training.md tells, or set it to auto"
        ) from None
    whole = SparseTensor(
        rowptr=matrix.crow_indices().long(), col=matrix.col_indices().long(), value=matrix.values(),
        sparse_sizes=matrix.shape, is_sorted=True, trust_data=True,
    )  # fmt: skip
    result: Tensor = matmul(whole, dense, reduce="sum")
    return result


def pair_of(
    rows: tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.float32]],
    transposed: tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.float32]],
    shape: tuple[int, int],
    product: SpmmBackend,
) -> SparsePair:
    """A pair over arrays (indptr, indices, values) of a matrix and its transpose, without copies."""
    return SparsePair(_csr_over(rows, shape), _csr_over(transposed, shape[::-1]), product)


def rows_of(features: SparseFeatures, values: npt.NDArray[np.float32]) -> SparsePair:
    """Sparse features with these values, for products without a gradient: the transpose is not made."""
    shape = (features.indptr.size - 1, features.width)
    matrix = _csr(*_pointers(features.indptr, features.indices), torch.from_numpy(values), shape)
    return SparsePair(matrix, matrix)


def _csr_over(
    rows: tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.float32]], shape: tuple[int, ...]
) -> Tensor:
    indptr, indices, values = (torch.from_numpy(part) for part in rows)
    return _csr(indptr, indices, values, shape)


def _csr_of(matrix: sp.csr_array) -> Tensor:
    values = torch.from_numpy(np.asarray(matrix.data, np.float32))
    return _csr(*_pointers(matrix.indptr, matrix.indices), values, matrix.shape)


def _pointers(indptr: npt.NDArray[Any], indices: npt.NDArray[Any]) -> tuple[Tensor, Tensor]:
    """Copies that torch may own, as int32 where they fit: mapped files are read-only."""
    kind = np.int32 if indptr[-1] < 2**31 else np.int64
    return torch.from_numpy(indptr.astype(kind)), torch.from_numpy(indices.astype(kind))


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
