"""Short lists finished by a search for each anchor, which marks a bit of each node and keeps a queue of its ball."""

import numpy as np

from gscl_scale.kernels.kernel import kernel
from gscl_scale.rings.kernels import lowest_ranks, reserve


@kernel
def search_one_by_one(indptr, indices, anchors, those, short, order, rank, undirected, out):
    """Fill the lists of `those` anchors that are `short` [A, k + 1], as `search_short_lists` does.

    In an undirected graph the nodes beyond k hops are those from which k - d hops do not lead to a node within d hops.
    So a search for them alone ends before its last hops, which are most of it where balls are large; and the nodes that
    it asks instead, those of the lowest ranks and their neighbours, are the same for all anchors.
    """
    hops = short.shape[1] - 1
    words = (order.size + 63) >> 6
    seen, near, away = np.zeros(words, np.uint64), np.zeros(words, np.uint64), np.zeros(words, np.uint64)
    queue = np.empty(1024, order.dtype)
    ranks = np.empty(2 * out.members.shape[2], order.dtype)
    most_asked = min(2, max(1, hops - 1)) if undirected else 0
    for a in those:
        depth = hops - most_asked if short[a, hops] else 0
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
            out.lengths[a, hops] = _lowest_beyond(indptr, indices, order, seen, near, away, hops - depth, out.far[a])
            if hops - depth > 1:
                near[:] = 0
                away[:] = 0
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
def _lowest_beyond(indptr, indices, order, seen, near, away, ask, far):
    """The lowest nodes from which `ask` hops, at most 2, do not lead to one that was seen; returns their number."""
    found = 0
    for x in order:
        if found == far.size:
            break
        if not _is_near(indptr, indices, x, seen, near, away, ask):
            far[found] = x
            found += 1
    return found


@kernel
def _is_near(indptr, indices, x, seen, near, away, ask):
    """Whether `ask` hops lead from x to a node that was seen; notes which of its neighbours have one, or none."""
    if _is_marked(seen, x):
        return True
    if ask == 0:
        return False
    row = indices[indptr[x] : indptr[x + 1]]
    for u in row:
        if _is_marked(seen, u) or _is_marked(near, u):
            return True
    if ask == 1:
        return False
    for u in row:
        if _is_marked(away, u):
            continue
        for e in range(indptr[u], indptr[u + 1]):
            if _is_marked(seen, indices[e]):
                _mark(near, u)
                return True
        _mark(away, u)
    return False
