import threading

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gscl_scale.model import kernels

ROWS = 700  # enough for more threads than one
DTYPES = [np.float32, np.float64]
THREADS = [1, 3]


@pytest.fixture(autouse=True)
def threads(request):
    """Run with torch's threads as the test asks, by its parameter `threads`."""
    before = torch.get_num_threads()
    torch.set_num_threads(getattr(request, "param", 3))
    yield torch.get_num_threads()
    torch.set_num_threads(before)


def matrix_of(rows, columns, dtype, seed=0, share=0.05):
    """Random entries, every third row empty."""
    generator = np.random.default_rng(seed)
    dense = generator.normal(size=(rows, columns)) * (generator.random((rows, columns)) < share)
    dense[::3] = 0
    return sp.csr_array(dense.astype(dtype))


def with_a_huge_row(matrix):
    """The matrix with all columns in one row, in the middle."""
    dense = matrix.toarray()
    dense[dense.shape[0] // 2] = np.linspace(-1, 1, dense.shape[1])
    return sp.csr_array(dense)


def product(matrix, dense):
    return kernels.sparse_times_dense(matrix.indptr, matrix.indices, matrix.data, dense)


def normal(rows, columns, dtype, seed=1):
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(dtype)


def assert_close(found, expected):
    assert found.dtype == expected.dtype
    tolerance = 1e-5 if expected.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("threads", THREADS, indirect=True)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 7, 16, 33])
@pytest.mark.parametrize("huge", [False, True])
def test_the_product_is_that_of_scipy(threads, dtype, width, huge):
    matrix = matrix_of(ROWS, 3000 if huge else 50, dtype)
    if huge:
        matrix = with_a_huge_row(matrix)
    dense = normal(matrix.shape[1], width, dtype)
    assert_close(product(matrix, dense), matrix @ dense)


@pytest.mark.parametrize("threads", THREADS, indirect=True)
@pytest.mark.parametrize("rows", [1, 3, 255, 256, 257])
def test_any_number_of_rows_is_covered_once(threads, rows):
    matrix = matrix_of(rows, 20, np.float64, share=0.5)
    dense = normal(20, 4, np.float64)
    assert_close(product(matrix, dense), matrix @ dense)


@pytest.mark.parametrize("threads", THREADS, indirect=True)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_without_entries_are_zero_in_whatever_memory_they_are_written_to(threads, dtype):
    empty = sp.csr_array((ROWS, 5), dtype=dtype)
    for _ in range(3):
        np.full((ROWS, 3), np.nan, dtype)  # memory that the next array may be given
        assert (product(empty, normal(5, 3, dtype)) == 0).all()


@pytest.mark.parametrize("threads", THREADS, indirect=True)
@pytest.mark.parametrize(("rows", "columns", "width"), [(0, 5, 3), (ROWS, 0, 3), (ROWS, 5, 0), (0, 0, 0)])
def test_a_product_without_rows_or_columns_has_the_shape_of_one(threads, rows, columns, width):
    matrix = sp.csr_array((rows, columns), dtype=np.float32)
    found = product(matrix, np.ones((columns, width), np.float32))
    assert found.shape == (rows, width)
    assert (found == 0).all()


def test_pointers_of_both_widths_give_the_same_product():
    matrix, dense = matrix_of(ROWS, 40, np.float32), normal(40, 5, np.float32)
    wide = kernels.sparse_times_dense(
        matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data, dense
    )
    assert (wide == product(matrix, dense)).all()


def test_the_number_of_threads_changes_no_bit():
    matrix, dense = with_a_huge_row(matrix_of(ROWS, 900, np.float32)), normal(900, 9, np.float32)
    ends = normal(ROWS, 9, np.float32)
    found = []
    for number in (1, 2, 3, 8):
        torch.set_num_threads(number)
        found.append((product(matrix, dense), kernels.dots(matrix.indptr, matrix.indices, ends, dense)))
    assert all((one == found[0][0]).all() and (other == found[0][1]).all() for one, other in found)


@pytest.mark.parametrize("threads", THREADS, indirect=True)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 7, 16, 33])
@pytest.mark.parametrize("huge", [False, True])
def test_dots_are_the_entries_of_the_whole_product_of_all_with_all(threads, dtype, width, huge):
    matrix = matrix_of(ROWS, 3000 if huge else 50, dtype)
    if huge:
        matrix = with_a_huge_row(matrix)
    left, right = normal(ROWS, width, dtype), normal(matrix.shape[1], width, dtype, seed=2)
    rows = np.repeat(np.arange(ROWS), np.diff(matrix.indptr))
    found = kernels.dots(matrix.indptr, matrix.indices, left, right)
    assert_close(found, (left @ right.T)[rows, matrix.indices])


@pytest.mark.parametrize("threads", THREADS, indirect=True)
@pytest.mark.parametrize("rows", [0, ROWS])
def test_dots_of_no_pairs_are_none(threads, rows):
    empty = sp.csr_array((rows, 5), dtype=np.float32)
    found = kernels.dots(empty.indptr, empty.indices, np.ones((rows, 3), np.float32), np.ones((5, 3), np.float32))
    assert found.shape == (0,)


@pytest.mark.parametrize("degree", [np.full(1001, 5), np.r_[np.zeros(500), 10_000, np.ones(500)], np.zeros(1001)])
def test_ranges_of_rows_cover_all_rows_once_and_none_but_a_huge_row_is_long(degree):
    indptr = np.concatenate([[0], np.cumsum(degree)]).astype(np.int32)
    ranges = []
    kernels._over_rows(indptr, lambda first, end: ranges.append((first, end)))
    assert [row for first, end in sorted(ranges) for row in range(first, end)] == list(range(1001))
    work = [end - first + indptr[end] - indptr[first] for first, end in ranges]
    assert max(work) <= sum(work) / 12 + max(degree) + 1


@pytest.mark.parametrize("in_the_callers_own", [True, False])
def test_an_error_in_any_thread_is_raised(in_the_callers_own):
    failed = threading.Event()

    def work(first, end):
        own = threading.current_thread() is threading.main_thread()
        if own == in_the_callers_own:
            failed.set()
            raise ZeroDivisionError("of this thread")
        assert failed.wait(10)

    with pytest.raises(ZeroDivisionError, match="of this thread"):
        kernels._over_rows(np.arange(ROWS + 1), work)


def test_work_goes_on_in_the_same_threads_after_an_error():
    def fail(first, end):
        raise ZeroDivisionError

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            kernels._over_rows(np.arange(ROWS + 1), fail)
    matrix, dense = matrix_of(ROWS, 40, np.float64), normal(40, 5, np.float64)
    assert_close(product(matrix, dense), matrix @ dense)


def test_several_callers_at_once_get_each_their_own_product():
    matrices = [matrix_of(ROWS, 40, np.float64, seed) for seed in range(4)]
    dense = normal(40, 5, np.float64)
    found = [[] for _ in matrices]

    def many(number):
        found[number] += [product(matrices[number], dense) for _ in range(20)]

    callers = [threading.Thread(target=many, args=(number,)) for number in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for matrix, results in zip(matrices, found, strict=True):
        assert len(results) == 20
        for result in results:
            assert_close(result, matrix @ dense)
