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

from gscl_scale.graph import Graph, SparseFeatures

Kind = Literal["symmetric", "mean"]


@dataclass(frozen=True)
class SparsePair:
    """A sparse matrix and its transpose, both as compressed sparse rows; one object where they are equal."""

    matrix: Tensor
    transposed: Tensor

    def to(self, device: torch.device) -> Self:
        """The pair on a device."""
        matrix = self.matrix.to(device)
        return type(self)(matrix, matrix if self.transposed is self.matrix else self.transposed.to(device))


class Propagation(SparsePair):
    """The matrix that carries messages: row v gathers from the neighbours of v."""

    @classmethod
    def of(cls, graph: Graph, kind: Kind = "symmetric") -> "Propagation":
        """Build from a graph's rows.

        symmetric   D_row^-1/2 (A + I) D_column^-1/2, as the layers of the paper's GCN
        mean        D_row^-1 A, without self-loops; the row of a node without neighbours is empty
        """
        matrix = _symmetric(graph) if kind == "symmetric" else _mean(graph)
        forward = _csr_of(matrix)
        if kind == "symmetric" and graph.undirected:
            return cls(forward, forward)
        return cls(forward, _csr_of(sp.csr_array(matrix.T.tocsr())))


@dataclass(frozen=True)
class SparseInput:
    """Sparse node features X [N, F], ready for X @ W and for dropout of the stored values.

    whole        X and its transpose
    order [nnz]  stored value i of the transpose is stored value order[i] of X
    """

    whole: SparsePair
    order: Tensor

    @classmethod
    def of(cls, features: SparseFeatures, values: npt.NDArray[np.float32]) -> "SparseInput":
        """Features with these (scaled) values in place of the stored ones."""
        shape = (features.indptr.size - 1, features.width)
        numbers = np.arange(values.size, dtype=np.int64)
        back = sp.csr_array(sp.csr_array((numbers, features.indices, features.indptr), shape=shape).T.tocsr())
        matrix = _csr(*_pointers(features.indptr, features.indices), torch.from_numpy(np.array(values)), shape)
        order = torch.from_numpy(back.data)
        transposed = _csr(*_pointers(back.indptr, back.indices), matrix.values()[order], shape[::-1])
        return cls(SparsePair(matrix, transposed), order)

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""
        return self.whole.matrix.shape[0], self.whole.matrix.shape[1]

    def to(self, device: torch.device) -> "SparseInput":
        """The features on a device."""
        return SparseInput(self.whole.to(device), self.order.to(device))

    def pair(self, dropout: float = 0.0) -> SparsePair:
        """The features with a share of the stored values dropped, by torch's generator, and the others scaled up."""
        if dropout == 0:
            return self.whole
        values = torch.nn.functional.dropout(self.whole.matrix.values(), dropout)
        return SparsePair(
            _with_values(self.whole.matrix, values), _with_values(self.whole.transposed, values[self.order])
        )

    def dense(self) -> Tensor:
        """All of X, for layers that cannot do with less."""
        return self.whole.matrix.to_dense()


def sparse_product(pair: SparsePair, dense: Tensor) -> Tensor:
    """matrix @ dense, with one more such product, by the transposed matrix, as its gradient in `dense`.

    Everything sparse in the package goes through here: the one place for another backend.
    """
    result: Tensor = _Product.apply(pair.matrix, pair.transposed, dense)  # type: ignore[no-untyped-call]
    return result


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transposed: Tensor, dense: Tensor) -> Tensor:
        ctx.transposed = transposed
        return _multiply(matrix, dense)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor]:
        return None, None, _multiply(ctx.transposed, gradient)


def _multiply(matrix: Tensor, dense: Tensor) -> Tensor:
    if dense.device.type == "cpu":  # its own kernel, about 1.4 times as fast here as the one behind @
        return torch.sparse.mm(matrix, dense, "sum")
    return matrix @ dense


def _symmetric(graph: Graph) -> sp.csr_array:
    matrix = sp.csr_array(_adjacency(graph) + sp.eye_array(graph.num_nodes, dtype=np.float32, format="csr"))
    degree = np.diff(matrix.indptr)
    degree_of_column = degree if graph.undirected else np.bincount(matrix.indices, minlength=graph.num_nodes)
    matrix.data *= np.repeat(1 / np.sqrt(degree), degree).astype(np.float32)
    matrix.data *= (1 / np.sqrt(degree_of_column)).astype(np.float32)[matrix.indices]
    return matrix


def _mean(graph: Graph) -> sp.csr_array:
    matrix = _adjacency(graph)
    degree = np.diff(matrix.indptr)
    matrix.data /= np.repeat(degree, degree)
    return matrix


def _adjacency(graph: Graph) -> sp.csr_array:
    ones = np.ones(graph.indices.size, np.float32)
    return sp.csr_array((ones, graph.indices, graph.indptr), shape=(graph.num_nodes, graph.num_nodes))


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
