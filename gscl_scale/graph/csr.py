"""Compressed sparse rows from a stream of edges, in bounded memory: the edges wait on disk, in buckets of rows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gscl_scale.errors import GraphError
from gscl_scale.graph.edge_weights import WITHOUT, add_repeats, flaw_of_weights
from gscl_scale.graph.types import cut_rows
from gscl_scale.io.arrow_writer import ColumnFile
from gscl_scale.io.raw import append_bytes, new_folder
from gscl_scale.kernels.kernel import kernel
from gscl_scale.kernels.sort import sort_part
from gscl_scale.runtime.threads import map_in_order

_CHUNK_EDGES = 1 << 21
_MOST_BUCKETS = 256
_LEAST_ROWS = 1 << 12  # of a bucket
_SKEW = 2  # the largest bucket over their mean, in estimates


@dataclass(frozen=True)
class CsrCounts:
    """Edges that were given, self-loops among them that were dropped, and entries stored without repeats.

    unequal   entries whose weights in both directions, as they were given, do not have the same sum
    """

    edges_given: int
    self_loops: int
    entries: int
    unequal: int = 0


def index_dtype(num_nodes: int) -> type[np.int32] | type[np.int64]:
    """The narrowest of int32 and int64 that holds the node indices."""
    return np.int32 if num_nodes < 2**31 else np.int64


class EdgeBuckets:
    """Edges as they come, checked and appended to files, one for each range of rows.

    A bucket is the file of 2^shift rows, or of joined buckets several. It holds raw entries (row, column), two for an
    undirected edge, and is deleted once its rows are finished. Where edges have weights, each entry has a third number:
    the bits of the weight, which is negative for an entry against the direction in which the edge was given.
    """

    def __init__(self, folder: Path, num_nodes: int, origin: str, undirected: bool, first_edge: int = 0) -> None:
        self.num_nodes, self._first_edge = num_nodes, first_edge
        self.num_edges = self.self_loops = 0
        self.weighted: bool | None = None  # not known before the first edges
        self.dtype = index_dtype(num_nodes)
        self._shift = _shift_of(num_nodes)
        self.sizes = np.zeros((max(num_nodes, 1) - 1 >> self._shift) + 1, np.int64)
        self.folder, self.undirected = folder, undirected
        self._folders, self._origin = [folder], origin

    def empty(self, name: str, first_edge: int = 0) -> "EdgeBuckets":
        """Buckets for edges of the same graph from one on, in a folder of their own below the one of these."""
        return EdgeBuckets(new_folder(self.folder, name), self.num_nodes, self._origin, self.undirected, first_edge)

    def join(self, others: "EdgeBuckets") -> None:
        """Take over the edges of other buckets, behind those that are here."""
        self.num_edges += others.num_edges
        self.self_loops += others.self_loops
        self.weighted = others.weighted if self.weighted is None else self.weighted
        self.sizes += others.sizes
        self._folders += others._folders

    def add(self, source: npt.NDArray[Any], target: npt.NDArray[Any], weights: npt.NDArray[Any] | None = None) -> None:
        """Append edges between node indices; GraphError with the position of an index outside 0..N-1, or a weight."""
        if any(ends.ndim != 1 or ends.dtype.kind not in "iu" or ends.size != source.size for ends in (source, target)):
            raise GraphError(
                f"{self._origin}: edges are {source.dtype} of shape {source.shape} and {target.dtype} of shape "
                f"{target.shape}, expected two equally long rows of integers"
            )
        self._check_kind(source, weights)
        for low in range(0, source.size, _CHUNK_EDGES):
            part = slice(low, low + _CHUNK_EDGES)
            checked = None if weights is None else self._checked_weights(weights[part])
            self._append(self._checked(source[part]), self._checked(target[part]), checked)

    def _check_kind(self, source: npt.NDArray[Any], weights: npt.NDArray[Any] | None) -> None:
        if self.weighted is None:
            self.weighted = weights is not None
        if self.weighted != (weights is not None):
            raise GraphError(f"{self._origin}: some edges have weights and others have none; give all edges weights")
        if weights is not None and (weights.shape != source.shape or weights.dtype.kind not in "iuf"):
            raise GraphError(
                f"{self._origin}: edge weights are {weights.dtype} of shape {weights.shape}, expected a number for "
                f"each of {source.size:,} edges"
            )

    def _checked_weights(self, weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if flaw := flaw_of_weights(weights):
            at, reason = flaw
            raise GraphError(f"{self._origin}: the weight of edge {self._number(at):,} is {reason}; {WITHOUT}")
        return np.require(weights, self.weight_dtype, ["C", "A"])

    def _number(self, at: int) -> int:
        """The number of an edge among all, by its place among those that are being added."""
        return self._first_edge + self.num_edges + at

    @property
    def weight_dtype(self) -> np.dtype[Any]:
        """Floats that take as many bytes as a node index."""
        return np.dtype(f"f{np.dtype(self.dtype).itemsize}")

    def _checked(self, ends: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if ends.min() < 0 or ends.max() >= self.num_nodes:
            at = int(np.argmax((ends < 0) | (ends >= self.num_nodes)))
            raise GraphError(
                f"{self._origin}: edge {self._number(at):,} names node {ends[at]}, "
                f"expected 0 to {self.num_nodes - 1:,}; correct the edge or the number of nodes"
            )
        return np.require(ends, self.dtype, ["C", "A"])  # mapped numbers may be at odd places

    def _append(self, source: npt.NDArray[Any], target: npt.NDArray[Any], weights: npt.NDArray[Any] | None) -> None:
        pairs = np.empty((source.size * (2 if self.undirected else 1), 2 if weights is None else 3), self.dtype)
        bounds = np.zeros(self.sizes.size + 1, np.int64)
        self.self_loops += _distribute(
            source, target, weights, self.undirected, self._shift, bounds, pairs, weights_in(pairs)
        )
        self.num_edges += source.size
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            append_bytes(self._paths(number)[0], pairs[bounds[number] : bounds[number + 1]])
        self.sizes += np.diff(bounds)

    def _paths(self, number: int) -> tuple[Path, ...]:
        return tuple(folder / f"bucket-{number}.pairs" for folder in self._folders)

    def all(self) -> Iterator[tuple["RowRange", int]]:
        """The range of rows of each bucket, and how many entries it has."""
        for number, size in enumerate(self.sizes.tolist()):
            first = number << self._shift
            end = min(first + (1 << self._shift), self.num_nodes)
            yield RowRange(self._paths(number), first, end, self.dtype, True, 3 if self.weighted else 2), size

    def entries_at_once(self, memory_bytes: int, threads: int) -> int:
        """Entries of a range of rows where each thread builds one."""
        return max(1, memory_bytes // ((threads + 1) * np.dtype(self.dtype).itemsize * (2 if self.weighted else 1)))

    def ranges(self, entries_at_once: int) -> Iterator["RowRange"]:
        """Ranges of rows with at most so many entries each, or of one row: a bucket, or parts of a large one."""
        return (part for bucket, size in self.all() for part in bucket.cut(size, entries_at_once))


class RowRange(NamedTuple):
    """Rows low..high-1, whose entries are in files; `last` if no later range needs these.

    columns   numbers of an entry: 2, or 3 with a weight
    """

    paths: tuple[Path, ...]
    low: int
    high: int
    dtype: type
    last: bool
    columns: int = 2

    def cut(self, size: int, entries_at_once: int) -> Iterator["RowRange"]:
        """Parts of a bucket with so many entries."""
        if size <= entries_at_once:
            yield self
            return
        starts = self.starts()
        for low, high in cut_rows(starts, 0, starts.size - 1, entries_at_once):
            yield self._replace(low=self.low + low, high=self.low + high, last=high == starts.size - 1)

    def pairs(self) -> Iterator[npt.NDArray[Any]]:
        """The entries [n, columns] of the files, a part at a time."""
        for path in self.paths:
            if path.exists():
                yield from self._pairs_in(path)

    def _pairs_in(self, path: Path) -> Iterator[npt.NDArray[Any]]:
        with path.open("rb") as file:
            while True:
                chunk: npt.NDArray[Any] = np.fromfile(file, self.dtype, self.columns * _CHUNK_EDGES)
                if not chunk.size:
                    return
                yield chunk.reshape(-1, self.columns)

    def starts(self) -> npt.NDArray[np.int64]:
        """Running count [rows + 1] of the rows' entries, repeats among them."""
        starts = np.zeros(self.high - self.low + 1, np.int64)
        for pairs in self.pairs():
            _count(pairs, self.low, starts)
        return np.cumsum(starts, out=starts)


def weights_in(pairs: npt.NDArray[Any]) -> npt.NDArray[Any] | None:
    """The weights [n] of raw entries, as a view of their third column; None where they have none."""
    return None if pairs.shape[1] == 2 else pairs.view(f"f{pairs.itemsize}")[:, 2]


def _shift_of(num_nodes: int) -> int:
    """Binary logarithm of the rows of a bucket: _LEAST_ROWS, or more where there would be too many buckets."""
    return max(_LEAST_ROWS.bit_length() - 1, ((num_nodes - 1) // _MOST_BUCKETS).bit_length())


def build_rows(
    buckets: EdgeBuckets, column: ColumnFile, memory_bytes: int, threads: int, weights: ColumnFile | None = None
) -> tuple[npt.NDArray[np.int64], CsrCounts]:
    """Append the rows, sorted and without repeats, to `column`; returns indptr and the counts of the edges.

    weights   the column of the entries' weights, where edges have some: repeats add up, in whatever order they come

    Each thread builds one range of rows, and the entries of all these ranges fit `memory_bytes`.
    """
    ranges = buckets.ranges(buckets.entries_at_once(memory_bytes, threads))
    return append_rows(buckets, column, map_in_order(rows_of, ranges, threads), weights)


def append_rows(
    buckets: EdgeBuckets,
    column: ColumnFile,
    built: Iterable[tuple["RowRange", "BuiltRows"]],
    weights: ColumnFile | None = None,
) -> tuple[npt.NDArray[np.int64], CsrCounts]:
    """Append rows that come in their order; returns indptr and the counts of the edges."""
    indptr, unequal = np.zeros(buckets.num_nodes + 1, np.int64), 0
    for part, rows in built:
        indptr[part.low + 1 : part.high + 1] = rows.degrees
        column.append(rows.entries)
        if weights is not None:
            assert rows.weights is not None
            weights.append(rows.weights)
        unequal += rows.unequal
        for path in part.paths if part.last else ():
            path.unlink(missing_ok=True)
    np.cumsum(indptr, out=indptr)
    return indptr, CsrCounts(buckets.num_edges, buckets.self_loops, int(indptr[-1]), unequal)


class BuiltRows(NamedTuple):
    """Finished rows: their lengths, their entries, and where edges have weights those of the entries."""

    degrees: npt.NDArray[np.int64]
    entries: npt.NDArray[Any]
    weights: npt.NDArray[Any] | None
    unequal: int


def rows_of(part: RowRange) -> tuple[RowRange, BuiltRows]:
    """Build the rows of a range."""
    starts = part.starts()
    entries = np.empty(starts[-1], part.dtype)
    weights = None if part.columns == 2 else np.empty(starts[-1], f"f{entries.itemsize}")
    position = starts[:-1].copy()
    for pairs in part.pairs():
        _place(pairs, weights_in(pairs), part.low, position, entries, weights)
    degrees = np.empty(starts.size - 1, np.int64)
    if weights is None:
        return part, BuiltRows(degrees, entries[: _sort_rows(starts, entries, degrees)], None, 0)
    end, unequal = add_repeats(starts, entries, weights, degrees)
    return part, BuiltRows(degrees, entries[:end], weights[:end].astype(np.float32, copy=False), unequal)


def collecting_bytes(num_nodes: int, num_edges: int, undirected: bool, columns: int = 2) -> int:
    """Memory for adding edges: one chunk of them and its entries, of 2 numbers each, or 3 with a weight."""
    numbers = (1 + 2 * undirected + 1) * columns
    return min(num_edges, _CHUNK_EDGES) * numbers * index_dtype(num_nodes)().itemsize


def sorting_bytes(num_nodes: int, entries: int, memory_bytes: int, threads: int, columns: int = 2) -> int:
    """Memory of `build_rows` for the ranges that its threads build at once, those of hubs included."""
    if not num_nodes:  # not known yet
        return 0
    item = index_dtype(num_nodes)().itemsize
    rows = 1 << _shift_of(num_nodes)
    bucket = min(entries, _SKEW * entries * rows // num_nodes)
    ranges = (threads + 1) * item * bucket * (columns - 1)
    chunks = threads * min(bucket, _CHUNK_EDGES) * columns * item
    return min(ranges, memory_bytes) + chunks + (threads + 1) * 4 * 8 * rows


@kernel
def _distribute(source, target, weights, undirected, shift, bounds, pairs, pair_weights):
    """Group the entries by bucket, which ends at `bounds[bucket + 1]`; returns the number of dropped self-loops.

    Numba compiles a kernel for each type of its arguments: where the weights are None it leaves out what needs them.
    """
    self_loops = 0
    for i in range(source.size):
        u, v = source[i], target[i]
        if u == v:
            self_loops += 1
        else:
            bounds[(u >> shift) + 1] += 1
            if undirected:
                bounds[(v >> shift) + 1] += 1
    for bucket in range(1, bounds.size):
        bounds[bucket] += bounds[bucket - 1]
    position = bounds[:-1].copy()
    for i in range(source.size):
        u, v = source[i], target[i]
        if u != v:
            at = position[u >> shift]
            pairs[at, 0], pairs[at, 1] = u, v
            if weights is not None:
                pair_weights[at] = weights[i]
            position[u >> shift] = at + 1
            if undirected:
                at = position[v >> shift]
                pairs[at, 0], pairs[at, 1] = v, u
                if weights is not None:
                    pair_weights[at] = -weights[i]
                position[v >> shift] = at + 1
    return self_loops


@kernel
def _count(pairs, low, starts):
    rows = starts.size - 1
    for i in range(pairs.shape[0]):
        row = pairs[i, 0] - low
        if 0 <= row < rows:
            starts[row + 1] += 1


@kernel
def _place(pairs, pair_weights, low, position, entries, weights):
    for i in range(pairs.shape[0]):
        row = pairs[i, 0] - low
        if 0 <= row < position.size:
            entries[position[row]] = pairs[i, 1]
            if pair_weights is not None:
                weights[position[row]] = pair_weights[i]
            position[row] += 1


@kernel
def _sort_rows(starts, entries, degrees):
    """Sort each row, drop repeats, and close the gaps; returns the number of entries that remain."""
    end = 0
    for row in range(starts.size - 1):
        low, high = starts[row], starts[row + 1]
        sort_part(entries, low, high)
        first = end
        for i in range(low, high):
            if i == low or entries[i] != entries[end - 1]:
                entries[end] = entries[i]
                end += 1
        degrees[row] = end - first
    return end
