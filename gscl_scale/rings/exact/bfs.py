"""Engine `exact`: a breadth-first search from every anchor, then the lowest of each ring."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.config.sections import RingsConfig
from gscl_scale.kernels.kernel import kernel, read_only
from gscl_scale.rings.exact import frontier, multi_source
from gscl_scale.rings.exact.shared_search import shared_search
from gscl_scale.rings.kernels import (
    PriorityArrays,
    SampleColumns,
    SampleSettings,
    append_ring,
    last_rank,
    lowest_ranks,
    merge,
    reserve,
)
from gscl_scale.rings.priorities import Priorities, round_key
from gscl_scale.rings.sample import (
    Lists,
    RingSample,
    copy_lists,
    first_undecided_word,
    near_lists,
    offsets_of,
    parse_per_ring,
    target_size,
)
from gscl_scale.rings.sketch.level import near_words


def exact_rings(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    anchors: npt.NDArray[np.int64],
    priorities: Priorities,
    rank: npt.NDArray[Any],
    config: RingsConfig,
) -> RingSample:
    """Ring samples of `anchors` under the shared priorities of a round; 64 anchors at once where that is less work.

    `rank` is `priorities.rank()`, which many calls of a round share.
    """
    drawn, wanted = PriorityArrays(*map(read_only, (priorities.order, rank, priorities.priority))), _wanted(config)
    out = _empty(anchors.size, config.hops, near_words(config.width, rank.size))
    if isinstance(config.per_ring, int) and multi_source.is_sharing_cheaper(indptr, indices, anchors, config.hops):
        with shared_search(indptr, indices, anchors, config.hops, rank.dtype) as search:
            members = multi_source.multi_source_rings(indptr, indices, search, anchors, drawn, wanted, out)
    else:
        buffers = _buffers(rank.size, config.width, rank.dtype)
        members = _search_all(indptr, indices, anchors, drawn, wanted, out, buffers)
    return _collect(anchors, members, out)


def independent_rings(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    anchors: npt.NDArray[np.int64],
    identities: npt.NDArray[np.uint64],
    weights: npt.NDArray[np.float64] | None,
    round_number: int,
    config: RingsConfig,
) -> RingSample:
    """Ring samples where every anchor draws priorities of its own: N draws and a sort per anchor, for comparisons."""
    out = _empty(anchors.size, config.hops, 0)
    weight_of = np.ones(identities.size) if weights is None else weights
    size, dtype = identities.size, indices.dtype
    room = PriorityArrays(np.empty(size, dtype), np.empty(size, dtype), np.empty(size))
    drawn = PriorityArrays(*map(read_only, room))
    members = _search_independent(
        indptr, indices, anchors, identities, weight_of, round_key(config.seed, round_number), room, drawn,
        _wanted(config), out, _buffers(size, config.width, dtype),
    )  # fmt: skip
    return _collect(anchors, members, out)


class _Buffers(NamedTuple):
    """Room for a search: marks and queue of the nodes, two lists L_n, and the ranks of a ring, twice."""

    seen: npt.NDArray[np.uint8]
    queue: npt.NDArray[Any]
    low: npt.NDArray[Any]
    merged: npt.NDArray[Any]
    ranks: npt.NDArray[Any]


def _buffers(num_nodes: int, width: int, dtype: npt.DTypeLike) -> _Buffers:
    sizes = (num_nodes + 1, width, width, 2 * max(num_nodes, width))
    return _Buffers(np.zeros(num_nodes, np.uint8), *(np.empty(size, dtype) for size in sizes))


def _wanted(config: RingsConfig) -> SampleSettings:
    return SampleSettings(config.hops, config.width, *parse_per_ring(config.per_ring), config.beyond)


def _empty(num_anchors: int, hops: int, words: int) -> SampleColumns:
    return SampleColumns(
        np.empty((num_anchors, hops), np.int64),
        np.empty((num_anchors, hops + 1), np.int64),
        np.empty(num_anchors, np.float64),
        np.zeros((num_anchors, words), np.uint64),
        np.zeros(num_anchors, np.int64),
    )


def _collect(anchors: npt.NDArray[np.int64], members: npt.NDArray[Any], out: SampleColumns) -> RingSample:
    """Turn the members, anchor after anchor and ring after ring, into one column per ring."""
    starts = np.concatenate([[0], out.ends.reshape(-1)])[:-1].reshape(out.ends.shape)
    columns = []
    for level in range(out.ends.shape[1]):
        offsets = offsets_of(out.ends[:, level] - starts[:, level])
        column = np.empty(offsets[-1], members.dtype)
        copy_lists(members, starts[:, level], np.arange(anchors.size), offsets, column)
        columns.append(Lists(offsets, column))
    exact, near = np.ones(anchors.size, np.bool_), near_lists(out.near, out.first_near)
    return RingSample(anchors, columns[:-1], columns[-1], out.decided, out.ring_size, exact, near)


@kernel
def _search_all(indptr, indices, anchors, drawn, wanted, out, buffers):
    flat, used = np.empty(1024, drawn.order.dtype), np.int64(0)
    for a in range(anchors.size):
        flat, used = _search(indptr, indices, anchors[a], a, drawn, wanted, out, buffers, flat, used)
    return flat[:used]


@kernel
def _search_independent(indptr, indices, anchors, identities, weights, key, room, drawn, wanted, out, buffers):
    """The same; `room` is written with the priorities of an anchor, and `drawn` reads them from there."""
    num_nodes = identities.size
    by_node = np.empty(num_nodes, np.float64)
    flat, used = np.empty(1024, drawn.order.dtype), np.int64(0)
    for a in range(anchors.size):
        own = seeding.mix(key ^ seeding.mix(identities[anchors[a]] + np.uint64(1)))
        for u in range(num_nodes):
            by_node[u] = seeding.exponential(own, identities[u]) / weights[u]
        room.order[:] = np.argsort(by_node, kind="mergesort")
        for i in range(num_nodes):
            room.rank[room.order[i]] = i
            room.priority[i] = by_node[room.order[i]]
        flat, used = _search(indptr, indices, anchors[a], a, drawn, wanted, out, buffers, flat, used)
    return flat[:used]


@kernel
def _search(indptr, indices, anchor, a, drawn, wanted, out, buffers, flat, used):
    """Append the lists of one anchor to `flat` and fill its row `a` of `out`; returns (flat, used)."""
    order, rank, seen, queue, ranks = drawn.order, drawn.rank, buffers.seen, buffers.queue, buffers.ranks
    low, merged = buffers.low, buffers.merged  # low is L_n: the `width` lowest ranks of the ball so far, ascending
    frontier.start(anchor, queue, seen)
    low[0] = rank[anchor]
    num_low, head, tail = np.int64(1), np.int64(0), np.int64(1)
    for hop in range(wanted.hops):
        first = tail
        tail = frontier.expand(indptr, indices, queue, head, first, hop + 2, seen)
        head = first
        size = tail - first
        out.ring_size[a, hop] = size
        asked = target_size(wanted.kind, wanted.value, size)
        count = max(asked, min(size, wanted.width))
        # A walk in priority order meets a member every N / size nodes, and has to find `count` of them: where that is
        # fewer steps than the ring has members, it is less work than to look at all of these.
        if count * rank.size < size * size:
            _walk(seen, order, hop + 2, count, ranks)
        else:
            lowest_ranks(queue[first:tail], rank, count, ranks)
        num_low = merge(low, num_low, ranks, count, merged)
        low, merged = merged, low
        flat, used = append_ring(flat, used, order, ranks[:count], asked, low, num_low)
        out.ends[a, hop] = used
    count = min(wanted.beyond, rank.size - tail)
    flat = reserve(flat, used + count)
    out.ends[a, wanted.hops] = used + count
    position = 0
    while count > 0:
        if seen[order[position]] == 0:
            flat[used] = order[position]
            used += 1
            count -= 1
        position += 1
    last = last_rank(low, num_low)
    out.decided[a] = drawn.priority[last] if last >= 0 else np.inf
    near, first_word = out.near[a], first_undecided_word(last, out.near.shape[1], rank.size)
    out.first_near[a] = first_word
    for r in range(64 * first_word, min(64 * near.size, rank.size)):
        if seen[order[r]]:
            near[r >> 6] |= np.uint64(1) << np.uint64(r & 63)
    frontier.clear(queue, tail, seen)
    return flat, used


@kernel
def _walk(seen, order, mark, count, ranks):
    """The `count` lowest ranks of a large ring: walk the nodes in priority order until enough have passed."""
    filled = position = 0
    while filled < count:
        if seen[order[position]] == mark:
            ranks[filled] = position
            filled += 1
        position += 1
