"""The exact engine where balls are large: the anchors of a word of 64 bits share one search."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gscl_scale.kernels.kernel import kernel
from gscl_scale.rings.exact.lowest import lowest_beyond, lowest_of_all, lowest_of_ring
from gscl_scale.rings.exact.shared_search import FRONT, advance, begin, clear
from gscl_scale.rings.kernels import BITS, append_ring, last_rank, lowest_bit, merge
from gscl_scale.rings.pilot import pilot_search
from gscl_scale.rings.sample import first_undecided_word

_PILOT, _PILOT_VISITS = 32, 1_000_000  # anchors, and edges that they look at
_PULL = 4  # measured on ogbn-arxiv with a hub joined to all, and on random graphs of degree 50
_ALL = ~np.uint64(0)


class CompletedLists(NamedTuple):
    """Lists of A anchors that `search_short_lists` fills where they are short.

    ring_size [A, k]           filled up to the last ring of an anchor that is short
    lengths [A, k + 1]         of each list
    members [A, k, per_ring]   of the rings
    far [A, beyond]            of the lists beyond
    """

    ring_size: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    members: npt.NDArray[Any]
    far: npt.NDArray[Any]


def is_sharing_cheaper(
    indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any], anchors: npt.NDArray[np.int64], hops: int
) -> bool:
    """Whether sharing a search is less work than a search per anchor, judged by a pilot of some anchors."""
    if anchors.size < BITS:
        return False
    pilot = pilot_search(indptr, indices, anchors[:: max(1, anchors.size // _PILOT)][:_PILOT], hops, _PILOT_VISITS)
    return pilot.own_work() > pilot.shared_work()


@kernel
def multi_source_rings(indptr, indices, search, anchors, drawn, wanted, out):
    """The members of all lists, anchor after anchor; `out` is filled. A fixed number per ring is wanted."""
    order, num_nodes, hops, width = drawn.order, drawn.order.size, wanted.hops, wanted.width
    per_ring = np.int64(wanted.value)
    lowest = np.empty((hops, BITS, max(width, per_ring)), order.dtype)
    counts = np.zeros((hops + 1, BITS), np.int64)
    far = np.empty((BITS, wanted.beyond), order.dtype)
    low, merged = np.empty(width, order.dtype), np.empty(width, order.dtype)
    flat, used = np.empty(1024, order.dtype), 0
    for first in range(0, anchors.size, BITS):
        word = anchors[first : first + BITS]
        sizes = out.ring_size[first : first + BITS]
        begin(search, word)
        for hop in range(hops):
            advance(indptr, indices, search, hop, hop + 1 < hops, sizes[:, hop])
            for b in range(word.size):
                counts[hop, b] = min(sizes[b, hop], max(width, per_ring))
            lowest_of_ring(order, drawn.rank, search, hop + 1, counts[hop, : word.size], lowest[hop])
        for b in range(word.size):
            counts[hops, b] = min(wanted.beyond, num_nodes - 1 - sizes[b].sum())
        lowest_of_all(order, search.seen, _ALL, counts[hops, : word.size], far)
        _note_near(order[: 64 * out.near.shape[1]], search.seen, out.near[first : first + BITS])
        clear(search, hops)
        # The searches have found the lowest `width` of every ring, and the lowest of a union are among the lowest of
        # its parts: merged ring after ring, they are the list L_n that decides how much of a ring is stored.
        for b in range(word.size):
            a = first + b
            low[0] = drawn.rank[word[b]]
            num_low = 1
            for hop in range(hops):
                ring = lowest[hop, b, : counts[hop, b]]
                num_low = merge(low, num_low, ring, ring.size, merged)
                low, merged = merged, low
                flat, used = append_ring(flat, used, order, ring, min(per_ring, ring.size), low, num_low)
                out.ends[a, hop] = used
            flat, used = append_ring(flat, used, order, far[b, : counts[hops, b]], counts[hops, b], low, num_low)
            out.ends[a, hops] = used
            last = last_rank(low, num_low)
            out.decided[a] = drawn.priority[last] if last >= 0 else np.inf
            out.first_near[a] = first_undecided_word(last, out.near.shape[1], num_nodes)
    return flat[:used]


@kernel
def _note_near(lowest, seen, near):
    """Set for each anchor the bits of the lowest nodes that were seen from it."""
    for r in range(lowest.size):
        bits = seen[lowest[r]]
        while bits:
            near[lowest_bit(bits), r >> 6] |= np.uint64(1) << np.uint64(r & 63)
            bits &= bits - np.uint64(1)


@kernel
def search_short_lists(indptr, indices, search, anchors, short, order, rank, undirected, out):
    """The lowest of the lists that are `short` [A, k + 1]: as many as a row of `out` has room for, or all."""
    num_nodes, hops = order.size, short.shape[1] - 1
    per_ring, num_beyond = out.members.shape[2], out.far.shape[1]
    lowest = np.empty((BITS, max(per_ring, num_beyond)), order.dtype)
    sizes, deepest, left = np.zeros(BITS, np.int64), np.zeros(BITS, np.int64), np.zeros(BITS, np.int64)
    all_counts = np.zeros(BITS, np.int64)
    for first in range(0, anchors.size, BITS):
        word, asked = anchors[first : first + BITS], short[first : first + BITS]
        counts = all_counts[: word.size]
        depth, any_far = 0, False
        for b in range(word.size):
            deepest[b] = 0
            for hop in range(hops):
                if asked[b, hop]:
                    deepest[b] = hop + 1
            any_far |= asked[b, hops]
            depth = max(depth, deepest[b])
            left[b] = num_nodes - 1
        if any_far:
            depth = max(depth, hops - undirected)
        begin(search, word)
        hop = 0
        # A node is beyond k hops of an undirected graph if it is not within k - 1 hops and has no neighbour there. So
        # the last hop of a search for those beyond is made only if the ring that it starts from has few edges. If it
        # has many, it is less work to ask each node that was not seen whether it has a neighbour that was.
        while hop < depth or (any_far and hop < hops and _few_edges(indptr, search, hop, indices.size)):
            advance(indptr, indices, search, hop, hop + 1 < depth or any_far, sizes[: word.size])
            for b in range(word.size):
                counts[b] = min(sizes[b], per_ring) if asked[b, hop] else 0
                left[b] -= sizes[b]
                if hop < deepest[b]:
                    out.ring_size[first + b, hop] = sizes[b]
            lowest_of_ring(order, rank, search, hop + 1, counts, lowest)
            _store(first, hop, asked, counts, order, lowest, out.members[:, hop], out.lengths)
            hop += 1
        if any_far:
            for b in range(word.size):
                counts[b] = min(num_beyond, left[b]) if asked[b, hops] else 0
            if hop == hops:
                lowest_of_all(order, search.seen, _ALL, counts, lowest)
            else:
                lowest_beyond(indptr, indices, order, search.seen, counts, lowest)
            _store(first, hops, asked, counts, order, lowest, out.far, out.lengths)
        clear(search, hop)


@kernel
def _store(first, level, asked, counts, order, lowest, members, lengths):
    """Write the lists of a level, as nodes, for the anchors of a word that asked for them."""
    for b in range(counts.size):
        if asked[b, level]:
            lengths[first + b, level] = counts[b]
            for i in range(counts[b]):
                members[first + b, i] = order[lowest[b, i]]


@kernel
def _few_edges(indptr, search, hop, num_entries):
    """Whether the nodes of the last ring have less than a share of all edges."""
    edges = 0
    for v in search.front[hop & 1, : search.num[FRONT]]:
        edges += indptr[v + 1] - indptr[v]
    return edges * _PULL < num_entries
