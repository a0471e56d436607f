import numpy as np
import pytest

from gscl_scale.rings.priorities import order_draws


@pytest.mark.parametrize("number", [0, 1, 7, 100, 5_000, 100_000])
@pytest.mark.parametrize("kind", ["distinct", "repeated", "equal", "beyond all numbers"])
def test_ranges_sorted_one_by_one_give_the_order_of_one_stable_sort(number, kind):
    generator = np.random.default_rng(number)
    draws = {
        "distinct": generator.exponential(size=number),
        "repeated": generator.integers(0, 20, number) / 4,
        "equal": np.ones(number),
        "beyond all numbers": generator.choice([0.0, -0.0, 1.0, np.inf], number),
    }[kind]
    weights = None if kind == "equal" else generator.random(number) + 0.5
    expected = draws if weights is None else draws / weights
    order = np.argsort(expected, kind="stable")
    found = order_draws(draws.copy(), weights, np.int32)
    assert found.order.dtype == np.int32
    np.testing.assert_array_equal(found.order, order)
    np.testing.assert_array_equal(found.priority, expected[order])
