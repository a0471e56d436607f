"""Rows from a stream of edges."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st

from gscl_scale.errors import GraphError
from gscl_scale.graph import csr
from gscl_scale.graph.csr import CsrCounts, EdgeBuckets, RowRange, build_rows, index_dtype
from gscl_scale.graph.types import cut_rows
from gscl_scale.io.arrow import map_array
from gscl_scale.io.arrow_writer import ColumnFile, column_file
from tests.slow import slow


def rows_of(folder, num_nodes, edges, undirected, memory_bytes=1 << 20, chunk=3, threads=1):
    folder.mkdir(parents=True, exist_ok=True)
    ends = np.asarray(edges, np.int64).reshape(-1, 2)
    buckets = EdgeBuckets(folder, num_nodes, "test", undirected)
    for low in range(0, len(ends), chunk):
        buckets.add(ends[low : low + chunk, 0], ends[low : low + chunk, 1])
    with column_file(folder / "indices.arrow", "indices", buckets.dtype) as column:
        indptr, counts = build_rows(buckets, column, memory_bytes, threads)
    assert [path.name for path in folder.iterdir()] == ["indices.arrow"]
    return indptr, map_array(folder / "indices.arrow", "indices"), counts


def obvious(num_nodes, edges, undirected):
    ends = np.asarray(edges, np.int64).reshape(-1, 2)
    matrix = sp.coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(num_nodes, num_nodes)).tolil()
    matrix.setdiag(0)
    matrix = matrix.tocsr()
    matrix = sp.csr_array(matrix + matrix.T if undirected else matrix)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix.indptr, matrix.indices


@given(
    edges=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=60),
    undirected=st.booleans(),
    memory_bytes=st.sampled_from([1, 64, 200, 1 << 20]),
)
@example([], True, 64)
@example([(0, 0), (11, 11), (11, 11)], True, 64)
@example([(3, v) for v in range(8)] + [(v, 3) for v in range(0, 8, 2)], False, 1)
@example([(4, 0), (0, 4), (1, 1), (4, 2), (4, 2), (2, 4), (0, 4)], True, 200)
def test_any_edges_and_any_memory_give_the_rows_of_the_sparse_matrix(tmp_path_factory, edges, undirected, memory_bytes):
    indptr, indices, counts = rows_of(tmp_path_factory.mktemp("rows"), 12, edges, undirected, memory_bytes)
    expected_indptr, expected_indices = obvious(12, edges, undirected)
    np.testing.assert_array_equal(indptr, expected_indptr)
    np.testing.assert_array_equal(indices, expected_indices)
    assert counts == CsrCounts(len(edges), sum(u == v for u, v in edges), indices.size)


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("memory_bytes", [512, 1 << 20])
def test_many_buckets_and_threads_give_the_same_bytes_as_one(tmp_path, monkeypatch, undirected, threads, memory_bytes):
    edges = np.random.default_rng(0).integers(0, 200, (3000, 2))
    whole = rows_of(tmp_path / "one", 200, edges, undirected, chunk=1000)
    monkeypatch.setattr(csr, "_LEAST_ROWS", 4)
    monkeypatch.setattr(csr, "_CHUNK_EDGES", 257)
    parts = rows_of(tmp_path / "many", 200, edges, undirected, memory_bytes, 1000, threads)
    assert whole[0].tobytes() == parts[0].tobytes()
    assert (tmp_path / "one" / "indices.arrow").read_bytes() == (tmp_path / "many" / "indices.arrow").read_bytes()
    assert whole[2] == parts[2]


def test_ranges_are_the_buckets_and_parts_of_those_that_exceed_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(csr, "_LEAST_ROWS", 4)
    buckets = EdgeBuckets(tmp_path, 10, "test", False)
    buckets.add(np.array([0, 1, 1, 5, 5, 5, 5, 6]), np.array([9, 8, 7, 0, 1, 2, 3, 0]))
    ranges = [(part.low, part.high, part.last) for part in buckets.ranges(4)]
    assert ranges == [(0, 4, True), (4, 6, False), (6, 8, True), (8, 10, True)]


def test_there_are_never_many_buckets():
    for num_nodes in (1, 4096, 4097, 10**6, 10**9, 2**40):
        count = ((num_nodes - 1) >> csr._shift_of(num_nodes)) + 1
        assert 1 <= count <= 256
    assert csr._shift_of(10**7) == 16


def test_only_so_many_ranges_are_in_memory_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(csr, "_LEAST_ROWS", 4)
    begun, written = [], []
    rows, append = csr.rows_of, ColumnFile.append
    monkeypatch.setattr(csr, "rows_of", lambda part: begun.append(len(written)) or rows(part))
    monkeypatch.setattr(ColumnFile, "append", lambda self, part: written.append(1) or append(self, part))
    rows_of(tmp_path, 200, np.random.default_rng(0).integers(0, 200, (3000, 2)), True, threads=2)
    assert len(begun) == 50
    assert max(number - done for number, done in enumerate(begun)) <= 3


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
    with pytest.raises(GraphError, match=sentence):
        EdgeBuckets(tmp_path, 4, "test", True).add(*map(np.asarray, ends))


def test_the_position_of_a_wrong_edge_counts_all_chunks(tmp_path):
    with pytest.raises(GraphError, match=r"test: edge 4 names node 4"):
        rows_of(tmp_path, 4, [(0, 1)] * 4 + [(4, 0)], True)


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint64, ">i8"])
def test_integers_of_every_width_are_welcome(tmp_path, kind):
    buckets = EdgeBuckets(tmp_path, 4, "test", False)
    buckets.add(np.array([0, 3], kind), np.array([1, 2], kind))
    (part,) = buckets.ranges(100)
    np.testing.assert_array_equal(next(part.pairs()), [[0, 1], [3, 2]])


@pytest.mark.parametrize("entries_at_once", [1, 5, 7, 1000])
def test_ranges_of_vertices_cover_all_and_fit_the_memory_or_are_one_vertex(entries_at_once):
    degrees = np.array([0, 3, 2, 9, 0, 0, 5, 1, 0])
    ranges = list(cut_rows(np.concatenate([[0], np.cumsum(degrees)]), 0, 9, entries_at_once))
    assert [low for low, _ in ranges] + [9] == [0] + [high for _, high in ranges]
    for low, high in ranges:
        assert low < high
        assert degrees[low:high].sum() <= entries_at_once or high == low + 1


def test_counts_and_bounds_beyond_32_bits_are_whole():
    degrees = np.array([3, 2**31, 2**33, 7, 2**31 - 1])
    starts = np.concatenate([[0], np.cumsum(degrees)])
    assert list(cut_rows(starts, 0, 5, 2**32)) == [(0, 2), (2, 3), (3, 5)]
    sizes = np.array([0, 2**31 + 5])
    csr._count(np.array([[1, 0], [1, 2]], np.int32), 0, sizes)
    assert sizes.tolist() == [0, 2**31 + 5]
    starts = np.array([0, 0, 2**32], np.int64)
    csr._count(np.array([[6, 0], [6, 2]], np.int32), 5, starts)
    assert starts.tolist() == [0, 0, 2**32 + 2]


@pytest.mark.parametrize("weights", [np.array([0.5, 3.0], np.float32), *slow(None)])
def test_nodes_beyond_32_bits_have_64_bit_entries(tmp_path, weights):
    far = 2**31 + 17
    buckets = EdgeBuckets(tmp_path, far + 1, "test", True)
    buckets.add(np.array([far, 1]), np.array([0, far]), weights)
    assert (buckets.dtype, index_dtype(2**31 - 1), index_dtype(2**31)) == (np.int64, np.int32, np.int64)
    assert buckets.sizes.size <= 256
    last = list(buckets.ranges(100))[-1]._replace(low=far - 1, high=far + 1)
    _, rows = csr.rows_of(last)
    assert (rows.degrees.tolist(), rows.entries.tolist(), rows.entries.dtype) == ([0, 2], [0, 1], np.int64)
    assert weights is None or rows.weights.tolist() == [0.5, 3.0]
    assert isinstance(last, RowRange)


def test_the_rows_of_a_range_may_hold_more_than_2_31_entries(tmp_path, monkeypatch):
    (tmp_path / "bucket").write_bytes(bytes(8))

    def count(pairs, low, starts):
        starts[1:] += 2**31 - 1

    monkeypatch.setattr(csr, "_count", count)
    starts = RowRange((tmp_path / "bucket",), 0, 3, np.int32, True).starts()
    assert starts.tolist() == [0, 2**31 - 1, 2**32 - 2, 3 * (2**31 - 1)]
