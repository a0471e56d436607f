"""What changed between two graphs, and which anchors of a round have to be sampled again because of it.

A row is the neighbours of a node. A changed row of u changes distances only for anchors that reach u in k - 1 hops.
Where u is k - 1 hops away exactly, only the neighbours that u won or lost come or go, at distance k. A sample shows
nothing of a node whose priority is above `decided` and above all that it lists, except in the bits of the head and in
the size of ring k. The sketch reads that size off the head too, and off every node where the exact engine finished it;
for samples of the exact engine the nodes that came and went are counted.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale.config.sections import RingsConfig
from gscl_scale.graph.graph import Graph
from gscl_scale.kernels.kernel import kernel
from gscl_scale.rings.kernels import reserve
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sample import Lists, RingSample
from gscl_scale.rings.sketch.level import head_words, near_words

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


def kind_of_ids(graph: Graph) -> str:
    """Whether the user's ids are integers or text: an id as text gets other random draws than as an integer."""
    return "integers" if pa.types.is_integer(graph.ids.type) else "text"


def match_nodes(old: Graph, new: Graph) -> Matching:
    """Match the nodes of two graphs by the user's ids: the integer 1001 is the text "1001"."""
    if old.ids.equals(new.ids):
        place = np.arange(new.num_nodes)
        return Matching(place, place)
    integers = kind_of_ids(old) == kind_of_ids(new) == "integers"
    kind = pa.int64() if integers else pa.large_string()
    before, now = (pc.cast(graph.ids, kind, safe=False) for graph in (old, new))
    found = (pc.index_in(one, other) for one, other in ((now, before), (before, now)))
    return Matching(*(pc.fill_null(places, -1).to_numpy().astype(np.int64) for places in found))


@dataclass(frozen=True)
class ChangedRows:
    """The differences between the rows of two graphs.

    lowest [N]        the lowest priority among the neighbours that each node won or lost; infinity if it has none
    node, other [P]   which node won or lost which neighbour: nodes ascending, the lost ones of each before the won
                      ones, these ascending; a node that is gone has the number N + its old one
    won [P]
    listed            whether there were few enough to list
    """

    lowest: npt.NDArray[np.float64]
    node: npt.NDArray[np.int64]
    other: npt.NDArray[np.int64]
    won: npt.NDArray[np.bool_]
    listed: bool


def changed_rows(
    old: Graph,
    new: Graph,
    matching: Matching,
    priority_of: npt.NDArray[np.float64],
    old_priority_of: npt.NDArray[np.float64],
    most: int,
) -> ChangedRows:
    """Compare the neighbours of every node, and list those won and lost if there are no more than `most`."""
    lowest = np.full(new.num_nodes, _NOTHING)
    node, other, won, listed = _compare_rows(
        old.indptr, old.indices, new.indptr, new.indices, matching.old_of_new, matching.new_of_old,
        priority_of, old_priority_of, matching.same, most, lowest,
    )  # fmt: skip
    return ChangedRows(lowest, node, other, won.view(np.bool_), listed)


@kernel
def _compare_rows(
    old_indptr, old_indices, indptr, indices, old_of_new, new_of_old, priority_of, old_priority_of, same, most, lowest,
):  # fmt: skip
    here = np.full(lowest.size, -1, np.int64)  # the last row that a node was seen in, old and new rows apart
    there = np.full(lowest.size, -1, np.int64)
    node, other, won = np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024, np.uint8)
    number = 0
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
        room = min(number + now.size + before.size, most + 1)
        node, other, won = reserve(node, room), reserve(other, room), reserve(won, room)
        for x in now:
            here[x] = v
        for y in before:
            x = new_of_old[y]
            if x >= 0:
                there[x] = v
            if x < 0 or here[x] != v:
                lowest[v] = min(lowest[v], old_priority_of[y])
                if number <= most:
                    node[number], other[number], won[number] = v, x if x >= 0 else lowest.size + y, 0
                    number += 1
        for x in now:
            if there[x] != v:
                lowest[v] = min(lowest[v], priority_of[x])
                if number <= most:
                    node[number], other[number], won[number] = v, x, 1
                    number += 1
    listed = number <= most
    number = number if listed else 0
    return node[:number], other[:number], won[:number], listed


@dataclass(frozen=True)
class Reach:
    """How far from each anchor the nearest changed row is.

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


@kernel
def _lowest_of_neighbours(indptr, indices, values, out):
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
    countable: bool,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Which anchors of a round are sampled again [N], and of which only ring k is counted again [N].

    All others keep the old sample. Unless changes are `countable`, no ring is only counted.
    """
    again = matching.old_of_new < 0
    known, place = ~again, matching.old_of_new[~again]
    recount = np.zeros(again.size, np.bool_)
    old_priority_of = priority_by_node(old_priorities)
    decided = np.concatenate([part.decided for part in old])
    last_beyond = _last_priorities([part.beyond for part in old], old_priority_of, config.beyond)
    come = priorities.priority[matching.old_of_new[priorities.order] < 0]
    gone = old_priorities.priority[matching.new_of_old[old_priorities.order] < 0]
    lowest = min([_NOTHING, *come[:1], *gone[:1]])  # of the nodes that are new or gone
    stale = (last_beyond >= lowest) & (lowest < _NOTHING)
    heads = [_head_priority(each, config) for each in (priorities, old_priorities)]
    head = max(priority for priority, _ in heads)
    if lowest <= head:
        stale |= decided <= head  # their bits are of other nodes, and the sketch counts their rings by these
    seen = np.full(decided.size, np.inf)  # the priority up to which nodes k hops away show in the old sample
    if config.engine == "sketch":
        if not all(more for _, more in heads):
            return np.ones(again.size, np.bool_), recount
        seen = np.maximum(decided, head)
        finished = np.concatenate([part.ring_size_exact for part in old])
        seen[finished | (last_beyond > seen)] = np.inf  # a search has finished what goes farther
    elif countable:  # all but the size of ring k, which is counted
        assert isinstance(config.per_ring, int)
        last_of_ring = _last_priorities([part.rings[-1] for part in old], old_priority_of, config.per_ring)
        seen = np.maximum(decided, np.maximum(last_of_ring, last_beyond))
        seen = np.where(decided <= head, np.maximum(seen, head), seen)
    rim = reach.rim[known]
    changed = rim < _NOTHING
    again[known] = reach.inside[known] | (changed & (rim <= seen[place])) | stale[place]
    if config.engine != "sketch":
        recount[known] = changed & ~again[known]
    return again, recount


def _head_priority(priorities: Priorities, config: RingsConfig) -> tuple[float, bool]:
    """The priority of the last node that has a bit, and whether there are nodes with higher ones.

    The samples of the exact engine hold these bits; the sketch counts rings by those of its whole head.
    """
    words = head_words if config.engine == "sketch" else near_words
    size = 64 * words(config.width, priorities.order.size)
    return float(priorities.priority[:size][-1]), size < priorities.order.size


def _last_priorities(parts: list[Lists], priority_of: npt.NDArray[np.float64], wanted: int) -> npt.NDArray[np.float64]:
    """The priority of the last node of each anchor's list; infinity where there are fewer than wanted."""
    columns = []
    for lists in parts:
        full = lists.lengths() >= wanted
        last = np.full(full.size, np.inf)
        last[full] = priority_of[lists.members[lists.offsets[1:][full] - 1]]
        columns.append(last)
    return np.concatenate(columns)


def priority_by_node(priorities: Priorities) -> npt.NDArray[np.float64]:
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


@kernel
def _spread_need(indptr, indices, depth, radius):
    for v in range(depth.size):
        if depth[v] > radius:
            for e in range(indptr[v], indptr[v + 1]):
                if depth[indices[e]] < radius:
                    depth[indices[e]] = radius
