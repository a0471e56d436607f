"""Edges of a table with more ids than fit the memory: they wait on disk until each end has the row of its node.

Four steps, each of tasks: sections of the table are cut into partitions by id, partitions find the rows of their ids,
sections become buckets by row, and these become the rows of the graph (`graph.row_pieces`).
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa

from gscl_scale.errors import GraphError
from gscl_scale.graph.csr import EdgeBuckets
from gscl_scale.graph.draft import repeated_ids
from gscl_scale.graph.edge_rows import Edges
from gscl_scale.graph.sources.edge_sections import (
    FillTask,
    ReadIds,
    Section,
    SectionTask,
    UnknownEnd,
    fill_buckets,
    parts_of,
    states_of,
    without_unknown,
    write_section,
)
from gscl_scale.graph.sources.edge_table import EdgeTable
from gscl_scale.graph.sources.id_file import IdScratch, slices
from gscl_scale.graph.sources.id_index import IdKinds, unknown_id
from gscl_scale.graph.sources.id_partitions import (
    MOST_PARTITIONS,
    LookUp,
    Partition,
    bytes_per_id,
    find_new,
    group_ids,
    look_up,
    num_partitions,
    number_new,
    repeats_in,
    rows_in,
)
from gscl_scale.io.arrow import is_text
from gscl_scale.runtime.threads import num_threads
from gscl_scale.text import counted

_SECTIONS_PER_TASK = 4  # sections differ in how long they take


class SpilledEdges:
    """The edges of a table while their ids are looked up, one partition of all ids after the other.

    read_ids   reads a column of ids; missing ones belong to no node
    ids        some ids like all others
    most_ids   how many there may be; None where that is unknown
    """

    def __init__(
        self, table: EdgeTable, read_ids: ReadIds, ids: pa.Array, most_ids: int | None, scratch: IdScratch
    ) -> None:
        self._read_ids, self._scratch = read_ids, scratch  # its folder stays as long as it does
        self._tables = table.sections(_SECTIONS_PER_TASK * scratch.workers) if scratch.runner else [table]
        self._table = table  # keeps copies of remote files
        self._folder = scratch.new_folder("edges").absolute()
        self._kind = pa.large_string() if is_text(ids.type) else pa.int64()
        self._bytes_per_id = bytes_per_id(ids)
        number = MOST_PARTITIONS
        if most_ids is not None:
            number = num_partitions(most_ids * self._bytes_per_id, scratch.at_once, scratch.workers)
        self._partitions = [Partition(self._folder, one, self._kind, self._kind) for one in range(number)]
        self._sections: list[Section] = []

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
        found = [repeats for repeats in self._scratch.run(repeats_in, self._partitions, at_once) if repeats]
        if found:
            example = min(found, key=lambda repeats: repeats.row).example
            raise repeated_ids(origin, sum(repeats.number for repeats in found), example)

    def write(self, kinds: IdKinds | None = None, guess: bool = False) -> None:
        """Read the table once and put its ends into the files of their partitions.

        kinds   notes the types of the ids, and refuses to mix them
        guess   text becomes integers if all of it is written like that
        """
        tasks, kinds = [self._task(table, guess) for table in self._tables], kinds or IdKinds()
        for task, section in zip(tasks, self._scratch.run(write_section, tasks, 1), strict=True):
            here = replace(task, seen=[], threads=num_threads())
            read = section or write_section(here)  # where a machine does not see the files as this one does
            assert read
            for kind in read.kinds:
                kinds.add(*kind)
            self._sections.append(read)
        cast = pa.int64() if all(section.integers for section in self._sections) else self._kind
        folders = tuple(section.folder for section in self._sections)
        self._partitions = [replace(partition, cast=cast, sections=folders) for partition in self._partitions]

    def _task(self, table: EdgeTable, guess: bool) -> SectionTask:
        alone = self._scratch.runner is None
        threads, seen = (self._scratch.workers, []) if alone else (1, states_of(table))
        number = len(self._partitions)
        return SectionTask(table, self._read_ids, self._kind, number, guess, self._folder, threads, seen)

    def number_new(self, first: int) -> Iterator[pa.Array]:
        """Give the ids that only edges name rows from `first` on; yields them in this order, ascending, in parts."""
        alone = [] if self._scratch.runner else [find_new(self._partitions[0])]
        # a hash cuts: the others have as many
        count = sum(len(new.mapped()) for new in alone) + self._partitions[0].num_nodes
        others, at_once = self._partitions[len(alone) :], self._at_once(count * len(self._partitions))
        found = [*alone, *self._scratch.run(find_new, others, at_once)]
        self._partitions = [replace(part, new=ids) for part, ids in zip(self._partitions, found, strict=True)]
        return number_new(self._partitions, first)

    def look_up(self, num_nodes: int) -> list[tuple[Path, ...]]:
        """Find the rows of all ends; returns for each section the files of all partitions."""
        if not self._sections:
            self.write()
        tasks = [LookUp(partition, num_nodes) for partition in self._partitions]
        folders = []
        for task, folder in zip(tasks, self._scratch.run(look_up, tasks, self._at_once(num_nodes)), strict=True):
            folders.append(folder)
            for ends in task.partition.ends:
                ends.remove()
        return [tuple(rows_in(folder, section) for folder in folders) for section in range(len(self._sections))]

    def fill_tasks(self, drop: bool, buckets: EdgeBuckets) -> list[FillTask]:
        """The sections as tasks that put their edges into buckets like these."""
        weighted = self._table.weight is not None
        rows = self.look_up(buckets.num_nodes)
        return [
            FillTask(section, files, weighted, drop, buckets)
            for section, files in zip(self._sections, rows, strict=True)
        ]

    def fill(self, drop: bool, buckets: EdgeBuckets) -> int:
        """Put all edges into buckets; returns how many edges to unknown ids were dropped."""
        tasks, dropped = self.fill_tasks(drop, buckets), 0
        for number, filled in enumerate(self._scratch.run(fill_buckets, tasks, 1)):
            if filled.unknown:
                raise self._refusal(self._tables[number], *filled.unknown)
            buckets.join(filled.buckets)
            dropped += filled.dropped
        shutil.rmtree(self._folder, ignore_errors=True)
        return dropped

    def _refusal(self, table: EdgeTable, number: int, unknown: UnknownEnd) -> GraphError:
        part = next(islice(parts_of(table), number, None))
        column = table.ends[unknown.end]
        return unknown_id(part, column, unknown.at, self._read_ids(part, column)[unknown.at].as_py())

    def _at_once(self, num_ids: int) -> int:
        """How many partitions fit the memory together."""
        share = num_ids * self._bytes_per_id // len(self._partitions)
        return max(1, min(self._scratch.workers, self._scratch.at_once // max(1, share)))


@dataclass(frozen=True)
class SpilledRows:
    """The edges of a table whose nodes are known; `notes` get one on edges to unknown ids that were dropped."""

    edges: SpilledEdges
    num_nodes: int
    drop: bool
    notes: list[str]

    def fill(self, buckets: EdgeBuckets) -> None:
        """Put all edges into buckets."""
        self.notes.extend(note_on_dropped(self.edges.fill(self.drop, buckets)))

    def __iter__(self) -> Iterator[Edges]:
        """The edges, to count them; only `fill` refuses unknown ids."""
        buckets = EdgeBuckets(Path(), self.num_nodes, "", undirected=False)
        for task in self.edges.fill_tasks(self.drop, buckets):
            for edges in task.edges():
                yield without_unknown(edges)[0]


def note_on_dropped(number: int) -> list[str]:
    """A note on dropped edges, where there are some."""
    words = f"{counted(number, 'edge', 'edges')} to ids that are not in the node table: dropped (graph.unknown_ids)"
    return [words] if number else []
