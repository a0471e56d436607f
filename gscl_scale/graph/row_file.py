"""Rows that do not fit the memory."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class RowStream:
    """Rows of float32 [N, width] that come a part at a time."""

    shape: tuple[int, int]
    parts: Iterable[npt.NDArray[np.float32]]
