"""Rows from a stream of edges."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gscl_scale.errors import GraphError
from gscl_scale.graph import csr
from gscl_scale.graph.csr import EdgeSpool, build_csr, index_dtype

AWKWARD = {
    "no edges": (4, []),
    "only self-loops": (3, [(0, 0), (2, 2), (2, 2)]),
    "repeats": (3, [(0, 1), (0, 1), (0, 1), (1, 2)]),
    "both directions": (3, [(0, 1), (1, 0), (2, 1), (1, 2)]),
    "isolated at both ends": (6, [(2, 3), (3, 4)]),
    "a hub": (8, [(3, v) for v in range(8)] + [(v, 3) for v in range(0, 8, 2)]),
    "one node": (1, [(0, 0)]),
    "all of it": (5, [(4, 0), (0, 4), (1, 1), (4, 2), (4, 2), (2, 4), (0, 4)]),
}


def rows_of(folder, num_nodes, edges, undirected, memory_bytes=1 << 20, chunk=3):
    folder.mkdir(parents=True, exist_ok=True)
    ends = np.asarray(edges, np.int64).reshape(-1, 2)
    with EdgeSpool(folder, num_nodes, "test") as spool:
        for low in range(0, len(ends), chunk):
            spool.add(ends[low : low + chunk, 0], ends[low : low + chunk, 1])
        indptr, indices, counts = build_csr(spool, undirected, folder, memory_bytes)
    return indptr, np.array(indices), counts


def obvious(num_nodes, edges, undirected):
    ends = np.asarray(edges, np.int64).reshape(-1, 2)
    matrix = sp.coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(num_nodes, num_nodes)).tolil()
    matrix.setdiag(0)
    matrix = matrix.tocsr()
    matrix = sp.csr_array(matrix + matrix.T if undirected else matrix)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix.indptr, matrix.indices


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("name", AWKWARD)
def test_rows_equal_those_of_an_obvious_sparse_matrix(tmp_path, name, undirected):
    num_nodes, edges = AWKWARD[name]
    indptr, indices, counts = rows_of(tmp_path, num_nodes, edges, undirected)
    expected_indptr, expected_indices = obvious(num_nodes, edges, undirected)
    np.testing.assert_array_equal(indptr, expected_indptr)
    np.testing.assert_array_equal(indices, expected_indices)
    assert counts.edges_given == len(edges)
    assert counts.self_loops == sum(u == v for u, v in edges)
    assert counts.entries == indices.size


@given(
    edges=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=60),
    undirected=st.booleans(),
    memory_bytes=st.sampled_from([1, 64, 200, 1 << 20]),
)
def test_any_edges_and_any_memory_give_the_rows_of_the_sparse_matrix(tmp_path_factory, edges, undirected, memory_bytes):
    indptr, indices, _ = rows_of(tmp_path_factory.mktemp("rows"), 12, edges, undirected, memory_bytes)
    expected_indptr, expected_indices = obvious(12, edges, undirected)
    np.testing.assert_array_equal(indptr, expected_indptr)
    np.testing.assert_array_equal(indices, expected_indices)


@pytest.mark.parametrize("undirected", [True, False])
def test_many_buckets_give_the_same_bytes_as_one(tmp_path, monkeypatch, undirected):
    draw = np.random.default_rng(0)
    edges = draw.integers(0, 200, (3000, 2))
    whole = rows_of(tmp_path / "one", 200, edges, undirected, chunk=1000)
    monkeypatch.setattr(csr, "_CHUNK_EDGES", 257)
    parts = rows_of(tmp_path / "many", 200, edges, undirected, memory_bytes=512, chunk=1000)
    assert whole[0].tobytes() == parts[0].tobytes()
    assert whole[1].tobytes() == parts[1].tobytes()
    assert whole[2] == parts[2]


def test_tiny_memory_really_uses_many_buckets(tmp_path, monkeypatch):
    taken = []
    distribute = csr._distribute
    monkeypatch.setattr(csr, "_distribute", lambda *args: taken.append(len(args[2]) - 1) or distribute(*args))
    edges = np.random.default_rng(0).integers(0, 200, (3000, 2))
    rows_of(tmp_path, 200, edges, True, memory_bytes=512)
    assert taken[0] > 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["indices.raw"]


def test_the_order_of_the_edges_does_not_matter(tmp_path):
    edges = np.random.default_rng(1).integers(0, 30, (200, 2))
    first = rows_of(tmp_path / "a", 30, edges, False)
    second = rows_of(tmp_path / "b", 30, edges[::-1], False, chunk=7)
    assert first[1].tobytes() == second[1].tobytes()


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        (([0, 5], [1, 1]), "edge 1 names node 5, expected 0 to 3"),
        (([0, 0], [1, -1]), "edge 1 names node -1"),
        ((np.array([2**63], np.uint64), np.array([0], np.uint64)), "names node 9223372036854775808"),
        (([0.0], [1.0]), "expected two equally long rows of integers"),
        (([0, 1], [1]), "expected two equally long rows of integers"),
        ((np.int64(0), np.int64(1)), "expected two equally long rows of integers"),
        (([True], [False]), "expected two equally long rows of integers"),
    ],
)
def test_edges_that_are_none_are_refused(tmp_path, ends, sentence):
    with EdgeSpool(tmp_path, 4, "test") as spool, pytest.raises(GraphError, match=sentence):
        spool.add(*map(np.asarray, ends))


def test_the_position_of_a_wrong_edge_counts_all_chunks(tmp_path):
    with EdgeSpool(tmp_path, 4, "test") as spool:
        spool.add(np.arange(3), np.arange(3))
        with pytest.raises(GraphError, match=r"test: edge 3 names node 4"):
            spool.add(np.array([4]), np.array([0]))


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint64, ">i8"])
def test_integers_of_every_width_are_welcome(tmp_path, kind):
    with EdgeSpool(tmp_path, 4, "test") as spool:
        spool.add(np.array([0, 3], kind), np.array([1, 2], kind))
        np.testing.assert_array_equal(next(spool.chunks()), [[0, 1], [3, 2]])


def test_the_spool_deletes_its_file(tmp_path):
    with EdgeSpool(tmp_path, 4, "test"):
        pass
    assert not list(tmp_path.iterdir())


def test_indices_are_32_bits_wide_as_long_as_that_is_enough():
    assert index_dtype(2**31 - 1) is np.int32
    assert index_dtype(2**31) is np.int64


@pytest.mark.parametrize("entries_at_once", [1, 5, 7, 1000])
def test_ranges_of_vertices_cover_all_and_fit_the_memory_or_are_one_vertex(entries_at_once):
    degrees = np.array([0, 3, 2, 9, 0, 0, 5, 1, 0])
    bounds = csr._ranges(degrees, entries_at_once)
    assert (bounds[0], bounds[-1]) == (0, 9)
    for low, high in itertools.pairwise(bounds):
        assert low < high
        assert degrees[low:high].sum() <= entries_at_once or high == low + 1
