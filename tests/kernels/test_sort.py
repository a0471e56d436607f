"""The sort that kernels share."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gscl_scale.kernels.sort import sort_part

NUMBERS = st.lists(st.integers(-50, 50), max_size=300)


@given(NUMBERS, NUMBERS, NUMBERS)
def test_a_part_is_sorted_and_the_rest_stays(before, part, after):
    values = np.array([*before, *part, *after], np.int32)
    low, high = len(before), len(before) + len(part)
    sort_part(values, low, high)
    assert values.tolist() == [*before, *sorted(part), *after]


def test_long_rows_of_any_order_are_sorted():
    draws = np.random.default_rng(0).integers(0, 1 << 40, 100_000)
    for values in (draws, np.sort(draws), np.sort(draws)[::-1].copy(), np.zeros(100_000, np.int64)):
        expected = np.sort(values)
        sort_part(values, 0, values.size)
        assert (values == expected).all()
