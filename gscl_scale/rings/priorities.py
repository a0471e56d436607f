"""One random priority per node and round: whoever is lower is sampled first."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding

_RANGES = 16  # of values that are sorted one after the other
_SOME = 1 << 12  # draws that say where the ranges begin


@dataclass(frozen=True)
class Priorities:
    """The nodes of a round in priority order.

    order [N]      nodes, lowest priority first, ties by node
    priority [N]   their priorities, ascending: priority[i] belongs to node order[i]
    """

    order: npt.NDArray[Any]
    priority: npt.NDArray[np.float64]

    def rank(self) -> npt.NDArray[Any]:
        """Position of each node in the order: the inverse permutation."""
        rank = np.empty_like(self.order)
        rank[self.order] = np.arange(self.order.size, dtype=self.order.dtype)
        return rank


def draw_priorities(
    identities: npt.NDArray[np.uint64],
    seed: int,
    round_number: int,
    weights: npt.NDArray[np.float64] | None,
    dtype: type[np.int32] | type[np.int64],
) -> Priorities:
    """E(u), or E(u) / weight(u): draws of (seed, round, the user's id) alone, so new nodes never reshuffle old ones."""
    return order_draws(seeding.exponentials(round_key(seed, round_number), identities), weights, dtype)


def order_draws(
    drawn: npt.NDArray[np.float64], weights: npt.NDArray[np.float64] | None, dtype: type[np.int32] | type[np.int64]
) -> Priorities:
    """The priorities of a draw for each node [N], which may be overwritten: divided by the weights, and sorted.

    One range of values is sorted after the other: that takes two thirds of the memory of a sort of all.
    """
    if weights is not None:
        drawn /= weights
    drawn += (
        0.0  # no zero has a sign, so that the numbers are ordered as their bits are, which takes two thirds of the time
    )
    order, priority, at = np.empty(drawn.size, dtype), np.empty(drawn.size, np.float64), 0
    for low, high in itertools.pairwise([-np.inf, *_cuts(drawn), np.nan]):  # no number is nan or more
        nodes = np.flatnonzero((drawn >= low) & ~(drawn >= high))
        values = drawn[nodes]
        sequence = np.argsort(values.view(np.uint64), kind="stable")
        end = at + nodes.size
        order[at:end], priority[at:end] = nodes[sequence], values[sequence]
        at = end
    return Priorities(order, priority)


def _cuts(drawn: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Values that cut draws into ranges of about as many each, by some of the draws."""
    some = np.sort(drawn[:: max(1, drawn.size // _SOME)])
    return np.unique(some[some.size // _RANGES :: max(1, some.size // _RANGES)][: _RANGES - 1])


def round_key(seed: int, round_number: int) -> np.uint64:
    """The key of all draws of a round."""
    return seeding.key("priority", seed, round_number)
