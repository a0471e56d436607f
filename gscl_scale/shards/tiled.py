"""Passes in bounded memory: a task gathers a group of blocks, and reads the level before tile by tile."""

from collections.abc import Iterator
from dataclasses import dataclass

from gscl_scale.graph.graph import Graph
from gscl_scale.rings.sketch.level import Level, head_words
from gscl_scale.rings.sketch.tiles import Gathered, gather_level, level_of
from gscl_scale.runtime.threads import map_in_order, one_ahead
from gscl_scale.shards import levels
from gscl_scale.shards.levels import LevelFiles
from gscl_scale.shards.process_cache import OpenRound

_READERS = 4  # threads that read a tile: one alone waits for the disk


@dataclass(frozen=True)
class Tiling:
    """Vertices of a group, for which the level before is read once, and of a tile; both are whole blocks."""

    group: int
    tile: int

    @classmethod
    def of(cls, files: LevelFiles, memory: int) -> "Tiling":
        """The largest that these bytes allow: half for a group, the rest for two tiles, of which one is being read."""
        words = head_words(files.width, files.num_nodes)
        vertex = Gathered.bytes_of(files.width, words, files.item)
        return cls(_blocks(memory // 2 // vertex), _blocks(memory // 4 // files.row_bytes()))


def grouped(ranges: Iterator[tuple[int, int]], most: int) -> Iterator[tuple[int, int]]:
    """Ranges that follow each other together, up to so many vertices.

    >>> list(grouped(iter([(0, 4), (4, 8), (8, 12), (16, 20)]), 8))
    [(0, 8), (8, 12), (16, 20)]
    """
    first = end = 0
    for low, high in ranges:
        if end > first and (low != end or high - first > most):
            yield first, end
            first = low
        elif end == first:
            first = low
        end = high
    if end > first:
        yield first, end


def gather_group(
    graph: Graph,
    opened: OpenRound,
    before: LevelFiles,
    after: LevelFiles,
    first: int,
    end: int,
    memory: int,
    threads: int,
) -> list[tuple[int, int, int]]:
    """Write the rows first..end of the next level; returns the ends of each block and its checksum."""
    tiling, words = Tiling.of(before, memory), head_words(before.width, before.num_nodes)
    tiles = one_ahead(_tiles(before, tiling.tile))
    csr = graph.indptr, graph.indices
    gathered = gather_level(*csr, opened.rank, tiles, first, end, before.width, words, threads)

    def write(low: int) -> tuple[int, int, int]:
        high = min(low + (1 << levels.PASS_SHIFT), end)
        return low, high, after.write(low, level_of(*csr, gathered, first, low, high, graph.undirected))

    return list(map_in_order(write, range(first, end, 1 << levels.PASS_SHIFT), threads))


def _tiles(files: LevelFiles, size: int) -> Iterator[tuple[int, Level]]:
    for low in range(0, files.num_nodes, size):
        yield low, files.load(low, min(low + size, files.num_nodes), threads=_READERS)


def _blocks(vertices: int) -> int:
    """So many vertices in whole blocks, at least one."""
    return max(1, vertices >> levels.PASS_SHIFT) << levels.PASS_SHIFT
