"""Many labels per node: which labels each node has."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.errors import GraphError
from gscl_scale.graph.types import is_csr

_LISTS = (list, tuple, set, frozenset, np.ndarray)  # of the labels of a node


@dataclass(frozen=True)
class LabelSets:
    """The labels of N nodes: those of v are indices[indptr[v]:indptr[v + 1]], ascending; names[i] is that of label i.

    A node without any label is one whose labels are unknown.
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    names: list[str]

    @property
    def shape(self) -> tuple[int, int]:
        """The number of nodes, and of labels."""
        return self.indptr.size - 1, len(self.names)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The number of labels of each node."""
        return np.diff(self.indptr)

    def of(self, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether each of some nodes has each label, as a matrix [n, L]."""
        starts, counts = self.indptr[nodes], self.counts[nodes]
        rows = np.repeat(np.arange(nodes.size), counts)
        places = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(rows.size)
        matrix = np.zeros((nodes.size, len(self.names)), bool)
        matrix[rows, self.indices[places]] = True
        return matrix

    def most_common(self) -> npt.NDArray[np.int64]:
        """Of each node [N] that of its labels which most nodes have, the first of equals; -1 where it has none."""
        often = np.bincount(self.indices, minlength=len(self.names))
        place = np.empty_like(often)
        place[np.argsort(-often, kind="stable")] = np.arange(often.size)
        best = np.full(self.shape[0], often.size, np.int64)
        np.minimum.at(best, np.repeat(np.arange(best.size), self.counts), place[self.indices])
        return np.append(np.argsort(place), -1)[best]

    def take(self, nodes: npt.NDArray[np.int64]) -> "LabelSets":
        """The labels of some nodes, in their order."""
        counts = self.counts[nodes]
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        places = np.repeat(self.indptr[nodes] - indptr[:-1], counts) + np.arange(indptr[-1])
        return LabelSets(indptr, self.indices[places], self.names)

    def with_nodes(self, new: int) -> "LabelSets":
        """The same with more nodes at the end, which have no label."""
        return LabelSets(np.pad(self.indptr, (0, new), mode="edge"), self.indices, self.names)

    def flaw(self, num_nodes: int) -> str:
        """Why these are not the labels of so many nodes; "" where they are."""
        if not is_csr(self.indptr, self.indices, self.indices.size, num_nodes, len(self.names)):
            return f"labels are not {num_nodes:,} lists of the {len(self.names):,} labels"
        ascends = np.diff(self.indices) > 0
        inner = self.indptr[1:-1]
        ascends[inner[(inner > 0) & (inner < self.indices.size)] - 1] = True  # where another node begins
        return "" if ascends.all() else "a node has a label twice"


def sets_from_pairs(
    nodes: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], num_nodes: int, names: Sequence[Any]
) -> LabelSets:
    """The labels of all nodes from pairs of a node and a label; labels that no node has are left out.

    >>> sets_from_pairs(np.array([2, 0, 2]), np.array([3, 1, 1]), 3, "abcd")
    LabelSets(indptr=array([0, 1, 1, 3]), indices=array([0, 0, 1], dtype=int32), names=['b', 'd'])
    """
    pairs = np.unique(nodes * len(names) + labels) if nodes.size else np.zeros(0, np.int64)
    nodes, labels = np.divmod(pairs, max(1, len(names)))
    used, indices = np.unique(labels, return_inverse=True)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(nodes, minlength=num_nodes))]).astype(np.int64)
    return LabelSets(indptr, indices.astype(np.int32), [str(names[label]) for label in used])


def has_lists(rows: Iterable[Any]) -> bool:
    """Whether any row is a list of labels."""
    return any(isinstance(row, _LISTS) for row in rows)


def is_table_of_numbers(rows: Sequence[Any]) -> bool:
    """Whether rows are lists of as many numbers each.

    >>> is_table_of_numbers([[0, 1], [1, 1]]), is_table_of_numbers([[0, 1], [1]]), is_table_of_numbers([["a"], ["b"]])
    (True, False, False)
    """
    if not all(isinstance(row, _LISTS) for row in rows) or len({len(row) for row in rows}) > 1:
        return False
    return all(isinstance(cell, (int, float, np.number, np.bool_)) for row in rows for cell in row)


def is_indicator(matrix: npt.NDArray[Any]) -> bool:
    """Whether an array [N, L] has a 1 for each label of a node and 0 for the others."""
    if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        return False
    return matrix.dtype.kind == "b" or bool(((matrix == 0) | (matrix == 1)).all())


def sets_from_matrix(matrix: npt.NDArray[Any], origin: str) -> LabelSets:
    """The labels of all nodes from a matrix [N, L] of 0 and 1; a label has the number of its column as its name."""
    if not is_indicator(matrix):
        raise GraphError(
            f"{origin}: labels have shape {matrix.shape}, and some are not 0 or 1; expected one class per node [N], or "
            "0 and 1 for each label [N, L]"
        )
    nodes, labels = np.nonzero(matrix)
    return sets_from_pairs(nodes, labels, matrix.shape[0], range(matrix.shape[1]))
