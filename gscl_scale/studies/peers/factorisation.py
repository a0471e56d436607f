"""The strongest directions of a sparse matrix, from products with random vectors (Halko et al., 2011)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Rows = npt.NDArray[np.float32]

_MORE = 16  # columns beyond those asked for: the weakest directions are found the less well


class Eigenpairs(NamedTuple):
    """Eigenvalues [r] of a symmetric matrix, those of the largest size first, and their vectors [N, r]."""

    values: Rows
    vectors: Rows


def degrees_of(adjacency: sp.csr_array) -> npt.NDArray[np.float64]:
    """The sum of the weights of each node's edges [N]; 1 for a node without edges, so that one can divide by it."""
    degrees = np.asarray(adjacency.sum(axis=1, dtype=np.float64))
    return np.where(degrees > 0, degrees, 1)


def symmetric_eigenpairs(matrix: sp.csr_array, rank: int, draw: np.random.Generator, iterations: int) -> Eigenpairs:
    """The eigenvalues of the largest size: those of the matrix within the space that it maps random vectors to."""
    basis = _range_of(matrix, matrix, rank, draw, iterations)
    values, within = np.linalg.eigh(basis.T @ (matrix @ basis))  # Halko et al., algorithm 5.3
    chosen = np.argsort(-np.abs(values), kind="stable")[:rank]
    return Eigenpairs(values[chosen], basis @ within[:, chosen])


def left_singular(matrix: sp.csr_array, rank: int, draw: np.random.Generator, iterations: int) -> Rows:
    """The left singular vectors [N, r], each multiplied by the root of its singular value."""
    transposed = matrix.T.tocsr()
    basis = _range_of(matrix, transposed, rank, draw, iterations)
    within, values, _ = np.linalg.svd((transposed @ basis).T, full_matrices=False)  # algorithm 5.1
    vectors: Rows = basis @ within[:, :rank]
    return vectors * np.sqrt(values[:rank])


def _range_of(
    matrix: sp.csr_array, transposed: sp.csr_array, rank: int, draw: np.random.Generator, iterations: int
) -> Rows:
    """An orthonormal basis of what the matrix maps random vectors to, with subspace iterations (algorithm 4.4)."""
    columns = min(rank + _MORE, *matrix.shape)
    basis: Rows = _orthonormal(matrix @ draw.standard_normal((matrix.shape[1], columns), np.float32))
    for _ in range(iterations):  # each sharpens directions that are strong, for spectra that fall slowly
        basis = _orthonormal(matrix @ _orthonormal(transposed @ basis))
    return basis


def _orthonormal(rows: Rows) -> Rows:
    basis: Rows = np.linalg.qr(rows).Q
    return basis
