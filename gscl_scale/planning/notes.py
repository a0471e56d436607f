"""What a reader of a plan should know beside its table."""

from gscl_scale.config.config import Config
from gscl_scale.planning.graph_shape import GraphShape
from gscl_scale.planning.need import Machines
from gscl_scale.text import format_bytes
from gscl_scale.train.device_plan import step_bytes


def notes_on(config: Config, shape: GraphShape, machines: Machines) -> list[str]:
    """Sentences about GPUs, machines and cores that wait, and labels that are not counted."""
    notes = []
    if machines.gpus:
        step = step_bytes(config.model, shape.num_nodes, shape.num_nodes * shape.num_features, shape.entries)
        notes.append(
            "Times are those of cores: no rate of a GPU is measured. A step over the whole graph takes about "
            f"{format_bytes(step)} of GPU memory; where a GPU has less, steps encode what their batch depends on"
        )
    workers = config.runtime.for_training().workers[1]
    if machines.number > workers:
        notes.append(
            f"train uses {workers} of {machines.number:,} machines; --set runtime.train_workers={machines.number} "
            "uses all"
        )
    cores = int(config.runtime.worker_cpus)
    if machines.number > 1 and cores < machines.cores:
        notes.append(
            f"A process of train and embed takes {cores} of {machines.cores} cores; --set "
            f"runtime.worker_cpus={machines.cores} gives it all"
        )
    if not shape.labelled:
        notes.append("No node is counted as labelled (--labelled): the evaluation has no probe")
    return notes
