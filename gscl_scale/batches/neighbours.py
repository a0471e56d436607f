"""What some nodes of a batch gather: from all their neighbours, or from those that the draw of a round has sampled."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from gscl_scale.errors import TaskError
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.kernels.kernel import kernel
from gscl_scale.rings.priorities import Priorities

Nodes = npt.NDArray[np.int64]

_MANY = 4  # times the fan-out: of nodes with more neighbours, the sampled ones are cached for a draw


@dataclass(frozen=True)
class Draw:
    """The draw of a round: of many neighbours those of the lowest ranks are sampled."""

    priorities: Priorities
    rank: npt.NDArray[Any]
    weights: npt.NDArray[np.float64] | None


class Messages(NamedTuple):
    """What each of n nodes gathers: node i from members[indptr[i]:indptr[i + 1]], each times its value."""

    indptr: npt.NDArray[np.int32]
    members: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]


class Neighbours(Protocol):
    """Where the messages of nodes come from."""

    def messages(self, nodes: Nodes, fanout: int | None, draw: Draw | None) -> Messages:
        """The messages to some nodes; `draw` chooses at most `fanout` neighbours of each, None takes all."""
        ...


class NeighboursHere:
    """The neighbours of the nodes from `first` on, whose rows this process has."""

    def __init__(self, rows: NormalisedAdjacency, most: int | None, first: int = 0) -> None:
        """`most`: the highest fan-out that will be asked for; None: all neighbours are taken."""
        self._rows, self._first = rows, first
        self._lowest = None if most is None else _Lowest(rows, most)

    def messages(self, nodes: Nodes, fanout: int | None, draw: Draw | None) -> Messages:
        """As `Neighbours` has it; nodes may be asked for twice."""
        m, rows = self._rows, nodes - self._first if self._first else nodes
        indptr, entries = _count(m.indptr, rows, m.indices.size if fanout is None else fanout, m.loops)
        if entries >= 2**31:
            raise TaskError(
                f"a batch reads {entries:,} messages in one layer (limit 2,147,483,647); "
                "lower train.batch_size, or set model.propagation to sampled"
            )
        members, values = np.empty(entries, np.int32), np.empty(entries, np.float32)
        sparse = _Sparse(m.indptr, m.indices, m.row_scale, m.column_scale, m.loops, self._first)
        if fanout is None:
            _take_all(sparse, m.weights, rows, members, values)
        else:
            assert draw is not None
            assert self._lowest is not None
            drawn = (draw.rank, draw.priorities.priority, np.empty(0) if draw.weights is None else draw.weights)
            known = (self._lowest.row, self._lowest.table(draw))
            ascending = np.argsort(rows, kind="stable"), indptr  # so that the graph is read from beginning to end
            _take_lowest(sparse, m.weights, rows, ascending, fanout, drawn, known, members, values)
        return Messages(indptr, members, values)


class _Sparse(NamedTuple):
    """`NormalisedAdjacency` for kernels, which take the weights of its entries apart: where these are None, a kernel is
    compiled without them. `first`: the node of the first row."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[Any]
    row_scale: npt.NDArray[np.float32]
    column_scale: npt.NDArray[np.float32]
    loops: bool
    first: int


class _Lowest:
    """The lowest ranks among the neighbours of the nodes that have many, found when a node is first asked for.

    row [N]   of each node in the table; -1: it has few neighbours
    """

    def __init__(self, rows: NormalisedAdjacency, fanout: int) -> None:
        many = np.diff(rows.indptr) > _MANY * fanout
        self._shape = (int(many.sum()), 2, fanout + 1)
        self.row = np.where(many, np.cumsum(many, dtype=np.int32) - 1, -1).astype(np.int32)
        self._known: tuple[Draw, npt.NDArray[np.int32]] | None = None

    def table(self, draw: Draw) -> npt.NDArray[np.int32]:
        """The table of a draw: ascending ranks, one more than are sampled, and their nodes; -1: not asked for yet."""
        if self._known is None or self._known[0] is not draw:
            self._known = (draw, np.full(self._shape, -1, np.int32))
        return self._known[1]


@kernel
def _count(indptr, rows, most, loops):
    out = np.zeros(rows.size + 1, np.int32)
    total = 0
    for i in range(rows.size):
        total += min(indptr[rows[i] + 1] - indptr[rows[i]], most) + loops
        out[i + 1] = total
    return out, total


@kernel
def _take_all(m, weights, rows, members, values):
    indices, row_scale, column_scale = m.indices, m.row_scale, m.column_scale
    n = 0
    for v in rows:
        if m.loops:
            members[n], values[n] = v + m.first, row_scale[v] * column_scale[v + m.first]
            n += 1
        for e in range(m.indptr[v], m.indptr[v + 1]):
            members[n], values[n] = indices[e], row_scale[v] * column_scale[indices[e]]
            if weights is not None:
                values[n] *= weights[e]
            n += 1


@kernel
def _take_lowest(m, weights, rows, ascending, fanout, drawn, known, members, values):
    """At most `fanout` neighbours of each node: those of the lowest ranks. `ascending`: order, and where rows begin.

    The rank after the last one bounds the draw: a neighbour was sampled since its priority is below this one, and its
    chance of that is 1 - exp(-bound * weight of the node), or without such weights fan-out / degree.
    """
    row, table = known
    rank, priority, node_weights = drawn
    row_scale, column_scale = m.row_scale, m.column_scale
    own = np.empty(table.shape[1:], np.int32)
    places, indptr = ascending
    for i in places:
        v, n = rows[i], indptr[i]
        if m.loops:
            members[n], values[n] = v + m.first, row_scale[v] * column_scale[v + m.first]
            n += 1
        neighbours = m.indices[m.indptr[v] : m.indptr[v + 1]]
        if neighbours.size <= fanout:
            for j in range(neighbours.size):
                u = neighbours[j]
                members[n], values[n] = u, row_scale[v] * column_scale[u]
                if weights is not None:
                    values[n] *= weights[m.indptr[v] + j]
                n += 1
            continue
        low = own[:, : fanout + 1] if row[v] < 0 else table[row[v]]
        if row[v] < 0 or low[0, 0] < 0:
            _find_lowest(neighbours, rank, low)
        for j in range(fanout):
            u = low[1, j]
            chance = fanout / neighbours.size
            if node_weights.size:
                chance = -np.expm1(-priority[low[0, fanout]] * node_weights[u])
            values[n] = row_scale[v] * column_scale[u] / chance
            members[n] = u
            if weights is not None:
                values[n] *= weights[m.indptr[v] + np.searchsorted(neighbours, u)]
            n += 1


@kernel
def _find_lowest(neighbours, rank, low):
    """The lowest ranks of neighbours, ascending, and who has them; there are at least as many as there are places."""
    filled, most = 0, low.shape[1]
    for u in neighbours:
        r = rank[u]
        if filled == most:
            if r >= low[0, filled - 1]:
                continue
            filled -= 1
        j = filled
        while j > 0 and low[0, j - 1] > r:
            low[0, j], low[1, j] = low[0, j - 1], low[1, j - 1]
            j -= 1
        low[0, j], low[1, j] = r, u
        filled += 1
