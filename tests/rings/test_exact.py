import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gscl_scale import seeding
from gscl_scale.config.sections import RingsConfig
from gscl_scale.rings.exact import multi_source
from gscl_scale.rings.exact.bfs import independent_rings
from gscl_scale.rings.pagerank import pagerank
from gscl_scale.rings.priorities import Priorities, draw_priorities, round_key
from gscl_scale.rings.sample import target_sizes
from gscl_scale.rings.sketch.level import near_words
from tests.graphs import awkward_graphs, random_edges
from tests.oracles import csr_of, distances, obvious_sample
from tests.rings.checks import assert_one_by_one_equals_64_at_once, drawn, exact, identities, list_of

per_ring_settings = st.one_of(
    st.integers(1, 10), st.just("all"), st.sampled_from(["ratio:0.2", "ratio:0.5", "ratio:1.0"])
)


def bits_of(near, a):
    return [word >> bit & 1 for word in list_of(near, a) for bit in range(64)]


def assert_equals_definition(sample, distance, priority_of, config):
    """`priority_of` an anchor gives the priorities by node; its order has ties by node."""
    for a, anchor in enumerate(sample.anchors):
        priority = priority_of(anchor)
        order = np.argsort(priority, kind="stable").tolist()
        want = obvious_sample(
            distance[anchor], anchor, order, priority, config.hops, config.width, config.per_ring, config.beyond
        )
        assert [list_of(ring, a) for ring in sample.rings] == want.rings
        assert list_of(sample.beyond, a) == want.beyond
        assert sample.ring_size[a].tolist() == want.ring_size
        assert sample.decided[a] == want.decided
        if config.sharing == "shared":
            lowest = order[: 64 * near_words(config.width, len(order))]
            bits = [int(distance[anchor, u] <= config.hops) for u in lowest]
            decided = sum(priority[u] <= want.decided for u in lowest)
            expected = [] if decided == len(lowest) else bits[decided // 64 * 64 :]
            assert bits_of(sample.near, a)[: len(expected)] == expected
            assert len(bits_of(sample.near, a)) == -(-len(expected) // 64) * 64
        else:
            assert bits_of(sample.near, a) == []
    assert sample.ring_size_exact.all()


def by_node(priorities):
    priority = np.empty(priorities.order.size)
    priority[priorities.order] = priorities.priority
    return priority


@given(
    graph=awkward_graphs(),
    undirected=st.booleans(),
    hops=st.integers(1, 5),
    width=st.integers(1, 12),
    per_ring=per_ring_settings,
    beyond=st.integers(1, 50),
    weighted=st.booleans(),
    round_number=st.integers(0, 3),
)
def test_shared_samples_are_what_the_definition_says(
    graph, undirected, hops, width, per_ring, beyond, weighted, round_number
):
    edges, num_nodes = graph
    indptr, indices = csr_of(edges, num_nodes, undirected)
    config = RingsConfig(hops=hops, width=width, per_ring=per_ring, beyond=beyond)
    priorities = drawn(num_nodes, 7, round_number, pagerank(indptr, indices) if weighted else None)
    sample, priority = exact(indptr, indices, priorities, config), by_node(priorities)
    assert_equals_definition(sample, distances(indptr, indices), lambda _: priority, config)


@given(graph=awkward_graphs(), hops=st.integers(1, 3), per_ring=per_ring_settings)
def test_independent_samples_are_what_the_definition_says_with_priorities_per_anchor(graph, hops, per_ring):
    edges, num_nodes = graph
    indptr, indices = csr_of(edges, num_nodes)
    config = RingsConfig(hops=hops, width=4, per_ring=per_ring, beyond=5, sharing="independent", seed=3)
    sample = independent_rings(indptr, indices, np.arange(num_nodes), identities(num_nodes), None, 2, config)

    def priority_of(anchor):
        own = seeding.mix(round_key(3, 2) ^ seeding.mix(np.uint64(anchor) + np.uint64(1)))
        return seeding.exponentials(np.uint64(own), identities(num_nodes))

    assert_equals_definition(sample, distances(indptr, indices), priority_of, config)


@given(graph=awkward_graphs(), width=st.integers(1, 8))
def test_whatever_is_below_decided_and_in_no_ring_is_beyond(graph, width):
    edges, num_nodes = graph
    indptr, indices = csr_of(edges, num_nodes)
    priorities = drawn(num_nodes)
    sample = exact(indptr, indices, priorities, RingsConfig(hops=2, width=width, per_ring=1, beyond=1))
    distance, priority = distances(indptr, indices), by_node(priorities)
    for a in range(num_nodes):
        near = {a, *(u for ring in sample.rings for u in list_of(ring, a))}
        below = set(np.flatnonzero(priority < sample.decided[a]).tolist())
        assert (distance[a, list(below - near)] > 2).all()


@given(
    graph=awkward_graphs(),
    undirected=st.booleans(),
    hops=st.integers(1, 5),
    width=st.integers(1, 12),
    per_ring=st.integers(1, 15),
    beyond=st.integers(1, 50),
)
def test_64_anchors_at_once_are_sampled_as_one_by_one(graph, undirected, hops, width, per_ring, beyond):
    indptr, indices = csr_of(*graph, undirected)
    config = RingsConfig(hops=hops, width=width, per_ring=per_ring, beyond=beyond)
    assert_one_by_one_equals_64_at_once(indptr, indices, drawn(graph[1], 5), config)


def test_more_than_one_word_of_anchors_with_hubs_is_sampled_as_one_by_one():
    indptr, indices = csr_of(random_edges(700, 2500, seed=4, hubs=4), 700)
    priorities = drawn(700, 5, weights=pagerank(indptr, indices))
    for hops in (2, 3):
        assert_one_by_one_equals_64_at_once(indptr, indices, priorities, RingsConfig(hops=hops, width=20, per_ring=8))


def test_anchors_share_a_traversal_where_balls_are_large_and_not_where_they_are_small():
    dense = csr_of(random_edges(2000, 12000, seed=0), 2000)
    assert multi_source.is_sharing_cheaper(*dense, np.arange(2000), 4)
    assert not multi_source.is_sharing_cheaper(*dense, np.arange(2000), 1)
    assert not multi_source.is_sharing_cheaper(*dense, np.arange(20), 4)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("edges", "hubs", "hops", "width", "per_ring", "median"), [(2500, 3, 3, 24, 8, 0), (1200, 0, 2, 6, 6, 2 * 6)]
)
def test_large_rings_and_those_of_middle_size_are_sampled_as_defined(edges, hubs, hops, width, per_ring, median, seed):
    indptr, indices = csr_of(random_edges(500, edges, seed=seed, hubs=hubs), 500)
    config = RingsConfig(hops=hops, width=width, per_ring=per_ring, beyond=16)
    priorities = drawn(500, seed)
    sample = exact(indptr, indices, priorities, config, np.arange(0, 500, 5))
    assert np.median(sample.ring_size[:, 1]) > median  # so that bounds sink on the way
    priority = by_node(priorities)
    assert_equals_definition(sample, distances(indptr, indices), lambda _: priority, config)


def test_equal_priorities_are_ordered_by_node():
    indptr, indices = csr_of([(0, 1), (0, 2), (0, 3), (0, 4)], 5)
    priorities = Priorities(np.arange(5, dtype=np.int32), np.zeros(5))
    sample = exact(indptr, indices, priorities, RingsConfig(hops=1, per_ring=2, width=1), np.array([0]))
    assert sample.rings[0].members.tolist() == [1, 2]


def count_inclusions(sharing, rounds, weights=None):
    """How often each of 20 leaves of a star is among the 5 sampled by the centre, and first of them."""
    leaves = 20
    indptr, indices = csr_of([(0, v) for v in range(1, leaves + 1)], leaves + 1)
    config = RingsConfig(hops=1, width=1, per_ring=5, beyond=1, seed=11)
    included, first = np.zeros(leaves), np.zeros(leaves)
    for number in range(rounds):
        if sharing == "shared":
            sample = exact(indptr, indices, drawn(leaves + 1, 11, number, weights), config, np.array([0]))
        else:
            sample = independent_rings(indptr, indices, np.array([0]), identities(leaves + 1), weights, number, config)
        included[sample.rings[0].members - 1] += 1
        first[sample.rings[0].members[0] - 1] += 1
    return included, first


@pytest.mark.parametrize("sharing", ["shared", "independent"])
def test_uniform_inclusion_passes_a_chi_square_test_that_can_fail(sharing):
    included, first = count_inclusions(sharing, 2000)
    assert stats.chisquare(first).pvalue > 1e-4
    # inclusion without replacement varies less than the multinomial: scale the statistic to its own variance
    share = 5 / 20
    statistic = ((included - 2000 * share) ** 2 / (2000 * share * (1 - share))).sum() * (19 / 20)
    assert stats.chi2.sf(statistic, 19) > 1e-4
    skewed = first.copy()
    skewed[:5] *= 1.5
    assert stats.chisquare(skewed, np.full(20, skewed.sum() / 20)).pvalue < 1e-4


@pytest.mark.parametrize("sharing", ["shared", "independent"])
def test_the_first_pagerank_draw_is_proportional_to_the_scores(sharing):
    weights = np.concatenate([[0.3], np.linspace(1, 4, 20)])
    _, first = count_inclusions(sharing, 3000, weights)
    expected = weights[1:] / weights[1:].sum() * 3000
    assert stats.chisquare(first, expected).pvalue > 1e-4
    assert stats.chisquare(first).pvalue < 1e-4  # and it is far from uniform


def test_shared_priorities_belong_to_the_id_and_not_to_the_row():
    ids = identities(50)
    before = drawn(50)
    shuffled = np.random.default_rng(0).permutation(50)
    after = draw_priorities(ids[shuffled], 0, 0, None, np.int32)
    assert ids[before.order].tolist() == ids[shuffled][after.order].tolist()
    assert before.priority.tolist() == after.priority.tolist()


def test_wanted_is_the_smallest_number_that_reaches_the_ratio():
    sizes = np.arange(200)
    assert target_sizes("ratio:0.2", sizes).tolist() == [math.ceil(size / 5) for size in sizes]


def test_a_share_of_a_ring_that_is_a_whole_number_is_that_number_in_spite_of_binary_fractions():
    assert 0.28 * 25 > 7
    assert target_sizes("ratio:0.28", np.array([25, 50])).tolist() == [7, 14]
    indptr, indices = csr_of([(0, leaf) for leaf in range(1, 26)], 26)
    config = RingsConfig(hops=1, width=1, per_ring="ratio:0.28", beyond=1)
    shared = exact(indptr, indices, drawn(26), config)
    independent = independent_rings(indptr, indices, np.arange(26), identities(26), None, 0, config)
    assert [sample.rings[0].lengths()[0] for sample in (shared, independent)] == [7, 7]
