"""The exact engine where balls are large: 64 anchors share one traversal, a bit each (Then et al., VLDB 2014)."""

from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.kernel import kernel
from gscl_scale.rings.kernels import BITS, lowest_bit, merge, reserve
from gscl_scale.rings.pilot import pilot_search
from gscl_scale.rings.sample import first_open_word

_PILOT, _PILOT_VISITS = 32, 1_000_000  # anchors, and edges that they look at
_PLANES = 40  # bits of the vertical counters
_BUCKETS = 256  # of ranks that are sorted together
_PULL = 4  # measured on ogbn-arxiv with a hub joined to all, and on random graphs of degree 50
_FEW = 16  # fewer than 1 / _FEW of all nodes are listed and sorted; more are found by a sweep over all


def pays(indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any], anchors: npt.NDArray[np.int64], hops: int) -> bool:
    """Whether sharing a traversal is less work than a search per anchor, judged by a pilot of some anchors."""
    if anchors.size < BITS:
        return False
    pilot = pilot_search(indptr, indices, anchors[:: max(1, anchors.size // _PILOT)][:_PILOT], hops, _PILOT_VISITS)
    return pilot.own_work() > pilot.shared_work()


@kernel
def search_words(  # type: ignore[no-untyped-def]
    indptr, indices, shortcuts, bits, anchors, order, rank, priority,
    hops, width, per_ring, num_beyond, ring_size, lengths, decided, near, first_near,
):  # fmt: skip
    """What `_search_all` of the exact engine returns and fills, for a fixed number of members per ring.

    Per node a bit for each of 64 anchors: `seen` so far, in the `last` ring, and in the ring that is being `reached`;
    `passed` where a hub of the shortcuts stands for the node's edges.
    """
    num_nodes = order.size
    seen, last, reached, passed = bits[0], bits[1], bits[2], bits[3]
    hubs, hub_bits = np.empty(shortcuts.offsets.size, order.dtype), np.empty(shortcuts.offsets.size, np.uint64)
    front, following = np.empty(num_nodes + 1, order.dtype), np.empty(num_nodes + 1, order.dtype)
    touched = np.empty(num_nodes + 1, order.dtype)
    ranks = np.empty((2, num_nodes // _FEW), order.dtype)
    kept = np.empty((hops, BITS, max(width, per_ring)), order.dtype)
    counts = np.zeros((hops + 1, BITS), np.int64)
    far = np.empty((BITS, num_beyond), order.dtype)
    low, merged = np.empty(width, order.dtype), np.empty(width, order.dtype)
    flat, used = np.empty(1024, order.dtype), 0
    for first in range(0, anchors.size, BITS):
        word = anchors[first : first + BITS]
        sizes = ring_size[first : first + BITS]
        num_front = num_touched = _begin(word, seen, last, front, touched)
        num_hubs = 0
        for hop in range(hops):
            num_next, num_touched, num_hubs = _hop(
                indptr, indices, shortcuts, seen, last, reached, passed, front, num_front, following,
                touched, num_touched, hubs, hub_bits, num_hubs, hop + 1 < hops, sizes[:, hop],
            )  # fmt: skip
            for b in range(word.size):
                counts[hop, b] = min(sizes[b, hop], max(width, per_ring))
            _lowest_of_ring(order, rank, reached, following, num_next, ranks, counts[hop], word.size, kept[hop])
            last, reached = reached, last
            front, following = following, front
            num_front = num_next
        for b in range(word.size):
            counts[hops, b] = min(num_beyond, num_nodes - 1 - sizes[b].sum())
        _walk_lowest(order, seen, ~np.uint64(0), counts[hops], word.size, far)
        _note_near(order[: 64 * near.shape[1]], seen, near[first : first + BITS])
        for i in range(num_front):
            last[front[i]] = 0
        for i in range(num_touched):
            seen[touched[i]] = passed[touched[i]] = 0
        for b in range(word.size):
            low[0] = rank[word[b]]
            num_low = 1
            for hop in range(hops):
                num_low = merge(low, num_low, kept[hop, b], counts[hop, b], merged)
                low, merged = merged, low
                stored = min(per_ring, counts[hop, b])
                while stored < counts[hop, b] and (num_low < width or kept[hop, b, stored] <= low[width - 1]):
                    stored += 1
                flat = reserve(flat, used + stored)
                for i in range(stored):
                    flat[used + i] = order[kept[hop, b, i]]
                used += stored
                lengths[first + b, hop] = stored
            flat = reserve(flat, used + counts[hops, b])
            for i in range(counts[hops, b]):
                flat[used + i] = order[far[b, i]]
            used += counts[hops, b]
            lengths[first + b, hops] = counts[hops, b]
            last_rank = np.int64(low[width - 1]) if num_low == width else -1
            decided[first + b] = priority[last_rank] if last_rank >= 0 else np.inf
            first_near[first + b] = first_open_word(last_rank, near.shape[1], num_nodes)
    return flat[:used]


@kernel
def _note_near(lowest, seen, near):  # type: ignore[no-untyped-def]
    """Set for each anchor the bits of those of the lowest nodes that were seen from it."""
    for r in range(lowest.size):
        bits = seen[lowest[r]]
        while bits:
            near[lowest_bit(bits), r >> 6] |= np.uint64(1) << np.uint64(r & 63)
            bits &= bits - np.uint64(1)


@kernel
def finish_words(  # type: ignore[no-untyped-def]
    indptr, indices, shortcuts, bits, anchors, short, order, rank, per_ring, num_beyond, undirected,
    ring_size, lengths, members, far,
):  # fmt: skip
    """The lowest of the lists marked in `short` [A, k + 1]: `per_ring` of each ring, and `num_beyond` beyond.

    ring_size [A, k]           filled up to the last ring of an anchor that is short
    lengths [A, k + 1]         filled where `short` is set, and so are
    members [A, k, per_ring]   those of the rings
    far [A, num_beyond]        those beyond
    """
    num_nodes, hops = order.size, short.shape[1] - 1
    seen, last, reached, passed = bits[0], bits[1], bits[2], bits[3]
    hubs, hub_bits = np.empty(shortcuts.offsets.size, order.dtype), np.empty(shortcuts.offsets.size, np.uint64)
    front, following = np.empty(num_nodes + 1, order.dtype), np.empty(num_nodes + 1, order.dtype)
    touched = np.empty(num_nodes + 1, order.dtype)
    ranks = np.empty((2, num_nodes // _FEW), order.dtype)
    kept = np.empty((BITS, max(per_ring, num_beyond)), order.dtype)
    counts, sizes, deepest = np.zeros(BITS, np.int64), np.zeros(BITS, np.int64), np.zeros(BITS, np.int64)
    left = np.zeros(BITS, np.int64)
    for first in range(0, anchors.size, BITS):
        word = anchors[first : first + BITS]
        depth, any_far = 0, False
        for b in range(word.size):
            deepest[b] = 0
            for hop in range(hops):
                if short[first + b, hop]:
                    deepest[b] = hop + 1
            any_far |= short[first + b, hops]
            depth = max(depth, deepest[b])
            left[b] = num_nodes - 1
        if any_far:
            depth = max(depth, hops - undirected)
        num_front = num_touched = _begin(word, seen, last, front, touched)
        num_hubs = hop = 0
        # The last hop of a search for those beyond is made only if the ring that it starts from has few edges. If it
        # has many, it is less work to ask each node that was not seen whether it has a neighbour that was.
        while hop < depth or (any_far and hop < hops and _few_edges(indptr, front, num_front, indices.size)):
            num_next, num_touched, num_hubs = _hop(
                indptr, indices, shortcuts, seen, last, reached, passed, front, num_front, following,
                touched, num_touched, hubs, hub_bits, num_hubs, hop + 1 < depth or any_far, sizes[: word.size],
            )  # fmt: skip
            for b in range(word.size):
                counts[b] = min(sizes[b], per_ring) if short[first + b, hop] else 0
                left[b] -= sizes[b]
                if hop < deepest[b]:
                    ring_size[first + b, hop] = sizes[b]
            _lowest_of_ring(order, rank, reached, following, num_next, ranks, counts, word.size, kept)
            for b in range(word.size):
                if short[first + b, hop]:
                    lengths[first + b, hop] = counts[b]
                    for i in range(counts[b]):
                        members[first + b, hop, i] = order[kept[b, i]]
            last, reached = reached, last
            front, following = following, front
            num_front = num_next
            hop += 1
        if any_far:
            for b in range(word.size):
                counts[b] = min(num_beyond, left[b]) if short[first + b, hops] else 0
            if hop == hops:
                _walk_lowest(order, seen, ~np.uint64(0), counts, word.size, kept)
            else:
                _walk_beyond(indptr, indices, order, seen, counts, word.size, kept)
            for b in range(word.size):
                if short[first + b, hops]:
                    lengths[first + b, hops] = counts[b]
                    for i in range(counts[b]):
                        far[first + b, i] = order[kept[b, i]]
        for i in range(num_front):
            last[front[i]] = 0
        for i in range(num_touched):
            seen[touched[i]] = passed[touched[i]] = 0


@kernel
def _few_edges(indptr, front, num_front, num_entries):  # type: ignore[no-untyped-def]
    """Whether the nodes of a ring have less than a share of all edges."""
    edges = 0
    for i in range(num_front):
        edges += indptr[front[i] + 1] - indptr[front[i]]
    return edges * _PULL < num_entries


@kernel
def _walk_beyond(indptr, indices, order, seen, counts, num_anchors, out):  # type: ignore[no-untyped-def]
    """For each anchor the `counts` lowest ranks, or fewer, of all nodes that were not seen from it nor have a neighbour
    that was; `counts` becomes how many there are. Undirected graphs only.
    """
    taken = np.zeros(BITS, np.int64)
    active = _active(counts, num_anchors)
    for r in range(order.size):
        if not active:
            break
        x = order[r]
        bits = ~seen[x] & active
        e, end = indptr[x], indptr[x + 1]
        while bits and e < end:
            bits &= ~seen[indices[e]]
            e += 1
        active = _take(r, bits, active, counts, taken, out)
    counts[:num_anchors] = taken[:num_anchors]


@kernel
def _hop(  # type: ignore[no-untyped-def]
    indptr, indices, shortcuts, seen, last, reached, passed, front, num_front, following,
    touched, num_touched, hubs, hub_bits, num_hubs, more, sizes,
):  # fmt: skip
    """One hop of all anchors, and whether `more` follow.

    Returns how many nodes may be in their new rings, how many were ever seen, and how many hubs were passed.
    """
    if num_front < seen.size // _FEW:
        num_next = _spread(indptr, indices, seen, last, reached, passed, front, num_front, following)
        num_next = _spread_second_rings(shortcuts, seen, reached, hubs, hub_bits, num_hubs, following, num_next)
        num_hubs = _pass_hubs(indptr, indices, shortcuts.row, last, passed, front, num_front, hubs, hub_bits, more)
    else:
        num_next = _spread_all(indptr, indices, last, reached, following)
        num_hubs = 0
    for i in range(num_front):
        last[front[i]] = 0
    return num_next, _settle(seen, reached, following, num_next, touched, num_touched, sizes), num_hubs


@kernel
def _lowest_of_ring(  # type: ignore[no-untyped-def]
    order, rank, reached, following, num_next, ranks, counts, num_anchors, out,
):  # fmt: skip
    """For each anchor the `counts` lowest ranks of its new ring: of few nodes sorted, or of all in order."""
    asking = _active(counts, num_anchors)
    if not asking:
        return
    if num_next >= ranks.shape[1]:
        _walk_lowest(order, reached, np.uint64(0), counts, num_anchors, out)
        return
    num = 0
    for i in range(num_next):
        ranks[0, num] = rank[following[i]]
        num += (reached[following[i]] & asking) != 0
    _take_lowest(order, ranks[0, :num], ranks[1, :num], reached, counts, num_anchors, out)


@kernel
def _begin(word, seen, last, front, touched):  # type: ignore[no-untyped-def]
    num_front = 0
    for b in range(word.size):
        v = word[b]
        front[num_front] = touched[num_front] = v
        num_front += seen[v] == 0
        seen[v] |= np.uint64(1) << np.uint64(b)
        last[v] = seen[v]
    return num_front


@kernel
def _spread(indptr, indices, seen, last, reached, passed, front, num_front, following):  # type: ignore[no-untyped-def]
    """Hand the bits of every node of the last ring on to its neighbours, and list those that got a new one."""
    end = 0
    for i in range(num_front):
        bits = last[front[i]] & ~passed[front[i]]
        if bits:
            for e in range(indptr[front[i]], indptr[front[i] + 1]):
                end = _reach(indices[e], bits, seen, reached, following, end)
    return end


@kernel(inline="always")
def _reach(u, bits, seen, reached, following, end):  # type: ignore[no-untyped-def]
    before = reached[u]
    after = before | (bits & ~seen[u])
    following[end] = u
    reached[u] = after
    return end + ((before == 0) & (after != 0))


@kernel
def _spread_second_rings(  # type: ignore[no-untyped-def]
    shortcuts, seen, reached, hubs, hub_bits, num_hubs, following, end,
):  # fmt: skip
    """Hand on the bits that the hubs of the last ring but one had, to where their neighbours lead."""
    for i in range(num_hubs):
        row = shortcuts.row[hubs[i]]
        for j in range(shortcuts.offsets[row], shortcuts.offsets[row + 1]):
            end = _reach(shortcuts.nodes[j], hub_bits[i], seen, reached, following, end)
    return end


@kernel
def _pass_hubs(  # type: ignore[no-untyped-def]
    indptr, indices, row, last, passed, front, num_front, hubs, hub_bits, more,
):  # fmt: skip
    """List the hubs of the last ring; what their neighbours lead to is near them or in their second rings.

    A mark on a node nearer than the next ring does no harm: the anchors whose bits it has walked its edges before.
    """
    num_hubs = 0
    for i in range(num_front if more else 0):
        v = front[i]
        if row[v] >= 0:
            hubs[num_hubs], hub_bits[num_hubs] = v, last[v]
            num_hubs += 1
            for e in range(indptr[v], indptr[v + 1]):
                passed[indices[e]] |= last[v]
    return num_hubs


@kernel
def _spread_all(indptr, indices, last, reached, following):  # type: ignore[no-untyped-def]
    """The same where the last ring is a good part of the graph: sweep it in order, and list every node."""
    for v in range(last.size):
        bits = last[v]
        if bits:
            for e in range(indptr[v], indptr[v + 1]):
                reached[indices[e]] |= bits
    for v in range(last.size):
        following[v] = v
    return last.size


@kernel
def _settle(seen, reached, following, num_next, touched, num_touched, sizes):  # type: ignore[no-untyped-def]
    """Keep the bits that are new, and count them per anchor: plane i holds bit i of all 64 counters."""
    planes = np.zeros(_PLANES, np.uint64)
    used = 0
    for i in range(num_next):
        u = following[i]
        known = seen[u]
        carry = reached[u] & ~known
        reached[u] = carry
        touched[num_touched] = u
        num_touched += (known == 0) & (carry != 0)
        seen[u] = known | carry
        plane = 0
        while carry:
            overflow = planes[plane] & carry
            planes[plane] ^= carry
            carry = overflow
            plane += 1
        used = max(used, plane)
    sizes[:] = 0
    for plane in range(used):
        for b in range(sizes.size):
            sizes[b] += np.int64((planes[plane] >> np.uint64(b)) & np.uint64(1)) << plane
    return num_touched


@kernel
def _take_lowest(order, ranks, sorted_ranks, bits_of, counts, num_anchors, out):  # type: ignore[no-untyped-def]
    """For each anchor the `counts` lowest of the `ranks` whose nodes have its bit; sorted only as far as is needed."""
    shift = 0
    while (order.size - 1) >> shift >= _BUCKETS:
        shift += 1
    ends = np.zeros(_BUCKETS + 1, np.int64)
    for r in ranks:
        ends[(r >> shift) + 1] += 1
    for bucket in range(_BUCKETS):
        ends[bucket + 1] += ends[bucket]
    for r in ranks:
        sorted_ranks[ends[r >> shift]] = r
        ends[r >> shift] += 1
    taken = np.zeros(BITS, np.int64)
    active = _active(counts, num_anchors)
    start = 0
    for bucket in range(_BUCKETS):
        some = sorted_ranks[start : ends[bucket]]
        some.sort()
        for r in some:
            active = _take(r, bits_of[order[r]] & active, active, counts, taken, out)
        if not active:
            break
        start = ends[bucket]


@kernel
def _walk_lowest(order, bits_of, flip, counts, num_anchors, out):  # type: ignore[no-untyped-def]
    """For each anchor the `counts` lowest ranks of all nodes with its bit (without it, where `flip` is all ones)."""
    taken = np.zeros(BITS, np.int64)
    active = _active(counts, num_anchors)
    r = 0
    while active:
        active = _take(r, (bits_of[order[r]] ^ flip) & active, active, counts, taken, out)
        r += 1


@kernel
def _active(counts, num_anchors):  # type: ignore[no-untyped-def]
    active = np.uint64(0)
    for b in range(num_anchors):
        if counts[b] > 0:
            active |= np.uint64(1) << np.uint64(b)
    return active


@kernel(inline="always")
def _take(r, bits, active, counts, taken, out):  # type: ignore[no-untyped-def]
    """Give rank r to every anchor whose bit is set; returns the anchors that want more."""
    while bits:
        lowest = bits & (~bits + np.uint64(1))
        b = lowest_bit(bits)
        out[b, taken[b]] = r
        taken[b] += 1
        if taken[b] == counts[b]:
            active &= ~lowest
        bits &= ~lowest
    return active
