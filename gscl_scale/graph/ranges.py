"""Ranges of rows that are worked off one after the other."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt


def cut(indptr: npt.NDArray[Any], first: int, end: int, entries: int) -> Iterator[tuple[int, int]]:
    """Ranges from first to end with at most so many entries, or of one row.

    >>> list(cut(np.array([0, 2, 4, 20, 21]), 0, 4, 5))
    [(0, 2), (2, 3), (3, 4)]
    """
    while first < end:
        fitting = int(np.searchsorted(indptr, indptr[first] + entries, "right")) - 1
        until = min(end, max(first + 1, fitting))
        yield first, until
        first = until
