"""Turning embeddings into the space of earlier ones."""

import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.stats

from gscl_scale.embed.rotation import alignment, best_rotation, common_nodes
from gscl_scale.embed.store import take_rows
from gscl_scale.graph.graph import Graph
from tests.embed.test_stage import trained  # noqa: F401
from tests.graphs import make_graph, random_edges

DRAW = np.random.Generator(np.random.Philox(5))
ROWS = DRAW.normal(size=(500, 8)).astype(np.float32)
TURN = scipy.stats.ortho_group.rvs(8, random_state=1).astype(np.float32)


def test_the_best_rotation_undoes_a_rotation_whatever_the_lengths():
    turned = (ROWS @ TURN) * DRAW.uniform(0.1, 10, (500, 1)).astype(np.float32)
    rotation = best_rotation(turned, ROWS)
    np.testing.assert_allclose(rotation, TURN.T, atol=1e-5)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(8), atol=1e-5)


def test_alignment_is_one_for_a_rotation_and_small_for_noise():
    assert alignment(ROWS @ TURN, ROWS) == pytest.approx(1.0, abs=1e-5)
    assert abs(alignment(DRAW.normal(size=(500, 8)).astype(np.float32), ROWS)) < 0.2


def test_alignment_is_not_measured_where_widths_differ_or_rows_are_few():
    assert alignment(ROWS[:, :4], ROWS) is None
    assert alignment(ROWS[:10], ROWS[:10]) is None


def test_rows_are_those_of_the_nodes_that_are_asked_for(trained, tmp_path):  # noqa: F811
    _, run, vectors, _ = trained
    folder = tmp_path / "embeddings"
    shutil.copytree(run.embeddings, folder)
    pq.write_table(pq.read_table(folder / "embeddings.parquet"), folder / "embeddings.parquet", row_group_size=7)
    np.testing.assert_array_equal(take_rows(folder, np.array([0, 3, 79])), vectors[[0, 3, 79]])
    np.testing.assert_array_equal(take_rows(folder, np.array([79, 0, 3])), vectors[[79, 0, 3]])
    assert take_rows(folder, np.array([], np.int64)).shape == (0, vectors.shape[1])


def test_common_nodes_are_found_by_the_ids_of_the_user(tmp_path):
    edges = random_edges(30, 60, seed=1)
    make_graph(tmp_path / "one", edges, 30, ids=[f"n{v}" for v in range(30)])
    make_graph(tmp_path / "two", edges, 30, ids=[f"n{v}" for v in range(40, 10, -1)])
    common = common_nodes(Graph.open(tmp_path / "one"), Graph.open(tmp_path / "two"))
    assert {(int(a), int(b)) for a, b in zip(common.earlier, common.later, strict=True)} == {
        (v, 40 - v) for v in range(11, 30)
    }
    assert common_nodes(Graph.open(tmp_path / "one"), Graph.open(tmp_path / "two"), most=5).later.size == 5
