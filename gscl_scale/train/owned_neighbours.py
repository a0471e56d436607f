"""Edges that the processes of a training keep among them: each has the rows of a range of nodes, and draws for all.

Shapes: N nodes of the graph, E edges, n nodes of a batch.
"""

import bisect
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gscl_scale.batches.neighbours import Draw, Messages, NeighboursHere
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sample import copy_lists, offsets_of
from gscl_scale.train.exchange import Exchange, owners

Nodes = npt.NDArray[np.int64]

_ROW = 8  # bytes of a node: where its edges begin


class OwnedNeighbours:
    """The neighbours of nodes, from the processes that have their rows; a draw is made by the owner.

    Every process asks as often as the others: each call is an exchange between all of them.
    """

    def __init__(self, messages: NormalisedAdjacency, most: int, exchange: Exchange) -> None:
        """Read the rows of this process; `most` is the highest fan-out."""
        self._starts, self._exchange = _even_ranges(messages.indptr, exchange.size), exchange
        first, end = (int(bound) for bound in self._starts[exchange.rank : exchange.rank + 2])
        self._rows = messages.rows(first, end)
        self._here = NeighboursHere(self._rows, most, first)
        self._drawn: tuple[Draw, Draw] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that this process keeps."""
        weights = self._rows.weights
        return self._rows.indptr.nbytes + self._rows.indices.nbytes + (0 if weights is None else weights.nbytes)

    def messages(self, nodes: Nodes, fanout: int | None, draw: Draw | None) -> Messages:
        """As `batches.neighbours.Neighbours` has it, with the same bytes as from the graph folder."""
        order = np.argsort(nodes, kind="stable")
        counts = np.bincount(owners(self._starts, nodes), minlength=self._exchange.size)
        asked, by = self._exchange.trade(nodes[order], counts)
        indptr, *columns = self._here.messages(asked, fanout, self._in_memory(draw))
        offsets, received = self._exchange.trade_lists(indptr, columns, by)
        lengths = np.empty(nodes.size, np.int64)
        lengths[order] = np.diff(offsets)
        places = offsets_of(lengths)
        members, values = (np.empty_like(column) for column in received)
        for column, out in zip(received, (members, values), strict=True):
            copy_lists(column, offsets[:-1], order, places, out)
        return Messages(places.astype(np.int32), members, values)

    def _in_memory(self, draw: Draw | None) -> Draw | None:
        """A draw whose weights and priorities, of which nodes in no order are asked for, are not mapped files."""
        if draw is None or draw.weights is None:
            return draw
        if self._drawn is None or self._drawn[0] is not draw:
            priorities = Priorities(draw.priorities.order, np.array(draw.priorities.priority))
            self._drawn = (draw, replace(draw, priorities=priorities, weights=np.array(draw.weights)))
        return self._drawn[1]


def _even_ranges(indptr: Nodes, number: int) -> Nodes:
    """Where each of some ranges of nodes begins, and where the last one ends: ranges of about the same bytes."""
    num_nodes = indptr.size - 1

    def bytes_before(node: int) -> int:
        return _ROW * node + 4 * int(indptr[node])

    bounds = [bytes_before(num_nodes) * part // number for part in range(1, number)]
    return np.array(
        [0, *(bisect.bisect_left(range(num_nodes), bound, key=bytes_before) for bound in bounds), num_nodes]
    )


def owned_rows_bytes(graph: Graph, processes: int) -> int:
    """Bytes of edges that each of some processes keeps."""
    weights = 0 if graph.edge_weights is None else graph.edge_weights.nbytes
    return (graph.indptr.nbytes + graph.indices.nbytes + weights) // processes
