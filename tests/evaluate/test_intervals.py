"""Confidence intervals beside other implementations and published figures."""

import numpy as np
import pytest
from scipy.stats import ttest_rel

from gscl_scale.evaluate.intervals import t_interval


def test_on_a_fixed_split_it_is_the_paired_t_of_scipy():
    one, other = np.random.default_rng(0).normal([[0.8], [0.79]], 0.01, (2, 5))
    found, expected = t_interval(list(one - other), 5), ttest_rel(one, other).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert (found.mean, found.count) == (pytest.approx(np.mean(one - other)), 5)


def test_the_correction_is_that_of_a_published_example():
    # scikit-learn, "Statistical comparison of models using grid search": ten times ten folds, t 0.750 in place of 2.611
    values = list(np.random.default_rng(1).normal(0.01, 0.03, 100))
    plain, corrected = t_interval(values, 100), t_interval(values, 100, 1 / 9)
    assert plain.error / corrected.error == pytest.approx(0.750 / 2.611, abs=2e-4)
    assert corrected.mean == plain.mean


def test_fewer_distinct_splits_than_values_widen_it():
    values = [0.1, 0.2, 0.3, 0.4]
    assert t_interval(values, 2).high > t_interval(values, 4).high
    assert t_interval(values, 1) is None
    assert t_interval([], 0) is None


@pytest.mark.parametrize(
    ("overlapping", "ratio", "covers"), [(True, 0.0, False), (True, 0.5, True), (False, 0.0, True)]
)
def test_only_the_corrected_interval_covers_the_truth_where_splits_overlap(overlapping, ratio, covers):
    """Means of random halves, tested on a quarter of the nodes: 15 splits of one sample, or of 15 samples."""
    draw, inside = np.random.default_rng(2), 0
    for _ in range(400):
        sample = draw.normal(0, 1, 60)
        means = []
        for _ in range(15):
            nodes = draw.permutation(sample) if overlapping else draw.normal(0, 1, 60)
            means.append(nodes[:15].mean())
        found = t_interval(means, 15, ratio)
        inside += found.low <= 0 <= found.high
    assert (inside >= 0.92 * 400) == covers
