"""What sampling the rings takes, and how large rings are likely to be."""

import numpy as np
import numpy.typing as npt

from gscl_scale.config.config import Config
from gscl_scale.config.sections import RingsConfig
from gscl_scale.planning.graph_shape import GraphShape
from gscl_scale.planning.need import Machines, StageNeed
from gscl_scale.planning.rates import Rates
from gscl_scale.rings.choose_engine import lists_of_rings
from gscl_scale.shards.estimate import need_of_round
from gscl_scale.shards.plan import Plan
from gscl_scale.shards.precompute import rounds_asked

_VISITED = 0.9  # of the nodes: a search that has found so many has looked at all edges


def sampling_need(config: Config, shape: GraphShape, machines: Machines, rates: Rates) -> StageNeed:
    """What `precompute` takes."""
    rings, memory = config.rings, config.runtime.precompute_memory
    engine = engine_for(rings, shape, rates)
    plan = Plan("", shape.num_nodes, rings.model_copy(update={"engine": engine}), memory)
    sizes = ring_sizes(shape, rings.hops)
    lists = lists_of_rings(sizes[None], np.ones(1, np.bool_), shape.num_nodes, rings)
    workers, by_threads = _workers(config, machines), config.runtime.engine == "local" and machines.number == 1
    need = need_of_round(plan, shape.entries, f"int{8 * shape.item}", lists, workers)
    epochs = config.train.epochs_for(shape.size)
    asked = rounds_asked(rings, epochs)
    rounds = min(asked, max(1, int(rings.disk_gb * 1e9) // max(1, need.samples)))
    core_s = rounds * _seconds_of_round(engine, shape, sizes, rates)
    traffic = 0 if machines.number == 1 else _traffic(need.mapped, need.scratch, plan)
    disk_s = (rounds * (need.samples + need.scratch) / machines.number + traffic) * rates.write
    return StageNeed(
        "precompute", asked * plan.steps, machines.number, 1 if by_threads else workers,
        need.memory if by_threads else max(need.task, need.driver), need.mapped, need.mapped,
        rounds * need.samples, need.scratch, traffic, core_s, workers * machines.number, disk_s,
    )  # fmt: skip


def _traffic(mapped: int, scratch: int, plan: Plan) -> int:
    """Bytes that a machine reads and writes: what it maps in each pass, and its share of the levels."""
    return mapped * (len(plan.radii) + 1) + scratch


def _workers(config: Config, machines: Machines) -> int:
    """Tasks at once on a machine."""
    runtime = config.runtime
    if machines.number == 1 and runtime.engine == "local":
        return runtime.workers or machines.cores
    most = max(1, int(machines.cores / runtime.task_cpus))
    return min(most, -(-runtime.workers // machines.number)) if runtime.workers else most


def ring_sizes(shape: GraphShape, hops: int) -> npt.NDArray[np.int64]:
    """The likely size of each ring [k], as in a random graph: each node of a ring has so many further neighbors."""
    sizes, ball, ring = [], 1.0, 1.0
    for _ in range(hops):
        left = max(0.0, shape.num_nodes - ball)
        ring = left * -np.expm1(-ring * shape.degree / max(1.0, left))
        ball += ring
        sizes.append(ring)
    return np.maximum(np.array(sizes), 1).astype(np.int64)


def engine_for(rings: RingsConfig, shape: GraphShape, rates: Rates) -> str:
    """The engine that is likely to be chosen."""
    if rings.engine != "auto":
        return rings.engine
    if not rings.sketchable():
        return "exact"
    exact, sketch = (
        _seconds_of_round(name, shape, ring_sizes(shape, rings.hops), rates) for name in ("exact", "sketch")
    )
    return "exact" if exact < max(sketch, 1.0) else "sketch"


def _seconds_of_round(engine: str, shape: GraphShape, sizes: npt.NDArray[np.int64], rates: Rates) -> float:
    """Core seconds of the rings of all nodes."""
    writing = shape.num_nodes * rates.anchor
    if engine == "sketch":
        return writing + shape.entries * max(1, len(sizes) - 1) * rates.sketch
    inner = 1 + float(sizes[:-1].sum())  # nodes whose neighbors are looked at
    return writing + shape.num_nodes * min(inner, _VISITED * shape.num_nodes) * shape.degree * rates.visit
