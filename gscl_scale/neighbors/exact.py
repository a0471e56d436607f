"""The nearest rows by cosine, exactly: the embeddings are read once, block by block, for many queries.

Shapes: Q queries, n rows of a block, d columns, k neighbours.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gscl_scale.embed.store import Embeddings, Rows, unit

_QUERIES = 64  # whose products with a block are in memory together


@dataclass(frozen=True)
class Nearest:
    """The nearest first: rows [Q, k], -1 where there are fewer, and cosines [Q, k]."""

    rows: npt.NDArray[np.int64]
    cosines: Rows


def exact(embeddings: Embeddings, queries: Rows, own: npt.NDArray[np.int64], count: int) -> Nearest:
    """The rows nearest to vectors of length one [Q, d], without the row that is a query's own [Q] (-1: none is).

    Equal cosines come in the order of the rows. Memory: a row group, and its products with 64 queries.
    """
    found = Nearest(np.full((len(queries), count), -1), np.full((len(queries), count), -np.inf, np.float32))
    for first, block in embeddings.blocks():
        rows = unit(block)
        for low in range(0, len(queries), _QUERIES):
            some = slice(low, low + _QUERIES)
            cosines = queries[some] @ rows.T
            place = own[some] - first
            inside = np.flatnonzero((place >= 0) & (place < len(rows)))
            cosines[inside, place[inside]] = -np.inf
            _improve(Nearest(found.rows[some], found.cosines[some]), cosines, first)
    return found


def _improve(found: Nearest, cosines: Rows, first: int) -> None:
    """Let the rows of a block, of which `first` is the first, take their places among the best so far."""
    columns = np.flatnonzero((cosines > found.cosines[:, -1:]).any(axis=0))  # few, once some blocks are done
    cosines = cosines[:, columns]
    count = min(found.rows.shape[1], columns.size)
    if not count:
        return
    best = np.argpartition(cosines, columns.size - count, axis=1)[:, columns.size - count :]
    lowest = np.take_along_axis(cosines, best, axis=1).min(axis=1, keepdims=True)
    tied = np.flatnonzero((cosines >= lowest).sum(axis=1) > count)  # a partition takes any of those
    best[tied] = np.argsort(-cosines[tied], axis=1, kind="stable")[:, :count]
    best.sort(axis=1)
    values = np.concatenate([found.cosines, np.take_along_axis(cosines, best, axis=1)], axis=1)
    order = np.argsort(-values, axis=1, kind="stable")[:, : found.rows.shape[1]]
    rows = np.concatenate([found.rows, columns[best] + first], axis=1)
    found.cosines[:] = np.take_along_axis(values, order, axis=1)
    found.rows[:] = np.where(np.isneginf(found.cosines), -1, np.take_along_axis(rows, order, axis=1))
