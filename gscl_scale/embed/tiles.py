"""Gathering in bounded memory: rows are read in tiles, each once and in order for a group of nodes.

A node's neighbours ascend in the graph. So its sum grows from tile to tile in the order in which `kernels.gather` adds
up, and has the same bytes. Shapes: n nodes of a group, d columns.
"""

import functools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gscl_scale.embed.spread import RowSource
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.kernels.kernel import kernel
from gscl_scale.model.kernels import AHEAD, LINE, RUN
from gscl_scale.rings.kernels import prefetch
from gscl_scale.runtime.threads import one_ahead

Rows = npt.NDArray[np.float32]
Ranges = Iterable[tuple[int, int]]
InPieces = Callable[[Callable[[int, int], None], Ranges], None]


class TiledGather:
    """Sums of neighbours' rows, which are mapped from a file, for one group of nodes at a time."""

    def __init__(self, adjacency: NormalisedAdjacency, rows: RowSource, tile: int, device: torch.device) -> None:
        self._adjacency, self._rows, self._tile, self._device = adjacency, rows, tile, device
        self._first, self._sums = 0, np.empty((0, rows.shape[1]), np.float32)

    def read(self, first: int, end: int, ranges: list[tuple[int, int]], in_pieces: InPieces) -> None:
        """Sum up for the group first..end; `in_pieces` does work over its ranges."""
        self._first, self._sums = first, self._sums[:0]  # the sums before are freed first
        self._sums = np.zeros((end - first, self._rows.shape[1]), np.float32)
        runs, place = np.zeros_like(self._sums), np.array(self._adjacency.indptr[first:end])
        if self._adjacency.loops:
            in_pieces(self._add_own, ranges)
        for low, tile in one_ahead(self._tiles()):
            in_pieces(functools.partial(self._add, tile, low, runs, place), ranges)
        in_pieces(functools.partial(self._finish, runs), ranges)

    def __call__(self, first: int, end: int) -> Tensor:
        """The rows first..end of the group that was read."""
        return torch.from_numpy(self._sums[first - self._first : end - self._first]).to(self._device)

    def _tiles(self) -> Iterator[tuple[int, Rows]]:
        for low in range(0, len(self._rows), self._tile):
            yield low, np.array(self._rows[low : low + self._tile])

    def _add_own(self, low: int, high: int) -> None:
        own = self._rows[low:high] * self._adjacency.column_scale[low:high, None]
        self._sums[low - self._first : high - self._first] += own

    def _add(self, tile: Rows, at: int, runs: Rows, place: npt.NDArray[np.int64], low: int, high: int) -> None:
        a = self._adjacency
        _gather_tile(
            a.indptr, a.indices, a.weights, a.column_scale, tile, at, self._first, self._sums, runs, place, low, high
        )

    def _finish(self, runs: Rows, low: int, high: int) -> None:
        some = slice(low - self._first, high - self._first)
        self._sums[some] += runs[some]
        self._sums[some] *= self._adjacency.row_scale[low:high, None]


@kernel
def _gather_tile(indptr, indices, weights, column_scale, tile, at, first, sums, runs, place, begin, end):
    """Add the neighbours in a tile, whose first row is that of node `at`, to the nodes begin..end.

    place [n]    the entry of each node that comes next
    runs [n, d]  the run of entries that is being summed, as in `kernels.gather`
    """
    high, width = at + tile.shape[0], tile.shape[1] * tile.itemsize
    for v in range(begin, end):
        e, last = place[v - first], indptr[v + 1]
        row, run = sums[v - first], runs[v - first]
        while e < last and indices[e] < high:
            if e + AHEAD < last and indices[e + AHEAD] < high:
                for byte in range(0, width, LINE):
                    prefetch(tile, indices[e + AHEAD] - at, byte)
            if e > indptr[v] and (e - indptr[v]) % RUN == 0:
                for c in range(run.size):
                    row[c] += run[c]
                run[:] = 0
            source, scale = tile[indices[e] - at], column_scale[indices[e]]
            if weights is not None:
                scale *= weights[e]
            for c in range(run.size):
                run[c] += scale * source[c]
            e += 1
        place[v - first] = e
