import threading

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gscl_scale.model import kernels

ROWS = 700  # enough for more threads than one


@pytest.fixture(autouse=True)
def threads(request):
    """Run with torch's threads as the test asks, by its parameter `threads`."""
    before = torch.get_num_threads()
    torch.set_num_threads(getattr(request, "param", 3))
    yield torch.get_num_threads()
    torch.set_num_threads(before)


def matrix_of(rows, columns, dtype, seed=0, share=0.05, huge=False):
    """Random entries, every third row empty; `huge`: with all columns in one row, in the middle."""
    generator = np.random.default_rng(seed)
    dense = generator.normal(size=(rows, columns)) * (generator.random((rows, columns)) < share)
    dense[::3] = 0
    if huge:
        dense[rows // 2] = np.linspace(-1, 1, columns)
    return sp.csr_array(dense.astype(dtype))


def product(matrix, dense):
    return kernels.sparse_times_dense(matrix.indptr, matrix.indices, matrix.data, dense)


def normal(rows, columns, dtype, seed=1):
    return np.random.default_rng(seed).normal(size=(rows, columns)).astype(dtype)


def assert_close(found, expected):
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    tolerance = 1e-5 if expected.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def assert_product_and_dots_are_right(matrix, width):
    """The product is that of scipy; dots are the entries of the whole product of all with all."""
    dense = normal(matrix.shape[1], width, matrix.dtype)
    np.full((matrix.shape[0], width), np.nan, matrix.dtype)  # memory that the result may be given
    assert_close(product(matrix, dense), matrix @ dense)
    left, rows = normal(matrix.shape[0], width, matrix.dtype, seed=2), np.arange(matrix.shape[0])
    found = kernels.dots(matrix.indptr, matrix.indices, left, dense)
    assert_close(found, (left @ dense.T)[np.repeat(rows, np.diff(matrix.indptr)), matrix.indices])


@pytest.mark.parametrize("threads", [1, 3], indirect=True)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 7, 16, 33])
@pytest.mark.parametrize("huge", [False, True])
def test_products_and_dots_are_those_of_scipy_and_numpy(threads, dtype, width, huge):
    assert_product_and_dots_are_right(matrix_of(ROWS, 3000 if huge else 50, dtype, huge=huge), width)


@pytest.mark.parametrize("threads", [1, 3], indirect=True)
@pytest.mark.parametrize(
    ("rows", "columns", "width"),
    [(rows, 20, 4) for rows in (1, 3, 255, 256, 257)] + [(0, 5, 3), (ROWS, 0, 3), (ROWS, 5, 0), (0, 0, 0)],
)
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_any_number_of_rows_columns_and_entries_will_do(threads, rows, columns, width, share):
    assert_product_and_dots_are_right(matrix_of(rows, columns, np.float64, share=share), width)


def test_pointers_of_both_widths_give_the_same_product():
    matrix, dense = matrix_of(ROWS, 40, np.float32), normal(40, 5, np.float32)
    pointers = (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64))
    assert (kernels.sparse_times_dense(*pointers, matrix.data, dense) == product(matrix, dense)).all()


def test_the_number_of_threads_changes_no_bit():
    matrix, dense = matrix_of(ROWS, 900, np.float32, huge=True), normal(900, 9, np.float32)
    ends = normal(ROWS, 9, np.float32)
    found = []
    for number in (1, 2, 3, 8):
        torch.set_num_threads(number)
        found.append((product(matrix, dense), kernels.dots(matrix.indptr, matrix.indices, ends, dense)))
    assert all((one == found[0][0]).all() and (other == found[0][1]).all() for one, other in found)


@pytest.mark.parametrize("degree", [np.full(1001, 5), np.r_[np.zeros(500), 10_000, np.ones(500)], np.zeros(1001)])
def test_ranges_of_rows_cover_all_rows_once_and_none_but_a_huge_row_is_long(degree):
    indptr = np.concatenate([[0], np.cumsum(degree)]).astype(np.int32)
    ranges = []
    kernels.over_rows(indptr, lambda first, end: ranges.append((first, end)))
    assert [row for first, end in sorted(ranges) for row in range(first, end)] == list(range(1001))
    work = [end - first + indptr[end] - indptr[first] for first, end in ranges]
    assert max(work) <= sum(work) / 12 + max(degree) + 1


@pytest.mark.parametrize("in_the_callers_own", [True, False])
def test_an_error_in_any_thread_is_raised_and_the_threads_go_on(in_the_callers_own):
    failed = threading.Event()

    def work(first, end):
        own = threading.current_thread() is threading.main_thread()
        if own == in_the_callers_own:
            failed.set()
            raise ZeroDivisionError("of this thread")
        assert failed.wait(10)

    for _ in range(3):
        failed.clear()
        with pytest.raises(ZeroDivisionError, match="of this thread"):
            kernels.over_rows(np.arange(ROWS + 1), work)
    assert_product_and_dots_are_right(matrix_of(ROWS, 40, np.float64), 5)


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
