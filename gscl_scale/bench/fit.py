"""How time grows with size: a power law and a straight line through a few measurements."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Growth:
    """time = factor * size ** exponent, and time = fixed + slope * size; both by least squares.

    The power law is fitted to the logarithms; the line to the times relative to themselves, so that small sizes count
    as much as large ones.
    """

    factor: float
    exponent: float
    fixed: float
    slope: float

    def by_power(self, size: float) -> float:
        """Time that the power law gives."""
        return float(self.factor * size**self.exponent)

    def by_line(self, size: float) -> float:
        """Time that the line gives."""
        return float(self.fixed + self.slope * size)


def fit_growth(sizes: Sequence[float], times: Sequence[float]) -> Growth:
    """Fit at least two different sizes.

    >>> round(fit_growth([1, 10, 100], [3, 30, 300]).exponent, 6)
    1.0
    """
    x, y = np.asarray(sizes, np.float64), np.asarray(times, np.float64)
    assert np.unique(x).size > 1
    exponent, logarithm = np.polyfit(np.log(x), np.log(y), 1)
    slope, fixed = np.polyfit(x, y, 1, w=1 / y)
    return Growth(float(np.exp(logarithm)), float(exponent), float(fixed), float(slope))
