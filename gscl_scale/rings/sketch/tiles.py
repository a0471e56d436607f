"""A level of the sketch in bounded memory: the level before is read in tiles, each once and in order.

A ball is a union, and the lowest of a union can be gathered in any order. So a group of vertices takes from each tile,
which is a range of the vertices of the level before, what its neighbours there know. Neighbours ascend in the graph:
each vertex goes through its own once. The rows are those of `join.next_level`, bit for bit.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gscl_scale.kernels.kernel import kernel, read_only
from gscl_scale.rings.exact.twins import same_neighbours
from gscl_scale.rings.kernels import ones, prefetch
from gscl_scale.rings.sketch.join import head_at, merge_once, tail_at
from gscl_scale.rings.sketch.level import Level

_AHEAD = 6  # vertices, of which each has a few neighbours in a tile
_FEW = 16  # neighbours of a vertex that are fetched ahead
_SLICE = 1 << 15  # vertices that a thread takes at a time


class Gathered(NamedTuple):
    """What V vertices have gathered so far.

    heads [V, M / 64]   bits of the nodes of the head
    tails [V, S]        ranks from M on, ascending; `number` [V] of them are there
    place [V]           the edge that comes next
    """

    heads: npt.NDArray[np.uint64]
    tails: npt.NDArray[Any]
    number: npt.NDArray[np.int64]
    place: npt.NDArray[np.int64]

    @classmethod
    def bytes_of(cls, width: int, words: int, item: int) -> int:
        """Bytes of a vertex."""
        return 8 * words + item * width + 16

    def rows(self, low: int, high: int) -> "Gathered":
        """What the vertices low..high of these have gathered."""
        return Gathered(self.heads[low:high], self.tails[low:high], self.number[low:high], self.place[low:high])


def gather_level(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    rank: npt.NDArray[Any],
    tiles: Iterable[tuple[int, Level]],
    first: int,
    end: int,
    width: int,
    words: int,
    threads: int,
) -> Gathered:
    """The balls of the next radius, 2 or more, of the vertices first..end.

    tiles     first vertex and rows of each range of vertices of the level before, in order
    threads   that gather from a tile at once, each for some of the vertices
    """
    own = read_only(rank[first:end])
    gathered = Gathered(
        np.zeros((end - first, words), np.uint64),
        np.empty((end - first, width), rank.dtype),
        np.zeros(end - first, np.int64),
        indptr[first:end].copy(),
    )
    _begin(own, gathered)
    slices = [(low, gathered.rows(low - first, low - first + _SLICE)) for low in range(first, end, _SLICE)]
    with ThreadPoolExecutor(threads) as pool:
        for low, tile in tiles:
            high, level = low + tile.table.shape[0], tile.to_read()
            running = [pool.submit(_gather, indptr, indices, level, low, high, begin, rows) for begin, rows in slices]
            for future in running:
                future.result()
    return gathered


def level_of(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    gathered: Gathered,
    begin: int,
    first: int,
    end: int,
    undirected: bool,
) -> Level:
    """The rows first..end, a block, of what the vertices from `begin` on have gathered."""
    rows = gathered.rows(first - begin, end - begin)
    level = Level.empty(end - first, rows.tails.shape[1], rows.heads.shape[1], rows.tails.dtype)
    _write(indptr, indices, first, undirected, rows, level)
    return level


# --- kernels: r is a rank, M = 64 * words the number of nodes in the head ---------------------------------------------


@kernel
def _begin(own, out):
    """Each vertex alone."""
    size = 64 * out.heads.shape[1]
    for i in range(own.size):
        r = np.int64(own[i])
        if r < size:
            out.heads[i, r >> 6] = np.uint64(1) << np.uint64(r & 63)
        else:
            out.tails[i, 0] = r
            out.number[i] = 1


@kernel
def _gather(indptr, indices, tile, low, high, first, out):
    """Take what the neighbours low..high know: their heads, then as many of their tails as these leave room for."""
    table, heads, tails, width, words = tile.table, tile.heads, tile.tails, tile.width, tile.heads.shape[1]
    shift = tile.shift
    one, other = np.empty(width, tails.dtype), np.empty(width, tails.dtype)
    for i in range(out.place.size):
        _fetch_ahead(indptr, indices, tile, low, high, first, i, out.place)
        start, end = out.place[i], indptr[first + i + 1]
        e = start
        while e < end and indices[e] < high:
            u = np.int64(indices[e]) - low
            if table[u, 0] > 0:
                row = head_at(u, table, shift)
                for w in range(words):
                    out.heads[i, w] |= heads[row, w]
            e += 1
        if e == start:
            continue
        out.place[i] = e
        num_head = 0
        for w in range(words):
            num_head += ones(out.heads[i, w])
        room = max(width - num_head, 0)
        before = num = min(out.number[i], room)
        for n in range(num):
            one[n] = out.tails[i, n]
        changed = False
        for f in range(start, e):
            u = np.int64(indices[f]) - low
            available = min(np.int64(table[u, 1]), room)
            if available > 0 and (num < room or table[u, 2] < one[num - 1]):
                begin = tail_at(u, table, shift, width)
                num = merge_once(one, num, tails[begin : begin + available], available, other, room)
                one, other = other, one
                changed = True
        out.number[i] = num
        if changed or num != before:
            for n in range(num):
                out.tails[i, n] = one[n]


@kernel(inline="always")
def _fetch_ahead(indptr, indices, tile, low, high, first, i, place):
    """Ask for what later vertices read: rows of the table two steps ahead, the heads and tails that they name one."""
    far, soon = i + 2 * _AHEAD, i + _AHEAD
    if far < place.size:
        e, end = place[far], min(indptr[first + far + 1], place[far] + _FEW)
        while e < end and indices[e] < high:
            prefetch(tile.table, indices[e] - low, 0)
            e += 1
    if soon < place.size:
        e, end = place[soon], min(indptr[first + soon + 1], place[soon] + _FEW)
        while e < end and indices[e] < high:
            u = np.int64(indices[e]) - low
            prefetch(tile.heads, head_at(u, tile.table, tile.shift), 0)
            start = tail_at(u, tile.table, tile.shift, tile.width)
            prefetch(tile.tails, start, 0)
            prefetch(tile.tails, start, 64)
            e += 1


@kernel
def _write(indptr, indices, first, undirected, rows, out):
    """The rows of a block, in the places that `_join` gives them."""
    width = rows.tails.shape[1]
    num_heads = num_tails = 0
    for i in range(rows.number.size):
        out.table[i, 4], out.table[i, 5] = num_heads, num_tails
        v, degree = first + i, indptr[first + i + 1] - indptr[first + i]
        if undirected and i > 0 and degree > 0 and same_neighbours(indptr, indices, v - 1, v):
            out.table[i] = out.table[i - 1]
            continue
        num_head = 0
        for w in range(rows.heads.shape[1]):
            num_head += ones(rows.heads[i, w])
        if num_head > 0:
            out.heads[num_heads] = rows.heads[i]
            num_heads += 1
        num = min(rows.number[i], max(width - num_head, 0))
        if num > 0:
            out.tails[num_tails : num_tails + num] = rows.tails[i, :num]
            out.table[i, 2], out.table[i, 3] = rows.tails[i, 0], rows.tails[i, num - 1]
            num_tails += num
        out.table[i, 0], out.table[i, 1] = num_head, num
