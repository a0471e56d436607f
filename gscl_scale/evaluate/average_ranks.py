"""Average ranks of methods over several graphs, and which of them differ significantly (Demsar, JMLR 7, 2006)."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

ALPHA = 0.05  # of the critical difference
LEAST_GRAPHS = 3  # that all methods have; with fewer nothing is ranked

Figures = Mapping[tuple[str, str], float]  # by (method, graph); higher is better


@dataclass(frozen=True)
class AverageRanks:
    """The average rank of each method over graphs that all of them have; 1 is the best, and ties share a rank.

    graphs       those that count
    chi_square   the statistic of Friedman's test
    p_value      the probability of so large a statistic if all methods are alike
    critical     Nemenyi's critical difference: average ranks that are closer do not differ significantly
    left_out     methods and graphs that do not count, each with the reason
    """

    graphs: list[str]
    ranks: dict[str, float]
    chi_square: float
    p_value: float
    critical: float
    left_out: dict[str, str]

    def groups(self) -> Iterator[list[str]]:
        """The largest groups of methods without a significant difference, the best first; none of a single method.

        Where Friedman's test finds no difference at all it is one group.
        """
        order, end = sorted(self.ranks, key=lambda name: self.ranks[name]), 0
        least = self.critical if self.p_value < ALPHA else math.inf
        for first, name in enumerate(order):
            near = [other for other in order[first:] if self.ranks[other] - self.ranks[name] < least]
            if len(near) > 1 and first + len(near) > end:
                end = first + len(near)
                yield near


def average_ranks(figures: Figures) -> AverageRanks | None:
    """Rank methods on every graph; None with fewer than two methods or `LEAST_GRAPHS` graphs that all of them have.

    A method that lacks more than half of the graphs is left out, then each graph that one of the others lacks.
    """
    methods = list(dict.fromkeys(method for method, _ in figures))
    graphs = list(dict.fromkeys(graph for _, graph in figures))
    lacking = {method: [graph for graph in graphs if (method, graph) not in figures] for method in methods}
    few = {method: lacks for method, lacks in lacking.items() if 2 * len(lacks) > len(graphs)}
    compared = [method for method in methods if method not in few]
    absent = {graph: [method for method in compared if graph in lacking[method]] for graph in graphs}
    complete = [graph for graph in graphs if not absent[graph]]
    if len(compared) < 2 or len(complete) < LEAST_GRAPHS:
        return None
    ranks = ranks_of(np.array([[figures[method, graph] for method in compared] for graph in complete]))
    chi_square, p_value = friedman_test(ranks)
    return AverageRanks(
        graphs=complete,
        ranks=dict(zip(compared, ranks.mean(axis=0).tolist(), strict=True)),
        chi_square=chi_square,
        p_value=p_value,
        critical=critical_difference(len(compared), len(complete)),
        left_out={
            **{method: f"measured on {_others(graphs, lacks)} only" for method, lacks in few.items()},
            **{graph: f"not measured: {', '.join(lacks)}" for graph, lacks in absent.items() if lacks},
        },
    )


def _others(names: list[str], without: list[str]) -> str:
    return ", ".join(name for name in names if name not in without)


def ranks_of(figures: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The ranks [N, k] of k figures on each of N graphs: the highest has rank 1, equal ones their mean rank."""
    higher = (figures[:, None, :] > figures[:, :, None]).sum(axis=2)
    equal = (figures[:, None, :] == figures[:, :, None]).sum(axis=2)
    ranks: npt.NDArray[np.float64] = higher + (equal + 1) / 2
    return ranks


def friedman_test(ranks: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Chi-square of Friedman's test of ranks [N, k], corrected for ties, and its p-value."""
    graphs, methods = ranks.shape
    center = (methods + 1) / 2
    spread = float(np.square(ranks - center).sum())
    if spread == 0:  # all tie everywhere
        return 0.0, 1.0
    statistic = (methods - 1) * graphs**2 * float(np.square(ranks.mean(axis=0) - center).sum()) / spread
    return statistic, float(chdtrc(methods - 1, statistic))


def critical_difference(methods: int, graphs: int, alpha: float = ALPHA) -> float:
    """Nemenyi's critical difference of average ranks: q of the studentized range, over the square root of 2."""
    from scipy.stats import studentized_range  # takes a second to import

    q = float(studentized_range.ppf(1 - alpha, methods, math.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * graphs))
