"""Ids cut by hash into partitions on disk, so that the table of one partition at a time is in memory.

The ends of edges wait in files of each section of their table, an id goes to the partition that its hash names, and a
byte for each end says which that is. Each partition writes the rows of nodes of its ends, in the same order. So the
edges of a section come back in the order of their table by reading all partitions side by side, and no edge needs a
number of its own. What works on a partition is a task of plain values, and its result names the files that it wrote.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale import seeding
from gscl_scale.graph.csr import index_dtype
from gscl_scale.graph.sources.id_file import IdFile
from gscl_scale.graph.sources.id_index import IdIndex
from gscl_scale.graph.sources.tableids import DistinctIds
from gscl_scale.io.arrow import arrow_of, is_text
from gscl_scale.io.atomic import explain_disk_errors
from gscl_scale.io.raw import append_bytes, new_folder
from gscl_scale.kernels.kernel import kernel

MOST_PARTITIONS = 255  # the last value of a byte is a missing id
_BYTES_PER_ID = 64  # keys, rows and hash table of a partition while it is made
_PLACE = np.dtype(np.int64)


class GroupedIds(NamedTuple):
    """Some ids in the order of their partitions: those of partition p are ids[bounds[p]:bounds[p + 1]].

    codes   partition of each id, in the order in which they came
    order   where each of the grouped ids came from
    """

    ids: pa.Array
    codes: npt.NDArray[np.uint8]
    bounds: npt.NDArray[np.int64]
    order: npt.NDArray[np.int32]

    def slices(self) -> Iterator[tuple[int, int, int]]:
        """Each partition that has some of the ids, and where they begin and end."""
        for partition in np.flatnonzero(np.diff(self.bounds[:-1])).tolist():
            yield partition, int(self.bounds[partition]), int(self.bounds[partition + 1])


def group_ids(ids: pa.Array, number: int) -> GroupedIds:
    """Group ids by partition; missing ones are left out, and have the code `number`."""
    codes, missing = np.empty(len(ids), np.uint8), ids.is_null().to_numpy(zero_copy_only=False)
    _partition(seeding.identities_of(ids.fill_null("" if is_text(ids.type) else 0)), missing, np.uint64(number), codes)
    bounds, order = _order_of(codes, number)
    order = order[: bounds[number]]
    return GroupedIds(pc.take(ids, arrow_of(order)), codes, bounds, order)


def _order_of(codes: npt.NDArray[np.uint8], number: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Bounds [number + 2] of the partitions, missing ids the last, and the places of their ids in turn."""
    bounds = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=number + 1))])
    order = np.empty(codes.size, np.int32)
    _sort_by_code(codes, bounds[:-1].copy(), order)
    return bounds, order


@dataclass(frozen=True)
class Partition:
    """One partition as plain values, for a task.

    kind       type of the ids in its files
    cast       type in which they are compared: integers where all texts of a text file are such
    sections   the folders with its ends of edges, in the order of the edge table
    new        its ids that the node table does not have, ascending
    """

    folder: Path
    number: int
    kind: pa.DataType
    cast: pa.DataType
    sections: tuple[Path, ...] = ()
    new: IdFile | None = None

    @property
    def nodes(self) -> IdFile:
        """Its ids of the node table, in the order of their rows."""
        return IdFile(self.folder / f"nodes-{self.number}", self.cast)

    @property
    def ends(self) -> list[IdFile]:
        """Its ends of edges, in the order of the edge table, by section."""
        return [ends_in(folder, self.number, self.kind) for folder in self.sections]

    def file(self, what: str) -> Path:
        """A file of numbers: the rows of `nodes` or `new`."""
        return self.folder / f"{what}-rows-{self.number}"

    def known(self) -> tuple[pa.Array, npt.NDArray[np.int64]]:
        """All ids that have a row, and the rows."""
        files = {"nodes": self.nodes, "new": self.new}
        found = [(ids.mapped(), self.file(kind)) for kind, ids in files.items() if ids and self.file(kind).exists()]
        if not found:
            return pa.array([], self.cast), np.zeros(0, _PLACE)
        ids, rows = zip(*((ids, np.fromfile(path, _PLACE)) for ids, path in found), strict=True)
        return (ids[0], rows[0]) if len(found) == 1 else (pa.concat_arrays(ids), np.concatenate(rows))

    @property
    def num_nodes(self) -> int:
        """How many ids of the node table it has."""
        path = self.file("nodes")
        return path.stat().st_size // _PLACE.itemsize if path.exists() else 0

    def add_nodes(self, ids: pa.Array, rows: npt.NDArray[np.int64]) -> None:
        """Append ids of the node table."""
        self.nodes.append(ids)
        append_bytes(self.file("nodes"), rows)


def ends_in(folder: Path, partition: int, kind: pa.DataType) -> IdFile:
    """The ends of the edges of a section that belong to a partition."""
    return IdFile(folder / f"ends-{partition}", kind)


class Repeats(NamedTuple):
    """Ids of the node table that were there before: how many, and row and id of the first one."""

    number: int
    row: int
    example: object


def repeats_in(partition: Partition) -> Repeats | None:
    """The repeated ids of the node table in a partition; None where there are none."""
    ids = partition.nodes.mapped()
    if (distinct := len(pc.unique(ids))) == len(ids):
        return None
    counts = pc.value_counts(ids)
    example = counts.field("values")[pc.index(pc.greater(counts.field("counts"), 1), True).as_py()]
    rows = np.fromfile(partition.file("nodes"), _PLACE)
    return Repeats(len(ids) - distinct, int(rows[pc.index(ids, example).as_py()]), example.as_py())


def find_new(partition: Partition) -> IdFile:
    """Write the ids of edges that the node table does not have."""
    index = IdIndex(partition.nodes.mapped())
    distinct = DistinctIds()
    for file in partition.ends:
        for ends in file.parts():
            wanted = ends.cast(partition.cast)
            distinct.add(wanted.filter(arrow_of(index.find(wanted) < 0)))
    new = IdFile(new_folder(partition.folder, f"new-{partition.number}") / "ids", partition.cast)
    ids = distinct.sorted()
    if len(ids):
        new.append(ids)
    return new


def number_new(partitions: list[Partition], first: int) -> Iterator[pa.Array]:
    """Give the new ids of all partitions rows from `first` on, in their order; yields them in this order, in parts.

    Each partition is a random sample of all ids, because a hash made it: the quantiles of one cut the others into
    ranges of about as many ids as a partition has.
    """
    runs = [partition.new.mapped() for partition in partitions if partition.new]
    sample = max(runs, key=len)
    cuts = [sample[len(sample) * part // len(runs)] for part in range(1, len(runs))] if len(sample) else []
    bounds = [[0, *(_position(run, cut) for cut in cuts), len(run)] for run in runs]
    for part in range(len(cuts) + 1):
        ids = pa.concat_arrays([run[low[part] : low[part + 1]] for run, low in zip(runs, bounds, strict=True)])
        order = pc.sort_indices(ids)
        rows = np.empty(len(ids), _PLACE)
        rows[order.to_numpy()] = np.arange(first, first + len(ids))
        done = 0
        for partition, low in zip(partitions, bounds, strict=True):
            count = low[part + 1] - low[part]
            append_bytes(partition.file("new"), rows[done : done + count])
            done += count
        first += len(ids)
        yield pc.take(ids, order)


def _position(ascending: pa.Array, value: pa.Scalar) -> int:
    """How many ids are below a value, texts by their bytes."""

    def comparable(scalar: pa.Scalar) -> Any:
        return scalar.as_buffer().to_pybytes() if is_text(scalar.type) else scalar.as_py()

    return bisect_left(range(len(ascending)), comparable(value), key=lambda at: comparable(ascending[at]))


@dataclass(frozen=True)
class LookUp:
    """A partition, and how many nodes there are."""

    partition: Partition
    num_nodes: int


def look_up(task: LookUp) -> Path:
    """Write the row of each end, -1 where no node has its id, into a folder with a file for each section."""
    ids, rows = task.partition.known()
    index, rows = IdIndex(ids), np.append(rows, -1).astype(index_dtype(task.num_nodes))
    folder = new_folder(task.partition.folder, f"rows-{task.partition.number}")
    for section, file in enumerate(task.partition.ends):
        path = rows_in(folder, section)
        with explain_disk_errors(path), path.open("wb") as out:
            for ends in file.parts():
                out.write(rows[index.find(ends.cast(task.partition.cast))].data.cast("B"))
    return folder


def rows_in(folder: Path, section: int) -> Path:
    """The rows of the ends of a section, in the folder of a partition."""
    return folder / str(section)


class RowReader:
    """Rows of ends in the order in which their ids were grouped."""

    def __init__(self, paths: Sequence[Path], num_nodes: int) -> None:
        self._paths = paths
        self._dtype = np.dtype(index_dtype(num_nodes))
        self._read = [0] * len(paths)

    def next(self, codes: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """The rows of the next ends, whose partitions are given; -1 for missing ids."""
        rows = np.full(codes.size, -1, self._dtype)
        bounds, order = _order_of(codes, len(self._paths))
        for number in np.flatnonzero(np.diff(bounds[:-1])).tolist():
            low, high = bounds[number : number + 2].tolist()
            start = self._read[number] * self._dtype.itemsize
            rows[order[low:high]] = np.fromfile(self._paths[number], self._dtype, high - low, offset=start)
            self._read[number] += high - low
        return rows


def bytes_per_id(ids: pa.Array) -> int:
    """Memory for each of the ids of a partition that are like these: twice themselves, and their table."""
    return _BYTES_PER_ID + 2 * int(ids.nbytes) // max(1, len(ids))


def num_partitions(most_bytes: int, memory: int, threads: int) -> int:
    """Partitions of ids with so many bytes, of which one for each thread fits the memory if they can be that many."""
    return min(MOST_PARTITIONS, max(2, -(-most_bytes * threads // memory)))


@kernel
def _partition(identities, missing, number, codes):
    """The partition of each id by the upper half of its hash: tables within a partition take the lower one."""
    for i in range(identities.size):
        code = (seeding.mix(identities[i]) >> np.uint64(32)) * number >> np.uint64(32)
        codes[i] = number if missing[i] else code


@kernel
def _sort_by_code(codes, position, order):
    """Places in the order of their codes, equal ones as they came; `position` [codes] is where each code begins."""
    for i in range(codes.size):
        order[position[codes[i]]] = i
        position[codes[i]] += 1
