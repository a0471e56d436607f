"""What reading the graph takes: one process on one machine, whatever the others do."""

from dataclasses import replace

from gscl_scale.config.config import Config
from gscl_scale.graph.estimate import estimate_need
from gscl_scale.machine import num_cores
from gscl_scale.planning.graph_shape import GraphShape
from gscl_scale.planning.need import Machines, StageNeed
from gscl_scale.planning.rates import Rates

_STRUCTURE_STEPS = 28
_FLOAT = 4


def ingest_need(config: Config, shape: GraphShape, machines: Machines, rates: Rates) -> StageNeed:
    """What `ingest` takes."""
    chunks = shape.source.chunks * (machines.cores + 1) // (num_cores() + 1)  # one for each thread
    need = estimate_need(replace(shape.source, chunks=chunks), config.graph, machines.cores)
    steps = _STRUCTURE_STEPS * shape.entries * shape.blocks.structural
    core_s = shape.entries * rates.sort + steps * rates.gather
    written = shape.folder_bytes * rates.write * machines.cores  # no faster on more cores
    return StageNeed(
        "graph", 1, 1, 1, need.memory, shape.folder_bytes, 0, shape.folder_bytes, max(0, need.disk - shape.folder_bytes),
        0 if machines.number == 1 else 2 * need.disk, core_s + written, machines.cores,
    )  # fmt: skip
