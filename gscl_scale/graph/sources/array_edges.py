"""Edges in arrays; where these are mapped, tasks put sections of them into buckets of rows."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from gscl_scale.graph.csr import EdgeBuckets
from gscl_scale.graph.edge_rows import Edges
from gscl_scale.io.validate import state_of
from gscl_scale.runtime.runner import Runner, run_in_order

_LEAST_EDGES = 1 << 21  # of a section
_SECTIONS_PER_WORKER = 4


def edges_of_arrays(
    ends: npt.NDArray[Any], weights: Sequence[npt.NDArray[Any]], runner: Runner | None
) -> Iterable[Edges]:
    """Edges [2, E] with their weights, if they have any; a runner's tasks read arrays that are mapped as a whole."""
    arrays = [ends, *weights]
    if runner and all(isinstance(array, np.memmap) for array in arrays):
        return MappedEdges([_Mapping.of(array) for array in arrays], runner)
    return [(ends[0], ends[1], *weights)]


class _Mapping(NamedTuple):
    """Where the array of a file is."""

    path: Path
    dtype: np.dtype[Any]
    first: int
    shape: tuple[int, ...]
    order: Literal["F", "C"]

    @classmethod
    def of(cls, array: npt.NDArray[Any]) -> "_Mapping":
        """Of a mapped array."""
        assert isinstance(array, np.memmap)
        assert array.filename
        order: Literal["F", "C"] = "C" if array.flags.c_contiguous else "F"
        return cls(Path(array.filename), array.dtype, array.offset, array.shape, order)

    def open(self) -> npt.NDArray[Any]:
        """Map the array again."""
        return np.memmap(self.path, self.dtype, "r", self.first, self.shape, self.order)


@dataclass(frozen=True)
class _Section:
    """Edges low..high-1, which go to buckets like these.

    seen   sizes and times of the files, where another machine has to see the same ones
    """

    arrays: list[_Mapping]
    low: int
    high: int
    buckets: EdgeBuckets
    seen: list[tuple[int, int]]


@dataclass(frozen=True)
class MappedEdges:
    """Edges in mapped arrays: both ends [2, E], and weights if they have some."""

    arrays: list[_Mapping]
    runner: Runner

    def fill(self, buckets: EdgeBuckets) -> None:
        """Put all edges into buckets, by tasks; this process does what a machine does that does not see the file."""
        sections = list(self._sections(buckets))
        for section, filled in zip(sections, run_in_order(self.runner, _fill, sections), strict=True):
            here = filled or _fill(replace(section, seen=[]))
            assert here
            buckets.join(here)

    def _sections(self, buckets: EdgeBuckets) -> Iterator[_Section]:
        num_edges, seen = self.arrays[0].shape[1], [state_of(array.path) for array in self.arrays]
        step = max(_LEAST_EDGES, -(-num_edges // (_SECTIONS_PER_WORKER * self.runner.workers)))
        for low in range(0, num_edges, step):
            yield _Section(self.arrays, low, min(low + step, num_edges), buckets, seen)

    def __iter__(self) -> Iterator[Edges]:
        """All edges at once."""
        ends, *weights = [array.open() for array in self.arrays]
        yield (ends[0], ends[1], *weights)


def _fill(section: _Section) -> EdgeBuckets | None:
    """Put the edges of a section into buckets; None where this machine does not see the file."""
    if section.seen and section.seen != [state_of(array.path) for array in section.arrays]:
        return None
    part = slice(section.low, section.high)
    ends, *weights = [array.open() for array in section.arrays]
    buckets = section.buckets.empty("section", section.low)
    buckets.add(ends[0, part], ends[1, part], *(each[part] for each in weights))
    return buckets
