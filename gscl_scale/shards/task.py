"""The bodies of the tasks: a pass of the sketch over a range of vertices, and a finished part of the samples."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gscl_scale.config.sections import RingsConfig
from gscl_scale.graph.graph import Graph
from gscl_scale.io.atomic import link_or_copy, publish
from gscl_scale.rings.complete import complete
from gscl_scale.rings.exact.bfs import exact_rings, independent_rings
from gscl_scale.rings.exact.recount import growth_of_last_ring
from gscl_scale.rings.sample import RingSample, rename_nodes, replace_rows
from gscl_scale.rings.sketch.join import first_level, level_zero, next_level
from gscl_scale.rings.sketch.level import Level, head_words
from gscl_scale.rings.sketch.read import read_rings
from gscl_scale.shards.format import part_path, write_part
from gscl_scale.shards.incremental import map_counted, map_depths, map_matching
from gscl_scale.shards.levels import LevelFiles
from gscl_scale.shards.process_cache import (
    OpenRound,
    open_graph,
    open_level,
    open_old_round,
    open_round,
    open_row_changes,
    open_weights,
)
from gscl_scale.shards.reader import Samples
from gscl_scale.shards.records import PartRecord, PartTask, PassRecord, PassTask


def run_pass(task: PassTask) -> PassRecord:
    """Compute the task's rows of a level and write them into the level's files."""
    graph = open_graph(task.graph_folder)
    opened = open_round(task.folder, task.round_number, graph.num_nodes)
    needed = None
    if task.since is not None:
        needed = map_depths(task.folder, task.round_number)[task.first : task.end] >= task.radius
        if not needed.any():
            return PassRecord(task.round_number, task.radius, task.first, task.end, 0)
    level = _level(task, graph, opened, task.radius, task.first, task.end, needed)
    checksum = level_files(graph, task.folder, task.round_number, task.radius, task.config).write(task.first, level)
    return PassRecord(task.round_number, task.radius, task.first, task.end, checksum)


def run_part(task: PartTask) -> PartRecord:
    """Sample the rings of the task's anchors and publish its part."""
    if task.since is not None:
        return _run_again(task, task.since)
    anchors = np.arange(task.first_anchor, task.end_anchor, dtype=np.int64)
    return publish_part(task, *_sample(task, anchors))


def _run_again(task: PartTask, since: Path) -> PartRecord:
    """Sample the anchors that may have changed, and take the others from the earlier samples."""
    old, matching = Samples.open(since), map_matching(task.folder, task.round_number)
    depths = map_depths(task.folder, task.round_number)[task.first_anchor : task.end_anchor]
    rows = np.flatnonzero(depths == task.config.hops)
    counted = np.flatnonzero(map_counted(task.folder, task.round_number)[task.first_anchor : task.end_anchor])
    place = matching.old_of_new[task.first_anchor : task.end_anchor]
    if matching.same:
        before = old.part(task.round_number, task.part)
        if not rows.size and not counted.size:
            return _keep_part(task, old)
    else:
        taken = open_old_round(old, task.round_number).take(np.maximum(place, 0))
        before = rename_nodes(taken, np.arange(task.first_anchor, task.end_anchor), matching.new_of_old)
    if counted.size:
        before = _count_last_ring(task, before, counted)
    fresh, short = _sample(task, task.first_anchor + rows)
    return publish_part(task, replace_rows(before, rows, fresh), short)


def _count_last_ring(task: PartTask, before: RingSample, rows: npt.NDArray[np.int64]) -> RingSample:
    """Those at `rows` have their old lists, but nodes that these do not name may have come to ring k, or gone."""
    graph = open_graph(task.graph_folder)
    changes = open_row_changes(task.folder, task.round_number, graph.num_nodes)
    sizes = before.ring_size.copy()
    sizes[rows, -1] += growth_of_last_ring(
        graph.indptr, graph.indices, task.first_anchor + rows, task.config.hops, changes
    )
    return replace(before, ring_size=sizes)


def _keep_part(task: PartTask, old: Samples) -> PartRecord:
    """A part in which nothing changed is the earlier file."""
    path = part_path(task.folder, task.round_number, task.part)
    with publish(path) as temporary:
        link_or_copy(part_path(old.folder, task.round_number, task.part), temporary)
    return PartRecord.from_json(old.manifest["rounds"][task.round_number]["parts"][task.part])


def publish_part(task: PartTask, sample: RingSample, short: npt.NDArray[np.bool_] | None) -> PartRecord:
    """Write a part and report it."""
    path = part_path(task.folder, task.round_number, task.part)
    checksum = write_part(path, sample)
    return PartRecord(
        round_number=task.round_number,
        part=task.part,
        anchors=(task.first_anchor, task.end_anchor),
        rows=sample.anchors.size,
        bytes=path.stat().st_size,
        sha256=checksum,
        members=[int(ring.offsets[-1]) for ring in (*sample.rings, sample.beyond)],
        ring_size_sum=[int(total) for total in sample.ring_size.sum(axis=0)],
        short=[0] * (task.config.hops + 1) if short is None else [int(number) for number in short.sum(axis=0)],
    )


def level_files(graph: Graph, samples: Path, round_number: int, radius: int, config: RingsConfig) -> LevelFiles:
    """The files of a level of a graph."""
    return LevelFiles.of(samples, round_number, radius, graph.num_nodes, config.width, graph.indices.dtype.name)


def _sample(task: PartTask, anchors: npt.NDArray[np.int64]) -> tuple[RingSample, npt.NDArray[np.bool_] | None]:
    """The samples of anchors of a part, and which of their lists were short in the sketch."""
    graph, config = open_graph(task.graph_folder), task.config
    if config.sharing == "independent":
        weights = open_weights(task.folder)
        identities = graph.identities()
        sample = independent_rings(graph.indptr, graph.indices, anchors, identities, weights, task.round_number, config)
        return sample, None
    opened = open_round(task.folder, task.round_number, graph.num_nodes)
    if config.engine == "sketch":
        return _sketch_sample(task, graph, opened, anchors)
    return exact_rings(graph.indptr, graph.indices, anchors, opened.priorities, opened.rank, config), None


def _sketch_sample(
    task: PartTask, graph: Graph, opened: OpenRound, anchors: npt.NDArray[np.int64]
) -> tuple[RingSample, npt.NDArray[np.bool_]]:
    """Read the rings off the levels; what they cannot tell is left to the exact engine."""
    config, first, end = task.config, task.first_anchor, task.end_anchor
    rows = anchors - first
    needed = np.zeros(end - first, np.bool_)
    needed[rows] = True
    alone = level_zero(opened.rank, anchors, config.width, head_words(config.width, graph.num_nodes))
    levels = [alone.rows(np.arange(anchors.size))]
    for radius in range(1, config.hops):
        files = level_files(graph, task.folder, task.round_number, radius, config)
        levels.append(files.map().rows(anchors))
    last = _level(task, graph, opened, config.hops, first, end, needed)
    levels.append(last.rows(rows))
    assert isinstance(config.per_ring, int)
    sample, short = read_rings(levels, anchors, opened.priorities, opened.weights, config.per_ring, config.beyond)
    undirected = graph.undirected
    return (
        complete(graph.indptr, graph.indices, sample, short, opened.priorities, opened.rank, config, undirected),
        short,
    )


def _level(
    task: PassTask | PartTask,
    graph: Graph,
    opened: OpenRound,
    radius: int,
    first: int,
    end: int,
    needed: npt.NDArray[np.bool_] | None,
) -> Level:
    """The rows first..end of a level, from the level before."""
    config = task.config
    if radius == 1:
        words = head_words(config.width, graph.num_nodes)
        return first_level(graph.indptr, graph.indices, opened.rank, first, end, config.width, words, needed)
    files = level_files(graph, task.folder, task.round_number, radius - 1, config)
    before = open_level(files, in_memory=task.threads and task.since is None)
    return next_level(graph.indptr, graph.indices, opened.rank, before, first, end, graph.undirected, needed)
