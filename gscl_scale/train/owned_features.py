"""Features that the processes of a training keep among them: each owns a range of rows, and sends them to the others.

Shapes: N nodes of the graph, n nodes of a batch, F features.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.model.scaling import Scaling, sparse_rows
from gscl_scale.train.exchange import Array, Exchange, owners

Nodes = npt.NDArray[np.int64]
Features = npt.NDArray[np.float32] | SparseFeatures

_ROWS_AT_ONCE = 1 << 16  # of the frequent rows, while they are collected
_NONE: Nodes = np.empty(0, np.int64)


class OwnedFeatures:
    """The features of a graph over the processes that train together.

    Every process calls `rows` as often as the others: each call is an exchange between all of them.
    """

    def __init__(self, graph: Graph, kind: str, exchange: Exchange) -> None:
        """Read the rows of this process, scaled by `model.feature_scaling` when they are asked for."""
        self._scaling, self._exchange, self._width = Scaling.of(graph.features, kind), exchange, graph.num_features
        self._starts = graph.num_nodes * np.arange(exchange.size + 1) // exchange.size
        first, end = self._starts[exchange.rank : exchange.rank + 2]
        self._own, self._first = _copy_of(graph.features, int(first), int(end)), int(first)
        self._frequent, self._known = _NONE, _take(self._own, _NONE)
        self.counts = Counts()

    def keep(self, frequent: Nodes) -> None:
        """Keep the rows of some nodes, ascending and the same in all processes, unless this one owns them."""
        blocks = [frequent[at : at + _ROWS_AT_ONCE] for at in range(0, frequent.size, _ROWS_AT_ONCE)]
        blocks = [block[self._owners(block) != self._exchange.rank] for block in blocks]
        self._known = _joined([_take(self._own, _NONE), *(self._collected(block) for block in blocks)], self._width)
        self._frequent = np.concatenate([_NONE, *blocks])

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that this process keeps."""
        return sum(part.nbytes for rows in (self._own, self._known) for part in _parts(rows))

    def rows(self, nodes: Nodes) -> Features:
        """The scaled features of distinct nodes [n]; their bytes are those of the graph folder."""
        place = np.searchsorted(self._frequent, nodes)
        known = np.zeros(nodes.size, np.bool_)
        inside = place < self._frequent.size
        known[inside] = self._frequent[place[inside]] == nodes[inside]
        others = np.flatnonzero(~known)
        others = others[np.argsort(self._owners(nodes[others]), kind="stable")]
        own = int((self._owners(nodes[others]) == self._exchange.rank).sum())
        self.counts = self.counts.after(int(known.sum()), own, others.size - own)
        kept, collected = _take(self._known, place[known]), self._collected(nodes[others])
        if not isinstance(kept, SparseFeatures) and not isinstance(collected, SparseFeatures):
            dense = np.empty((nodes.size, self._width), np.float32)
            dense[known], dense[others] = kept, collected
            self._scaling.scale(dense)
            return dense
        back = np.empty(nodes.size, np.int64)
        back[np.concatenate([np.flatnonzero(known), others])] = np.arange(nodes.size)
        rows = _joined([kept, collected], self._width)
        assert isinstance(rows, SparseFeatures)
        rows = rows.take(back)
        return replace(rows, values=self._scaling.sparse(rows))

    def _owners(self, nodes: Nodes) -> Nodes:
        return owners(self._starts, nodes)

    def _collected(self, nodes: Nodes) -> Features:
        """The rows of nodes whose owners ascend, from these."""
        counts = np.bincount(self._owners(nodes), minlength=self._exchange.size)
        asked, by = self._exchange.trade(nodes, counts)
        rows = _take(self._own, asked - self._first)
        if not isinstance(rows, SparseFeatures):
            return self._exchange.trade(rows, by)[0]
        offsets, (indices, numbers) = self._exchange.trade_lists(rows.indptr, (rows.indices, rows.values), by)
        return SparseFeatures(offsets, indices, numbers, self._width)


@dataclass(frozen=True)
class Counts:
    """Rows that batches have read: kept here because they are frequent, owned by this process, sent by others."""

    frequent: int = 0
    own: int = 0
    fetched: int = 0

    def after(self, frequent: int, own: int, fetched: int) -> "Counts":
        """With those of one more batch."""
        return Counts(self.frequent + frequent, self.own + own, self.fetched + fetched)


def frequent_nodes(graph: Graph, nbytes: int) -> Nodes:
    """The nodes with the most edges, ascending, whose rows take about so many bytes: most batches read these."""
    row = max(1, features_bytes(graph) // max(1, graph.num_nodes))
    count = min(graph.num_nodes, nbytes // row)
    degrees = np.diff(graph.indptr)
    return np.sort(np.argpartition(-degrees, count - 1)[:count]) if count else np.empty(0, np.int64)


def features_bytes(graph: Graph) -> int:
    """Bytes of all rows in memory."""
    stored = graph.features
    return stored.indices.nbytes + stored.values.nbytes if isinstance(stored, SparseFeatures) else stored.nbytes


def owned_bytes(graph: Graph, frequent: int, processes: int) -> int:
    """Bytes that each of some processes keeps, with `frequent` bytes for rows of other processes."""
    whole = features_bytes(graph)
    return min(whole, whole // processes + frequent)


def _copy_of(features: Features, first: int, end: int) -> Features:
    """Rows first..end in memory, read in their order."""
    if not isinstance(features, SparseFeatures):
        return np.array(features[first:end])
    rows = sparse_rows(features, first, end)
    return replace(rows, indices=np.array(rows.indices), values=np.array(rows.values))


def _take(rows: Features, places: Nodes) -> Features:
    return rows.take(places) if isinstance(rows, SparseFeatures) else rows[places]


def _parts(rows: Features) -> tuple[Array, ...]:
    """Rows as arrays that can be cut and joined."""
    return (np.diff(rows.indptr), rows.indices, rows.values) if isinstance(rows, SparseFeatures) else (rows,)


def _of_parts(parts: tuple[Array, ...], width: int) -> Features:
    """The rows of `_parts`."""
    if len(parts) == 1:
        return parts[0]
    lengths, indices, values = parts
    return SparseFeatures(np.concatenate([[0], np.cumsum(lengths)]), indices, values, width)


def _joined(pieces: list[Features], width: int) -> Features:
    """The rows of several pieces, one after the other."""
    arrays = zip(*(_parts(piece) for piece in pieces), strict=True)
    return _of_parts(tuple(np.concatenate(list(parts)) for parts in arrays), width)
