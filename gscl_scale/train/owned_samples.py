"""Samples that the processes of a training keep among them: each has those of a range of anchors.

Shapes: A anchors of a training, a anchors of a batch.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gscl_scale.rings.sample import Lists, RingSample
from gscl_scale.shards.reader import RoundReader
from gscl_scale.train.exchange import Exchange, owners

Nodes = npt.NDArray[np.int64]


class OwnedSamples:
    """The samples of a round, from the processes that have those of an anchor.

    Every process asks as often as the others: each call is an exchange between all of them.
    """

    def __init__(self, reader: RoundReader, anchors: Nodes, exchange: Exchange) -> None:
        """Read the samples of this process's share of the ascending anchors [A]."""
        bounds = anchors.size * np.arange(exchange.size + 1) // exchange.size
        self._starts = np.append(anchors[bounds[:-1]], anchors[-1] + 1)
        self._here = reader.in_memory(anchors[bounds[exchange.rank] : bounds[exchange.rank + 1]])
        self._exchange = exchange

    def decided(self, anchors: Nodes) -> npt.NDArray[np.float64]:
        """As `RoundReader.decided`."""
        order, asked, by = self._ask(anchors)
        decided = np.empty(anchors.size, np.float64)
        decided[order] = self._exchange.trade(self._here.decided(asked), by)[0]
        return decided

    def take(self, anchors: Nodes) -> RingSample:
        """As `RoundReader.take`, of distinct anchors."""
        order, asked, by = self._ask(anchors)
        found = self._here.take(asked)
        *rings, beyond = (self._lists(lists, by) for lists in found.lists)
        near = None if found.near is None else self._lists(found.near, by)
        decided, sizes, exact = (
            self._exchange.trade(column, by)[0] for column in (found.decided, found.ring_size, found.ring_size_exact)
        )
        received = RingSample(anchors[order], rings, beyond, decided, sizes, exact, near)
        return replace(self._here, parts=[received], gaps=True).take(anchors)

    def _ask(self, anchors: Nodes) -> tuple[Nodes, Nodes, Nodes]:
        """The order in which anchors are asked for, which of ours the processes ask for, and how many each."""
        order = np.argsort(anchors)
        counts = np.bincount(owners(self._starts, anchors), minlength=self._exchange.size)
        return order, *self._exchange.trade(anchors[order], counts)

    def _lists(self, lists: Lists, by: Nodes) -> Lists:
        offsets, (members,) = self._exchange.trade_lists(lists.offsets, [lists.members], by)
        return Lists(offsets, members)
