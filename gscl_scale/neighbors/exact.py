"""Exact search of the nearest rows by cosine: the embeddings are read once, block by block, for many queries.

Shapes: Q queries, n rows of a block, d columns, k neighbours.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gscl_scale.embed.store import Embeddings
from gscl_scale.embed.vector_file import Rows, unit_rows

_QUERIES = 64  # queries whose products with a block are in memory together


@dataclass(frozen=True)
class Nearest:
    """Rows [Q, k] and cosines [Q, k], the nearest first; row -1 where there are fewer than k."""

    rows: npt.NDArray[np.int64]
    cosines: Rows


def exact_search(embeddings: Embeddings, queries: Rows, own: npt.NDArray[np.int64], count: int) -> Nearest:
    """The rows nearest to vectors of length one [Q, d], without each query's own row [Q] (-1: it has none).

    Equal cosines come in the order of the rows. Memory: a row group, and its products with 64 queries.
    """
    best = Nearest(np.full((len(queries), count), -1), np.full((len(queries), count), -np.inf, np.float32))
    for first, block in embeddings.blocks():
        rows = unit_rows(block)
        for low in range(0, len(queries), _QUERIES):
            some = slice(low, low + _QUERIES)
            cosines = queries[some] @ rows.T
            place = own[some] - first
            inside = np.flatnonzero((place >= 0) & (place < len(rows)))
            cosines[inside, place[inside]] = -np.inf
            _improve(Nearest(best.rows[some], best.cosines[some]), cosines, first)
    return best


def _improve(best: Nearest, cosines: Rows, first: int) -> None:
    """Merge the rows of a block, whose first row is `first`, into the best so far."""
    columns = np.flatnonzero((cosines > best.cosines[:, -1:]).any(axis=0))  # few, after some blocks
    cosines = cosines[:, columns]
    count = min(best.rows.shape[1], columns.size)
    if not count:
        return
    top = np.argpartition(cosines, columns.size - count, axis=1)[:, columns.size - count :]
    lowest = np.take_along_axis(cosines, top, axis=1).min(axis=1, keepdims=True)
    tied = np.flatnonzero((cosines >= lowest).sum(axis=1) > count)  # a partition takes any of the tied ones
    top[tied] = np.argsort(-cosines[tied], axis=1, kind="stable")[:, :count]
    top.sort(axis=1)
    values = np.concatenate([best.cosines, np.take_along_axis(cosines, top, axis=1)], axis=1)
    rows = np.concatenate([best.rows, columns[top] + first], axis=1)
    best.rows[:], best.cosines[:] = highest(rows, values, best.rows.shape[1])


def highest(rows: npt.NDArray[np.int64], cosines: Rows, count: int) -> tuple[npt.NDArray[np.int64], Rows]:
    """The rows of the `count` highest cosines [Q, n], -1 for minus infinity, and the cosines; ties keep their order."""
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
    cosines = np.take_along_axis(cosines, order, axis=1)
    return np.where(np.isneginf(cosines), -1, np.take_along_axis(rows, order, axis=1)), cosines
