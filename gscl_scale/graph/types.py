"""What a graph is made of: its manifest, sparse features, split codes, ranges of rows; and the size of its source."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NotRequired

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from gscl_scale.io.validate import Count, FileEntry, FileName, Number

SPLIT_CODES = {"train": 1, "val": 2, "test": 3}
ID_SHARE = 4  # ids and their table take at most this part of the free memory; more of them wait in files


class ColumnSummary(TypedDict):
    """A column of the user's node table, for readers.

    distinct   number of distinct values, an estimate unless `exact`; None where it was not counted
    made       what became of it
    """

    name: str
    type: str
    missing: Count
    distinct: Count | None
    exact: bool
    made: str


class ColumnEncoding(TypedDict):
    """How a column of a node table becomes feature columns, so that another table is read in the same way.

    width        feature columns, without the one that marks missing values
    indicator    whether there is one
    fill         for numbers and days: what a missing value becomes, by position
    values       of one-hot columns: the value of each
    order        of dates in text: `year first`, `day first` or `month first`; of numbers: empty or `decimal comma`
    means        of numbers and days that are scaled: what is subtracted, by position
    deviations   of these: what they are divided by
    """

    name: str
    kind: Literal["number", "numbers", "days", "one-hot", "hashed", "text"]
    width: Count
    indicator: bool
    fill: list[Number]
    values: list[str]
    order: str
    means: NotRequired[list[Number]]
    deviations: NotRequired[list[Number]]


class Manifest(TypedDict):
    """The manifest of a graph folder; keys that may be absent are not read, or were added later."""

    name: str
    files: dict[FileName, FileEntry]
    num_nodes: Count
    num_entries: Count
    num_features: Count
    undirected: bool
    classes: list[str]
    fingerprint: str
    notes: list[str]
    splits: NotRequired[list[str]]
    feature_columns: NotRequired[list[str]]
    structural_features: NotRequired[Count]
    neighbour_means: NotRequired[Count]
    nonzero_features: NotRequired[Count]
    shuffled_labels: NotRequired[Count]
    format: NotRequired[int]
    edges_given: NotRequired[Count]
    self_loops: NotRequired[Count]
    index_type: NotRequired[str]
    options: NotRequired[dict[str, object]]
    columns: NotRequired[list[ColumnSummary]]
    encoding: NotRequired[list[ColumnEncoding]]


@dataclass(frozen=True)
class SparseFeatures:
    """Features as compressed sparse rows: `values[indptr[v]:indptr[v + 1]]` at columns `indices[...]`."""

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    values: npt.NDArray[np.float32]
    width: int

    def take(self, nodes: npt.NDArray[np.int64]) -> "SparseFeatures":
        """Take the rows of some nodes; no other rows are read."""
        starts = self.indptr[nodes]
        offsets = np.concatenate([[0], np.cumsum(self.indptr[nodes + 1] - starts)])
        places = np.repeat(starts - offsets[:-1], np.diff(offsets)) + np.arange(offsets[-1])
        return SparseFeatures(offsets, self.indices[places], self.values[places], self.width)


@dataclass(frozen=True)
class SourceSize:
    """What is known of a source before it is read; None is unknown.

    reading    bytes per node that reading takes at its peak
    resident   bytes per node that stay in memory while the rows are built
    fixed      bytes in memory all the time
    chunks     bytes of the edges that are read or drawn at once
    spooled    bytes per node of features that wait in a temporary file
    unpacked   bytes of arrays that wait in temporary files
    weighted   whether edges have weights
    spills     whether ids wait on disk where `resident` is more than a share of the memory
    mapped     whether the edges are an array in a file, which is mapped
    """

    num_nodes: int | None = None
    num_edges: int | None = None
    num_features: int | None = None
    reading: int = 0
    resident: int = 0
    fixed: int = 0
    chunks: int = 0
    spooled: int = 0
    unpacked: int = 0
    weighted: bool = False
    spills: bool = False
    mapped: bool = False


def is_csr(
    indptr: npt.NDArray[Any], indices: npt.NDArray[Any], num_values: int, num_rows: int, num_columns: int
) -> bool:
    """Whether flat arrays of integers are compressed rows: compiled code trusts them, and scipy's check is looser."""
    if indptr.size != num_rows + 1 or indptr[0] != 0 or not indptr[-1] == indices.size == num_values:
        return False
    inside = not indices.size or (indices.min() >= 0 and indices.max() < num_columns)
    return bool(inside and (indptr[1:] >= indptr[:-1]).all())  # a difference of unsigned numbers is never negative


def cut_rows(indptr: npt.NDArray[Any], first: int, end: int, entries: int) -> Iterator[tuple[int, int]]:
    """Cut rows first..end-1 into ranges with at most so many entries each, or of one row.

    >>> list(cut(np.array([0, 2, 4, 20, 21]), 0, 4, 5))
    [(0, 2), (2, 3), (3, 4)]
    """
    while first < end:
        fitting = int(np.searchsorted(indptr, indptr[first] + entries, "right")) - 1
        until = min(end, max(first + 1, fitting))
        yield first, until
        first = until
