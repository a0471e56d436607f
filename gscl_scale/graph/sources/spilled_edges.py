"""Edges of a table with more ids than fit the memory: they wait on disk until each end has the row of its node."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale.graph.draft import Edges, repeated_ids
from gscl_scale.graph.sources.edge_table import EdgeTable
from gscl_scale.graph.sources.id_file import IdScratch, all_integers, append_bytes, slices
from gscl_scale.graph.sources.id_index import IdKinds, unknown_id
from gscl_scale.graph.sources.id_partitions import (
    MOST_PARTITIONS,
    GroupedIds,
    Partition,
    RowReader,
    bytes_per_id,
    find_new,
    group_ids,
    look_up,
    num_partitions,
    number_new,
    repeats_in,
)
from gscl_scale.graph.sources.tablefiles import Part
from gscl_scale.io.arrow import is_text
from gscl_scale.runtime.threads import map_in_order, num_threads, one_ahead

_EDGES_AT_ONCE = 1 << 18
_WEIGHT = np.dtype(np.float64)
ReadIds = Callable[[Part, str], pa.Array]


class _GroupedEdges(NamedTuple):
    """Edges of a part: both ends by partition, none if they are of another kind than those before, and the weights.

    integers   whether all ids are text that is written as integers
    """

    part: Part
    kinds: list[pa.DataType]
    ends: list[GroupedIds]
    weights: list[npt.NDArray[np.float64]]
    integers: bool


class SpilledEdges:
    """The edges of a table while their ids are looked up, one partition of all ids after the other.

    read_ids   reads a column of ids; missing ones belong to no node
    ids        some ids like all others
    most_ids   how many there may be; None where that is unknown
    """

    def __init__(
        self, table: EdgeTable, read_ids: ReadIds, ids: pa.Array, most_ids: int | None, scratch: IdScratch
    ) -> None:
        self._table, self._read_ids, self._scratch = table, read_ids, scratch  # its folder stays as long as it does
        self._folder = scratch.new_folder("edges")
        self._kind = pa.large_string() if is_text(ids.type) else pa.int64()
        self._bytes_per_id = bytes_per_id(ids)
        number = MOST_PARTITIONS
        if most_ids is not None:
            number = num_partitions(most_ids * self._bytes_per_id, self._scratch.at_once, num_threads())
        self._partitions = [Partition(self._folder, one, self._kind, self._kind) for one in range(number)]
        self._sizes: list[int] = []  # edges of each part of the table

    def add_nodes(self, ids: pa.Array, origin: str) -> None:
        """Add the ids of the node table; GraphError where some are repeated."""
        first = 0
        for part in slices(ids):
            grouped = group_ids(part.cast(self._kind), len(self._partitions))
            for partition, low, high in grouped.slices():
                rows = first + grouped.order[low:high].astype(np.int64)
                self._partitions[partition].add_nodes(grouped.ids[low:high], rows)
            first += len(part)
        at_once = self._at_once(len(ids))
        found = [repeats for repeats in map_in_order(repeats_in, self._partitions, at_once) if repeats]
        if found:
            example = min(found, key=lambda repeats: repeats.row).example
            raise repeated_ids(origin, sum(repeats.number for repeats in found), example)

    def write(self, kinds: IdKinds | None = None, guess: bool = False) -> None:
        """Read the table once and put its ends into the files of their partitions.

        kinds   notes the types of the ids, and refuses to mix them
        guess   text becomes integers if all of it is written like that
        """
        integers = guess
        group = partial(self._group, guess=guess)
        for grouped in map_in_order(group, self._parts(), num_threads()):
            for column, kind in zip(self._table.ends, grouped.kinds, strict=True):
                if kinds:
                    kinds.add(grouped.part.file, column, kind)
            integers = integers and grouped.integers
            self._append(grouped)
        if integers:
            self._partitions = [replace(partition, cast=pa.int64()) for partition in self._partitions]

    def _parts(self) -> Iterator[Part]:
        """The rows of the table, few at a time: each thread has several copies of the ids of a part."""
        for part in self._table.parts():
            for low in range(0, part.rows.num_rows, _EDGES_AT_ONCE):
                yield Part(part.file, part.first_row + low, part.rows[low : low + _EDGES_AT_ONCE])

    def _group(self, part: Part, guess: bool) -> _GroupedEdges:
        columns = [self._read_ids(part, column) for column in self._table.ends]
        kinds = [ids.type for ids in columns]
        ends = []
        if all(is_text(kind) == is_text(self._kind) for kind in kinds):
            ends = [group_ids(ids.cast(self._kind), len(self._partitions)) for ids in columns]
        integers = guess and part.file.is_csv and all(all_integers(ids) for ids in columns)
        return _GroupedEdges(part, kinds, ends, self._table.weights(part), integers)

    def _append(self, edges: _GroupedEdges) -> None:
        for grouped in edges.ends:
            append_bytes(self._codes, grouped.codes)
            for partition, low, high in grouped.slices():
                self._partitions[partition].ends.append(grouped.ids[low:high])
        for weights in edges.weights:
            append_bytes(self._weights, weights)
        self._sizes.append(edges.part.rows.num_rows)

    def number_new(self, first: int) -> Iterator[pa.Array]:
        """Give the ids that only edges name rows from `first` on; yields them in this order, ascending, in parts."""
        count = find_new(self._partitions[0]) + self._partitions[0].num_nodes  # a hash cuts: the others have as many
        at_once = self._at_once(count * len(self._partitions))
        _finish(map_in_order(find_new, self._partitions[1:], at_once))
        return number_new(self._partitions, first)

    def read(self, num_nodes: int, drop: bool) -> Iterator[tuple[Edges, int]]:
        """The edges as rows of both ends, and weights; and how many edges to unknown ids were dropped.

        Without `drop`, these are refused.
        """
        if not self._sizes:
            self.write()
        _finish(map_in_order(partial(look_up, num_nodes=num_nodes), self._partitions, self._at_once(num_nodes)))
        yield from one_ahead(self._found(num_nodes, drop))
        shutil.rmtree(self._folder, ignore_errors=True)

    def _found(self, num_nodes: int, drop: bool) -> Iterator[tuple[Edges, int]]:
        reader, done = RowReader(self._partitions, num_nodes), 0
        for number, size in enumerate(self._sizes):
            ends = [
                reader.next(np.fromfile(self._codes, np.uint8, size, offset=2 * done + end * size)) for end in range(2)
            ]
            weights = (
                [np.fromfile(self._weights, _WEIGHT, size, offset=_WEIGHT.itemsize * done)]
                if self._table.weight
                else []
            )
            done += size
            if not drop:
                self._refuse_unknown(number, ends)
            yield without_unknown((*ends, *weights))

    def _refuse_unknown(self, number: int, ends: list[npt.NDArray[Any]]) -> None:
        for column, rows in zip(self._table.ends, ends, strict=True):
            if (rows < 0).any():
                part = next(islice(self._parts(), number, None))
                at = int(np.argmin(rows))
                raise unknown_id(part, column, at, self._read_ids(part, column)[at].as_py())

    def _at_once(self, num_ids: int) -> int:
        """How many partitions fit the memory together."""
        share = num_ids * self._bytes_per_id // len(self._partitions)
        return max(1, min(num_threads(), self._scratch.at_once // max(1, share)))

    @property
    def _codes(self) -> Path:
        return self._folder / "partitions-of-ends"

    @property
    def _weights(self) -> Path:
        return self._folder / "weights"


def without_unknown(edges: Edges) -> tuple[Edges, int]:
    """The edges both of whose ends have a row, and how many others there were."""
    known = (edges[0] >= 0) & (edges[1] >= 0)
    dropped = known.size - int(known.sum())
    return (tuple(column[known] for column in edges) if dropped else edges), dropped


def _finish(results: Iterator[object]) -> None:
    for _ in results:
        pass
