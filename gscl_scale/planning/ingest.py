"""What reading the graph takes: one process on one machine, whatever the others do."""

from dataclasses import replace

from gscl_scale.config.config import Config
from gscl_scale.graph.estimate import estimate_need
from gscl_scale.machine import num_cores
from gscl_scale.planning.graph_shape import GraphShape
from gscl_scale.planning.need import Machines, StageNeed
from gscl_scale.planning.rates import Rates

PROGRAM = 260 << 20  # bytes of the interpreter, its libraries and the compiled kernels
_STRUCTURE_STEPS = 28
_WAITS = 2  # ids of edges are written, and then their rows
_CORES = 2  # one thread collects the edges; all sort them
_MOST_MAPPED = 4 << 30  # as in graph.validate


def ingest_need(config: Config, shape: GraphShape, machines: Machines, rates: Rates) -> StageNeed:
    """What `ingest` takes."""
    chunks = shape.source.chunks * (machines.cores + 1) // (num_cores() + 1)  # one for each thread
    need = estimate_need(replace(shape.source, chunks=chunks), config.graph, machines.cores, machines.memory)
    steps = _STRUCTURE_STEPS * shape.entries * shape.blocks.structural
    core_s = shape.entries * rates.sort + steps * rates.gather
    disk, moved = shape.folder_bytes, need.disk + _WAITS * need.waiting
    traffic = 0 if machines.number == 1 else 2 * moved
    return StageNeed(
        "graph", 1, 1, 1, PROGRAM + need.working, _mapped(shape), 0, disk, max(0, need.disk - disk), traffic,
        core_s, min(_CORES, machines.cores), (disk + moved) * rates.write,
    )  # fmt: skip


def _mapped(shape: GraphShape) -> int:
    """Bytes of the finished files that are looked through: columns of nodes, or rows of neighbours."""
    rows = shape.item * shape.entries + 8 * shape.num_nodes
    return max(shape.feature_bytes + 32 * shape.num_nodes, min(rows, _MOST_MAPPED))
