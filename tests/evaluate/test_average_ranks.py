"""Average ranks beside published examples and another implementation."""

import numpy as np
import pytest
from scipy.stats import friedmanchisquare, rankdata

from gscl_scale.evaluate.average_ranks import AverageRanks, average_ranks, critical_difference, friedman_test, ranks_of

# Demsar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 7 (2006), table 6: AUC of C4.5, and
# with m, cf, both. On voting both 0.975 are rounded: the ranks in the table tell them apart.
AUC = np.array(
    [
        [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.97501, 0.975], [0.957, 0.978, 0.946, 0.970],
    ]
)  # fmt: skip


def by_name(table, names="abcdefgh"):
    return {(names[column], f"graph {row}"): float(value) for (row, column), value in np.ndenumerate(table)}


def test_ranks_and_critical_difference_are_those_of_the_paper():
    found = average_ranks(by_name(AUC))
    assert [round(rank, 3) for rank in found.ranks.values()] == [3.143, 2.0, 2.893, 1.964]
    assert round(found.critical, 2) == 1.25
    assert len(found.graphs) == 14
    squares = sum(rank**2 for rank in found.ranks.values())
    assert round(12 * 14 / (4 * 5) * (squares - 4 * 5**2 / 4), 2) == 9.28  # its statistic, which ties do not correct
    assert found.chi_square > 9.28


@pytest.mark.parametrize(
    ("methods", "alpha", "q"),
    [(2, 0.05, 1.960), (3, 0.05, 2.343), (4, 0.05, 2.569), (5, 0.05, 2.728), (10, 0.05, 3.164), (5, 0.1, 2.459)],
)
def test_critical_values_are_those_of_the_paper(methods, alpha, q):
    scale = np.sqrt(methods * (methods + 1) / (6 * 30))
    assert critical_difference(methods, 30, alpha) / scale == pytest.approx(q, abs=0.0011)  # its table 5


@pytest.mark.parametrize("seed", range(5))
def test_ties_share_a_rank_and_friedmans_test_is_that_of_scipy(seed):
    table = np.random.default_rng(seed).integers(0, 6, (7, 4)).astype(float)
    ranks = ranks_of(table)
    np.testing.assert_array_equal(ranks, rankdata(-table, axis=1))
    expected = friedmanchisquare(*table.T)
    assert friedman_test(ranks) == pytest.approx((expected.statistic, expected.pvalue))


def test_where_all_tie_there_is_no_difference():
    assert friedman_test(ranks_of(np.ones((4, 3)))) == (0.0, 1.0)


def test_a_method_that_lacks_most_graphs_is_left_out_and_then_each_graph_that_a_method_lacks():
    figures = by_name(AUC[:5])
    for graph in range(3):
        del figures["d", f"graph {graph}"]
    del figures["a", "graph 4"]
    found = average_ranks(figures)
    assert (list(found.ranks), found.graphs) == (["a", "b", "c"], [f"graph {n}" for n in range(4)])
    assert found.left_out == {
        "d": "measured on graph 3, graph 4 only",
        "graph 4": "not measured: a",
    }


@pytest.mark.parametrize("kept", [AUC[:2], AUC[:, :1]])
def test_with_two_graphs_or_one_method_nothing_is_ranked(kept):
    assert average_ranks(by_name(kept)) is None
    assert average_ranks({}) is None


def found_with(ranks, critical, p_value=0.01):
    return AverageRanks(["one"], ranks, 9.0, p_value, critical, {})


def test_groups_are_the_largest_that_cannot_be_told_apart():
    ranks = {"worst": 4.5, "best": 1.0, "next": 1.5, "third": 3.0}
    assert list(found_with(ranks, 1.6).groups()) == [["best", "next"], ["next", "third"], ["third", "worst"]]
    assert list(found_with(ranks, 2.1).groups()) == [["best", "next", "third"], ["third", "worst"]]
    assert list(found_with(ranks, 0.5).groups()) == []
    assert list(found_with(ranks, 0.5, p_value=0.06).groups()) == [["best", "next", "third", "worst"]]
