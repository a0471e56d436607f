"""Hash tables of 64-bit numbers."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gscl_scale.graph.sources.tableids import DistinctIds, NumberRows, NumberSet, table_bytes

ANY = st.lists(st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1)), max_size=60)


@given(ANY, ANY)
@example(list(range(-2000, 20_000)), list(range(30_000)))
def test_a_set_has_the_distinct_numbers_in_order_and_grows(first, second):
    numbers = NumberSet()
    for part in (first, second):
        numbers.add(np.array(part, np.int64))
    assert numbers.sorted().tolist() == sorted({*first, *second})


@given(ANY, ANY)
@example([2**63 - 1], [-(2**63)])
def test_rows_are_found_and_others_are_not(numbers, others):
    distinct = np.array(list(dict.fromkeys(numbers)), np.int64)
    wanted = np.array([*numbers, *others], np.int64)
    rows = {number: row for row, number in enumerate(distinct.tolist())}
    assert NumberRows(distinct).find(wanted).tolist() == [rows.get(number, -1) for number in wanted.tolist()]


@pytest.mark.parametrize("low", [0, -7, 2**62, 2**63 - 101, -(2**63) + 1])
def test_dense_numbers_take_a_plain_table(low):
    numbers = low + np.random.default_rng(0).permutation(100)
    table = NumberRows(numbers)
    assert table._dense
    np.testing.assert_array_equal(table.find(numbers), np.arange(100))
    assert table.find(np.array([low - 1, low + 100, -(2**63), 2**63 - 1])).tolist() == [-1] * 4


@pytest.mark.parametrize("numbers", [np.arange(5000), np.arange(5000) * 1000])
def test_the_bytes_of_a_table_are_known_before_it_is_made(numbers):
    assert table_bytes(numbers.size, numbers[0], numbers[-1]) == NumberRows(numbers)._table.nbytes


def test_distinct_ids_count_all_that_they_hold():
    for numbers in (np.arange(5000), np.char.mod("node %d", np.arange(5000))):
        distinct = DistinctIds()
        before = distinct.nbytes
        distinct.add(pa.array(numbers))
        assert distinct.nbytes - before > pa.array(numbers).nbytes
