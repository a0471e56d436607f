"""The normalised adjacency of message passing: the neighbours that a node gathers from, and their weights."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.graph.graph import Graph

_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class NormalisedAdjacency:
    """Node v gathers row_scale[v] * column_scale[u] of each neighbour u, and where `loops` is set of itself.

    indptr [N + 1], indices [E]   rows of the graph
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[Any]
    row_scale: npt.NDArray[np.float32]
    column_scale: npt.NDArray[np.float32]
    loops: bool

    @classmethod
    def of(
        cls, graph: Graph, encoder: str, normalisation: str = "symmetric", loops: bool = True
    ) -> "NormalisedAdjacency":
        """The messages of an encoder; normalisation and loops are those of gcn.

        gcn    D_row^-1/2 (A + I) D_column^-1/2, as the layers of the paper's GCN; without loops A in place of A + I,
               with normalisation mean D_row^-1
        sage   D_row^-1 A, without loops; the row of a node without neighbours is empty
        gat    A + I, whose weights its layers compute
        """
        ones = np.ones(graph.num_nodes, np.float32)
        if encoder == "gat":
            return cls(graph.indptr, graph.indices, ones, ones, True)
        loops = loops and encoder == "gcn"
        if encoder == "sage" or normalisation == "mean":
            row = _by_degree(graph.indptr, lambda degree: 1 / np.maximum(degree + loops, 1))
            return cls(graph.indptr, graph.indices, row, ones, loops)
        row = _by_degree(graph.indptr, lambda degree: 1 / np.sqrt(np.maximum(degree + loops, 1)))
        column = row
        if not graph.undirected:
            column = (1 / np.sqrt(np.maximum(_in_degree(graph) + loops, 1))).astype(np.float32)
        return cls(graph.indptr, graph.indices, row, column, loops)

    @property
    def symmetric(self) -> bool:
        """Whether two neighbours in an undirected graph have the same weight for each other."""
        return self.row_scale is self.column_scale

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.indptr.size - 1


def _by_degree(
    indptr: npt.NDArray[np.int64], scale: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.float64]]
) -> npt.NDArray[np.float32]:
    """Scale of each node; blocks bound the memory in double precision."""
    out = np.empty(indptr.size - 1, np.float32)
    for low in range(0, out.size, _AT_ONCE):
        out[low : low + _AT_ONCE] = scale(np.diff(indptr[low : low + _AT_ONCE + 1]))
    return out


def _in_degree(graph: Graph) -> npt.NDArray[np.int32]:
    out = np.zeros(graph.num_nodes, np.int32)
    size = max(_AT_ONCE, graph.num_nodes)
    for low in range(0, graph.indices.size, size):
        out += np.bincount(graph.indices[low : low + size], minlength=graph.num_nodes).astype(np.int32)
    return out
