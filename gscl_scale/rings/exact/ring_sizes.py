"""Ring sizes and label consistency of anchors, exact."""

from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.kernels.kernel import kernel, read_only
from gscl_scale.rings.exact import frontier


def ring_profile(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    anchors: npt.NDArray[np.int64],
    hops: int,
    labels: npt.NDArray[np.int64] | None = None,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Members of each ring [A, hops]: all, those with the anchor's label, those with any label.

    Both counts of labels are 0 where the anchor has none (-1).
    """
    sizes, same, labelled = (np.zeros((anchors.size, hops), np.int64) for _ in range(3))
    known = labels if labels is not None else np.full(indptr.size - 1, -1, np.int64)
    _profile(indptr, indices, read_only(anchors), read_only(known), sizes, same, labelled)
    return sizes, same, labelled


@kernel
def _profile(indptr, indices, anchors, labels, sizes, same, labelled):
    seen = np.zeros(indptr.size - 1, np.uint8)
    queue = np.empty(indptr.size, indices.dtype)
    for a in range(anchors.size):
        label = labels[anchors[a]]
        frontier.start(anchors[a], queue, seen)
        head, tail = np.int64(0), np.int64(1)
        for hop in range(sizes.shape[1]):
            first = tail
            tail = frontier.expand(indptr, indices, queue, head, first, hop + 2, seen)
            head = first
            sizes[a, hop] = tail - first
            if label >= 0:
                for i in range(first, tail):
                    same[a, hop] += labels[queue[i]] == label
                    labelled[a, hop] += labels[queue[i]] >= 0
        frontier.clear(queue, tail, seen)
