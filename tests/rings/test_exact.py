import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gscl_scale import seeding
from gscl_scale.config.sections import RingsConfig
from gscl_scale.rings.exact import multi_source
from gscl_scale.rings.exact.bfs import exact_rings, independent_rings
from gscl_scale.rings.pagerank import pagerank
from gscl_scale.rings.priorities import Priorities, draw_priorities, round_key
from gscl_scale.rings.sample import wanted
from gscl_scale.rings.sketch.level import near_words
from tests.graphs import awkward_graphs, random_edges
from tests.oracles import csr_of, distances, obvious_sample

per_ring_settings = st.one_of(
    st.integers(1, 10), st.just("all"), st.sampled_from(["ratio:0.2", "ratio:0.5", "ratio:1.0"])
)


def identities(num_nodes):
    return np.arange(num_nodes).astype(np.uint64)


def assert_one_by_one_equals_64_at_once(indptr, indices, priorities, config):
    """Both searches of the engine, forced, over all anchors."""
    anchors = np.arange(indptr.size - 1)
    samples = []
    for together in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(multi_source, "pays", lambda *_, answer=together: answer)
            samples.append(exact_rings(indptr, indices, anchors, priorities, priorities.rank(), config))
    one, other = samples
    for mine, theirs in zip((*one.rings, one.beyond), (*other.rings, other.beyond), strict=True):
        assert mine.offsets.tolist() == theirs.offsets.tolist()
        assert mine.members.tolist() == theirs.members.tolist()
    assert one.decided.tolist() == other.decided.tolist()
    assert one.near.offsets.tolist() == other.near.offsets.tolist()
    assert one.near.members.tolist() == other.near.members.tolist()
    assert one.ring_size.tolist() == other.ring_size.tolist()


def bits_of(near, a):
    words = near.members[near.offsets[a] : near.offsets[a + 1]]
    return [int(word) >> bit & 1 for word in words for bit in range(64)]


def assert_equals_definition(sample, distance, order_of, priority_of, config):
    for a, anchor in enumerate(sample.anchors):
        order, priority = order_of(anchor), priority_of(anchor)
        want = obvious_sample(
            distance[anchor], anchor, order, priority, config.hops, config.width, config.per_ring, config.beyond
        )
        for hop, ring in enumerate(sample.rings):
            assert ring.members[ring.offsets[a] : ring.offsets[a + 1]].tolist() == want.rings[hop]
        beyond = sample.beyond
        assert beyond.members[beyond.offsets[a] : beyond.offsets[a + 1]].tolist() == want.beyond
        assert sample.ring_size[a].tolist() == want.ring_size
        assert sample.decided[a] == want.decided
        if config.sharing == "shared":
            lowest = order[: 64 * near_words(config.width, len(order))]
            bits = [int(distance[anchor, u] <= config.hops) for u in lowest]
            told = sum(priority[u] <= want.decided for u in lowest)
            wanted = [] if told == len(lowest) else bits[told // 64 * 64 :]
            assert bits_of(sample.near, a)[: len(wanted)] == wanted
            assert len(bits_of(sample.near, a)) == -(-len(wanted) // 64) * 64
        else:
            assert bits_of(sample.near, a) == []
    assert sample.ring_size_exact.all()


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
    weights = pagerank(indptr, indices) if weighted else None
    priorities = draw_priorities(identities(num_nodes), 7, round_number, weights, np.int32)
    sample = exact_rings(indptr, indices, np.arange(num_nodes), priorities, priorities.rank(), config)

    by_node = dict(zip(priorities.order.tolist(), priorities.priority.tolist(), strict=True))
    assert_equals_definition(
        sample, distances(indptr, indices), lambda _: priorities.order.tolist(), lambda _: by_node, config
    )


@given(graph=awkward_graphs(), hops=st.integers(1, 3), per_ring=per_ring_settings)
def test_independent_samples_are_what_the_definition_says_with_priorities_per_anchor(graph, hops, per_ring):
    edges, num_nodes = graph
    indptr, indices = csr_of(edges, num_nodes)
    config = RingsConfig(hops=hops, width=4, per_ring=per_ring, beyond=5, sharing="independent", seed=3)
    sample = independent_rings(indptr, indices, np.arange(num_nodes), identities(num_nodes), None, 2, config)

    def priority_of(anchor):
        own = seeding.mix(round_key(3, 2) ^ seeding.mix(np.uint64(anchor) + np.uint64(1)))
        return seeding.exponentials(np.uint64(own), identities(num_nodes))

    assert_equals_definition(
        sample,
        distances(indptr, indices),
        lambda anchor: np.argsort(priority_of(anchor), kind="stable").tolist(),
        priority_of,
        config,
    )


@given(graph=awkward_graphs(), width=st.integers(1, 8))
def test_whatever_is_below_decided_and_in_no_ring_is_beyond(graph, width):
    edges, num_nodes = graph
    indptr, indices = csr_of(edges, num_nodes)
    config = RingsConfig(hops=2, width=width, per_ring=1, beyond=1)
    priorities = draw_priorities(identities(num_nodes), 0, 0, None, np.int32)
    sample = exact_rings(indptr, indices, np.arange(num_nodes), priorities, priorities.rank(), config)
    distance = distances(indptr, indices)
    for a in range(num_nodes):
        near = {a, *(u for ring in sample.rings for u in ring.members[ring.offsets[a] : ring.offsets[a + 1]])}
        for u, priority in zip(priorities.order, priorities.priority, strict=True):
            if priority < sample.decided[a] and u not in near:
                assert distance[a, u] > 2


@given(
    graph=awkward_graphs(),
    undirected=st.booleans(),
    hops=st.integers(1, 5),
    width=st.integers(1, 12),
    per_ring=st.integers(1, 15),
    beyond=st.integers(1, 50),
)
def test_64_anchors_at_once_are_sampled_as_one_by_one(graph, undirected, hops, width, per_ring, beyond):
    edges, num_nodes = graph
    indptr, indices = csr_of(edges, num_nodes, undirected)
    priorities = draw_priorities(identities(num_nodes), 5, 0, None, np.int32)
    config = RingsConfig(hops=hops, width=width, per_ring=per_ring, beyond=beyond)
    assert_one_by_one_equals_64_at_once(indptr, indices, priorities, config)


def test_more_than_one_word_of_anchors_with_hubs_is_sampled_as_one_by_one():
    indptr, indices = csr_of(random_edges(700, 2500, seed=4, hubs=4), 700)
    priorities = draw_priorities(identities(700), 5, 0, pagerank(indptr, indices), np.int32)
    for hops in (2, 3):
        assert_one_by_one_equals_64_at_once(indptr, indices, priorities, RingsConfig(hops=hops, width=20, per_ring=8))


def test_anchors_share_a_traversal_where_balls_are_large_and_not_where_they_are_small():
    dense = csr_of(random_edges(2000, 12000, seed=0), 2000)
    assert multi_source.pays(*dense, np.arange(2000), 4)
    assert not multi_source.pays(*dense, np.arange(2000), 1)
    assert not multi_source.pays(*dense, np.arange(20), 4)


def test_large_rings_and_hubs_are_sampled_as_defined():
    edges = random_edges(600, 2500, seed=1, hubs=3)
    indptr, indices = csr_of(edges, 600)
    config = RingsConfig(hops=3, width=24, per_ring=8, beyond=16)
    priorities = draw_priorities(identities(600), 1, 0, None, np.int32)
    anchors = np.arange(0, 600, 7)
    sample = exact_rings(indptr, indices, anchors, priorities, priorities.rank(), config)
    by_node = dict(zip(priorities.order.tolist(), priorities.priority.tolist(), strict=True))
    assert_equals_definition(
        sample, distances(indptr, indices), lambda _: priorities.order.tolist(), lambda _: by_node, config
    )


@pytest.mark.parametrize("seed", range(3))
def test_rings_of_middle_size_are_sampled_as_defined(seed):
    indptr, indices = csr_of(random_edges(400, 1200, seed=seed), 400)
    config = RingsConfig(hops=2, width=6, per_ring=6, beyond=3)
    priorities = draw_priorities(identities(400), seed, 0, None, np.int32)
    sample = exact_rings(indptr, indices, np.arange(400), priorities, priorities.rank(), config)
    assert np.quantile(sample.ring_size[:, 1], 0.5) > 2 * 6  # so that bounds sink on the way
    by_node = dict(zip(priorities.order.tolist(), priorities.priority.tolist(), strict=True))
    assert_equals_definition(
        sample, distances(indptr, indices), lambda _: priorities.order.tolist(), lambda _: by_node, config
    )


def test_equal_priorities_are_ordered_by_node():
    order = np.argsort(np.zeros(5), kind="stable").astype(np.int32)
    indptr, indices = csr_of([(0, 1), (0, 2), (0, 3), (0, 4)], 5)
    priorities = Priorities(order, np.zeros(5))
    config = RingsConfig(hops=1, per_ring=2, width=1)
    sample = exact_rings(indptr, indices, np.array([0]), priorities, priorities.rank(), config)
    assert sample.rings[0].members.tolist() == [1, 2]


def count_inclusions(sharing, rounds, weights=None):
    """How often each of 20 leaves of a star is among the 5 sampled by the centre, and first of them."""
    leaves = 20
    indptr, indices = csr_of([(0, v) for v in range(1, leaves + 1)], leaves + 1)
    config = RingsConfig(hops=1, width=1, per_ring=5, beyond=1, seed=11)
    included, first = np.zeros(leaves), np.zeros(leaves)
    for number in range(rounds):
        if sharing == "shared":
            priorities = draw_priorities(identities(leaves + 1), 11, number, weights, np.int32)
            sample = exact_rings(indptr, indices, np.array([0]), priorities, priorities.rank(), config)
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
    before = draw_priorities(ids, 0, 0, None, np.int32)
    shuffled = np.random.default_rng(0).permutation(50)
    after = draw_priorities(ids[shuffled], 0, 0, None, np.int32)
    assert ids[before.order].tolist() == ids[shuffled][after.order].tolist()
    assert before.priority.tolist() == after.priority.tolist()


def test_wanted_is_the_smallest_number_that_reaches_the_ratio():
    sizes = np.arange(200)
    assert wanted("ratio:0.2", sizes).tolist() == [math.ceil(size / 5) for size in sizes]


def test_a_share_of_a_ring_that_is_a_whole_number_is_that_number_in_spite_of_binary_fractions():
    assert 0.28 * 25 > 7
    assert wanted("ratio:0.28", np.array([25, 50])).tolist() == [7, 14]
    indptr, indices = csr_of([(0, leaf) for leaf in range(1, 26)], 26)
    priorities = draw_priorities(identities(26), 0, 0, None, np.int32)
    config = RingsConfig(hops=1, width=1, per_ring="ratio:0.28", beyond=1)
    shared = exact_rings(indptr, indices, np.arange(26), priorities, priorities.rank(), config)
    independent = independent_rings(indptr, indices, np.arange(26), identities(26), None, 0, config)
    assert [sample.rings[0].lengths()[0] for sample in (shared, independent)] == [7, 7]
