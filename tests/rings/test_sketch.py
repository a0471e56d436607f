import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gscl_scale.config.sections import RingsConfig
from gscl_scale.rings.exact import hubs
from gscl_scale.rings.exact.ring_sizes import ring_profile
from gscl_scale.rings.exact.workspace import borrow_buffers
from gscl_scale.rings.pagerank import pagerank
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.short_lists import complete_short_lists
from gscl_scale.rings.sketch.join import first_level, level_zero, next_level
from gscl_scale.rings.sketch.level import Level, head_words, near_words
from gscl_scale.rings.sketch.read import read_rings
from tests.graphs import awkward_graphs, random_edges
from tests.oracles import csr_of, distances
from tests.rings.checks import (
    assert_one_by_one_equals_64_at_once,
    assert_same_lists,
    drawn,
    exact,
    take_every_shortcut,
)


def sketch(indptr, indices, priorities, config, words, weights=None, undirected=True):
    """Samples of all nodes as the sketch alone tells them, and which are short."""
    rank, num_nodes, shift = priorities.rank(), indptr.size - 1, 6  # blocks of 64, as tasks of a pass have them
    blocks = [(first, min(first + 64, num_nodes)) for first in range(0, num_nodes, 64)]
    levels = [level_zero(rank, np.arange(num_nodes), config.width, words)]
    parts = [first_level(indptr, indices, rank, *ends, config.width, words) for ends in blocks]
    for hop in range(config.hops):
        levels.append(whole(parts, num_nodes, shift))
        if hop < config.hops - 1:
            parts = [next_level(indptr, indices, rank, levels[-1], *ends, undirected) for ends in blocks]
    rows = [level.rows(np.arange(num_nodes)) for level in levels]
    return read_rings(rows, np.arange(num_nodes), priorities, weights, config.per_ring, config.beyond)


def whole(parts, num_nodes, shift):
    """One level of all blocks, each with room for all its rows; what is not used is filled with nonsense."""
    width, words = parts[0].width, parts[0].words
    heads = np.full((num_nodes, words), 2**63 + 5, np.uint64)
    tails = np.full(num_nodes * width, -7, parts[0].tails.dtype)
    for number, part in enumerate(parts):
        first, (num_heads, num_tails) = number << shift, part.used()
        heads[first : first + num_heads] = part.heads[:num_heads]
        tails[first * width : first * width + num_tails] = part.tails[:num_tails]
    return Level(np.concatenate([part.table for part in parts]), heads, tails, width, shift)


def completed(indptr, indices, priorities, config, words, weights=None, undirected=True):
    sample, short = sketch(indptr, indices, priorities, config, words, weights, undirected)
    rank = priorities.rank()
    finished, alone = (
        complete_short_lists(indptr, indices, sample, short, priorities, rank, config, undirected, memory)
        for memory in (0, 1)
    )
    assert_same_lists(finished, alone)
    assert finished.ring_size.tolist() == alone.ring_size.tolist()
    assert finished.ring_size_exact.tolist() == alone.ring_size_exact.tolist()
    return finished, short


def assert_equals_exact(indptr, indices, priorities, config, words, weights=None, undirected=True):
    """The finished sketch is the exact sample; bits are compared where the sketch has as many words as are kept."""
    sample, short = completed(indptr, indices, priorities, config, words, weights, undirected)
    searched = exact(indptr, indices, priorities, config)
    assert_same_lists(sample, searched, near=words >= near_words(config.width, sample.anchors.size))
    known = sample.ring_size_exact
    assert sample.ring_size[known].tolist() == searched.ring_size[known].tolist()
    return short


weightings = st.sampled_from(["uniform", "pagerank", "six orders of magnitude"])


def weights_of(weighting, indptr, indices, seed):
    if weighting == "uniform":
        return None
    if weighting == "pagerank":
        return pagerank(indptr, indices)
    return 10.0 ** np.random.default_rng(seed).uniform(-6, 0, indptr.size - 1)


@given(
    graph=awkward_graphs(),
    undirected=st.booleans(),
    hops=st.integers(1, 6),
    width=st.integers(1, 12),
    per_ring=st.integers(1, 12),
    beyond=st.integers(1, 50),
    weighting=weightings,
    words=st.integers(0, 1),
    round_number=st.integers(0, 5),
)
def test_the_sketch_with_short_lists_completed_is_the_exact_sample(
    graph, undirected, hops, width, per_ring, beyond, weighting, words, round_number
):
    indptr, indices = csr_of(*graph, undirected)
    config = RingsConfig(hops=hops, width=width, per_ring=per_ring, beyond=beyond)
    weights = weights_of(weighting, indptr, indices, round_number)
    priorities = drawn(graph[1], 3, round_number, weights)
    assert_equals_exact(indptr, indices, priorities, config, words, weights, undirected)


@given(
    num_nodes=st.integers(100, 700),
    degree=st.floats(0.5, 12),
    hubs=st.integers(0, 4),
    undirected=st.booleans(),
    hops=st.integers(1, 4),
    width=st.integers(1, 40),
    per_ring=st.integers(1, 20),
    beyond=st.integers(1, 60),
    weighting=weightings,
    words=st.integers(0, 4),
    seed=st.integers(0, 1000),
)
def test_the_same_on_larger_random_graphs_with_hubs_where_head_and_tail_mix(
    num_nodes, degree, hubs, undirected, hops, width, per_ring, beyond, weighting, words, seed
):
    edges = random_edges(num_nodes, int(num_nodes * degree / 2) + 3, seed, hubs)
    indptr, indices = csr_of(edges, num_nodes, undirected)
    config = RingsConfig(hops=hops, width=width, per_ring=per_ring, beyond=beyond)
    weights = weights_of(weighting, indptr, indices, seed)
    priorities = drawn(num_nodes, seed, weights=weights)
    assert_equals_exact(indptr, indices, priorities, config, words, weights, undirected)


@given(
    graph=awkward_graphs(),
    undirected=st.booleans(),
    hops=st.integers(3, 5),
    width=st.integers(1, 8),
    per_ring=st.integers(1, 15),
)
def test_searches_that_take_every_shortcut_find_the_same(graph, undirected, hops, width, per_ring):
    edges, num_nodes = graph[0], 20 * graph[1]  # where most nodes are near, searches sweep over all and take none
    indptr, indices = csr_of(edges, num_nodes, undirected)
    priorities = drawn(num_nodes, 3)
    config = RingsConfig(hops=hops, width=width, per_ring=per_ring, beyond=5)
    with pytest.MonkeyPatch.context() as patch:
        take_every_shortcut(patch)
        assert_same_samples_and_sizes(indptr, indices, priorities, config, undirected)
        twice = np.tile(np.arange(graph[1]), 2)  # few enough for shortcuts in their first hop, too
        assert_one_by_one_equals_64_at_once(indptr, indices, priorities, config, twice)


@pytest.mark.parametrize("hops", [3, 4])
@pytest.mark.parametrize("undirected", [True, False])
def test_anchors_around_hubs_whose_neighbours_are_close_to_each_other(hops, undirected):
    """Hubs that pay, pages that are linked alike, and few nodes in the last rings, so that many lists are short."""
    rng = np.random.default_rng(hops)
    hub_of = np.repeat([0, 1, 2], 400)
    pages = np.arange(3, 3 + hub_of.size)
    edges = [*zip(hub_of, pages, strict=True), *zip(pages, hub_of, strict=True)]
    for hub in range(3):
        near = pages[hub_of == hub]
        edges += [(u, v) for u in near[:300] for v in rng.choice(near[:300], 8, replace=False) if u != v]
        edges += [(u, near[390]) for u in near[300:390]]
        edges += list(zip(near[::40], 1203 + 10 * hub + np.arange(10), strict=True))
    edges += list(zip(range(1203, 1233), range(1233, 1263), strict=True))
    num_nodes = 30_000  # where most are near, searches sweep over all and take no shortcut
    indptr, indices = csr_of(edges, num_nodes, undirected)
    priorities = drawn(num_nodes, 8)
    config = RingsConfig(hops=hops, width=12, per_ring=8, beyond=5)
    with borrow_buffers(num_nodes) as mine, hubs.shortcuts(indptr, indices, np.arange(1263), hops, 64, mine) as known:
        assert known.offsets.size > 2
        assert known.nodes.size > 0
    assert_same_samples_and_sizes(indptr, indices, priorities, config, undirected)


def assert_same_samples_and_sizes(indptr, indices, priorities, config, undirected):
    """The sketch, finished, and the exact engine with and without shared traversals."""
    told, _ = sketch(indptr, indices, priorities, config, 0, undirected=undirected)
    sample, short = completed(indptr, indices, priorities, config, 0, undirected=undirected)
    after = ~np.logical_or.accumulate(short[:, -2::-1], axis=1)[:, ::-1]  # rings behind the last that was finished
    after &= ~short[:, -1:] | undirected
    assert sample.ring_size[after].tolist() == told.ring_size[after].tolist()
    known = sample.ring_size_exact
    for together in (True, False):
        searched = exact(indptr, indices, priorities, config, together=together)
        assert_same_lists(sample, searched)
        assert sample.ring_size[known].tolist() == searched.ring_size[known].tolist()


def test_pages_with_the_same_links_may_lead_to_each_other_where_links_have_a_direction():
    """Node 0 leads to 1 in three steps, but not to itself; both lead to node 2 alone."""
    edges = [(0, 2), (1, 2), *((2, u) for u in range(3, 9)), (8, 1), *((8, u) for u in range(9, 12))]
    indptr, indices = csr_of(edges, 60, undirected=False)
    config = RingsConfig(hops=3, width=5, per_ring=3, beyond=1)
    for number in range(50):
        priorities = drawn(60, 2, number)
        assert_same_samples_and_sizes(indptr, indices, priorities, config, undirected=False)


def test_marks_are_left_as_they_were_and_those_of_a_search_that_failed_are_dropped():
    indptr, indices = csr_of(random_edges(700, 2500, seed=4, hubs=4), 700)
    priorities = drawn(700, 5)
    with pytest.MonkeyPatch.context() as patch:
        take_every_shortcut(patch)
        completed(indptr, indices, priorities, RingsConfig(hops=3, width=4, per_ring=8), 0)
    with borrow_buffers(700) as first:
        assert not first.bits.any()
        assert (first.row == -1).all()
    with borrow_buffers(700) as again:
        assert again is first
    with contextlib.suppress(KeyError), borrow_buffers(700):
        raise KeyError
    with borrow_buffers(700) as other:
        assert other is not first


def test_most_lists_need_no_completion_and_those_marked_short_are_short():
    edges = random_edges(2000, 8000, seed=0, hubs=3)
    indptr, indices = csr_of(edges, 2000)
    config = RingsConfig(hops=2, width=32, per_ring=8, beyond=16)
    priorities = drawn(2000)
    _, with_head = sketch(indptr, indices, priorities, config, head_words(32, 2000))
    lists, without = sketch(indptr, indices, priorities, config, 0)
    assert with_head.mean() < 0.002
    assert with_head.sum() < without.sum()
    lengths = np.stack([ring.lengths() for ring in (*lists.rings, lists.beyond)], axis=1)
    assert (lengths[without] < np.broadcast_to([8, 8, 16], lengths.shape)[without]).all()


@pytest.mark.parametrize("hops", [2, 3, 4])
def test_samples_of_leaves_are_those_of_the_exact_engine_where_many_are_short(hops):
    rng = np.random.default_rng(hops)
    core = random_edges(40, 60, seed=hops)
    leaves = np.stack([rng.integers(0, 6, 600), np.arange(40, 640)], axis=1)
    indptr, indices = csr_of(np.concatenate([core, leaves]), 640)
    config = RingsConfig(hops=hops, per_ring=8, width=8, beyond=8)
    priorities = drawn(640, 3)
    short = assert_equals_exact(indptr, indices, priorities, config, 1)
    assert short[:, :-1].any(axis=1).mean() > 0.1


def test_the_head_says_of_the_lowest_nodes_exactly_whose_balls_they_are_in():
    edges = random_edges(300, 500, seed=4, hubs=2)
    indptr, indices = csr_of(edges, 300, undirected=False)
    priorities = drawn(300)
    rank = priorities.rank()
    one = first_level(indptr, indices, rank, 0, 300, 8, 2)
    two = next_level(indptr, indices, rank, one, 0, 300, undirected=False)
    distance = distances(indptr, indices)
    for level, radius in ((one, 1), (two, 2)):
        rows = np.where(level.table[:, :1] > 0, level.heads[level.table[:, 4]], np.uint64(0))
        bits = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little").astype(bool)
        inside = distance[:, priorities.order[:128]] <= radius
        assert (bits == inside).all()
        assert level.table[:, 0].tolist() == inside.sum(axis=1).tolist()


def ball_of(level, vertex):
    """The ranks that a vertex has in its head and in its tail."""
    bits, entries, _, _, row, start = level.table[vertex]
    head = level.heads[row].tolist() if bits else []
    return head, level.tails[start : start + entries].tolist()


@pytest.mark.parametrize(("width", "words"), [(8, 0), (8, 1), (80, 1)])
def test_pages_of_one_index_have_one_place_for_the_ball_that_all_have(width, words):
    """Pages 2 to 19 lead to index 0, pages 20 to 63 and 70 to 99 to 0 and 1; 64 to 69 stand alone."""
    edges = [(0, page) for page in range(2, 100)] + [(1, page) for page in range(20, 100)]
    indptr, indices = csr_of([edge for edge in edges if not 64 <= edge[1] < 70], 100)
    priorities = drawn(100)
    one = first_level(indptr, indices, priorities.rank(), 0, 100, width, words)

    def two(undirected, needed=None):
        return next_level(indptr, indices, priorities.rank(), one, 0, 100, undirected, needed)

    shared, apart = two(True), two(False)
    assert len({tuple(row) for row in shared.table[:, 4:]}) == 2 + 1 + 1 + 6 + 1
    assert [ball_of(shared, v) for v in range(100)] == [ball_of(apart, v) for v in range(100)]
    assert shared.used() < apart.used()
    needed = np.arange(1, 101) % 5 >= 2  # not the first of many that share, nor the last of all
    some = two(True, needed)
    assert [ball_of(some, v) for v in np.flatnonzero(needed)] == [ball_of(apart, v) for v in np.flatnonzero(needed)]
    assert max(some.table[:, 4] + (some.table[:, 0] > 0)) == some.used()[0]
    assert max(some.table[:, 5] + some.table[:, 1]) == some.used()[1]
    for hops in (2, 3):
        config = RingsConfig(hops=hops, width=width, per_ring=2, beyond=3)
        assert_same_samples_and_sizes(indptr, indices, priorities, config, undirected=True)


@pytest.mark.parametrize(
    ("weighting", "words"),
    [("uniform", 0), ("uniform", 1), *(("six orders of magnitude", words) for words in (0, 1, 4))],
)
def test_estimated_ring_sizes_are_unbiased(weighting, words):
    num_nodes, rounds = 600, 400
    edges = random_edges(num_nodes, 1500, seed=1, hubs=2)
    indptr, indices = csr_of(edges, num_nodes)
    config = RingsConfig(hops=3, width=12, per_ring=2, beyond=4)
    weights = weights_of(weighting, indptr, indices, 0)
    if weights is not None:
        weights = weights**0.25  # six orders would need millions of rounds to show
    sizes, *_ = ring_profile(indptr, indices, np.arange(num_nodes), 3)
    estimates = np.zeros((rounds, num_nodes, 3))
    for number in range(rounds):
        priorities = drawn(num_nodes, 9, number, weights)
        sample, _ = sketch(indptr, indices, priorities, config, words, weights)
        estimates[number] = sample.ring_size
    large = sizes >= 40  # where neither rounding nor the members that are known matter
    mean, deviation = estimates.mean(axis=0), estimates.std(axis=0) / np.sqrt(rounds)
    score = ((mean - sizes) / np.maximum(deviation, 0.3))[large]
    assert abs(np.median((mean / np.maximum(sizes, 1))[large]) - 1) < 0.02
    assert (np.abs(score) < 5).mean() > 0.999


def test_small_balls_and_a_head_of_all_nodes_give_exact_sizes():
    edges = random_edges(200, 300, seed=2)
    indptr, indices = csr_of(edges, 200)
    priorities = drawn(200)
    config = RingsConfig(hops=3, width=16, per_ring=4, beyond=8)
    sizes, *_ = ring_profile(indptr, indices, np.arange(200), 3)
    everything, _ = sketch(indptr, indices, priorities, config, head_words(16, 200))
    assert everything.ring_size_exact.all()
    assert (everything.ring_size == sizes).all()
    some, _ = sketch(indptr, indices, priorities, config, 0)
    assert 0 < some.ring_size_exact.mean() < 1
    assert (some.ring_size[some.ring_size_exact] == sizes[some.ring_size_exact]).all()


def test_what_is_beyond_each_leaf_of_a_star_at_one_hop_is_all_other_leaves():
    indptr, indices = csr_of([(0, v) for v in range(1, 200)], 200)
    priorities = Priorities(np.arange(200, dtype=np.int32), (1 + np.arange(200)) / 200)
    config = RingsConfig(hops=1, width=1, per_ring=1, beyond=5)
    short = assert_equals_exact(indptr, indices, priorities, config, 0)
    assert short[1:].tolist() == [[False, True]] * 199


def test_ties_go_to_the_lower_node():
    indptr, indices = csr_of([(0, v) for v in range(1, 30)], 30)
    priorities = Priorities(np.arange(30, dtype=np.int32), np.ones(30))
    config = RingsConfig(hops=2, width=6, per_ring=3, beyond=5)
    assert_equals_exact(indptr, indices, priorities, config, 0)
