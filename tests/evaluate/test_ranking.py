import numpy as np
import pytest

from gscl_scale import seeding
from gscl_scale.evaluate.ranking import ring_ranking
from gscl_scale.rings.sample import Lists

# node 0 looks at 1 (near), 2 (two hops), 3 (beyond); node 4 has a near node and nothing farther
ANCHORS = np.array([0, 4])
LEVELS = [
    Lists(np.array([0, 1, 2]), np.array([1, 3], np.int32)),
    Lists(np.array([0, 1, 1]), np.array([2], np.int32)),
    Lists(np.array([0, 1, 1]), np.array([3], np.int32)),
]


@pytest.mark.parametrize(
    ("angles", "by_hop"),
    [
        ([0, 1, 2, 3, 0], [1.0, 1.0]),  # nearer is more similar
        ([0, 3, 2, 1, 0], [0.0, 0.0]),
        ([0, 1, 3, 2, 0], [1.0, 0.0]),
        ([0, 1, 1, 1, 0], [0.5, 0.5]),  # no difference counts half
    ],
)
def test_accuracy_is_the_share_of_pairs_in_which_the_nearer_node_is_more_similar(angles, by_hop):
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    found = ring_ranking(vectors, ANCHORS, LEVELS)
    assert found == {"accuracy": np.mean(by_hop), "by_hop": by_hop}


def test_pairs_of_an_anchor_without_anything_farther_do_not_count():
    nothing = Lists(np.array([0, 0, 0]), np.array([], np.int32))
    found = ring_ranking(np.ones((5, 2), np.float32), ANCHORS, [LEVELS[0], nothing, nothing])
    assert found == {"accuracy": None, "by_hop": [None, None]}


def test_noise_ranks_by_chance_and_the_sample_is_seeded():
    draw = seeding.generator("ranking test", 1)
    vectors = draw.standard_normal((400, 8)).astype(np.float32)
    lists = [Lists(np.arange(0, 4001, 10), draw.integers(0, 400, 4000)) for _ in range(3)]
    anchors = np.arange(400)
    one, two, other = (ring_ranking(vectors, anchors, lists, seed, 3000) for seed in (0, 0, 1))
    assert one == two != other
    assert one["by_hop"] == pytest.approx([0.5, 0.5], abs=0.05)


def test_each_farther_ring_is_drawn_alike_whatever_its_size():
    vectors = np.array([[1, 0], [0.9, 0.1], [0.5, 0.5], [1, 0.01]], np.float32)
    levels = [
        Lists(np.array([0, 1]), np.array([1])),
        Lists(np.array([0, 1]), np.array([2])),  # less similar than the near node
        Lists(np.array([0, 900]), np.full(900, 3)),  # more similar
    ]
    many = [Lists(lists.offsets.repeat(2)[[0, 2]], lists.members) for lists in levels]
    near = [Lists(np.array([0, 2000]), np.full(2000, 1)), *many[1:]]
    assert ring_ranking(vectors, np.array([0]), near)["by_hop"][0] == pytest.approx(0.5, abs=0.05)
