"""What reading the graph takes: tasks of all machines read tables and mapped arrays, one process any other source."""

from dataclasses import replace

from gscl_scale.config.config import Config
from gscl_scale.graph.estimate import estimate_need, task_bytes
from gscl_scale.machine import num_cores
from gscl_scale.planning.graph_shape import GraphShape
from gscl_scale.planning.need import Machines, StageNeed, tasks_at_once
from gscl_scale.planning.rates import Rates

PROGRAM = 260 << 20  # bytes of the interpreter, its libraries and the compiled kernels
_STRUCTURE_STEPS = 28
_WAITS = 2  # ids of edges are written, and then their rows
_CORES = 2  # one thread collects the edges; all sort them
_MOST_MAPPED = 4 << 30  # as in graph.validate


def ingest_need(config: Config, shape: GraphShape, machines: Machines, rates: Rates) -> StageNeed:
    """What `ingest` takes."""
    has_sections = config.graph.source == "tables" or shape.source.mapped
    by_tasks = has_sections and (machines.number > 1 or config.runtime.engine == "ray")
    chunks = shape.source.chunks * (machines.cores + 1) // (num_cores() + 1)  # one for each thread
    source = replace(shape.source, chunks=chunks)
    need = estimate_need(source, config.graph, machines.cores, machines.memory, by_tasks)
    steps = _STRUCTURE_STEPS * shape.entries * shape.blocks.structural
    disk, moved = shape.folder_bytes, need.disk + _WAITS * need.waiting
    used, processes, cores, working = 1, 1, min(_CORES, machines.cores), need.working
    sort_s, gather_s = shape.entries * rates.sort, steps * rates.gather
    if by_tasks:
        used, processes = machines.number, tasks_at_once(config, machines)
        working = max(working, task_bytes(shape.source, config.graph))
        cores = used * processes
        gather_s *= cores / min(cores, machines.cores)  # features of the structure are computed on one machine
    traffic = 0 if machines.number == 1 else 2 * (disk + moved // used if by_tasks else moved)
    return StageNeed(
        "graph", 1, used, processes, PROGRAM + working, _mapped(shape), 0, disk, max(0, need.disk - disk), traffic,
        sort_s + gather_s, cores, (disk + moved / used) * rates.write,
    )  # fmt: skip


def _mapped(shape: GraphShape) -> int:
    """Bytes of the finished files that are looked through: columns of nodes, or rows of neighbours."""
    rows = shape.item * shape.entries + 8 * shape.num_nodes
    return max(shape.feature_bytes + 32 * shape.num_nodes, min(rows, _MOST_MAPPED))
