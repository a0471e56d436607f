"""What changed between two graphs, and which anchors of a round have to be sampled again because of it.

A row is the neighbours of a node. A changed row of u changes distances only for anchors that reach u in k - 1 hops.
Where u is k - 1 hops away exactly, only the neighbours that u won or lost come or go, at distance k; and a sample of
the sketch tells nothing of nodes whose priority is above both `decided` and the head, unless the exact engine
finished it.
"""

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale.config import RingsConfig
from gscl_scale.errors import FolderError
from gscl_scale.graph import Graph
from gscl_scale.rings import Priorities, RingSample, head_words

_NOTHING = np.inf


@dataclass(frozen=True)
class Matching:
    """Which node of one graph is which of the other, by the user's ids: -1 where there is none.

    old_of_new [N], new_of_old [N of the old graph]
    """

    old_of_new: npt.NDArray[np.int64]
    new_of_old: npt.NDArray[np.int64]

    @property
    def same(self) -> bool:
        """Whether every node kept its place."""
        return self.old_of_new.size == self.new_of_old.size and bool(
            (self.old_of_new == np.arange(self.old_of_new.size)).all()
        )


def match_nodes(old: Graph, new: Graph) -> Matching:
    """Match the nodes of two graphs by the user's ids."""
    if pa.types.is_integer(old.ids.type) != pa.types.is_integer(new.ids.type):
        raise FolderError(
            f"{old.folder} has node ids of type {old.ids.type}, {new.folder} of type {new.ids.type}; "
            "without --since the samples are made from nothing"
        )
    if old.ids.equals(new.ids):
        place = np.arange(new.num_nodes)
        return Matching(place, place)
    kind = pa.int64() if pa.types.is_integer(new.ids.type) else pa.large_string()
    before, now = (pc.cast(graph.ids, kind, safe=False) for graph in (old, new))
    found = (pc.index_in(one, other) for one, other in ((now, before), (before, now)))
    return Matching(*(pc.fill_null(places, -1).to_numpy().astype(np.int64) for places in found))


def changed_rows(
    old: Graph,
    new: Graph,
    matching: Matching,
    priority_of: npt.NDArray[np.float64],
    old_priority_of: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """The lowest priority among the neighbours that each node won or lost [N]: infinity where its row is the same."""
    lowest = np.full(new.num_nodes, _NOTHING)
    _compare_rows(
        old.indptr, old.indices, new.indptr, new.indices, matching.old_of_new, matching.new_of_old,
        priority_of, old_priority_of, matching.same, lowest,
    )  # fmt: skip
    return lowest


@numba.njit(cache=True, nogil=True)
def _compare_rows(  # type: ignore[no-untyped-def]
    old_indptr, old_indices, indptr, indices, old_of_new, new_of_old, priority_of, old_priority_of, same, lowest,
):  # fmt: skip
    here = np.full(lowest.size, -1, np.int64)  # the last row that a node was seen in, old and new rows apart
    there = np.full(lowest.size, -1, np.int64)
    for v in range(lowest.size):
        now = indices[indptr[v] : indptr[v + 1]]
        o = old_of_new[v]
        before = old_indices[old_indptr[o] : old_indptr[o + 1]] if o >= 0 else old_indices[:0]
        if same and now.size == before.size:
            i = 0
            while i < now.size and now[i] == before[i]:
                i += 1
            if i == now.size:
                continue
        for x in now:
            here[x] = v
        for y in before:
            x = new_of_old[y]
            if x >= 0:
                there[x] = v
            if x < 0 or here[x] != v:
                lowest[v] = min(lowest[v], old_priority_of[y])
        for x in now:
            if there[x] != v:
                lowest[v] = min(lowest[v], priority_of[x])


@dataclass(frozen=True)
class Reach:
    """How far the changes are from each anchor, in hops to the nearest changed row.

    inside [N]   a changed row is nearer than k - 1 hops
    rim [N]      for the others: the lowest priority that changed k - 1 hops away, infinity where nothing did
    """

    inside: npt.NDArray[np.bool_]
    rim: npt.NDArray[np.float64]


def reach_of(new: Graph, lowest: npt.NDArray[np.float64], hops: int) -> Reach:
    """Follow the changes outwards, a pass over the rows per hop."""
    inside, rim = np.zeros(lowest.size, np.bool_), lowest
    for _ in range(hops - 1):
        inside = inside | (rim < _NOTHING)
        following = np.full(lowest.size, _NOTHING)
        _lowest_of_neighbours(new.indptr, new.indices, rim, following)
        rim = following
    return Reach(inside, rim)


@numba.njit(cache=True, nogil=True)
def _lowest_of_neighbours(indptr, indices, values, out):  # type: ignore[no-untyped-def]
    for v in range(out.size):
        for e in range(indptr[v], indptr[v + 1]):
            out[v] = min(out[v], values[indices[e]])


def anchors_to_sample(
    matching: Matching,
    reach: Reach,
    old: list[RingSample],
    old_priorities: Priorities,
    priorities: Priorities,
    config: RingsConfig,
) -> npt.NDArray[np.bool_]:
    """Which anchors of a round may have another sample now [N]; all others have the old one."""
    head, old_head = (_head_priority(each, config) for each in (priorities, old_priorities))
    if head is None or old_head is None:
        return np.ones(matching.old_of_new.size, np.bool_)
    last_beyond = _last_beyond(old, by_node(old_priorities), config.beyond)
    told = _told_up_to(old, config, max(head, old_head), last_beyond)
    come_and_gone = _lowest_come_and_gone(matching, old_priorities, priorities)
    stale = np.zeros(told.size, np.bool_)
    if come_and_gone < _NOTHING:
        stale = last_beyond >= come_and_gone
        if come_and_gone <= max(head, old_head):
            stale |= told <= max(head, old_head)  # sizes of their rings are estimated from who is in the head
    known = matching.old_of_new >= 0
    place = matching.old_of_new[known]
    again = ~known
    at_rim = (reach.rim[known] < _NOTHING) & (reach.rim[known] <= told[place])
    again[known] = reach.inside[known] | at_rim | stale[place]
    return again


def _told_up_to(
    old: list[RingSample], config: RingsConfig, head: float, last_beyond: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The priority up to which the old sample of each anchor tells of nodes k hops away."""
    decided = np.concatenate([part.decided for part in old])
    if config.engine != "sketch":
        return np.full(decided.size, np.inf)  # exact ring sizes tell of every node
    finished = np.concatenate([part.ring_size_exact for part in old])
    told = np.maximum(decided, head)
    return np.where(finished | (last_beyond > told), np.inf, told)  # what goes farther was finished by a search


def _head_priority(priorities: Priorities, config: RingsConfig) -> float | None:
    """The priority of the last node of the head; None where the head is the whole graph."""
    size = 64 * head_words(config.width, priorities.order.size)
    return float(priorities.priority[size - 1]) if size < priorities.order.size else None


def _lowest_come_and_gone(matching: Matching, old_priorities: Priorities, priorities: Priorities) -> float:
    come = priorities.priority[matching.old_of_new[priorities.order] < 0]
    gone = old_priorities.priority[matching.new_of_old[old_priorities.order] < 0]
    return float(min([_NOTHING, *come[:1], *gone[:1]]))


def _last_beyond(parts: list[RingSample], priority_of: npt.NDArray[np.float64], wanted: int) -> npt.NDArray[np.float64]:
    """The priority of the last node beyond of each anchor; infinity where there were no more."""
    columns = []
    for part in parts:
        full = part.beyond.lengths() == wanted
        last = np.full(full.size, np.inf)
        last[full] = priority_of[part.beyond.members[part.beyond.offsets[1:][full] - 1]]
        columns.append(last)
    return np.concatenate(columns)


def by_node(priorities: Priorities) -> npt.NDArray[np.float64]:
    """The priority of each node [N]."""
    priority_of = np.empty(priorities.order.size)
    priority_of[priorities.order] = priorities.priority
    return priority_of


def depths_needed(graph: Graph, again: npt.NDArray[np.bool_], hops: int) -> npt.NDArray[np.uint8]:
    """The largest radius at which the ball of each vertex is needed to sample the anchors `again`; 0: at none."""
    depth = np.where(again, hops, 0).astype(np.uint8)
    for radius in range(hops - 1, 0, -1):
        _spread_need(graph.indptr, graph.indices, depth, radius)
    return depth


@numba.njit(cache=True, nogil=True)
def _spread_need(indptr, indices, depth, radius):  # type: ignore[no-untyped-def]
    for v in range(depth.size):
        if depth[v] > radius:
            for e in range(indptr[v], indptr[v + 1]):
                if depth[indices[e]] < radius:
                    depth[indices[e]] = radius
