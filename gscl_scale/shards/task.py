"""The bodies of the tasks: a pass of the sketch over a range of vertices, and a finished part of the samples."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gscl_scale.config import RingsConfig
from gscl_scale.files import sha256_of
from gscl_scale.graph import Graph
from gscl_scale.rings import (
    Level,
    RingSample,
    complete,
    exact_rings,
    first_level,
    head_words,
    independent_rings,
    level_zero,
    next_level,
    read_rings,
)
from gscl_scale.shards.format import part_path, write_part
from gscl_scale.shards.levels import LevelFiles
from gscl_scale.shards.opened import OpenRound, open_graph, open_level, open_round, open_weights


@dataclass(frozen=True)
class PassTask:
    """The balls of radius `radius` around the vertices first..end: plain values, cheap to send anywhere."""

    graph_folder: Path
    folder: Path
    round_number: int
    radius: int
    first: int
    end: int
    config: RingsConfig


@dataclass(frozen=True)
class PassRecord:
    """What is reported of a finished pass over a range of vertices."""

    round_number: int
    radius: int
    first: int
    end: int
    checksum: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class PartTask:
    """The samples of a range of anchors: plain values, cheap to send anywhere."""

    graph_folder: Path
    folder: Path
    round_number: int
    part: int
    first_anchor: int
    end_anchor: int
    config: RingsConfig


@dataclass(frozen=True)
class PartRecord:
    """What is reported of a finished part: a few bytes for the manifest.

    members, short   entries of each ring and of beyond; lists of each that the exact engine finished for the sketch
    """

    round_number: int
    part: int
    anchors: tuple[int, int]
    rows: int
    bytes: int
    sha256: str
    members: list[int]
    short: list[int]
    ring_size_sum: list[int]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "PartRecord":
        """From plain values."""
        return cls(**{**values, "anchors": tuple(values["anchors"])})


def run_pass(task: PassTask) -> PassRecord:
    """Compute the task's rows of a level and write them into the level's files."""
    graph, opened = open_graph(task.graph_folder), open_round(task.folder, task.round_number)
    level = _level(graph, opened, task.folder, task.round_number, task.radius, task.first, task.end, task.config)
    checksum = level_files(graph, task.folder, task.round_number, task.radius, task.config).write(task.first, level)
    return PassRecord(task.round_number, task.radius, task.first, task.end, checksum)


def run_part(task: PartTask) -> PartRecord:
    """Sample the rings of the task's anchors and publish its part."""
    sample, short = _sample(task)
    return publish_part(task, sample, short)


def publish_part(task: PartTask, sample: RingSample, short: list[int]) -> PartRecord:
    """Write a part, read it back for its checksum, and report it."""
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
        short=short,
        ring_size_sum=[int(total) for total in sample.ring_size.sum(axis=0)],
    )


def level_files(graph: Graph, samples: Path, round_number: int, radius: int, config: RingsConfig) -> LevelFiles:
    """The files of a level of a graph."""
    return LevelFiles.of(samples, round_number, radius, graph.num_nodes, config.width, graph.indices.dtype.name)


def _sample(task: PartTask) -> tuple[RingSample, list[int]]:
    """The samples of a part, and how many lists of each ring were short in the sketch."""
    graph, config = open_graph(task.graph_folder), task.config
    anchors = np.arange(task.first_anchor, task.end_anchor, dtype=np.int64)
    nothing_short = [0] * (config.hops + 1)
    if config.sharing == "independent":
        weights = open_weights(task.folder)
        identities = graph.identities()
        return (
            independent_rings(graph.indptr, graph.indices, anchors, identities, weights, task.round_number, config),
            nothing_short,
        )
    opened = open_round(task.folder, task.round_number)
    if config.engine == "sketch":
        return _sketch_sample(task, graph, opened)
    return exact_rings(graph.indptr, graph.indices, anchors, opened.priorities, opened.rank, config), nothing_short


def _sketch_sample(task: PartTask, graph: Graph, opened: OpenRound) -> tuple[RingSample, list[int]]:
    """Read the rings off the levels; what they cannot tell is left to the exact engine."""
    config, first, end = task.config, task.first_anchor, task.end_anchor
    words = head_words(config.width, graph.num_nodes)
    levels = [level_zero(opened.rank, first, end, config.width, words)]
    for radius in range(1, config.hops):
        levels.append(level_files(graph, task.folder, task.round_number, radius, config).map().rows(first, end))
    levels.append(_level(graph, opened, task.folder, task.round_number, config.hops, first, end, config))
    assert isinstance(config.per_ring, int)
    anchors = np.arange(first, end, dtype=np.int64)
    sample, short = read_rings(levels, anchors, opened.priorities, opened.weights, config.per_ring, config.beyond)
    sample = complete(graph.indptr, graph.indices, sample, short, opened.priorities, opened.rank, config)
    return sample, [int(number) for number in short.sum(axis=0)]


def _level(
    graph: Graph,
    opened: OpenRound,
    samples: Path,
    round_number: int,
    radius: int,
    first: int,
    end: int,
    config: RingsConfig,
) -> Level:
    """The rows first..end of a level, from the level before."""
    if radius == 1:
        words = head_words(config.width, graph.num_nodes)
        return first_level(graph.indptr, graph.indices, opened.rank, first, end, config.width, words)
    before = open_level(level_files(graph, samples, round_number, radius - 1, config))
    return next_level(graph.indptr, graph.indices, before, first, end)
