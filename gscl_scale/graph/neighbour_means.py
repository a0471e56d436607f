"""Means of columns over the neighbours of each node."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.kernels.kernel import kernel
from gscl_scale.runtime.threads import map_in_order

Rows = npt.NDArray[np.float32]

_ROWS_AT_ONCE = 1 << 14


def neighbour_means(
    indptr: npt.NDArray[np.int64], indices: npt.NDArray[Any], weights: Rows | None, rows: Rows, threads: int
) -> Iterator[Rows]:
    """The means of the neighbours' rows [N, width], weighted where edges have weights, a part of the nodes at a time.

    A node without neighbours has zeros.
    """

    def of_part(low: int) -> Rows:
        part = indptr[low : low + _ROWS_AT_ONCE + 1]
        out = np.empty((part.size - 1, rows.shape[1]), np.float32)
        _means(part, indices, weights, rows, out)
        return out

    yield from map_in_order(of_part, range(0, indptr.size - 1, _ROWS_AT_ONCE), threads)


@kernel
def _means(indptr, indices, weights, rows, out):
    """Sums in double precision. Where weights are None, the kernel is compiled without them."""
    total = np.empty(out.shape[1], np.float64)
    for v in range(out.shape[0]):
        total[:] = 0.0
        share = 0.0
        for e in range(indptr[v], indptr[v + 1]):
            weight = 1.0
            if weights is not None:
                weight = np.float64(weights[e])
            share += weight
            row = rows[indices[e]]
            for column in range(total.size):
                total[column] += weight * row[column]
        for column in range(total.size):
            out[v, column] = total[column] / share if share > 0.0 else 0.0
