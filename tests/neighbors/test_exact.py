import os
import subprocess
import sys

import numpy as np
import pytest

from gscl_scale.embed.vector_file import unit_rows
from gscl_scale.neighbors import exact
from tests.neighbors.folders import drawn, slow_nearest, write_folder


def found(embeddings, nodes, count):
    nodes = np.asarray(nodes)
    return exact.exact_search(embeddings, unit_rows(embeddings.take(nodes)), nodes, count)


@pytest.mark.parametrize(("group", "count"), [(64, 10), (7, 10), (1000, 3), (1, 5)])
def test_the_nearest_are_those_of_a_slow_search_however_the_file_is_cut(tmp_path, group, count):
    vectors = drawn(300)
    embeddings = write_folder(tmp_path, vectors, group=group)
    nodes = [299, 0, 7, 64, 63]
    near = found(embeddings, nodes, count)
    for place, node in enumerate(nodes):
        rows, cosines = slow_nearest(vectors, node, count)
        assert near.rows[place].tolist() == rows
        np.testing.assert_allclose(near.cosines[place], cosines, atol=1e-5)


def test_more_queries_than_fit_in_one_product_get_the_same_answers(tmp_path, monkeypatch):
    embeddings = write_folder(tmp_path, drawn(200))
    whole = found(embeddings, range(200), 4)
    monkeypatch.setattr(exact, "_QUERIES", 3)
    np.testing.assert_array_equal(found(embeddings, range(200), 4).rows, whole.rows)


@pytest.mark.parametrize(
    ("vectors", "group", "node", "rows", "cosines"),
    [
        (np.repeat(np.eye(2), 4, axis=0), 3, 2, [0, 1, 3, 4, 5], [1, 1, 1, 0, 0]),
        (np.eye(3)[np.arange(300) % 3], 64, 150, [0, 3, 6, 9], [1, 1, 1, 1]),
    ],
    ids=["few", "many"],
)
def test_equal_nodes_come_in_the_order_of_the_table_and_none_is_its_own_neighbour(
    tmp_path, vectors, group, node, rows, cosines
):
    near = found(write_folder(tmp_path, vectors.astype(np.float32), group=group), [node], len(rows))
    assert near.rows.tolist() == [rows]
    np.testing.assert_allclose(near.cosines, [cosines], atol=1e-6)


def test_where_there_are_fewer_nodes_the_places_are_empty_and_a_row_of_zeros_is_far_from_all(tmp_path):
    vectors = np.array([[1, 0], [0, 0], [-1, 0]], np.float32)
    near = found(write_folder(tmp_path, vectors), [0, 1], 4)
    assert near.rows.tolist() == [[1, 2, -1, -1], [0, 2, -1, -1]]
    assert near.cosines[0, :2].tolist() == [0, -1]


def test_memory_does_not_grow_with_the_number_of_nodes(tmp_path):
    program = """
import sys, numpy as np
from pathlib import Path
from gscl_scale import machine
from gscl_scale.neighbors.exact import exact_search
from gscl_scale.embed.store import Embeddings
from gscl_scale.embed.vector_file import unit_rows
embeddings = Embeddings(Path(sys.argv[1]))
nodes = np.array([5])
queries = unit_rows(embeddings.take(nodes))
machine.reset_peak_memory()
before = machine.peak_memory()
exact_search(embeddings, queries, nodes, 10)
print(machine.peak_memory() - before)
"""
    taken = []
    for rows in (40_000, 320_000):
        write_folder(tmp_path / str(rows), drawn(rows, 64), ids=np.arange(rows), group=20_000)
        command = [sys.executable, "-c", program, str(tmp_path / str(rows))]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ))
        taken.append(int(done.stdout))
    assert taken[1] < 45e6  # all rows are 82 MB
    assert taken[1] < taken[0] + 20e6


@pytest.mark.parametrize("factor", [1e-40, 1e-30, 1e-15, 1e15, 1e30])
def test_tiny_and_huge_rows_get_length_one_too(factor):
    rows = np.random.default_rng(0).normal(size=(20, 8))
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    found = unit_rows(np.concatenate([rows * factor, rows, np.zeros((1, 8))]).astype(np.float32))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:20], expected, rtol=1e-5, atol=1e-4 if factor == 1e-40 else 1e-6)  # few digits
    np.testing.assert_allclose(found[20:40], expected, rtol=1e-5)
    assert not found[40].any()
