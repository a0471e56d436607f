"""What a batch reads of the graph: for each layer the nodes that are needed, and the messages between them.

Exact, or with at most a fan-out of neighbours per node: those of the lowest priorities of the round, so that nodes
share their neighbours and batches their nodes. A sampled neighbour counts for 1 / its chance to be sampled, so that
what one layer gathers of given inputs is unbiased. Layers share a draw: with priorities of their own batches would
read up to a quarter more nodes. What two layers gather together is therefore not unbiased.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gscl_scale.batches.neighbours import Draw, Neighbours, NeighboursHere
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.kernels.kernel import kernel
from gscl_scale.kernels.sort import sort_part

_WHOLE = 0.75  # where a layer needs this share of all nodes, it takes all


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


class NeighbourSampler:
    """Samples subgraphs, one at a time; takes a few bytes per node in addition to the graph.

    first_known   the first layer reads what was gathered for all nodes once, and needs no messages
    neighbours    where messages come from; None: from the graph
    """

    def __init__(
        self,
        messages: NormalisedAdjacency,
        layers: int,
        fanouts: Sequence[int] | None = None,
        first_known: bool = False,
        neighbours: Neighbours | None = None,
    ) -> None:
        self._num_nodes, self._layers, self._fanouts = messages.num_nodes, layers, fanouts
        self._first_known = first_known
        self._neighbours = neighbours or NeighboursHere(messages, max(fanouts) if fanouts else None)
        self._place = np.full(messages.num_nodes, -1, np.int32)

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
        return nodes.size > _WHOLE * self._num_nodes

    def _block(
        self, nodes: npt.NDArray[np.int64], fanout: int | None, draw: Draw | None
    ) -> tuple[Block, npt.NDArray[np.int64] | None]:
        """The block of some nodes, and the nodes below; None, with the numbers of the graph, where nearly all are."""
        indptr, members, values = self._neighbours.messages(nodes, fanout, draw)
        places, below = _relabel(nodes, members, self._place)
        if fanout is None and self._nearly_all(below):
            rows = Rows(indptr, members, values, self._num_nodes)
            return Block(nodes, nodes, rows, rows.transposed()), None
        rows = Rows(indptr, places, values, below.size)
        return Block(nodes, np.arange(nodes.size), rows, rows.transposed()), below


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
