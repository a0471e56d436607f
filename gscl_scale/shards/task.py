"""The bodies of the tasks: a pass of the sketch over a range of vertices, and a finished part of the samples."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gscl_scale.config.sections import RingsConfig
from gscl_scale.graph.graph import Graph
from gscl_scale.io.atomic import link_or_copy, publish_file
from gscl_scale.machine import expect_random_reads, expect_reads_in_order
from gscl_scale.rings.exact.bfs import exact_rings, independent_rings
from gscl_scale.rings.exact.recount import last_ring_growth
from gscl_scale.rings.sample import RingSample, rename_nodes, replace_rows
from gscl_scale.rings.short_lists import complete_short_lists
from gscl_scale.rings.sketch.join import first_level, level_zero, next_level
from gscl_scale.rings.sketch.level import Level, head_words
from gscl_scale.rings.sketch.read import read_rings
from gscl_scale.shards.format import part_path, write_part
from gscl_scale.shards.levels import LevelFiles
from gscl_scale.shards.process_cache import (
    OpenRound,
    open_changes,
    open_graph,
    open_level,
    open_old_round,
    open_round,
    open_weights,
)
from gscl_scale.shards.reader import Samples
from gscl_scale.shards.records import PartRecord, PartTask, PassRecord, PassTask
from gscl_scale.shards.tiled import gather_group

Sampled = tuple[RingSample, npt.NDArray[np.bool_] | None]  # and the lists [A, k + 1] that were short in the sketch


def run_pass(task: PassTask) -> list[PassRecord]:
    """Compute the task's rows of a level and write them into the level's files, block by block."""
    return [
        {"round_number": task.round_number, "radius": task.radius, "first": first, "end": end, "checksum": checksum}
        for first, end, checksum in _write_blocks(task, open_graph(task.graph_folder))
    ]


def _write_blocks(task: PassTask, graph: Graph) -> list[tuple[int, int, int]]:
    """Write each block of the task; returns its ends and its checksum, 0 where nothing of it is needed."""
    needed = None
    if task.since is not None:
        needed = open_changes(task.folder, task.round_number).depths[task.first : task.end] >= task.radius
        if not needed.any():
            return [(task.first, task.end, 0)]
    opened = open_round(task.folder, task.round_number, graph.num_nodes)
    files = level_files(graph, task.folder, task.round_number, task.radius, task.config)
    if task.memory:
        expect_reads_in_order(task.graph_folder)
    if task.memory and task.radius > 1:
        before = level_files(graph, task.folder, task.round_number, task.radius - 1, task.config)
        return gather_group(graph, opened, before, files, task.first, task.end, task.memory, task.workers)
    return [(task.first, task.end, files.write(task.first, _level(task, graph, opened, task.radius, needed)))]


def run_part(task: PartTask) -> PartRecord:
    """Sample the rings of the task's anchors and publish its part."""
    if task.since is not None:
        return _run_since(task, task.since)
    return _publish(task, *_sample(task, np.arange(task.first, task.end, dtype=np.int64)))


def _run_since(task: PartTask, since: Path) -> PartRecord:
    """Sample the anchors that may have changed, and take the others from the earlier samples."""
    old, changes = Samples.open(since), open_changes(task.folder, task.round_number)
    rows = np.flatnonzero(changes.depths[task.first : task.end] == task.config.hops)
    recount = np.flatnonzero(changes.recount[task.first : task.end])
    if changes.matching.same:
        before = old.part(task.round_number, task.part)
        if not rows.size and not recount.size:
            return _keep_part(task, old)
    else:
        place = np.maximum(changes.old_of_new[task.first : task.end], 0)
        taken = open_old_round(old, task.round_number).take(place)
        before = rename_nodes(taken, np.arange(task.first, task.end), changes.new_of_old)
    if recount.size:  # nodes that no list names may have come to ring k, or gone
        graph, sizes = open_graph(task.graph_folder), before.ring_size.copy()
        sizes[recount, -1] += last_ring_growth(
            graph.indptr, graph.indices, task.first + recount, task.config.hops, changes.rows
        )
        before = replace(before, ring_size=sizes)
    fresh, short = _sample(task, task.first + rows)
    return _publish(task, replace_rows(before, rows, fresh), short)


def _keep_part(task: PartTask, old: Samples) -> PartRecord:
    """Publish the earlier file of a part in which nothing changed."""
    with publish_file(part_path(task.folder, task.round_number, task.part)) as temporary:
        link_or_copy(part_path(old.folder, task.round_number, task.part), temporary)
    return old.part_record(task.round_number, task.part)


def _publish(task: PartTask, sample: RingSample, short: npt.NDArray[np.bool_] | None) -> PartRecord:
    path = part_path(task.folder, task.round_number, task.part)
    checksum = write_part(path, sample)
    return {
        "round_number": task.round_number,
        "part": task.part,
        "anchors": [task.first, task.end],
        "rows": sample.anchors.size,
        "bytes": path.stat().st_size,
        "sha256": checksum,
        "members": [int(lists.offsets[-1]) for lists in sample.lists],
        "ring_size_sum": sample.ring_size.sum(axis=0).tolist(),
        "short": [0] * (task.config.hops + 1) if short is None else short.sum(axis=0).tolist(),
    }


def level_files(graph: Graph, samples: Path, round_number: int, radius: int, config: RingsConfig) -> LevelFiles:
    """The files of a level of a graph."""
    return LevelFiles.of(samples, round_number, radius, graph.num_nodes, config.width, graph.indices.dtype.name)


def _sample(task: PartTask, anchors: npt.NDArray[np.int64]) -> Sampled:
    """The samples of some anchors of a part."""
    graph, config = open_graph(task.graph_folder), task.config
    csr = graph.indptr, graph.indices
    if config.sharing == "independent":
        weights = open_weights(task.folder)
        return independent_rings(*csr, anchors, graph.identities(), weights, task.round_number, config), None
    opened = open_round(task.folder, task.round_number, graph.num_nodes)
    if config.engine == "sketch":
        return _sketch_sample(task, graph, opened, anchors)
    return exact_rings(*csr, anchors, opened.priorities, opened.rank, config), None


def _sketch_sample(task: PartTask, graph: Graph, opened: OpenRound, anchors: npt.NDArray[np.int64]) -> Sampled:
    """Read the rings off the levels; short lists are finished by the exact engine."""
    config, rows = task.config, anchors - task.first
    assert isinstance(config.per_ring, int)
    needed = np.zeros(task.end - task.first, np.bool_)
    needed[rows] = True
    alone = level_zero(opened.rank, anchors, config.width, head_words(config.width, graph.num_nodes))
    levels = [alone.rows(np.arange(anchors.size))]
    for radius in range(1, config.hops + bool(task.memory)):
        files = level_files(graph, task.folder, task.round_number, radius, config)
        levels.append(files.load_rows(task.first, task.end) if task.memory else files.map().rows(anchors))
    if not task.memory:
        levels.append(_level(task, graph, opened, config.hops, needed).rows(rows))
    priorities, rank = opened.priorities, opened.rank
    if task.memory:
        expect_random_reads(task.graph_folder)  # by searches
    sample, short = read_rings(levels, anchors, priorities, opened.weights, config.per_ring, config.beyond)
    return complete_short_lists(
        graph.indptr, graph.indices, sample, short, priorities, rank, config, graph.undirected, task.memory
    ), short


def _level(
    task: PassTask | PartTask, graph: Graph, opened: OpenRound, radius: int, needed: npt.NDArray[np.bool_] | None
) -> Level:
    """The task's rows of a level, from the level before."""
    config, rows = task.config, (task.first, task.end)
    if radius == 1:
        words = head_words(config.width, graph.num_nodes)
        return first_level(graph.indptr, graph.indices, opened.rank, *rows, config.width, words, needed)
    files = level_files(graph, task.folder, task.round_number, radius - 1, config)
    before = open_level(files, in_memory=task.threads and task.since is None)
    return next_level(graph.indptr, graph.indices, opened.rank, before, *rows, graph.undirected, needed)
