"""Sparse products: the normalised adjacency, and sparse features, with the transposed matrix kept for the way back."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor

from gscl_scale.graph import Graph, SparseFeatures


@dataclass(frozen=True)
class SparsePair:
    """A sparse matrix and its transpose, both as compressed sparse rows (one object where they are equal)."""

    matrix: Tensor
    transposed: Tensor

    def to(self, device: torch.device) -> "SparsePair":
        """The pair on a device."""
        matrix = self.matrix.to(device)
        return SparsePair(matrix, matrix if self.transposed is self.matrix else self.transposed.to(device))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transposed: Tensor, dense: Tensor) -> Tensor:
        ctx.transposed = transposed
        return matrix @ dense

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transposed @ gradients[0]


def sparse_product(pair: SparsePair, dense: Tensor) -> Tensor:
    """matrix @ dense; its gradient is one more product, with the transposed matrix."""
    result: Tensor = _Product.apply(pair.matrix, pair.transposed, dense)
    return result


def normalised_adjacency(graph: Graph) -> SparsePair:
    """D_row^-1/2 (A + I) D_column^-1/2: row v gathers from its neighbours and itself (GSCL, GCN layer)."""
    matrix = _adjacency(graph) + sp.eye_array(graph.num_nodes, dtype=np.float32, format="csr")
    rows, columns = np.asarray(matrix.sum(axis=1)).ravel(), np.asarray(matrix.sum(axis=0)).ravel()
    scaled = sp.diags_array(1 / np.sqrt(rows)) @ matrix @ sp.diags_array(1 / np.sqrt(columns))
    return pair_of(sp.csr_array(scaled, dtype=np.float32), symmetric=graph.undirected)


def _adjacency(graph: Graph) -> sp.csr_array:
    ones = np.ones(graph.indices.size, np.float32)
    return sp.csr_array((ones, graph.indices, graph.indptr), shape=(graph.num_nodes, graph.num_nodes))


def pair_of(matrix: sp.csr_array, symmetric: bool = False) -> SparsePair:
    """A scipy matrix as torch tensors."""
    forward = _csr(matrix.indptr, matrix.indices, torch.from_numpy(matrix.data), matrix.shape)
    if symmetric:
        return SparsePair(forward, forward)
    back = sp.csr_array(matrix.T.tocsr())
    return SparsePair(forward, _csr(back.indptr, back.indices, torch.from_numpy(back.data), back.shape))


def _csr(indptr: npt.NDArray[Any], indices: npt.NDArray[Any], values: Tensor, shape: tuple[int, ...]) -> Tensor:
    return _csr_tensor(
        torch.from_numpy(indptr.astype(np.int64)), torch.from_numpy(indices.astype(np.int64)), values, shape
    )


def _csr_tensor(indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly disabled")
        return torch.sparse_csr_tensor(indptr, indices, values, size=shape)


class SparseInput:
    """Sparse node features as a matrix that dropout can thin cheaply: only the values change."""

    def __init__(self, features: SparseFeatures, values: npt.NDArray[np.float32]) -> None:
        shape = (features.indptr.size - 1, features.width)
        numbers = np.arange(values.size, dtype=np.float64)
        back = sp.csr_array(sp.csr_array((numbers, features.indices, features.indptr), shape=shape).T.tocsr())
        self._order = torch.from_numpy(back.data.astype(np.int64))
        self._values = torch.from_numpy(np.array(values, np.float32))
        self._rows = [torch.from_numpy(np.array(a, np.int64)) for a in (features.indptr, features.indices)]
        self._columns = [torch.from_numpy(np.array(a, np.int64)) for a in (back.indptr, back.indices)]
        self.shape = shape

    def to(self, device: torch.device) -> "SparseInput":
        """Move to a device."""
        self._order, self._values = self._order.to(device), self._values.to(device)
        self._rows = [part.to(device) for part in self._rows]
        self._columns = [part.to(device) for part in self._columns]
        return self

    def pair(self, dropout: float) -> SparsePair:
        """The matrix and its transpose, with a share of the values dropped and the rest scaled up."""
        values = torch.nn.functional.dropout(self._values, dropout) if dropout else self._values
        return SparsePair(
            _csr_tensor(*self._rows, values, self.shape),
            _csr_tensor(*self._columns, values[self._order], (self.shape[1], self.shape[0])),
        )
