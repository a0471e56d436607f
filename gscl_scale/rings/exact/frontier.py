"""One hop of a breadth-first search, shared by the exact engine and the statistics."""

import numpy as np

from gscl_scale.kernels.kernel import kernel

ANCHOR = 1  # the mark of the anchor itself; ring n is marked n + 1, and 0 is unseen


@kernel
def start(anchor, queue, seen):
    """Put the anchor at the head of the queue."""
    queue[0] = anchor
    seen[anchor] = ANCHOR


@kernel
def expand(indptr, indices, queue, head, tail, mark, seen):
    """Append the unseen neighbours of queue[head:tail], mark them, and return the new tail.

    There is no branch to mispredict: every neighbour is written to the tail, which moves on for the unseen ones only
    (so `queue` has room for one more than all nodes). Twice as fast as a test on ogbn-arxiv at two hops.
    """
    end = tail
    for i in range(head, tail):
        for e in range(indptr[queue[i]], indptr[queue[i] + 1]):
            u = indices[e]
            known = seen[u]
            unseen = np.uint8(known == 0)
            queue[end] = u
            end += unseen
            seen[u] = known + np.uint8(mark) * unseen
    return end


@kernel
def clear(queue, tail, seen):
    """Forget the nodes of a search."""
    for i in range(tail):
        seen[queue[i]] = 0
