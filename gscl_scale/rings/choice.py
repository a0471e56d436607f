"""Which engine: the estimated work of both, from a pilot of some anchors; the same on every machine."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.config import RingsConfig
from gscl_scale.rings import words
from gscl_scale.rings.level import HEAD_PER_WIDTH
from gscl_scale.rings.sample import wanted

_PILOT = 48
_MOST_VISITS = 1_000_000  # a pilot's search ends there: whatever the rest is, it is too much for the exact engine
_LITTLE_S = 1.0  # work that the exact engine may take where the sketch would be faster: its ring sizes are exact
# measured on ogbn-arxiv and two web graphs, one core: nanoseconds of a shared edge visit, of an entry in a pass of the
# sketch, and of reading the lists of an anchor
_VISIT_NS = 0.7
_ENTRY_NS = 230
_ANCHOR_NS = 2500


@dataclass(frozen=True)
class Choice:
    """An engine, and the reason in a few words."""

    engine: str
    reason: str


def choose_engine(indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any], config: RingsConfig) -> Choice:
    """The engine that `rings.engine` names, or for `auto` the one with less work for a round of all anchors."""
    if config.engine != "auto":
        return Choice(config.engine, "as rings.engine says")
    if not config.sketchable():
        return Choice("exact", "only it takes such rings.per_ring or rings.sharing")
    exact_s, sketch_s = (indptr.size - 1) * 1e-9 * _costs(indptr, indices, config)
    found = f"all anchors take the exact engine about {exact_s:,.1f} s of a core, the sketch {sketch_s:,.1f} s"
    return Choice("exact" if exact_s < max(sketch_s, _LITTLE_S) else "sketch", found)


def expected_members(
    indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any], config: RingsConfig
) -> npt.NDArray[np.float64]:
    """Members that an anchor is likely to have in each ring [k]."""
    visits, sizes = _pilot(indptr, indices, config)
    balls = 1 + np.cumsum(sizes, axis=1)
    listed = np.minimum(sizes, config.width * sizes / balls)
    asked = np.stack([wanted(config.per_ring, row) for row in sizes])
    members = np.minimum(sizes, np.maximum(listed, asked)).astype(np.float64)
    members[visits > _MOST_VISITS] = np.maximum(members[visits > _MOST_VISITS], config.width)  # not seen to the end
    return members.mean(axis=0)


def _pilot(
    indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any], config: RingsConfig
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(edge visits [A], ring sizes [A, k]) of searches from some anchors."""
    num_nodes = indptr.size - 1
    pilot = np.unique(np.linspace(0, num_nodes - 1, _PILOT).astype(np.int64))
    return words.pilot_search(indptr, indices, pilot, config.hops, _MOST_VISITS)


def _costs(indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any], config: RingsConfig) -> npt.NDArray[np.float64]:
    """Nanoseconds per anchor of the exact engine and of the sketch."""
    num_nodes = indptr.size - 1
    visits, sizes = _pilot(indptr, indices, config)

    def exact_ns(mean_visits: float) -> float:
        shared = words.shared_work(mean_visits, num_nodes, indices.size, config.hops)
        return _ANCHOR_NS + _VISIT_NS * min(words.own_work(mean_visits), shared)

    short = _expected_short(sizes, num_nodes, config)
    completion = short.mean() * exact_ns(float(visits[short].mean())) if short.any() else 0.0
    passes = max(1, config.hops - 1)
    sketch = _ENTRY_NS * passes * indices.size / num_nodes + _ANCHOR_NS + completion
    return np.array([exact_ns(float(visits.mean())), sketch])


def _expected_short(sizes: npt.NDArray[np.int64], num_nodes: int, config: RingsConfig) -> npt.NDArray[np.bool_]:
    """Anchors with a list of which neither the lists nor the head of the sketch are likely to hold enough members."""
    assert isinstance(config.per_ring, int)
    balls = 1 + np.cumsum(sizes, axis=1)
    beyond = num_nodes - balls[:, -1:]
    of_node_in_head = min(1.0, HEAD_PER_WIDTH * config.width / num_nodes)
    in_ball = np.maximum(np.minimum(1.0, config.width / balls), of_node_in_head)  # chance of a member to be known
    known = np.concatenate([in_ball * sizes, np.maximum(of_node_in_head, in_ball[:, -1:]) * beyond], axis=1)
    wanted = np.concatenate([np.minimum(config.per_ring, sizes), np.minimum(config.beyond, beyond)], axis=1)
    return np.asarray((known < wanted - 0.5).any(axis=1))
