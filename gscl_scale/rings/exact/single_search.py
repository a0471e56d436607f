"""Short lists finished by a search for each anchor, which marks a bit of each node and keeps a queue of its ball."""

import numpy as np

from gscl_scale.kernels.kernel import kernel
from gscl_scale.rings.kernels import lowest_ranks, reserve


@kernel
def search_one_by_one(indptr, indices, anchors, those, short, order, rank, undirected, out):
    """Fill the lists of `those` anchors that are `short` [A, k + 1], as `search_short_lists` does.

    In an undirected graph the nodes beyond k hops are those that are not, and have no neighbour, within k - 1 hops. So
    the last hop of a search for them alone, which is most of it where balls are large, is never made.
    """
    hops = short.shape[1] - 1
    seen = np.zeros((order.size + 63) >> 6, np.uint64)
    queue = np.empty(1024, order.dtype)
    ranks = np.empty(2 * out.members.shape[2], order.dtype)
    for a in those:
        depth = hops - undirected if short[a, hops] else 0
        for hop in range(depth, hops):
            if short[a, hop]:
                depth = hop + 1
        queue[0] = anchors[a]
        _mark(seen, queue[0])
        head, tail = 0, 1
        for hop in range(depth):
            queue, end = _expand(indptr, indices, queue, head, tail, seen)
            head, tail = tail, end
            out.ring_size[a, hop] = tail - head
            if short[a, hop]:
                count = min(tail - head, out.members.shape[2])
                lowest_ranks(queue[head:tail], rank, count, ranks)
                out.lengths[a, hop] = count
                for i in range(count):
                    out.members[a, hop, i] = order[ranks[i]]
        if short[a, hops]:
            out.lengths[a, hops] = _lowest_beyond(indptr, indices, order, seen, depth < hops, out.far[a])
        for i in range(tail):
            seen[queue[i] >> 6] = 0


@kernel(inline="always")
def _mark(seen, node):
    seen[node >> 6] |= np.uint64(1) << np.uint64(node & 63)


@kernel(inline="always")
def _is_marked(seen, node):
    return (seen[node >> 6] >> np.uint64(node & 63)) & np.uint64(1) != 0


@kernel
def _expand(indptr, indices, queue, head, tail, seen):
    """Append the unseen neighbours of queue[head:tail] and mark them; returns (queue, the new tail)."""
    end = tail
    for i in range(head, tail):
        v = queue[i]
        queue = reserve(queue, end + indptr[v + 1] - indptr[v])
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if not _is_marked(seen, u):
                _mark(seen, u)
                queue[end] = u
                end += 1
    return queue, end


@kernel
def _lowest_beyond(indptr, indices, order, seen, ask, far):
    """The lowest nodes that were not seen, and where we `ask` have no neighbour that was; returns their number."""
    found = 0
    for x in order:
        if found == far.size:
            break
        near = _is_marked(seen, x)
        e, end = indptr[x], indptr[x + 1] if ask else indptr[x]
        while not near and e < end:
            near = _is_marked(seen, indices[e])
            e += 1
        if not near:
            far[found] = x
            found += 1
    return found
