"""Edge weights: which numbers are weights, and the file that holds them beside the neighbours."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.io.arrow import map_array
from gscl_scale.io.arrow_writer import column_file
from gscl_scale.kernels.kernel import kernel

Weights = npt.NDArray[np.float32]

WITHOUT = "in Python, weights=False leaves all weights out"
FILE, COLUMN = "edge_weights.arrow", "weight"
_LEAST, _MOST = 1e-20, 1e20  # sums of weights, and one divided by them, are then far inside the range of 32-bit floats
_FAR = 20  # times: farther from 1 the mean weight is worth a hint
_SKEWED = 20  # times the mean: a larger weight is worth one
_AT_ONCE = 1 << 22
_SHORT_ROW = 32  # entries up to which insertion sort is faster


def flaw_of_weights(weights: npt.NDArray[Any]) -> tuple[int, str] | None:
    """Place of the first number that is no weight, and what is wrong with it; None where all are weights."""
    good = (weights >= _LEAST) & (weights <= _MOST)  # NaN is not
    if good.all():
        return None
    at = int(np.argmin(good))
    cure = "an edge of weight 0 is no edge, drop it" if weights[at] == 0 else "correct it or drop the edge"
    return at, f"{weights[at]:g}; expected a number above 0 (from {_LEAST:g} to {_MOST:g}): {cure}"


def map_weights(folder: Path) -> Weights | None:
    """Map the weights of a folder's rows; None where the edges have none."""
    return map_array(folder / FILE, COLUMN, "float") if (folder / FILE).exists() else None


def halve_weights(folder: Path) -> None:
    """Halve the weights of a folder's rows: both directions of all edges were given, and added."""
    weights = map_weights(folder)
    assert weights is not None
    with column_file(folder / FILE, COLUMN, np.float32) as column:
        for part in _parts(weights):
            column.append(part * np.float32(0.5))


def note_on_weights(weights: Weights) -> str:
    """The range of the weights, for the user, and where their unit hides nodes or neighbours."""
    mean = sum(float(part.sum(dtype=np.float64)) for part in _parts(weights)) / weights.size
    least, most = min(float(part.min()) for part in _parts(weights)), max(float(part.max()) for part in _parts(weights))
    words = f"edges have weights from {least:.4g} to {most:.4g}, on average {mean:.4g}"
    if not 1 / _FAR < mean < _FAR:
        words += "; the encoder gcn counts a node itself with weight 1 (see docs/edge_weights.md)"
    if most > _SKEWED * mean:
        words += (
            "; the largest outweigh all others: compare with their logarithms, or with no weights "
            "(graph.weight_column: null, or in Python weights=False)"
        )
    return words


def _parts(weights: Weights) -> Iterator[Weights]:
    return (weights[low : low + _AT_ONCE] for low in range(0, weights.size, _AT_ONCE))


@kernel
def add_repeats(starts, entries, weights, degrees):
    """Sort each row, add up the weights of repeats, and close the gaps; a weight below 0 was given the other way.

    Repeats are added in the order of their size, so that neither the order of the edges nor the end that a row belongs
    to decides how their sum is rounded. Returns how many entries remain, and how many of these are unequal: they were
    not given with the same sum in both directions.
    """
    end, unequal = 0, 0
    for row in range(starts.size - 1):
        low, high = starts[row], starts[row + 1]
        _sort(entries[low:high], weights[low:high])
        first, i = end, low
        while i < high:
            node, there, back = entries[i], 0.0, 0.0
            while i < high and entries[i] == node:
                there += max(weights[i], 0.0)
                back += max(-weights[i], 0.0)
                i += 1
            entries[end], weights[end] = node, there + back
            unequal += there != back
            end += 1
        degrees[row] = end - first
    return end, unequal


@kernel
def _sort(entries, weights):
    """Sort a row by its entries, and repeats by the size of their weights."""
    if entries.size > _SHORT_ROW:
        order = np.argsort(np.abs(weights))
        order = order[np.argsort(entries[order], kind="mergesort")]  # stable: sizes stay in order
        entries[:], weights[:] = entries[order], weights[order]
        return
    for i in range(1, entries.size):  # by insertion
        entry, weight, j = entries[i], weights[i], i
        while j > 0 and (entries[j - 1] > entry or (entries[j - 1] == entry and abs(weights[j - 1]) > abs(weight))):
            entries[j], weights[j] = entries[j - 1], weights[j - 1]
            j -= 1
        entries[j], weights[j] = entry, weight
