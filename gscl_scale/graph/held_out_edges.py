"""Edges held out of a graph: drawn by the ids of their ends before anything reads the graph, and stored beside it.

Nothing that is computed from the rows of the graph, such as structural features, rings or messages, can read them.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.config.evaluate import EvaluateConfig
from gscl_scale.errors import FolderError, GraphError
from gscl_scale.graph.edge_weights import COLUMN, FILE, map_weights
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import cut_rows
from gscl_scale.io.arrow import map_array
from gscl_scale.io.arrow_writer import ColumnFile, column_file, write_column
from gscl_scale.kernels.kernel import kernel

Pairs = npt.NDArray[Any]  # [n, 2] node indices; of an undirected graph the lower one first

_VALIDATION, _TEST = "held_out_validation.arrow", "held_out_test.arrow"
_COLUMN = "edge"
_ENTRIES_AT_ONCE = 1 << 22
_ALL = np.iinfo(np.uint64).max


@dataclass(frozen=True)
class HoldOut:
    """What the evaluation takes out of a graph before anything reads it.

    share, seed      the share of the edges to hold out, and the seed of the draw
    shuffle_labels   the seed of a shuffle that leaves nothing to learn in the labels; None: no shuffle
    """

    share: float = 0.0
    seed: int = 0
    shuffle_labels: int | None = None

    @classmethod
    def of(cls, config: EvaluateConfig) -> "HoldOut":
        """What a configuration asks for."""
        return cls(config.held_out_edges, config.held_out_seed, config.shuffle_labels)


ALL_STAY = HoldOut()


@dataclass(frozen=True)
class HeldOutEdges:
    """Edges that the rows of a graph do not have: `validation` ones may choose settings, `test` ones are measured."""

    validation: Pairs
    test: Pairs

    @classmethod
    def of(cls, graph: Graph) -> "HeldOutEdges | None":
        """Map the held-out edges of a graph folder; None where no edge is held out."""
        if _TEST not in graph.manifest["files"]:
            return None
        return cls(*(_map_pairs(graph, name) for name in (_VALIDATION, _TEST)))


def hold_out(
    rows: Path, identities: npt.NDArray[np.uint64], undirected: bool, asked: HoldOut, out: Path, origin: str
) -> tuple[npt.NDArray[np.int64], str]:
    """Write the rows of a graph without the held-out edges, and these, into a folder; returns indptr and a note.

    `rows` is the folder of the neighbours of all edges, and of their weights if they have some. Each pair of ids has a
    keyed random number, the same for both directions. An edge is held out if its number is below the share, unless it
    is the largest at one of its ends (of a directed graph: among the edges that leave the node, or among those that
    enter it). So every node keeps an edge, and neither the order of nodes or edges nor repeats or weights decide
    anything.
    """
    indptr = map_array(rows / "indptr.arrow", "indptr", "int64")
    indices = map_array(rows / "indices.arrow", "indices", "int32", "int64")
    key, half = (seeding.key(purpose, asked.seed) for purpose in ("held-out edges", "held-out edges, test half"))
    largest = _largest(indptr, indices, identities, undirected, key)
    weights = map_weights(rows)
    draw = _Draw(identities, largest, np.uint64(int(asked.share * float(1 << 64))), key, half, undirected)
    degrees = np.zeros(indptr.size, np.int64)
    pair = (_COLUMN, indices.dtype, 2)
    with contextlib.ExitStack() as stack:
        column = stack.enter_context(column_file(out / "indices.arrow", "indices", indices.dtype))
        validation, test = (stack.enter_context(column_file(out / name, *pair)) for name in (_VALIDATION, _TEST))
        columns = [column, validation, test]
        if weights is not None:
            columns.append(stack.enter_context(column_file(out / FILE, COLUMN, np.float32)))
        for low, high in _ranges(indptr):
            draw.divide(indptr, indices, weights, low, high, degrees[low + 1 : high + 1], columns)
        held, kept = validation.num_rows + test.num_rows, column.num_rows // (2 if undirected else 1)
    if not held:
        raise GraphError(
            f"{origin}: evaluate.held_out_edges is {asked.share:g}, but no edge can be held out that is not the last "
            "one of a node; set a higher share, or 0"
        )
    write_column(out / "indptr.arrow", "indptr", np.cumsum(degrees, out=degrees))
    note = f"{held:,} of {held + kept:,} edges are held out to measure link prediction, and nothing is trained on them"
    return degrees, note


@dataclass(frozen=True)
class _Draw:
    """Which edges are held out: `largest` [N] is the number that an edge must stay below at each of its ends."""

    identities: npt.NDArray[np.uint64]
    largest: npt.NDArray[np.uint64]
    limit: np.uint64
    key: np.uint64
    half: np.uint64
    undirected: bool

    def divide(
        self,
        indptr: npt.NDArray[np.int64],
        indices: npt.NDArray[Any],
        weights: npt.NDArray[np.float32] | None,
        low: int,
        high: int,
        degrees: npt.NDArray[np.int64],
        columns: list[ColumnFile],
    ) -> None:
        """Append the entries of some rows: those that stay, pairs for validation, pairs for test; the weights last."""
        size = int(indptr[high] - indptr[low])
        kept, pairs = np.empty(size, indices.dtype), np.empty((size, 2), indices.dtype)
        tests, kept_weights = np.empty(size, np.bool_), None if weights is None else np.empty(size, np.float32)
        num_kept, num_pairs = _divide_rows(
            indptr, indices, weights, low, high, self.identities, self.largest, self.limit, self.key, self.half,
            self.undirected, kept, kept_weights, degrees, pairs, tests,
        )  # fmt: skip
        pairs, tests = pairs[:num_pairs], tests[:num_pairs]
        parts = [kept[:num_kept], pairs[~tests], pairs[tests]]
        parts += [] if kept_weights is None else [kept_weights[:num_kept]]
        for column, part in zip(columns, parts, strict=True):
            column.append(part)


def _largest(
    indptr: npt.NDArray[np.int64],
    indices: npt.NDArray[Any],
    identities: npt.NDArray[np.uint64],
    undirected: bool,
    key: np.uint64,
) -> npt.NDArray[np.uint64]:
    """The largest number [N] of a node's edges; of a directed graph the smaller one of both directions."""
    leaving = np.zeros(identities.size, np.uint64)
    entering = leaving if undirected else np.zeros_like(leaving)
    for low, high in _ranges(indptr):
        _raise_to_largest(indptr, indices, low, high, identities, key, leaving, entering)
    leaving, entering = (np.where(numbers > 0, numbers, _ALL) for numbers in (leaving, entering))
    return np.minimum(leaving, entering)


def _ranges(indptr: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    return cut_rows(indptr, 0, indptr.size - 1, _ENTRIES_AT_ONCE)


def _map_pairs(graph: Graph, name: str) -> Pairs:
    path = graph.folder / name
    pairs = map_array(path, _COLUMN, "int32", "int64")
    inside = not pairs.size or (pairs.min() >= 0 and pairs.max() < graph.num_nodes)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not inside:
        raise FolderError(f"{path} is damaged: expected pairs of nodes; delete {graph.folder} and ingest it again")
    return pairs


@kernel
def _number_of(key, one, other):
    """A random number of an unordered pair of identities."""
    low, high = min(one, other), max(one, other)
    return seeding.mix(seeding.mix(low ^ key) + high)


@kernel
def _raise_to_largest(indptr, indices, low, high, identities, key, leaving, entering):
    for u in range(low, high):
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            number = _number_of(key, identities[u], identities[v])
            leaving[u] = max(leaving[u], number)
            entering[v] = max(entering[v], number)


@kernel
def _divide_rows(
    indptr, indices, weights, low, high, identities, largest, limit, key, half, undirected, kept, kept_weights, degrees,
    pairs, tests,
):  # fmt: skip
    """Divide entries into those that stay and pairs that are held out; returns how many there are of each."""
    num_kept, num_pairs = 0, 0
    for u in range(low, high):
        before = num_kept
        for e in range(indptr[u], indptr[u + 1]):
            v = indices[e]
            number = _number_of(key, identities[u], identities[v])
            if number >= limit or number >= largest[u] or number >= largest[v]:
                kept[num_kept] = v
                if weights is not None:
                    kept_weights[num_kept] = weights[e]
                num_kept += 1
            elif not undirected or u < v:
                pairs[num_pairs, 0], pairs[num_pairs, 1] = u, v
                tests[num_pairs] = _number_of(half, identities[u], identities[v]) >> np.uint64(63) > 0
                num_pairs += 1
        degrees[u - low] = num_kept - before
    return num_kept, num_pairs
