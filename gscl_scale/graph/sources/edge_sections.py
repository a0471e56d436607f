"""Tasks on a section of an edge table: its ids go to their partitions, and its edges to buckets of rows.

A task writes into a folder of its own, which its result names: what a killed attempt left is in another one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale.graph.csr import EdgeBuckets
from gscl_scale.graph.edge_rows import Edges
from gscl_scale.graph.sources.edge_table import EdgeTable
from gscl_scale.graph.sources.id_file import all_integers
from gscl_scale.graph.sources.id_partitions import GroupedIds, RowReader, ends_in, group_ids
from gscl_scale.graph.sources.tablefiles import Part, TableFile
from gscl_scale.io.arrow import is_text
from gscl_scale.io.raw import append_bytes, new_folder
from gscl_scale.io.validate import state_of
from gscl_scale.runtime.threads import map_in_order, one_ahead

_EDGES_AT_ONCE = 1 << 18
_WEIGHT = np.dtype(np.float64)


class ReadIds(Protocol):
    """Reads a column of ids; missing ones belong to no node."""

    def __call__(self, part: Part, column: str) -> pa.Array:
        """The ids of the rows."""
        ...


class Kind(NamedTuple):
    """The type of the ids in a column of a file."""

    file: TableFile
    column: str
    type: pa.DataType


class _Grouped(NamedTuple):
    """Edges of a part: both ends by partition, none if they are of another kind than those before, and the weights.

    kind       of the ids in the files
    integers   whether all ids are text that is written as integers
    """

    num_edges: int
    kind: pa.DataType
    kinds: list[Kind]
    ends: list[GroupedIds]
    weights: list[npt.NDArray[np.float64]]
    integers: bool


@dataclass
class Section:
    """A section whose ends are in the files of their partitions.

    integers   whether all ids are text that is written as integers
    kinds      the types of its ids, in the order of their first rows
    sizes      edges of each part
    """

    folder: Path
    integers: bool
    kinds: list[Kind] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    @property
    def codes(self) -> Path:
        """The partition of each end: of each part first those of the sources."""
        return self.folder / "partitions-of-ends"

    @property
    def weights(self) -> Path:
        """The weights of the edges."""
        return self.folder / "weights"

    def append(self, edges: _Grouped) -> None:
        """Append a part."""
        self.kinds += [kind for kind in edges.kinds if kind not in self.kinds]
        self.integers = self.integers and edges.integers
        for grouped in edges.ends:
            append_bytes(self.codes, grouped.codes)
            for partition, low, high in grouped.slices():
                ends_in(self.folder, partition, edges.kind).append(grouped.ids[low:high])
        for weights in edges.weights:
            append_bytes(self.weights, weights)
        self.sizes.append(edges.num_edges)


@dataclass(frozen=True)
class SectionTask:
    """A section of an edge table that is to be cut into partitions.

    kind      type of the ids in the files
    guess     whether text becomes integers if all of it is written like that
    threads   that read at the same time
    seen      size and time of each file, where another machine has to see the same ones
    """

    table: EdgeTable
    read_ids: ReadIds
    kind: pa.DataType
    partitions: int
    guess: bool
    folder: Path
    threads: int
    seen: list[tuple[int, int]] = field(default_factory=list)

    def group(self, part: Part) -> _Grouped:
        """Read a part."""
        columns = [self.read_ids(part, column) for column in self.table.ends]
        kinds = [Kind(part.file, name, ids.type) for name, ids in zip(self.table.ends, columns, strict=True)]
        ends = []
        if all(is_text(kind.type) == is_text(self.kind) for kind in kinds):
            ends = [group_ids(ids.cast(self.kind), self.partitions) for ids in columns]
        integers = self.guess and part.file.is_csv and all(all_integers(ids) for ids in columns)
        return _Grouped(part.rows.num_rows, self.kind, kinds, ends, self.table.weights(part), integers)


def parts_of(table: EdgeTable) -> Iterator[Part]:
    """The rows of a section, few at a time: each thread has several copies of the ids of a part."""
    for part in table.parts():
        for low in range(0, part.rows.num_rows, _EDGES_AT_ONCE):
            yield Part(part.file, part.first_row + low, part.rows[low : low + _EDGES_AT_ONCE])


def write_section(task: SectionTask) -> Section | None:
    """Read a section once and put its ends into the files of their partitions; None where this machine lacks a file.

    Ids of another kind than the first ones end it: the driver refuses them.
    """
    if task.seen and task.seen != states_of(task.table):
        return None
    section = Section(new_folder(task.folder, "section"), task.guess)
    for grouped in map_in_order(task.group, parts_of(task.table), task.threads):
        section.append(grouped)
        if not grouped.ends:
            break
    return section


def states_of(table: EdgeTable) -> list[tuple[int, int]]:
    """Size and time of each file."""
    return [state_of(file.path) for file in table.files]


class UnknownEnd(NamedTuple):
    """The first end of an edge whose id no node has: where in a part of its table, and which of both ends."""

    at: int
    end: int


@dataclass(frozen=True)
class FillTask:
    """A section whose edges go to buckets: `rows` are the files of all partitions with the rows of its ends.

    drop      whether edges to unknown ids are dropped; else the first one ends the work
    buckets   empty ones
    """

    section: Section
    rows: tuple[Path, ...]
    weighted: bool
    drop: bool
    buckets: EdgeBuckets

    def edges(self) -> Iterator[Edges]:
        """Both ends of the edges as rows, -1 for unknown ids, and weights, part by part."""
        reader, done, section = RowReader(self.rows, self.buckets.num_nodes), 0, self.section
        for size in section.sizes:
            ends = [
                reader.next(np.fromfile(section.codes, np.uint8, size, offset=2 * done + end * size))
                for end in range(2)
            ]
            offset = _WEIGHT.itemsize * done
            weights = [np.fromfile(section.weights, _WEIGHT, size, offset=offset)] if self.weighted else []
            done += size
            yield (*ends, *weights)


class Filled(NamedTuple):
    """The buckets of a section, how many edges to unknown ids were dropped, and the one that is refused in a part."""

    buckets: EdgeBuckets
    dropped: int
    unknown: tuple[int, UnknownEnd] | None = None


def fill_buckets(task: FillTask) -> Filled:
    """Put the edges of a section into buckets."""
    buckets, total = task.buckets.empty("section"), 0
    for number, edges in enumerate(one_ahead(task.edges())):
        if not task.drop and (unknown := first_unknown(edges)):
            return Filled(buckets, total, (number, unknown))
        known, dropped = without_unknown(edges)
        buckets.add(*known)
        total += dropped
    return Filled(buckets, total)


def first_unknown(edges: Edges) -> UnknownEnd | None:
    """The first end without a row; None where all have one."""
    ends = [UnknownEnd(int(np.argmin(rows)), end) for end, rows in enumerate(edges[:2]) if (rows < 0).any()]
    return min(ends, default=None)


def without_unknown(edges: Edges) -> tuple[Edges, int]:
    """The edges both of whose ends have a row, and how many others there were."""
    known = (edges[0] >= 0) & (edges[1] >= 0)
    dropped = known.size - int(known.sum())
    return (tuple(column[known] for column in edges) if dropped else edges), dropped
