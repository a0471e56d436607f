"""Compressed sparse rows from a stream of edges, in bounded memory: the edges wait on disk."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from gscl_scale.errors import GraphError

_CHUNK_EDGES = 1 << 22


@dataclass(frozen=True)
class CsrCounts:
    """What became of the edges: given = self_loops + kept, and entries are stored after repeats are dropped."""

    edges_given: int
    self_loops: int
    entries: int


class EdgeSpool:
    """Edges as they come, checked and appended to a file of (source, target) pairs."""

    def __init__(self, folder: Path, num_nodes: int, origin: str) -> None:
        self.path = folder / "edges.spool"
        self.num_nodes = num_nodes
        self.num_edges = 0
        self.dtype = index_dtype(num_nodes)
        self._origin = origin
        self._file = self.path.open("wb")

    def __enter__(self) -> "EdgeSpool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add(self, source: npt.NDArray[Any], target: npt.NDArray[Any]) -> None:
        """Append edges between node indices; an index outside 0..N-1 is refused by its position."""
        for ends in (source, target):
            if ends.ndim != 1 or ends.dtype.kind not in "iu" or ends.size != source.size:
                raise GraphError(
                    f"{self._origin}: edges are {source.dtype} of shape {source.shape} and {target.dtype} of shape "
                    f"{target.shape}, expected two equally long rows of integers"
                )
        for low in range(0, source.size, _CHUNK_EDGES):
            self._append(source[low : low + _CHUNK_EDGES], target[low : low + _CHUNK_EDGES])

    def _append(self, source: npt.NDArray[Any], target: npt.NDArray[Any]) -> None:
        pairs = np.empty((source.size, 2), self.dtype)
        for column, ends in enumerate((source, target)):
            wrong = (ends < 0) | (ends >= self.num_nodes)
            if wrong.any():
                at = int(np.argmax(wrong))
                raise GraphError(
                    f"{self._origin}: edge {self.num_edges + at:,} names node {ends[at]}, "
                    f"expected 0 to {self.num_nodes - 1:,}; correct the edge or the number of nodes"
                )
            pairs[:, column] = ends
        self._file.write(pairs.data)
        self.num_edges += source.size

    def chunks(self) -> Iterator[npt.NDArray[Any]]:
        """The pairs [n, 2], some millions at a time."""
        self._file.flush()
        return _read_pairs(self.path, self.dtype)

    def close(self) -> None:
        """Release and delete the file."""
        self._file.close()
        self.path.unlink(missing_ok=True)


def index_dtype(num_nodes: int) -> type[np.int32] | type[np.int64]:
    """32-bit node indices as long as they hold them."""
    return np.int32 if num_nodes < 2**31 else np.int64


def build_csr(
    spool: EdgeSpool, undirected: bool, folder: Path, memory_bytes: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any], CsrCounts]:
    """Rows sorted, without self-loops and repeats: indptr in memory, indices as a mapped file in `folder`.

    Vertices are taken in ranges whose entries fit `memory_bytes`; the edges are distributed to one file per range,
    then each range is sorted on its own.
    """
    degrees = np.zeros(spool.num_nodes, np.int64)
    self_loops = sum(_count(pairs, undirected, degrees) for pairs in spool.chunks())
    bounds = _ranges(degrees, max(1, memory_bytes // (4 * spool.dtype().nbytes)))
    buckets = _distribute(spool, undirected, bounds, folder) if len(bounds) > 2 else None

    indptr = np.zeros(spool.num_nodes + 1, np.int64)
    path = folder / "indices.raw"
    with path.open("wb") as out:
        for number, (low, high) in enumerate(itertools.pairwise(bounds)):
            starts = np.zeros(high - low + 1, np.int64)
            np.cumsum(degrees[low:high], out=starts[1:])
            entries = np.empty(starts[-1], spool.dtype)
            position = starts[:-1].copy()
            chunks = spool.chunks() if buckets is None else _read_pairs(buckets[number], spool.dtype)
            both = undirected and buckets is None
            for pairs in chunks:
                _place(pairs, both, low, position, entries)
            kept = _sort_rows(starts, entries, low, indptr[low + 1 : high + 1])
            out.write(entries[:kept].data)
            if buckets is not None:
                buckets[number].unlink()
    np.cumsum(indptr, out=indptr)
    indices = np.memmap(path, spool.dtype, "r") if indptr[-1] else np.zeros(0, spool.dtype)
    return indptr, indices, CsrCounts(spool.num_edges, self_loops, int(indptr[-1]))


def _ranges(degrees: npt.NDArray[np.int64], entries_at_once: int) -> list[int]:
    """Bounds of vertex ranges with at most `entries_at_once` entries each, or one vertex."""
    bounds = [0]
    total = np.concatenate([[0], np.cumsum(degrees)])
    while bounds[-1] < degrees.size:
        end = int(np.searchsorted(total, total[bounds[-1]] + entries_at_once, side="right")) - 1
        bounds.append(min(max(end, bounds[-1] + 1), degrees.size))
    return bounds


def _distribute(spool: EdgeSpool, undirected: bool, bounds: list[int], folder: Path) -> list[Path]:
    """Write each entry (row, column) to the file of the range that holds its row."""
    paths = [folder / f"bucket-{number}.spool" for number in range(len(bounds) - 1)]
    for path in paths:
        path.unlink(missing_ok=True)
    inner = np.asarray(bounds[1:-1])
    for pairs in spool.chunks():
        for entries in (pairs, pairs[:, ::-1]) if undirected else (pairs,):
            bucket = np.searchsorted(inner, entries[:, 0], side="right")
            order = np.argsort(bucket, kind="stable")
            cuts = np.searchsorted(bucket[order], np.arange(len(paths) + 1))
            for number in np.flatnonzero(np.diff(cuts)):
                with paths[number].open("ab") as file:
                    file.write(np.ascontiguousarray(entries[order[cuts[number] : cuts[number + 1]]]).data)
    for path in paths:
        path.touch()
    return paths


def _read_pairs(path: Path, dtype: type) -> Iterator[npt.NDArray[Any]]:
    with path.open("rb") as file:
        while True:
            chunk: npt.NDArray[Any] = np.fromfile(file, dtype, 2 * _CHUNK_EDGES)
            if not chunk.size:
                return
            yield chunk.reshape(-1, 2)


@numba.njit(cache=True)
def _count(pairs, undirected, degrees):  # type: ignore[no-untyped-def]
    self_loops = 0
    for i in range(pairs.shape[0]):
        u, v = pairs[i, 0], pairs[i, 1]
        if u == v:
            self_loops += 1
        degrees[u] += 1
        if undirected:
            degrees[v] += 1
    return self_loops


@numba.njit(cache=True)
def _place(pairs, undirected, low, position, entries):  # type: ignore[no-untyped-def]
    for i in range(pairs.shape[0]):
        u, v = pairs[i, 0] - low, pairs[i, 1]
        entries[position[u]] = v
        position[u] += 1
        if undirected:
            entries[position[v - low]] = u + low
            position[v - low] += 1


@numba.njit(cache=True)
def _sort_rows(starts, entries, low, degrees):  # type: ignore[no-untyped-def]
    """Sort each row, drop repeats and the row's own vertex, and close the gaps."""
    kept = 0
    for row in range(starts.size - 1):
        part = entries[starts[row] : starts[row + 1]]
        part.sort()
        first = kept
        for i in range(part.size):
            if part[i] != row + low and (i == 0 or part[i] != part[i - 1]):
                entries[kept] = part[i]
                kept += 1
        degrees[row] = kept - first
    return kept
