"""Confidence intervals of figures that were measured several times: over seeds, or over splits that overlap."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

LEVEL = 0.95


@dataclass(frozen=True)
class Interval:
    """A mean with its standard error, and the ends of its confidence interval; `count` measurements are distinct."""

    mean: float
    error: float
    low: float
    high: float
    count: int


def t_interval(
    values: Sequence[float], count: int, test_per_train: float = 0.0, level: float = LEVEL
) -> Interval | None:
    """The interval of a mean by Student's t; None of fewer than two measurements.

    count            the number of distinct measurements: seeds on a fixed split, else splits
    test_per_train   test nodes for each training node where splits overlap; 0 where measurements are independent

    Splits of the same nodes share most of these, so that their figures vary together, and their spread is too small
    by far for the mean. The corrected resampled t (Nadeau and Bengio, Machine Learning 52, 2003) has the variance
    s^2 (1 / count + test / train) in place of s^2 / count.
    """
    if count < 2:
        return None
    mean = float(np.mean(values))
    error = float(np.std(values, ddof=1)) * math.sqrt(1 / count + test_per_train)
    half = float(stdtrit(count - 1, (1 + level) / 2)) * error
    return Interval(mean, error, mean - half, mean + half, count)
