"""Levels that are gathered tile by tile are those that are joined from the whole level before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gscl_scale.rings.sketch.join import first_level, next_level
from gscl_scale.rings.sketch.level import Level
from gscl_scale.rings.sketch.tiles import gather_level, level_of
from tests.graphs import awkward_graphs, random_edges
from tests.oracles import csr_of
from tests.rings.checks import drawn
from tests.rings.test_sketch import whole

SHIFT, BLOCK = 6, 64


@pytest.fixture(autouse=True, scope="module")
def small_slices():
    """Threads take few vertices at a time, and slices do not begin with blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gscl_scale.rings.sketch.tiles._SLICE", 50)
        yield


def blocks_of(first, end):
    return [(low, min(low + BLOCK, end)) for low in range(first, end, BLOCK)]


def tiles_of(level, num_nodes, size):
    """Ranges of whole blocks, each with its own rows alone."""
    for low in range(0, num_nodes, size * BLOCK):
        high = min(low + size * BLOCK, num_nodes)
        tails = level.tails[low * level.width : high * level.width].copy()
        yield low, Level(level.table[low:high].copy(), level.heads[low:high].copy(), tails, level.width, SHIFT)


def assert_tiles_give_the_level(indptr, indices, rank, width, words, hops, undirected, group, tile, threads):
    num_nodes = indptr.size - 1
    parts = [first_level(indptr, indices, rank, *ends, width, words) for ends in blocks_of(0, num_nodes)]
    for _ in range(hops - 1):
        before = whole(parts, num_nodes, SHIFT)
        parts = [next_level(indptr, indices, rank, before, *ends, undirected) for ends in blocks_of(0, num_nodes)]
        found = []
        for first in range(0, num_nodes, group * BLOCK):
            end = min(first + group * BLOCK, num_nodes)
            tiles = tiles_of(before, num_nodes, tile)
            gathered = gather_level(indptr, indices, rank, tiles, first, end, width, words, threads)
            found += [level_of(indptr, indices, gathered, first, *ends, undirected) for ends in blocks_of(first, end)]
        for one, other in zip(parts, found, strict=True):
            assert one.table.tolist() == other.table.tolist()
            heads, tails = one.used()
            assert one.heads[:heads].tolist() == other.heads[:heads].tolist()
            assert one.tails[:tails].tolist() == other.tails[:tails].tolist()


@given(
    graph=awkward_graphs(),
    undirected=st.booleans(),
    hops=st.integers(2, 5),
    width=st.integers(1, 12),
    words=st.integers(0, 1),
    threads=st.integers(1, 3),
)
def test_the_levels_of_awkward_graphs(graph, undirected, hops, width, words, threads):
    indptr, indices = csr_of(*graph, undirected)
    rank = drawn(graph[1], 3, 0, None).rank()
    assert_tiles_give_the_level(indptr, indices, rank, width, words, hops, undirected, 1, 1, threads)


@pytest.mark.parametrize("seed", range(24))
def test_the_levels_of_random_graphs_in_groups_and_tiles_of_several_blocks(seed):
    draw = np.random.default_rng(seed)
    num_nodes, undirected = int(draw.integers(2, 700)), bool(seed % 2)
    edges = random_edges(num_nodes, int(num_nodes * draw.uniform(0.3, 6)) + 2, seed, int(draw.integers(0, 4)))
    indptr, indices = csr_of(edges, num_nodes, undirected)
    rank = drawn(num_nodes, 5, seed, None).rank()
    width, words = int(draw.integers(1, 40)), int(draw.integers(0, 4))
    group, tile = int(draw.integers(1, 5)), int(draw.integers(1, 5))
    assert_tiles_give_the_level(indptr, indices, rank, width, words, 4, undirected, group, tile, threads=1 + seed % 3)
