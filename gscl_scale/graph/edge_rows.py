"""Edges become the files of a graph's rows: neighbours, weights, and where each row begins."""

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from gscl_scale.graph import edge_weights
from gscl_scale.graph.csr import CsrCounts, EdgeBuckets, append_rows, build_rows
from gscl_scale.graph.edge_weights import halve_weights, map_weights, note_on_weights
from gscl_scale.graph.row_pieces import build_pieces
from gscl_scale.io.arrow_writer import column_file, write_column
from gscl_scale.runtime.runner import Runner
from gscl_scale.runtime.threads import num_threads
from gscl_scale.text import counted

Edges = tuple[npt.NDArray[Any], ...]  # sources, targets, and weights if the edges have some


@runtime_checkable
class FillsBuckets(Protocol):
    """Edges that tasks put into buckets, so that no process reads all of them."""

    def fill(self, buckets: EdgeBuckets) -> None:
        """Put all edges into buckets."""
        ...


def write_rows(
    edges: Iterable[Edges], buckets: EdgeBuckets, out: Path, memory_bytes: int, runner: Runner | None
) -> tuple[npt.NDArray[np.int64], CsrCounts, list[str]]:
    """Write the rows of all edges, by way of empty buckets; returns indptr, the counts, and notes for the user.

    runner   builds the rows by tasks; without one, threads do
    """
    if isinstance(edges, FillsBuckets):
        edges.fill(buckets)
    else:
        for part in edges:
            buckets.add(*part)
    with contextlib.ExitStack() as stack:
        column = stack.enter_context(column_file(out / "indices.arrow", "indices", buckets.dtype))
        weights = None
        if buckets.weighted:
            weights = stack.enter_context(column_file(out / edge_weights.FILE, edge_weights.COLUMN, np.float32))
        if runner:
            indptr, counts = append_rows(buckets, column, build_pieces(buckets, memory_bytes, runner), weights)
        else:
            indptr, counts = build_rows(buckets, column, memory_bytes, num_threads(), weights)
    write_column(out / "indptr.arrow", "indptr", indptr)
    both_ways = buckets.undirected and weights is not None and not counts.unequal
    notes = _notes_on_edges(counts, indptr, buckets.undirected, weights is not None and not both_ways)
    if weights and counts.entries:
        notes += _finish_weights(out, both_ways)
    return indptr, counts, notes


def _finish_weights(rows: Path, both_ways: bool) -> list[str]:
    """Let edges count once whose two directions were given with equal weights, all of them; returns notes."""
    notes = []
    if both_ways:
        halve_weights(rows)
        notes.append("every edge is given in both directions with the same weight, which counts once")
    weights = map_weights(rows)
    assert weights is not None
    return [*notes, note_on_weights(weights)]


def _notes_on_edges(counts: CsrCounts, indptr: npt.NDArray[np.int64], undirected: bool, weighted: bool) -> list[str]:
    notes = []
    if counts.self_loops:
        notes.append(f"{counted(counts.self_loops, 'self-loop', 'self-loops')} dropped")
    sides = 2 if undirected else 1
    if repeats := (counts.edges_given - counts.self_loops) * sides - counts.entries:
        both = " (both directions count)" if undirected else ""
        added = ": their weights are added" if weighted else ""
        notes.append(f"{counted(repeats // sides, 'repeated edge', 'repeated edges')} merged{both}{added}")
    if isolated := int((indptr[1:] == indptr[:-1]).sum()) if undirected else 0:
        notes.append(
            counted(
                isolated,
                "node has no neighbours: its rings are empty, and others sample it only as a far node",
                "nodes have no neighbours: their rings are empty, and others sample them only as far nodes",
            )
        )
    return notes
