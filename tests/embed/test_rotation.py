"""Rotations of embeddings into the space of earlier ones."""

import numpy as np
import pytest
import scipy.stats

from gscl_scale.embed.rotation import alignment, best_rotation, common_nodes, lack_for_alignment
from gscl_scale.graph.graph import Graph
from tests.graphs import make_graph, random_edges

DRAW = np.random.Generator(np.random.Philox(5))
ROWS = DRAW.normal(size=(500, 8)).astype(np.float32)
TURN = scipy.stats.ortho_group.rvs(8, random_state=1).astype(np.float32)


def test_the_best_rotation_undoes_a_rotation_whatever_the_lengths():
    turned = (ROWS @ TURN) * DRAW.uniform(0.1, 10, (500, 1)).astype(np.float32)
    rotation = best_rotation(turned, ROWS)
    np.testing.assert_allclose(rotation, TURN.T, atol=1e-5)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(8), atol=1e-5)


def test_alignment_is_one_for_a_rotation_small_for_noise_and_none_where_widths_differ_or_rows_are_few():
    assert alignment(ROWS @ TURN, ROWS) == pytest.approx(1.0, abs=1e-5)
    assert abs(alignment(DRAW.normal(size=(500, 8)).astype(np.float32), ROWS)) < 0.2
    assert alignment(ROWS[:, :4], ROWS) is None
    assert alignment(ROWS[:10], ROWS[:10]) is None
    assert lack_for_alignment(ROWS[:, :4], ROWS) == "the embeddings have 4 columns now and had 8"
    assert "10 nodes in common, expected at least 16" in lack_for_alignment(ROWS[:10], ROWS[:10])
    assert lack_for_alignment(ROWS[:16], ROWS[:16]) == ""


def test_common_nodes_are_found_by_the_ids_of_the_user(tmp_path):
    edges = random_edges(30, 60, seed=1)
    make_graph(tmp_path / "one", edges, 30, ids=[f"n{v}" for v in range(30)])
    make_graph(tmp_path / "two", edges, 30, ids=[f"n{v}" for v in range(40, 10, -1)])
    one, two = Graph.open(tmp_path / "one"), Graph.open(tmp_path / "two")
    common = common_nodes(one, two)
    assert common.later.tolist() == list(range(11, 30))
    assert common.earlier.tolist() == [40 - v for v in range(11, 30)]
    assert common_nodes(one, two, most=5).later.size == 5


def test_an_integer_and_its_text_are_the_same_id(tmp_path):
    edges = random_edges(30, 60, seed=1)
    make_graph(tmp_path / "one", edges, 30, ids=range(1000, 1030))
    make_graph(tmp_path / "two", edges, 30, ids=["A7", *(str(v) for v in range(1029, 1000, -1))])
    one, two = Graph.open(tmp_path / "one"), Graph.open(tmp_path / "two")
    assert common_nodes(one, two).earlier.tolist() == common_nodes(two, one).later.tolist()[::-1]
    assert common_nodes(one, two).later.tolist() == list(range(1, 30))
