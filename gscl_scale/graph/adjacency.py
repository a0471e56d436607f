"""The normalised adjacency of message passing: the neighbours that a node gathers from, and their weights."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.graph.graph import Graph
from gscl_scale.kernels.kernel import read_only

_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class NormalisedAdjacency:
    """Node v gathers row_scale[v] * column_scale[u] of each neighbour u, and where `loops` is set of itself.

    indptr [N + 1], indices [E]   rows of the graph
    weights [E]                   of the edges, a third factor of what is gathered from a neighbour; None: they are 1
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[Any]
    row_scale: npt.NDArray[np.float32]
    column_scale: npt.NDArray[np.float32]
    loops: bool
    weights: npt.NDArray[np.float32] | None = None

    @classmethod
    def of(
        cls, graph: Graph, encoder: str, normalisation: str = "symmetric", loops: bool = True
    ) -> "NormalisedAdjacency":
        """The messages of an encoder; normalisation and loops are those of gcn.

        gcn    D_row^-1/2 (A + I) D_column^-1/2, as the layers of the paper's GCN; without loops A in place of A + I,
               with normalisation mean D_row^-1
        sage   D_row^-1 A, without loops; the row of a node without neighbours is empty
        gat    A + I, whose weights its layers compute

        A has the edge weights and D their sums, where there are any; those of gat are always 1.
        """
        ones = np.ones(graph.num_nodes, np.float32)
        if encoder == "gat":
            return cls(graph.indptr, graph.indices, ones, ones, True)
        loops, weights = loops and encoder == "gcn", graph.edge_weights
        if encoder == "sage" or normalisation == "mean":
            row = _scales(_degrees(graph), loops, lambda degree: 1 / degree)
            return cls(graph.indptr, graph.indices, row, ones, loops, weights)
        row = _scales(_degrees(graph), loops, lambda degree: 1 / np.sqrt(degree))
        column = row
        if not graph.undirected:
            column = _scales([_in_degrees(graph)], loops, lambda degree: 1 / np.sqrt(degree))
        return cls(graph.indptr, graph.indices, row, column, loops, weights)

    @property
    def symmetric(self) -> bool:
        """Whether two neighbours in an undirected graph have the same weight for each other."""
        return self.row_scale is self.column_scale

    def rows(self, first: int, end: int) -> "NormalisedAdjacency":
        """A copy of the rows first..end in memory; columns keep their numbers."""
        edges = slice(int(self.indptr[first]), int(self.indptr[end]))
        weights = None if self.weights is None else read_only(np.array(self.weights[edges]))
        return replace(
            self,
            indptr=read_only(self.indptr[first : end + 1] - self.indptr[first]),
            indices=read_only(np.array(self.indices[edges])),
            row_scale=self.row_scale[first:end],
            weights=weights,
        )

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.indptr.size - 1


def _scales(
    degrees: Iterable[npt.NDArray[Any]], loops: bool, scale: Callable[[npt.NDArray[Any]], npt.NDArray[np.float64]]
) -> npt.NDArray[np.float32]:
    """Scale of each node from its degree, loop included; parts bound the memory in double precision."""
    parts = (part + loops for part in degrees)
    return np.concatenate([scale(np.where(part > 0, part, 1)).astype(np.float32) for part in parts])


def _degrees(graph: Graph) -> Iterator[npt.NDArray[Any]]:
    """Neighbours of each node, or the sum of their weights, a part at a time."""
    for low in range(0, graph.num_nodes, _AT_ONCE):
        indptr = graph.indptr[low : low + _AT_ONCE + 1]
        if graph.edge_weights is None:
            yield np.diff(indptr)
        else:
            yield row_sums(indptr - indptr[0], graph.edge_weights[indptr[0] : indptr[-1]])


def row_sums(indptr: npt.NDArray[np.int64], values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Sum of each of some compressed sparse rows."""
    sums, filled = np.zeros(indptr.size - 1), np.diff(indptr) > 0
    sums[filled] = np.add.reduceat(values, indptr[:-1][filled], dtype=np.float64)  # rows between these are empty
    return sums


def _in_degrees(graph: Graph) -> npt.NDArray[Any]:
    weights = graph.edge_weights
    out: npt.NDArray[Any] = np.zeros(graph.num_nodes, np.int32 if weights is None else np.float64)
    size = max(_AT_ONCE, graph.num_nodes)
    for low in range(0, graph.indices.size, size):
        part = slice(low, low + size)
        out += np.bincount(
            graph.indices[part], None if weights is None else weights[part], minlength=graph.num_nodes
        ).astype(out.dtype)
    return out
