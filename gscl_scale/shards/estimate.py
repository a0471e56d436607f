"""Memory and disk that a precompute takes, printed before the start, and refused where this machine has less."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gscl_scale import machine
from gscl_scale.errors import ConfigError
from gscl_scale.graph.graph import Graph
from gscl_scale.rings.choose_engine import expected_lists
from gscl_scale.rings.short_lists import SHARED_BYTES
from gscl_scale.runtime.settings import MemoryNeed
from gscl_scale.shards.levels import LevelFiles, levels_folder
from gscl_scale.shards.plan import Plan
from gscl_scale.text import format_bytes

_PROGRAM = 260 << 20  # bytes of the interpreter, its libraries and the compiled kernels
_PASSES = 140 << 20  # bytes of a process that makes passes in tiles, beside its bound: freed blocks, at most a level
_PER_NODE = 26  # bytes while priorities are drawn and sorted: draws, order, both in order
_PER_NODE_SCORES = 40  # bytes while PageRank is computed
_PER_NODE_CHECK = 1  # byte of every process, beside the ranks, while it checks the order
_LEAST_TILES_GB = 0.1
_PER_ANCHOR_COLUMNS = 40  # bytes: anchor, decided, sizes and offsets


@dataclass(frozen=True)
class RoundNeed:
    """Bytes that a round takes.

    memory    of this machine, where all tasks run
    driver    the part of it that draws and sorts
    task      memory of a task in a process of its own
    mapped    of the files that tasks read
    random    those of them that need room; in tiles the ranks alone: others are read in order, and pages given back
    scratch   of disk until the round is finished
    samples   of disk for good
    """

    memory: int
    driver: int
    task: int
    mapped: int
    random: int
    scratch: int
    samples: int


def estimate_need(graph: Graph, plan: Plan, workers: int) -> RoundNeed:
    """What a round takes with so many workers on this machine."""
    lists = expected_lists(graph.indptr, graph.indices, plan.config)
    return need_of_round(plan, graph.indices.size, graph.indices.dtype, lists, workers)


def need_of_round(
    plan: Plan, entries: int, index_type: npt.DTypeLike, lists: tuple[float, float], workers: int
) -> RoundNeed:
    """What a round of a graph with so many entries takes; `lists` as of `expected_lists`."""
    config, num_nodes, index = plan.config, plan.num_nodes, np.dtype(index_type)
    row, item = LevelFiles.of(Path(), 0, 1, num_nodes, config.width, index.name).row_bytes(), index.itemsize
    members, words = lists
    anchor = _PER_ANCHOR_COLUMNS + item * (members + config.beyond) + 8 * words
    part = config.part_anchors * (2 * anchor + row * (len(plan.radii) + 2 - plan.tiled) * bool(plan.radii))
    per_node = _PER_NODE * (not plan.tiled) + _PER_NODE_SCORES * (config.sampling == "pagerank")
    program = _PROGRAM + min(_PASSES, num_nodes * row) * plan.tiled
    driver = program + num_nodes * per_node + plan.memory * plan.tiled
    own = max(int(part) + _search_bytes(plan), plan.memory * plan.tiled)  # no search runs beside a pass
    each = program + num_nodes * (_PER_NODE_CHECK + item * (not plan.tiled))  # what was drawn is in files by then
    rows = entries * item + num_nodes * (8 + row * bool(plan.radii and not plan.tiled))
    in_order = num_nodes * (16 + item)  # ids, priorities, and the nodes in their order
    return RoundNeed(
        memory=max(driver, each + workers * own),
        driver=driver,
        task=each + own,
        mapped=rows + in_order + num_nodes * item * plan.tiled,
        random=num_nodes * item if plan.tiled else rows,
        scratch=len(plan.radii) * num_nodes * row,
        samples=int(num_nodes * (anchor + item + 8)),
    )


def _search_bytes(plan: Plan) -> int:
    """What a task marks at the nodes while it finishes short lists: less where it has no room for all at once."""
    together = plan.num_nodes * SHARED_BYTES
    return together if not plan.tiled or together <= plan.memory else 3 * plan.num_nodes // 8


def memory_on_machine(graph: Graph, plan: Plan) -> MemoryNeed:
    """What tasks take on a machine of a cluster: they map the same files, and each is a process."""
    need = estimate_need(graph, plan, 1)
    return MemoryNeed(shared=need.random, each=need.task)


def check_resources(graph: Graph, plan: Plan, workers: int, folder: Path, local: bool, missing: float = 1.0) -> str:
    """A line on what the work takes; an error where memory or disk are too small.

    local     whether tasks run on this machine: others are checked by `memory_on_machine` when they are looked at
    missing   share of the first round that is not in the folder yet
    """
    need = estimate_need(graph, plan, workers)
    memory, disk = machine.available_memory(), machine.free_disk(folder)
    if local and need.memory + need.random > memory:
        raise ConfigError(
            f"rings.width: {plan.num_nodes:,} nodes with width {plan.config.width} take about "
            f"{format_bytes(need.memory + need.random)} of memory and {format_bytes(memory)} are available; "
            f"{_memory_cure(need, plan, workers, memory)}"
        )
    if need.driver > memory:
        raise ConfigError(
            f"rings: drawing {plan.num_nodes:,} nodes takes about {format_bytes(need.driver)} of memory on this "
            f"machine and {format_bytes(memory)} are available; start the command on a machine with more memory"
        )
    scratch_left = max(0, need.scratch - _written(levels_folder(folder, 0))) if missing else 0
    if (more := scratch_left + int(missing * need.samples)) > disk:
        raise ConfigError(
            f"rings.width: {'a round' if missing == 1 else 'the rest of a round'} takes about "
            f"{format_bytes(more)} of disk and {format_bytes(disk)} are free in {folder.parent}; "
            "lower rings.width or rings.beyond, or choose another --run on a larger disk"
        )
    takes = [f"{format_bytes(need.samples)} of disk per round ({format_bytes(disk)} free)"]
    if need.scratch:
        takes.append(f"{format_bytes(need.scratch)} of disk until a round is finished")
    if local:
        takes.append(f"{format_bytes(need.memory + need.random)} of memory ({format_bytes(memory)} available)")
    else:
        shared = f"{format_bytes(need.random)} of memory on each machine and " if need.random else ""
        takes.append(f"{shared}{format_bytes(need.task)} {'' if shared else 'of memory '}for each task there")
    return "precompute takes about " + ", ".join(takes)


def _written(folder: Path) -> int:
    """Bytes of disk that the files of a folder take; holes in them take none."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*"))


def _memory_cure(need: RoundNeed, plan: Plan, workers: int, memory: int) -> str:
    if workers > 1 and need.memory + need.random - (workers - 1) * _search_bytes(plan) <= memory:
        return "set runtime.workers to 1"
    if plan.radii and not plan.tiled:
        ranks = plan.num_nodes * 8
        tiles = (memory - _PROGRAM - ranks) // workers / 2 / (1 << 30)  # the other half is for pages of files
        if tiles >= _LEAST_TILES_GB:
            return (
                f"set runtime.precompute_memory_gb to {math.floor(10 * tiles) / 10}, so that levels are read in tiles"
            )
    if plan.radii:
        return "lower rings.width and make more rounds, or use a machine with more memory"
    return "use a machine with more memory"
