"""What sampling the rings takes, and how large rings are likely to be."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from gscl_scale.config.config import Config
from gscl_scale.config.sections import RingsConfig
from gscl_scale.graph.csr import index_dtype
from gscl_scale.planning.graph_shape import GraphShape
from gscl_scale.planning.need import Machines, StageNeed, tasks_at_once
from gscl_scale.planning.rates import REFERENCE, Rates
from gscl_scale.rings.choose_engine import LITTLE_S, lists_of_rings
from gscl_scale.shards.estimate import RoundNeed, need_of_round
from gscl_scale.shards.levels import LevelFiles
from gscl_scale.shards.plan import Plan
from gscl_scale.shards.precompute import rounds_asked
from gscl_scale.shards.tiled import Tiling

_EXCESS = 4.0  # neighbours of a neighbour over those of a node: hubs are neighbours of many


def sampling_need(config: Config, shape: GraphShape, machines: Machines, rates: Rates) -> StageNeed:
    """What `precompute` takes."""
    rings, memory = config.rings, config.runtime.precompute_memory
    engine = engine_for(rings, shape)
    plan = Plan("", shape.num_nodes, rings.model_copy(update={"engine": engine}), memory)
    sizes = ring_sizes(shape, rings.hops)
    lists = lists_of_rings(sizes[None], np.ones(1, np.bool_), shape.num_nodes, rings)
    workers, by_threads = tasks_at_once(config, machines), config.runtime.engine == "local" and machines.number == 1
    need = need_of_round(plan, shape.entries, f"int{8 * shape.item}", lists, workers)
    epochs = config.train.epochs_for(shape.size)
    asked = rounds_asked(rings, epochs)
    rounds = min(asked, max(1, int(rings.disk_gb * 1e9) // max(1, need.samples)))
    core_s = rounds * _seconds_of_round(engine, shape, sizes, rates)
    read = rounds * _level_bytes_read(plan, need, workers if by_threads else 1)
    traffic = 0 if machines.number == 1 else int(rounds * need.mapped * (len(plan.radii) + 1) + read / machines.number)
    written = rounds * (need.samples + need.scratch)
    disk_s = traffic * rates.write if traffic else read * rates.write
    disk_s += written / machines.number * rates.write
    return StageNeed(
        "precompute", asked * plan.steps, machines.number, 1 if by_threads else workers,
        need.memory if by_threads else max(need.task, need.driver), need.mapped, need.random,
        rounds * need.samples, need.scratch, traffic, core_s, workers * machines.number, disk_s,
    )  # fmt: skip


def _level_bytes_read(plan: Plan, need: RoundNeed, threads: int) -> int:
    """Bytes of levels that a round reads in tiles: a level once for each group of nodes, which threads share."""
    if not plan.tiled:
        return 0
    index = index_dtype(plan.num_nodes).__name__
    files = LevelFiles.of(Path(), 0, 1, plan.num_nodes, plan.config.width, index)
    groups = -(-plan.num_nodes // Tiling.of(files, plan.memory * threads).group)
    return groups * need.scratch * (len(plan.radii) - 1) // len(plan.radii)


def ring_sizes(shape: GraphShape, hops: int) -> npt.NDArray[np.int64]:
    """The likely size of each ring [k], as in a random graph with hubs."""
    sizes, ball, ring, each = list[float](), 1.0, 1.0, shape.degree
    for _ in range(hops):
        left = max(0.0, shape.num_nodes - ball)
        ring = left * -float(np.expm1(-ring * each / max(1.0, left)))
        ball, each = ball + ring, _EXCESS * shape.degree
        sizes.append(ring)
    return np.array(sizes).astype(np.int64)


def engine_for(rings: RingsConfig, shape: GraphShape) -> str:
    """The engine that is likely to be chosen, on any machine."""
    if rings.engine != "auto":
        return rings.engine
    if not rings.sketchable():
        return "exact"
    sizes = ring_sizes(shape, rings.hops)
    exact, sketch = (_seconds_of_round(name, shape, sizes, REFERENCE) for name in ("exact", "sketch"))
    return "exact" if exact < max(sketch, LITTLE_S) else "sketch"


def _seconds_of_round(engine: str, shape: GraphShape, sizes: npt.NDArray[np.int64], rates: Rates) -> float:
    """Core seconds of the rings of all nodes."""
    writing = shape.num_nodes * rates.anchor
    if engine == "sketch":
        return writing + shape.entries * max(1, len(sizes) - 1) * rates.sketch
    visits = min(shape.degree + _EXCESS * shape.degree * float(sizes[:-1].sum()), shape.entries)
    return writing + shape.num_nodes * visits * rates.visit
