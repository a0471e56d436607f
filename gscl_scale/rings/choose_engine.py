"""Which engine: the estimated work of both, from a pilot of some anchors; the same on every machine."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.config.sections import RingsConfig
from gscl_scale.rings.exact.twins import twins
from gscl_scale.rings.kernels import BITS
from gscl_scale.rings.pilot import Pilot, pilot_search
from gscl_scale.rings.sample import target_sizes
from gscl_scale.rings.sketch.level import HEAD_PER_WIDTH, near_words

_PILOT = BITS  # as many as share a search of the exact engine, so that the pilot shares as much
_TO_CHOOSE = 4_000_000  # edge visits of the pilot: a twentieth of a second
_TO_ESTIMATE = 2_000_000  # the same where only sizes of files are asked for
LITTLE_S = 1.0  # work that the exact engine may take where the sketch would be faster: its ring sizes are exact
# measured on ogbn-arxiv, with and without a hub joined to all, on a star, random graphs and two web graphs, one core:
# nanoseconds of a shared edge visit, of an entry in a pass of the sketch, and of reading the lists of an anchor
_VISIT_NS = 1.6
_ENTRY_NS = 180
_ANCHOR_NS = 2000
_ASKED = 8  # shared edge visits to ask a node whether it is beyond


@dataclass(frozen=True)
class Choice:
    """An engine, and the reason in a few words.

    exact_s, sketch_s   seconds of a core that all anchors are expected to take; None where nothing was estimated
    """

    engine: str
    reason: str
    exact_s: float | None = None
    sketch_s: float | None = None

    @property
    def is_long(self) -> bool:
        """Whether the work is worth a word: it takes longer than to read it, or was not estimated."""
        return self.exact_s is None or self.sketch_s is None or min(self.exact_s, self.sketch_s) >= 1


def choose_engine(indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any], config: RingsConfig) -> Choice:
    """The engine that `rings.engine` names, or for `auto` the one with less work for a round of all anchors."""
    if config.engine != "auto":
        return Choice(config.engine, "as rings.engine says")
    if not config.sketchable():
        return Choice("exact", "only it takes such rings.per_ring or rings.sharing")
    exact_s, sketch_s = (indptr.size - 1) * 1e-9 * _costs(indptr, indices, config)
    found = f"all anchors take the exact engine about {exact_s:,.1f} s of a core, the sketch {sketch_s:,.1f} s"
    engine = "exact" if exact_s < max(sketch_s, LITTLE_S) else "sketch"
    return Choice(engine, found, float(exact_s), float(sketch_s))


def expected_lists(
    indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any], config: RingsConfig
) -> tuple[float, float]:
    """What an anchor is likely to have: members of its rings in all, and words of bits of the lowest nodes."""
    num_nodes = indptr.size - 1
    pilot = pilot_search(indptr, indices, _pilot_anchors(num_nodes), config.hops, _TO_ESTIMATE)
    return lists_of_rings(pilot.sizes, pilot.whole, num_nodes, config)


def lists_of_rings(
    sizes: npt.NDArray[np.int64], whole: npt.NDArray[np.bool_], num_nodes: int, config: RingsConfig
) -> tuple[float, float]:
    """Means of `expected_lists` over anchors with rings of these sizes [A, k]; those not `whole` are larger."""
    balls = 1 + np.cumsum(sizes, axis=1)
    listed = np.minimum(sizes, config.width * sizes / balls)
    asked = np.stack([target_sizes(config.per_ring, row) for row in sizes])
    members = np.minimum(sizes, np.maximum(listed, asked)).astype(np.float64)
    members[~whole] = np.maximum(members[~whole], config.width)  # not seen to the end
    if config.sharing != "shared":
        return float(members.sum(axis=1).mean()), 0.0
    ball = balls[:, -1]
    decided = np.where(ball < config.width, num_nodes, config.width * num_nodes / ball)  # nodes below `decided`
    words = np.maximum(near_words(config.width, num_nodes) - decided // 64, 0)
    return float(members.sum(axis=1).mean()), float(words.mean())


def _pilot_anchors(num_nodes: int) -> npt.NDArray[np.int64]:
    """In the middle of equal ranges: the first and the last node are often special."""
    return np.unique(((np.arange(_PILOT) + 0.5) * num_nodes / _PILOT).astype(np.int64))


def _costs(indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any], config: RingsConfig) -> npt.NDArray[np.float64]:
    """Nanoseconds per anchor of the exact engine and of the sketch."""
    num_nodes = indptr.size - 1
    anchors = _pilot_anchors(num_nodes)
    pilot = pilot_search(indptr, indices, anchors, config.hops, _TO_CHOOSE)
    exact = _ANCHOR_NS + _VISIT_NS * min(pilot.own_work(), pilot.shared_work())
    passes = max(1, config.hops - 1)
    alone = np.zeros(anchors.size, np.bool_)
    different = np.unique(twins(indptr, indices, anchors, alone)).size / anchors.size  # twins are finished once
    completion = different * _VISIT_NS * _work_of_short(pilot, num_nodes, config)
    return np.array([exact, _ENTRY_NS * passes * indices.size / num_nodes + _ANCHOR_NS + completion])


def _work_of_short(pilot: Pilot, num_nodes: int, config: RingsConfig) -> float:
    """Mean work of an anchor to finish the lists of the sketch that are short."""
    rings, beyond = _expected_short(pilot.sizes, num_nodes, config)
    only_beyond = beyond & ~rings
    by_hop = pilot.hop_work()
    last_hop = min(by_hop[-1], _ASKED * num_nodes / BITS)
    weight = pilot.visits.sum(axis=1) / max(1.0, pilot.visits.sum(axis=1).mean())  # short ones may be large
    return float(
        (rings * weight).mean() * by_hop.sum() + (only_beyond * weight).mean() * (by_hop[:-1].sum() + last_hop)
    )


def _expected_short(
    sizes: npt.NDArray[np.int64], num_nodes: int, config: RingsConfig
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Anchors with a ring, and with a list beyond, of which neither the lists nor the head are likely to hold enough.

    What is beyond is short also where there is less than is wanted: the sketch does not know that this is all.
    """
    assert isinstance(config.per_ring, int)
    balls = 1 + np.cumsum(sizes, axis=1)
    in_head = min(1.0, HEAD_PER_WIDTH * config.width / num_nodes)  # chance of a node
    in_lists = np.maximum(np.minimum(1.0, config.width / balls), in_head)  # chance of a member to be known
    rings = np.asarray((in_lists * sizes < np.minimum(config.per_ring, sizes) - 0.5).any(axis=1))
    known_beyond = in_lists[:, -1] * (num_nodes - balls[:, -1])
    return rings, (balls[:, -1] >= config.width) & (in_head < 1) & (known_beyond < config.beyond - 0.5)
