"""One random priority per node and round: whoever is lower is sampled first."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding

_RANGES = 16  # of values that are sorted one after the other, at the least
_TOGETHER = 1 << 12  # nodes that are sorted at once, however few ranges that makes
_SOME = 1 << 8  # draws for each of them, that say where they begin
_AT_ONCE = 1 << 20
BYTES_PER_NODE = 40  # of a range that is sorted: its nodes, their values, their sequence, and both in order

DrawsOf = Callable[[int, int], npt.NDArray[np.float64]]


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
        for low in range(0, rank.size, _AT_ONCE):
            nodes = self.order[low : low + _AT_ONCE]
            rank[nodes] = np.arange(low, low + nodes.size, dtype=rank.dtype)
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
    """The priorities of a draw for each node [N], which may be overwritten: divided by the weights, and sorted."""
    if weights is not None:
        drawn /= weights
    order, priority, at = np.empty(drawn.size, dtype), np.empty(drawn.size, np.float64), 0
    ranges = min(_RANGES, 1 + drawn.size // _TOGETHER)
    for part in sorted_ranges(lambda first, end: drawn[first:end], drawn.size, dtype, ranges):
        end = at + part.order.size
        order[at:end], priority[at:end] = part.order, part.priority
        at = end
    return Priorities(order, priority)


def sorted_ranges(
    draws_of: DrawsOf, num_nodes: int, dtype: type[np.int32] | type[np.int64], ranges: int = _RANGES
) -> Iterator[Priorities]:
    """The nodes in priority order, those of one range of values after the other: only a range is in memory.

    draws_of   the draws of the nodes first..end: all are asked for again for each range
    """
    for low, high in itertools.pairwise([-np.inf, *_cuts(draws_of, num_nodes, ranges), np.nan]):  # none is nan or more
        nodes, values = list[npt.NDArray[Any]](), list[npt.NDArray[np.float64]]()
        for first in range(0, max(1, num_nodes), _AT_ONCE):
            drawn = draws_of(first, min(first + _AT_ONCE, num_nodes))
            inside = np.flatnonzero((drawn >= low) & ~(drawn >= high))
            nodes.append((first + inside).astype(dtype))
            values.append(drawn[inside] + 0.0)  # no zero has a sign: numbers are ordered as their bits are, and sooner
        order, priority = np.concatenate(nodes), np.concatenate(values)
        del nodes, values
        sequence = np.argsort(priority.view(np.uint64), kind="stable")
        yield Priorities(order[sequence], priority[sequence])


def _cuts(draws_of: DrawsOf, num_nodes: int, ranges: int) -> npt.NDArray[np.float64]:
    """Values that cut draws into ranges of about as many each, by some of the draws."""
    step = max(1, num_nodes // (ranges * _SOME))
    parts = (draws_of(first, min(first + _AT_ONCE, num_nodes)) for first in range(0, max(1, num_nodes), _AT_ONCE))
    some = np.sort(np.concatenate([part[::step] for part in parts]))
    return np.unique(some[some.size // ranges :: max(1, some.size // ranges)][: ranges - 1])


def round_key(seed: int, round_number: int) -> np.uint64:
    """The key of all draws of a round."""
    return seeding.key("priority", seed, round_number)
