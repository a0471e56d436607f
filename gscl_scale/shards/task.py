"""The body of one task: the ring samples of a range of anchors, from the graph folder to a finished part."""

from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from gscl_scale.config import RingsConfig
from gscl_scale.files import sha256_of
from gscl_scale.graph import Graph
from gscl_scale.rings import RingSample, exact_rings, pagerank
from gscl_scale.rings.exact import independent_rings
from gscl_scale.shards.format import map_priorities, part_path, priorities_path, write_part


@dataclass(frozen=True)
class PartTask:
    """What a worker needs to know: plain values, cheap to send anywhere."""

    graph_folder: Path
    folder: Path
    round_number: int
    part: int
    first_anchor: int
    end_anchor: int
    config: RingsConfig


@dataclass(frozen=True)
class PartRecord:
    """What a worker reports: a few bytes for the manifest."""

    round_number: int
    part: int
    anchors: tuple[int, int]
    rows: int
    bytes: int
    sha256: str
    members: list[int]
    ring_size_sum: list[int]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "PartRecord":
        """From plain values."""
        return cls(**{**values, "anchors": tuple(values["anchors"])})


def run_part(task: PartTask) -> PartRecord:
    """Sample the rings of the task's anchors and publish its part."""
    sample = _sample(task)
    path = part_path(task.folder, task.round_number, task.part)
    write_part(path, sample)
    return PartRecord(
        round_number=task.round_number,
        part=task.part,
        anchors=(task.first_anchor, task.end_anchor),
        rows=sample.anchors.size,
        bytes=path.stat().st_size,
        sha256=sha256_of(path),
        members=[int(ring.offsets[-1]) for ring in (*sample.rings, sample.beyond)],
        ring_size_sum=[int(total) for total in sample.ring_size.sum(axis=0)],
    )


def _sample(task: PartTask) -> RingSample:
    graph = _graph(task.graph_folder)
    anchors = np.arange(task.first_anchor, task.end_anchor, dtype=np.int64)
    if task.config.sharing == "shared":
        priorities = map_priorities(priorities_path(task.folder, task.round_number))
        return exact_rings(graph.indptr, graph.indices, anchors, priorities, task.config)
    weights = pagerank(graph.indptr, graph.indices) if task.config.sampling == "pagerank" else None
    return independent_rings(
        graph.indptr, graph.indices, anchors, graph.identities(), weights, task.round_number, task.config
    )


@lru_cache(maxsize=1)
def _graph(folder: Path) -> Graph:
    return Graph.open(folder)
