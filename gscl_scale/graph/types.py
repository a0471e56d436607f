"""What a graph is made of: sparse features, splits, ranges of its nodes and their sizes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

SPLIT_CODES = {"train": 1, "val": 2, "test": 3}


@dataclass(frozen=True)
class SparseFeatures:
    """Features as compressed sparse rows: `values[indptr[v]:indptr[v + 1]]` at columns `indices[...]`."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    width: int

    def take(self, nodes: npt.NDArray[np.int64]) -> "SparseFeatures":
        """The rows of some nodes; nothing else is read."""
        starts = self.indptr[nodes]
        offsets = np.concatenate([[0], np.cumsum(self.indptr[nodes + 1] - starts)])
        places = np.repeat(starts - offsets[:-1], np.diff(offsets)) + np.arange(offsets[-1])
        return SparseFeatures(offsets, self.indices[places], self.values[places], self.width)


@dataclass(frozen=True)
class Size:
    """What is known of a source before it is read; None is unknown.

    reading   bytes for each node that reading takes at its peak
    kept      bytes of it that stay in memory while the rows are built
    fixed     bytes in memory all the time, whatever the number of nodes
    chunks    bytes of the edges that are read or drawn at once
    waiting   bytes of each node's features that wait in a file before they are written
    """

    num_nodes: int | None = None
    num_edges: int | None = None
    num_features: int | None = None
    reading: int = 0
    kept: int = 0
    fixed: int = 0
    chunks: int = 0
    waiting: int = 0


def cut(indptr: npt.NDArray[Any], first: int, end: int, entries: int) -> Iterator[tuple[int, int]]:
    """Ranges from first to end with at most so many entries, or of one row.

    >>> list(cut(np.array([0, 2, 4, 20, 21]), 0, 4, 5))
    [(0, 2), (2, 3), (3, 4)]
    """
    while first < end:
        fitting = int(np.searchsorted(indptr, indptr[first] + entries, "right")) - 1
        until = min(end, max(first + 1, fitting))
        yield first, until
        first = until
