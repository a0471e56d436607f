"""Sums of numbers in whatever order they come: exact, so that a mean does not depend on the order of a table's rows."""

from fractions import Fraction

import numpy as np
import numpy.typing as npt

_DIGITS = 53  # binary digits of a float
_LOW = 27  # of them, summed apart: the sums of both parts are exact for up to 2^26 numbers at once


class ExactSum:
    """The exact sum of a stream of finite floats.

    >>> total = ExactSum()
    >>> total.add(np.array([1e16, 1.0, -1e16]))
    >>> total.mean(2)
    0.5
    """

    def __init__(self) -> None:
        self._by_exponent: dict[int, int] = {}

    def add(self, numbers: npt.NDArray[np.float64]) -> None:
        """Add some numbers."""
        fractions, exponents = np.frexp(numbers)
        whole = (fractions * 2.0**_DIGITS).astype(np.int64)
        high = whole >> _LOW
        low = whole - (high << _LOW)
        least = int(exponents.min(initial=0))
        places = exponents - least
        for place, sums in enumerate(zip(np.bincount(places, high), np.bincount(places, low), strict=True)):
            part = (int(sums[0]) << _LOW) + int(sums[1])
            self._by_exponent[least + place] = self._by_exponent.get(least + place, 0) + part

    def mean(self, count: int) -> float:
        """The sum divided by a count, rounded once; 0 where there is nothing to divide."""
        parts = (Fraction(part) * Fraction(2) ** (exponent - _DIGITS) for exponent, part in self._by_exponent.items())
        return float(sum(parts, Fraction(0)) / max(count, 1))
