"""What a batch reads of the graph: for each layer the nodes that are needed, and the messages between them.

Exact, or with at most a fan-out of neighbours per node: those of the lowest priorities of the round, so that nodes
share their neighbours and batches their nodes. A sampled neighbour counts for 1 / its chance to be sampled, so that
what one layer gathers of given inputs is unbiased. Layers share a draw: with priorities of their own batches would
read up to a quarter more nodes. What two layers gather together is therefore not unbiased.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gscl_scale.errors import TaskError
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.kernels.kernel import kernel
from gscl_scale.kernels.sort import sort_part
from gscl_scale.rings.kernels import PriorityArrays
from gscl_scale.rings.priorities import Priorities

_WHOLE = 0.75  # where a layer needs this share of all nodes, it takes all
_MANY = 4  # times the fan-out: of nodes with more neighbours, the sampled ones are cached for a draw


@dataclass(frozen=True)
class Rows:
    """A sparse matrix as compressed sparse rows."""

    indptr: npt.NDArray[np.int32]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    width: int

    def transposed(self) -> "Rows":
        """Its transpose."""
        indptr, indices, order = transpose_pattern(self.indptr, self.indices, self.width)
        return Rows(indptr, indices, self.values[order], self.indptr.size - 1)


@dataclass(frozen=True)
class Block:
    """The messages of one layer to R nodes, from the nodes of the layer below.

    nodes [R]   in the graph
    own [R]     places of the same nodes in the layer below
    messages    [R, nodes below]; None where all of them were gathered before the training
    """

    nodes: npt.NDArray[np.int64]
    own: npt.NDArray[np.int64]
    messages: Rows | None
    transposed: Rows | None


@dataclass(frozen=True)
class SampledSubgraph:
    """The part of the graph that the embeddings of some nodes depend on.

    inputs      nodes whose features are read; None: all
    blocks      one per layer, the first layer first; None: all nodes gather from all their neighbours
    rows        the rows of those nodes in the last layer; None: it has no others
    """

    inputs: npt.NDArray[np.int64] | None
    blocks: list[Block | None]
    rows: npt.NDArray[np.int64] | None


@dataclass(frozen=True)
class Draw:
    """The draw of a round: of many neighbours those of the lowest ranks are sampled."""

    priorities: Priorities
    rank: npt.NDArray[Any]
    weights: npt.NDArray[np.float64] | None


class NeighbourSampler:
    """Samples subgraphs, one at a time; takes a few bytes per node in addition to the graph.

    first_known   the first layer reads what was gathered for all nodes once, and needs no messages
    """

    def __init__(
        self,
        messages: NormalisedAdjacency,
        layers: int,
        fanouts: Sequence[int] | None = None,
        first_known: bool = False,
    ) -> None:
        self._messages, self._layers, self._fanouts, self._first_known = messages, layers, fanouts, first_known
        self._place = np.full(messages.num_nodes, -1, np.int32)
        self._lowest = None if fanouts is None else _Lowest(messages, max(fanouts))

    @property
    def samples(self) -> bool:
        """Whether nodes have a fan-out, so that a subgraph needs a draw."""
        return self._fanouts is not None

    def sample(self, nodes: npt.NDArray[np.int64], draw: Draw | None = None) -> SampledSubgraph:
        """The subgraph of distinct nodes; with fan-outs, `draw` chooses the neighbours."""
        blocks: list[Block | None] = []
        needed: npt.NDArray[np.int64] | None = nodes
        if self._fanouts is None and self._nearly_all(nodes):
            needed = None
        for layer in reversed(range(self._layers)):
            if needed is None:
                blocks.append(None)
                continue
            if layer == 0 and self._first_known:
                blocks.append(Block(needed, needed, None, None))
                needed = None
                continue
            block, needed = self._block(needed, self._fanouts[layer] if self._fanouts else None, draw)
            blocks.append(block)
        return SampledSubgraph(needed, blocks[::-1], nodes if blocks and blocks[0] is None else None)

    def _nearly_all(self, nodes: npt.NDArray[np.int64]) -> bool:
        return nodes.size > _WHOLE * self._messages.num_nodes

    def _block(
        self, nodes: npt.NDArray[np.int64], fanout: int | None, draw: Draw | None
    ) -> tuple[Block, npt.NDArray[np.int64] | None]:
        """The block of some nodes, and the nodes below; None, with the numbers of the graph, where nearly all are."""
        m = self._messages
        indptr, entries = _count(m.indptr, nodes, m.indices.size if fanout is None else fanout, m.loops)
        if entries >= 2**31:
            raise TaskError(
                f"a batch reads {entries:,} messages in one layer (limit 2,147,483,647); "
                "lower train.batch_size, or set model.propagation to sampled"
            )
        members, values = np.empty(entries, np.int32), np.empty(entries, np.float32)
        if fanout is None:
            _take_all(_sparse(m), m.weights, nodes, members, values)
        else:
            assert draw is not None
            assert self._lowest is not None
            drawn = PriorityArrays(draw.priorities.order, draw.rank, draw.priorities.priority)
            node_weights = np.empty(0) if draw.weights is None else draw.weights
            known = (self._lowest.row, self._lowest.table(draw))
            ascending = np.argsort(nodes, kind="stable"), indptr  # so that the graph is read from beginning to end
            _take_lowest(_sparse(m), m.weights, nodes, ascending, fanout, drawn, node_weights, known, members, values)
        places, below = _relabel(nodes, members, self._place)
        if fanout is None and self._nearly_all(below):
            rows = Rows(indptr, members, values, m.num_nodes)
            return Block(nodes, nodes, rows, rows.transposed()), None
        rows = Rows(indptr, places, values, below.size)
        return Block(nodes, np.arange(nodes.size), rows, rows.transposed()), below


class _Sparse(NamedTuple):
    """`NormalisedAdjacency` for kernels, which take the weights of its entries apart: where these are None, a kernel is
    compiled without them."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[Any]
    row_scale: npt.NDArray[np.float32]
    column_scale: npt.NDArray[np.float32]
    loops: bool


def _sparse(m: NormalisedAdjacency) -> _Sparse:
    return _Sparse(m.indptr, m.indices, m.row_scale, m.column_scale, m.loops)


class _Lowest:
    """The lowest ranks among the neighbours of the nodes that have many, found when a node is first asked for.

    row [N]   of each node in the table; -1: it has few neighbours
    """

    def __init__(self, messages: NormalisedAdjacency, fanout: int) -> None:
        many = np.diff(messages.indptr) > _MANY * fanout
        self._shape = (int(many.sum()), fanout + 1)
        self.row = np.where(many, np.cumsum(many, dtype=np.int32) - 1, -1).astype(np.int32)
        self._known: tuple[Draw, npt.NDArray[np.int32]] | None = None

    def table(self, draw: Draw) -> npt.NDArray[np.int32]:
        """The table of a draw: ascending ranks, one more than are sampled; -1 where a node was not asked for yet."""
        if self._known is None or self._known[0] is not draw:
            self._known = (draw, np.full(self._shape, -1, np.int32))
        return self._known[1]


def transpose_pattern(
    indptr: npt.NDArray[np.int32], indices: npt.NDArray[np.int32], width: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """(indptr, indices, order) of the transpose: its entry i is entry order[i] of the matrix."""
    out_indptr = np.zeros(width + 1, np.int32)
    out_indices, order = np.empty_like(indices), np.empty_like(indices)
    _transpose(indptr, indices, out_indptr, out_indices, order)
    return out_indptr, out_indices, order


@kernel
def _transpose(indptr, indices, out_indptr, out_indices, order):
    for e in range(indices.size):
        out_indptr[indices[e] + 1] += 1
    for c in range(out_indptr.size - 1):
        out_indptr[c + 1] += out_indptr[c]
    place = out_indptr[:-1].copy()
    for r in range(indptr.size - 1):
        for e in range(indptr[r], indptr[r + 1]):
            c = indices[e]
            out_indices[place[c]] = r
            order[place[c]] = e
            place[c] += 1


@kernel
def _count(indptr, nodes, most, loops):
    out = np.zeros(nodes.size + 1, np.int32)
    total = 0
    for i in range(nodes.size):
        total += min(indptr[nodes[i] + 1] - indptr[nodes[i]], most) + loops
        out[i + 1] = total
    return out, total


@kernel
def _take_all(m, weights, nodes, members, values):
    indices, row_scale, column_scale = m.indices, m.row_scale, m.column_scale
    n = 0
    for v in nodes:
        if m.loops:
            members[n], values[n] = v, row_scale[v] * column_scale[v]
            n += 1
        for e in range(m.indptr[v], m.indptr[v + 1]):
            members[n], values[n] = indices[e], row_scale[v] * column_scale[indices[e]]
            if weights is not None:
                values[n] *= weights[e]
            n += 1


@kernel
def _take_lowest(m, weights, nodes, ascending, fanout, drawn, node_weights, known, members, values):
    """At most `fanout` neighbours of each node: those of the lowest ranks. `ascending`: order, and where rows begin.

    The rank after the last one bounds the draw: a neighbour was sampled since its priority is below this one, and its
    chance of that is 1 - exp(-bound * weight of the node), or without such weights fan-out / degree.
    """
    row, table = known
    order, priority, row_scale, column_scale = drawn.order, drawn.priority, m.row_scale, m.column_scale
    own = np.empty(table.shape[1], np.int32)
    places, indptr = ascending
    for i in places:
        v, n = nodes[i], indptr[i]
        if m.loops:
            members[n], values[n] = v, row_scale[v] * column_scale[v]
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
        low = own[: fanout + 1] if row[v] < 0 else table[row[v]]
        if row[v] < 0 or low[0] < 0:
            _find_lowest(neighbours, drawn.rank, low)
        bound = priority[low[fanout]]
        for j in range(fanout):
            u = order[low[j]]
            chance = -np.expm1(-bound * node_weights[u]) if node_weights.size else fanout / neighbours.size
            members[n], values[n] = u, row_scale[v] * column_scale[u] / chance
            if weights is not None:
                values[n] *= weights[m.indptr[v] + np.searchsorted(neighbours, u)]
            n += 1


@kernel
def _find_lowest(neighbours, rank, low):
    """The lowest ranks of neighbours, ascending; there are at least as many as `low` has places."""
    filled = 0
    for u in neighbours:
        r = rank[u]
        if filled == low.size:
            if r >= low[filled - 1]:
                continue
            filled -= 1
        j = filled
        while j > 0 and low[j - 1] > r:
            low[j] = low[j - 1]
            j -= 1
        low[j] = r
        filled += 1


@kernel
def _relabel(nodes, members, place):
    """(members by their place among the nodes below, these nodes): `nodes`, then all other members in order."""
    for i in range(nodes.size):
        place[nodes[i]] = i
    others = np.empty(members.size, np.int64)
    num = 0
    for u in members:
        if place[u] < 0:
            place[u] = 0
            others[num] = u
            num += 1
    sort_part(others, np.int64(0), num)
    for i in range(num):
        place[others[i]] = nodes.size + i
    places = np.empty_like(members)
    for e in range(members.size):
        places[e] = place[members[e]]
    below = np.empty(nodes.size + num, np.int64)
    for i in range(below.size):
        below[i] = nodes[i] if i < nodes.size else others[i - nodes.size]
    for u in below:
        place[u] = -1
    return places, below
