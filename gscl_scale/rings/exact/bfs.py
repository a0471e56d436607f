"""Engine `exact`: a breadth-first search from every anchor, then the lowest of each ring."""

from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.config.sections import RingsConfig
from gscl_scale.kernel import kernel
from gscl_scale.rings.exact import frontier, multi_source
from gscl_scale.rings.exact.hubs import shortcuts
from gscl_scale.rings.exact.workspace import marks
from gscl_scale.rings.kernels import BITS, merge, reserve
from gscl_scale.rings.priorities import Priorities, round_key
from gscl_scale.rings.sample import Lists, RingSample, first_open_word, near_lists, parse_per_ring, wanted_of
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
    ring_size, lengths, decided = _outputs(anchors.size, config.hops)
    near = np.zeros((anchors.size, near_words(config.width, rank.size)), np.uint64)
    first = np.zeros(anchors.size, np.int64)
    drawn = (anchors, priorities.order, rank, priorities.priority)
    out = (config.beyond, ring_size, lengths, decided, near, first)
    if isinstance(config.per_ring, int) and multi_source.pays(indptr, indices, anchors, config.hops):
        with marks(rank.size) as mine, shortcuts(indptr, indices, anchors, config.hops, BITS, mine) as known:
            where = (indptr, indices, known, mine.bits)
            flat = multi_source.search_words(*where, *drawn, config.hops, config.width, config.per_ring, *out)
    else:
        flat = _search_all(indptr, indices, *drawn, config.hops, config.width, *parse_per_ring(config.per_ring), *out)
    return _collect(anchors, flat, lengths, decided, ring_size, config.hops, near_lists(near, first))


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
    ring_size, lengths, decided = _outputs(anchors.size, config.hops)
    flat = _search_independent(
        indptr, indices, anchors, identities, np.ones(identities.size) if weights is None else weights,
        round_key(config.seed, round_number),
        config.hops, config.width, *parse_per_ring(config.per_ring), config.beyond, ring_size, lengths, decided,
    )  # fmt: skip
    nothing = near_lists(np.zeros((anchors.size, 0), np.uint64), np.zeros(anchors.size, np.int64))
    return _collect(anchors, flat, lengths, decided, ring_size, config.hops, nothing)


def _outputs(num_anchors: int, hops: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
    return (
        np.empty((num_anchors, hops), np.int64),
        np.empty((num_anchors, hops + 1), np.int64),
        np.empty(num_anchors, np.float64),
    )


def _collect(
    anchors: npt.NDArray[np.int64],
    flat: npt.NDArray[Any],
    lengths: npt.NDArray[np.int64],
    decided: npt.NDArray[np.float64],
    ring_size: npt.NDArray[np.int64],
    hops: int,
    near: Lists,
) -> RingSample:
    """Turn the members, anchor after anchor and ring after ring, into one column per ring."""
    starts = np.concatenate([[0], np.cumsum(lengths.reshape(-1))])[:-1].reshape(lengths.shape)
    columns = []
    for level in range(hops + 1):
        offsets = np.concatenate([[0], np.cumsum(lengths[:, level])]).astype(np.int64)
        members = np.empty(offsets[-1], flat.dtype)
        _gather(flat, np.ascontiguousarray(starts[:, level]), offsets, members)
        columns.append(Lists(offsets, members))
    return RingSample(anchors, columns[:-1], columns[-1], decided, ring_size, np.ones(anchors.size, np.bool_), near)


@kernel
def _gather(flat, starts, offsets, members):  # type: ignore[no-untyped-def]
    for a in range(starts.size):
        for i in range(offsets[a + 1] - offsets[a]):
            members[offsets[a] + i] = flat[starts[a] + i]


@kernel
def _search_all(  # type: ignore[no-untyped-def]
    indptr, indices, anchors, order, rank, priority,
    hops, width, kind, value, num_beyond, ring_size, lengths, decided, near, first_near,
):  # fmt: skip
    seen = np.zeros(rank.size, np.uint8)
    queue = np.empty(rank.size + 1, rank.dtype)
    low, merged = np.empty(width, rank.dtype), np.empty(width, rank.dtype)
    kept = np.empty(2 * width, rank.dtype)
    flat, used = np.empty(1024, rank.dtype), 0
    for a in range(anchors.size):
        flat, kept, used, last = _search(
            indptr, indices, anchors[a], order, rank,
            hops, width, kind, value, num_beyond, ring_size[a], lengths[a], near[a],
            seen, queue, low, merged, kept, flat, used,
        )  # fmt: skip
        decided[a] = priority[last] if last >= 0 else np.inf
        first_near[a] = first_open_word(last, near.shape[1], rank.size)
    return flat[:used]


@kernel
def _search_independent(  # type: ignore[no-untyped-def]
    indptr, indices, anchors, identities, weights, key,
    hops, width, kind, value, num_beyond, ring_size, lengths, decided,
):  # fmt: skip
    num_nodes = identities.size
    seen = np.zeros(num_nodes, np.uint8)
    queue = np.empty(num_nodes + 1, indices.dtype)
    low, merged = np.empty(width, indices.dtype), np.empty(width, indices.dtype)
    kept = np.empty(2 * width, indices.dtype)
    flat, used = np.empty(1024, indices.dtype), 0
    priority, nothing = np.empty(num_nodes, np.float64), np.empty(0, np.uint64)
    rank, order = np.empty(num_nodes, indices.dtype), np.empty(num_nodes, indices.dtype)
    for a in range(anchors.size):
        own = seeding.mix(key ^ seeding.mix(identities[anchors[a]] + np.uint64(1)))
        for u in range(num_nodes):
            priority[u] = seeding.exponential(own, identities[u]) / weights[u]
        order[:] = np.argsort(priority, kind="mergesort")
        for i in range(num_nodes):
            rank[order[i]] = i
        flat, kept, used, last = _search(
            indptr, indices, anchors[a], order, rank,
            hops, width, kind, value, num_beyond, ring_size[a], lengths[a], nothing,
            seen, queue, low, merged, kept, flat, used,
        )  # fmt: skip
        decided[a] = priority[order[last]] if last >= 0 else np.inf
    return flat[:used]


@kernel
def _search(  # type: ignore[no-untyped-def]
    indptr, indices, anchor, order, rank,
    hops, width, kind, value, num_beyond, ring_size, lengths, near,
    seen, queue, low, merged, kept, flat, used,
):  # fmt: skip
    """Rings and beyond of one anchor, appended to `flat` as nodes; also the rank of the last of a full L_k, else -1.

    `seen` holds the marks of the search and is cleared again; `low` holds L_n, the `width` lowest ranks of the ball so
    far, ascending. The bits of `near` are set where L_k does not decide about all of these nodes.
    """
    frontier.start(anchor, queue, seen)
    low[0] = rank[anchor]
    num_low, head, tail = 1, 0, 1
    for hop in range(hops):
        first = tail
        tail = frontier.expand(indptr, indices, queue, head, first, hop + 2, seen)
        head = first
        size = tail - first
        ring_size[hop] = size
        asked = wanted_of(kind, value, size)
        count = max(asked, min(size, width))
        if kept.size < 2 * count:
            kept = np.empty(4 * count, kept.dtype)
        if count * rank.size < size * size:
            _walk(seen, order, hop + 2, count, kept)
        else:
            _select(queue[first:tail], rank, count, kept)
        num_low = merge(low, num_low, kept, count, merged)
        low, merged = merged, low
        stored = asked
        while stored < count and (num_low < width or kept[stored] <= low[width - 1]):
            stored += 1
        flat = reserve(flat, used + stored)
        for i in range(stored):
            flat[used + i] = order[kept[i]]
        used += stored
        lengths[hop] = stored
    count = min(num_beyond, rank.size - tail)
    flat = reserve(flat, used + count)
    lengths[hops] = count
    position = 0
    while count > 0:
        if seen[order[position]] == 0:
            flat[used] = order[position]
            used += 1
            count -= 1
        position += 1
    last = np.int64(low[width - 1]) if num_low == width else -1
    for r in range(64 * first_open_word(last, near.size, rank.size), min(64 * near.size, rank.size)):
        if seen[order[r]]:
            near[r >> 6] |= np.uint64(1) << np.uint64(r & 63)
    frontier.clear(queue, tail, seen)
    return flat, kept, used, last


@kernel
def _walk(seen, order, mark, count, kept):  # type: ignore[no-untyped-def]
    """The `count` lowest ranks of a large ring: walk the nodes in priority order until enough have passed."""
    filled = position = 0
    while filled < count:
        if seen[order[position]] == mark:
            kept[filled] = position
            filled += 1
        position += 1


@kernel
def _select(ring, rank, count, kept):  # type: ignore[no-untyped-def]
    """The `count` lowest ranks of a small ring: keep those below a bound that sinks as better ones are found."""
    filled, bound = 0, rank.size
    for i in range(ring.size):
        r = rank[ring[i]]
        if r < bound:
            kept[filled] = r
            filled += 1
            if filled == 2 * count:
                kept[:filled].sort()
                filled = count
                bound = kept[count - 1]
    kept[:filled].sort()
