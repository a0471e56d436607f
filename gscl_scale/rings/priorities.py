"""One random priority per node and round: whoever is lower is sampled first."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding


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
    drawn = seeding.exponentials(round_key(seed, round_number), identities)
    if weights is not None:
        drawn /= weights
    drawn += (
        0.0  # no zero has a sign, so that the numbers are ordered as their bits are, which takes two thirds of the time
    )
    order = np.argsort(drawn.view(np.uint64), kind="stable")
    return Priorities(order.astype(dtype), drawn[order])


def round_key(seed: int, round_number: int) -> np.uint64:
    """The key of all draws of a round."""
    return seeding.key("priority", seed, round_number)
