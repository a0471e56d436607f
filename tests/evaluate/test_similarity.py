import numpy as np
import pytest

from gscl_scale import seeding
from gscl_scale.evaluate.ranking import ring_ranking
from gscl_scale.evaluate.similarity import RingLists, ring_similarity, spread
from gscl_scale.rings.sample import Lists

NOTHING = Lists(np.array([0, 0, 0]), np.array([], np.int32))
# node 0 looks at 1 (near), 2 (two hops), 3 (beyond); node 4 has a near node and nothing farther
NEAR = Lists(np.array([0, 1, 2]), np.array([1, 3], np.int32))
FARTHER = [Lists(np.array([0, 1, 1]), np.array([node], np.int32)) for node in (2, 3)]


def random_lists(levels: int) -> RingLists:
    """400 anchors with 10 members in every ring."""
    draw = seeding.generator("pairs", 1)
    return RingLists(
        np.arange(400), [Lists(np.arange(0, 4001, 10), draw.integers(0, 400, 4000)) for _ in range(levels)]
    )


def test_ring_similarity_is_the_mean_cosine_of_anchors_and_members() -> None:
    levels = [Lists(np.array([0, 1, 1]), np.array([1])), Lists(np.array([0, 1, 3]), np.array([2, 0, 2])), NOTHING]
    vectors = np.array([[1, 0], [2, 2], [0, 3]], np.float32)
    first, second, third = ring_similarity(vectors, RingLists(np.array([0, 2]), levels))
    assert first["mean"] == pytest.approx(np.sqrt(0.5))
    assert second["mean"] == pytest.approx((0 + 0 + 1) / 3)
    assert second["quantiles"][2] == pytest.approx(0)
    assert sum(second["histogram"]) == second["pairs"] == 3
    assert third == {"pairs": 0, "mean": None, "quantiles": [], "histogram": []}


@pytest.mark.parametrize("figure", [ring_similarity, ring_ranking])
def test_pairs_are_bounded_and_their_sample_is_seeded(figure) -> None:
    vectors = seeding.generator("vectors", 1).standard_normal((400, 8)).astype(np.float32)
    one, again, other = (figure(vectors, random_lists(3), seed, 3000) for seed in (0, 0, 1))
    assert one == again != other
    if figure is ring_similarity:
        assert [level["pairs"] for level in one] == [3000] * 3
    else:
        assert one["by_hop"] == pytest.approx([0.5, 0.5], abs=0.05)  # noise ranks by chance


@pytest.mark.parametrize(
    ("angles", "by_hop"),
    [
        ([0, 1, 2, 3, 0], [1.0, 1.0]),  # nearer is more similar
        ([0, 3, 2, 1, 0], [0.0, 0.0]),
        ([0, 1, 3, 2, 0], [1.0, 0.0]),
        ([0, 1, 1, 1, 0], [0.5, 0.5]),  # no difference counts half
    ],
)
def test_ranking_accuracy_is_the_share_of_pairs_in_which_the_nearer_node_is_more_similar(angles, by_hop) -> None:
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    ranking = ring_ranking(vectors, RingLists(np.array([0, 4]), [NEAR, *FARTHER]))
    assert ranking == {"accuracy": np.mean(by_hop), "by_hop": by_hop}


def test_pairs_of_an_anchor_without_anything_farther_do_not_count() -> None:
    ranking = ring_ranking(np.ones((5, 2), np.float32), RingLists(np.array([0, 4]), [NEAR, NOTHING, NOTHING]))
    assert ranking == {"accuracy": None, "by_hop": [None, None]}


def test_each_farther_ring_is_drawn_alike_whatever_its_size() -> None:
    vectors = np.array([[1, 0], [0.9, 0.1], [0.5, 0.5], [1, 0.01]], np.float32)
    # one node that is less similar than the near one, and 900 that are more similar
    levels = [Lists(np.array([0, count]), np.full(count, node)) for count, node in ((2000, 1), (1, 2), (900, 3))]
    assert ring_ranking(vectors, RingLists(np.array([0]), levels))["by_hop"][0] == pytest.approx(0.5, abs=0.05)


def test_spread_tells_collapsed_vectors_from_full_ones() -> None:
    full = seeding.generator("spread test", 1).standard_normal((2000, 16)).astype(np.float32)
    collapsed = np.ones((2000, 16), np.float32) + 1e-3 * full
    assert spread(full)["effective_rank"] == pytest.approx(16, abs=0.5)
    assert abs(spread(full)["mean_cosine"]) < 0.02
    assert spread(collapsed)["effective_rank"] < 1.3
    assert spread(collapsed)["mean_cosine"] > 0.99
