"""Rows of vectors, dense or sparse: taken in bounded memory, scaled, multiplied, compared.

Shapes: N nodes, n rows taken, d columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch

from gscl_scale.embed.vector_file import unit_rows as unit_dense
from gscl_scale.evaluate.schema import ScalingKind
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.model.propagation import csr_tensor
from gscl_scale.model.scaling import exponent_near_one, largest_of

Vectors = npt.NDArray[np.float32] | SparseFeatures
KINDS: tuple[ScalingKind, ...] = ("l2", "none", "standard")

_DENSE_SHARE = 0.1  # sparse rows with a larger share of values are quicker as dense ones
_BLOCK_BYTES = 64 << 20
_PAIRS_BYTES = 128 << 20  # of the rows of both ends of pairs
_LOWEST = 2.0**-20  # a probe of rows as they are was measured to learn nothing of smaller values
_HIGHEST = 2.0**40  # far above it squares and logits overflow


@dataclass(frozen=True)
class Scaling:
    """How rows are scaled.

    `standard` carries the mean and deviation of each column [d]; `none` multiplies by 2**`exponent`.
    """

    kind: ScalingKind
    mean: npt.NDArray[np.float32] | None = None
    deviation: npt.NDArray[np.float32] | None = None
    exponent: int = 0


@dataclass(frozen=True)
class Rows:
    """Scaled rows [n, d] on a device that are multiplied without being made dense.

    matrix [n, d]     dense or sparse
    transposed [d, n] the same
    shift [d]         subtracted from every row; None for no shift
    """

    matrix: torch.Tensor
    transposed: torch.Tensor
    shift: torch.Tensor | None

    def times(self, other: torch.Tensor) -> torch.Tensor:
        """Rows @ other: [n, d] x [d, m] -> [n, m]."""
        product = self.matrix @ other
        return product if self.shift is None else product - self.shift @ other

    def transposed_times(self, other: torch.Tensor) -> torch.Tensor:
        """Rows.T @ other: [d, n] x [n, m] -> [d, m], dense rows by the transposed product, quick for small m."""
        dense = self.matrix.layout is torch.strided
        product = (other.T @ self.matrix).T if dense else self.transposed @ other
        return product if self.shift is None else product - torch.outer(self.shift, other.sum(0))


def num_rows(vectors: Vectors) -> int:
    """N."""
    return vectors.indptr.size - 1 if isinstance(vectors, SparseFeatures) else vectors.shape[0]


def width(vectors: Vectors) -> int:
    """d."""
    return vectors.width if isinstance(vectors, SparseFeatures) else vectors.shape[1]


def stays_sparse(vectors: Vectors) -> bool:
    """Whether so few values are stored that rows are better left sparse."""
    if not isinstance(vectors, SparseFeatures):
        return False
    return vectors.values.size < _DENSE_SHARE * max(1, num_rows(vectors)) * vectors.width


def rows_per_block(vectors: Vectors) -> int:
    """The number of dense rows that fit into a block of memory."""
    return max(64, min(16384, _BLOCK_BYTES // (4 * max(1, width(vectors)))))


def blocks(nodes: npt.NDArray[np.int64], size: int) -> Iterator[npt.NDArray[np.int64]]:
    """The nodes in blocks of at most `size`."""
    for low in range(0, nodes.size, size):
        yield nodes[low : low + size]


def take(vectors: Vectors, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.float32] | sp.csr_array:
    """The rows of some nodes: a scipy matrix where they stay sparse, otherwise an array, read in the order of nodes."""
    if not isinstance(vectors, SparseFeatures):
        if (nodes[1:] >= nodes[:-1]).all():
            return np.asarray(vectors[nodes], np.float32)
        found, order = np.empty((nodes.size, vectors.shape[1]), np.float32), np.argsort(nodes)
        found[order] = vectors[nodes[order]]
        return found
    rows = vectors.take(nodes)
    matrix = sp.csr_array((rows.values, rows.indices, rows.indptr), shape=(nodes.size, vectors.width))
    if rows.indptr[-1] <= np.iinfo(np.int32).max:  # scikit-learn takes no longer indices
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix if stays_sparse(vectors) else matrix.toarray()


def take_parts(
    vectors: Vectors, parts: Sequence[npt.NDArray[np.int64]]
) -> Iterator[npt.NDArray[np.float32] | sp.csr_array]:
    """The rows of several lists of nodes; dense ones are all read at once, in the order of nodes.

    Parts that each took their own rows would each go through all of a mapped file.
    """
    if isinstance(vectors, SparseFeatures) or len(parts) < 2:
        yield from (take(vectors, nodes) for nodes in parts)
        return
    found = [np.empty((nodes.size, vectors.shape[1]), np.float32) for nodes in parts]
    all_nodes, ends = np.concatenate(parts), np.cumsum([nodes.size for nodes in parts])
    for some in blocks(np.argsort(all_nodes), rows_per_block(vectors)):
        rows, owner = vectors[all_nodes[some]], np.searchsorted(ends, some, "right")
        for number in np.unique(owner).tolist():
            own = owner == number
            found[number][some[own] - ends[number]] = rows[own]  # counted from the end of the part
    while found:
        yield found.pop(0)  # so that the caller may free it before the next


def take_dense(vectors: Vectors, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """The rows of some nodes as an array."""
    rows = take(vectors, nodes)
    return rows.toarray() if sp.issparse(rows) else rows


def unit(rows: npt.NDArray[np.float32] | sp.csr_array) -> Any:
    """Rows of length one; a row of zeros stays as it is."""
    if sp.issparse(rows):
        norms = np.sqrt(np.bincount(_row_of(rows), rows.data.astype(np.float64) ** 2, rows.shape[0]))
        data = rows.data / np.where(norms > 0, norms, 1.0)[_row_of(rows)]
        return sp.csr_array((data.astype(np.float32), rows.indices, rows.indptr), shape=rows.shape)
    return unit_dense(rows)


def fit_scaling(vectors: Vectors, kind: ScalingKind) -> Scaling:
    """The scaling of all N rows; labels and splits play no part."""
    if kind == "none":
        return Scaling(kind, exponent=exponent_near_one(largest_of(vectors), _LOWEST, _HIGHEST))
    if kind == "l2":
        return Scaling(kind)
    total, squares = np.zeros(width(vectors)), np.zeros(width(vectors))
    for nodes in blocks(np.arange(num_rows(vectors)), rows_per_block(vectors)):
        rows = take(vectors, nodes).astype(np.float64)
        total += rows.sum(axis=0)
        squares += (rows**2).sum(axis=0)
    mean = total / num_rows(vectors)
    square = squares / num_rows(vectors)
    deviation = np.sqrt(np.maximum(square - mean**2, 0))
    least = np.clip(1e-6 * np.sqrt(square), np.finfo(np.float32).tiny, 1e-12)  # in columns of tiny values less is much
    deviation[deviation < 1e-6 * np.abs(mean) + least] = 1.0  # a constant column carries nothing
    return Scaling(kind, mean.astype(np.float32), deviation.astype(np.float32))


def load_rows(vectors: Vectors, nodes: npt.NDArray[np.int64], scaling: Scaling, device: torch.device | str) -> Rows:
    """The scaled rows of some nodes on a device."""
    return scaled_rows(take(vectors, nodes), scaling, device)


def scaled_rows(rows: npt.NDArray[np.float32] | sp.csr_array, scaling: Scaling, device: torch.device | str) -> Rows:
    """Rows, which may change, scaled and on a device."""
    shift = None
    if scaling.exponent:
        if sp.issparse(rows):
            rows.data = np.ldexp(rows.data, scaling.exponent)
        else:
            rows = np.ldexp(rows, scaling.exponent)
    elif scaling.kind == "l2":
        rows = unit(rows)
    elif scaling.mean is not None and scaling.deviation is not None:
        if sp.issparse(rows):
            data = rows.data / scaling.deviation[rows.indices]
            rows = sp.csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
            shift = torch.from_numpy(scaling.mean / scaling.deviation).to(device)
        else:
            rows = (rows - scaling.mean) / scaling.deviation
    if sp.issparse(rows):
        return Rows(_to_torch(rows, device), _to_torch(sp.csr_array(rows.T), device), shift)
    matrix = torch.from_numpy(np.ascontiguousarray(rows)).to(device)
    return Rows(matrix, matrix.T, shift)


def cosines(vectors: Vectors, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Cosine of each pair of nodes; 0 where a row is all zeros.

    Each of the rows is read once for many pairs, in the order of the nodes: rows may be mapped from a large file.
    """
    out = np.empty(left.size)
    most = max(rows_per_block(vectors), _PAIRS_BYTES // (8 * max(1, width(vectors))))
    for low in range(0, left.size, most):
        some = slice(low, low + most)
        nodes, places = np.unique(np.concatenate([left[some], right[some]]), return_inverse=True)
        rows = unit(take(vectors, nodes))
        one, other = np.split(places, 2)
        out[some] = _products(rows, one, other, rows_per_block(vectors))
    return np.clip(out, -1.0, 1.0)


def _products(
    rows: Any, one: npt.NDArray[np.int64], other: npt.NDArray[np.int64], size: int
) -> npt.NDArray[np.float64]:
    """The product of each pair of rows, dense or sparse, given by their places; so many pairs at once."""
    out = np.empty(one.size)
    for low in range(0, one.size, size):
        some = slice(low, low + size)
        out[some] = (rows[one[some]] * rows[other[some]]).sum(axis=1)
    return out


def _row_of(matrix: sp.csr_array) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _to_torch(matrix: sp.csr_array, device: torch.device | str) -> torch.Tensor:
    return csr_tensor(matrix.indptr, matrix.indices, matrix.data, matrix.shape).to(device)
