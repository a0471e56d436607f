"""A level of the sketch: the lowest nodes of all balls of one radius, as a head of bits and a tail of ranks."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gscl_scale.kernels.kernel import read_only

HEAD_PER_WIDTH = 16
NEAR_PER_WIDTH = 8  # the part of the head in samples: enough for 512 negatives, and 5 % of their size on ogbn-arxiv
ONE_BLOCK = 62  # a shift that puts every vertex into block 0
_WORD = 64


class Level(NamedTuple):
    """The S lowest ranks of each ball of one radius, for V vertices in blocks of 2^shift.

    table [V, 6]              bits set in the head; entries of the tail, never more than a list of S has room for; its
                              first and its last entry; row of the head and start of the tail, counted within the block
    heads [V, M / 64] uint64  bit r of a row: the node of rank r is in the ball; rows only where a bit is set
    tails [V * S]             ranks from M on, ascending

    Block b of the heads begins at row b * 2^shift, and of the tails at S times that: there is room for all vertices,
    and memory that is not used is never touched. A block is filled from vertex to vertex, and vertices that follow each
    other may share a row of the head and a tail. A vertex that is not needed has the places of the next one.
    """

    table: npt.NDArray[Any]
    heads: npt.NDArray[np.uint64]
    tails: npt.NDArray[Any]
    width: int
    shift: int = ONE_BLOCK

    @classmethod
    def empty(cls, num_vertices: int, width: int, words: int, dtype: npt.DTypeLike) -> "Level":
        """Room for a block of vertices."""
        return cls(
            np.zeros((num_vertices, 6), dtype),
            np.empty((num_vertices, words), np.uint64),
            np.empty(num_vertices * width, dtype),
            width,
        )

    @property
    def words(self) -> int:
        """M / 64."""
        return self.heads.shape[1]

    def rows(self, which: npt.NDArray[np.int64]) -> "Level":
        """The rows of some of the vertices, over the same heads and tails."""
        table = self.table.take(which, axis=0).astype(np.int64)
        begin = which >> self.shift << self.shift
        table[:, 4] += begin
        table[:, 5] += begin * self.width
        return Level(table, self.heads, self.tails, self.width)

    def to_read(self) -> "Level":
        """The level as one that cannot be written, as a mapped one is."""
        table, heads, tails = map(read_only, (self.table, self.heads, self.tails))
        return Level(table, heads, tails, self.width, self.shift)

    def used(self) -> tuple[int, int]:
        """Rows of the heads and entries of the tails that a block has filled: up to those of its last vertex."""
        if not self.table.shape[0]:
            return 0, 0
        bits, entries, _, _, head, start = (int(value) for value in self.table[-1])
        return head + (bits > 0), start + entries


def head_words(width: int, num_nodes: int) -> int:
    """Words of the head for lists of `width`: M / 64."""
    return -(-min(HEAD_PER_WIDTH * width, num_nodes) // _WORD)


def near_words(width: int, num_nodes: int) -> int:
    """Words of the part of the head that samples keep."""
    return -(-min(NEAR_PER_WIDTH * width, num_nodes) // _WORD)
