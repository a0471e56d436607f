import numpy as np
import pytest

from gscl_scale import seeding
from gscl_scale.evaluate.similarity import ring_similarity, spread
from gscl_scale.rings.sample import Lists

LEVELS = [
    Lists(np.array([0, 1, 1]), np.array([1], np.int32)),
    Lists(np.array([0, 1, 3]), np.array([2, 0, 2], np.int32)),
    Lists(np.array([0, 0, 0]), np.array([], np.int32)),
]
VECTORS = np.array([[1, 0], [2, 2], [0, 3]], np.float32)


def test_ring_similarity_is_the_mean_cosine_of_anchors_and_members() -> None:
    first, second, third = ring_similarity(VECTORS, np.array([0, 2]), LEVELS)
    assert first["mean"] == pytest.approx(np.sqrt(0.5))
    assert second["mean"] == pytest.approx((0 + 0 + 1) / 3)
    assert second["quantiles"][2] == pytest.approx(0)
    assert sum(second["histogram"]) == second["pairs"] == 3
    assert third == {"pairs": 0, "mean": None, "quantiles": [], "histogram": []}


def test_pairs_are_bounded_and_their_sample_is_seeded() -> None:
    draw = seeding.generator("pairs", 1)
    vectors = draw.standard_normal((50, 4)).astype(np.float32)
    lists = [Lists(np.arange(0, 1001, 20), draw.integers(0, 50, 1000))]
    one, two, other = (ring_similarity(vectors, np.arange(50), lists, seed, 100) for seed in (0, 0, 1))
    assert one == two
    assert one != other
    assert one[0]["pairs"] == 100


def test_spread_tells_collapsed_vectors_from_full_ones() -> None:
    draw = seeding.generator("spread test", 1)
    full = draw.standard_normal((2000, 16)).astype(np.float32)
    collapsed = np.ones((2000, 16), np.float32) + 1e-3 * full
    assert spread(full)["effective_rank"] == pytest.approx(16, abs=0.5)
    assert abs(spread(full)["mean_cosine"]) < 0.02
    assert spread(collapsed)["effective_rank"] < 1.3
    assert spread(collapsed)["mean_cosine"] > 0.99
