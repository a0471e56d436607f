"""What embedding all nodes takes, layer by layer."""

import itertools
import math
from dataclasses import dataclass

from gscl_scale.config.config import Config
from gscl_scale.config.sections import ModelConfig
from gscl_scale.embed.layer_files import Features, Step, block_sizes, gathered_width, steps_of
from gscl_scale.errors import ConfigError
from gscl_scale.planning.graph_shape import GraphShape
from gscl_scale.planning.need import Machines, StageNeed
from gscl_scale.planning.rates import Rates

_PROGRAM = 455 << 20  # bytes of the interpreter, torch and the compiled kernels
_GEOMETRIC = 145 << 20  # bytes of torch-geometric, and of the compiler of torch, which it imports
_FLOAT = 4
_MOST_HEADS = 8
_PIECE = 24  # bytes of a number of a piece, as in embed.layer_files; the bound there has room for rare cases


@dataclass(frozen=True)
class LayerNeed:
    """Bytes and core seconds of the encoding of all nodes, by one process.

    files       of rows, on disk until it is finished
    mapped      the most of these that are mapped at a time
    gathered    the largest file whose rows are read at random; 0 where they are read in tiles
    read        bytes that are read in tiles, by all processes
    refused     why the memory that is allowed is too little; "" where it is enough
    """

    allocated: int
    files: int
    mapped: int
    gathered: int
    blocks: int
    core_s: float
    read: int = 0
    refused: str = ""


def embedding_width(model: ModelConfig, shape: GraphShape) -> int:
    """Columns of the embeddings."""
    blocks = shape.blocks
    beside = (blocks.own if blocks.means else 0) + blocks.means + blocks.structural
    return model.width + (beside if model.skip == "auto" else 0)


def layer_need(
    config: Config, shape: GraphShape, threads: int, rates: Rates, memory: int, processes: int = 1
) -> LayerNeed:
    """What the layers of the encoder take for all nodes, with so much memory on each machine."""
    model, nodes = config.model, shape.num_nodes
    steps = _steps(model, shape)
    width = max(step.width for step in steps)
    widest = width if steps[0].kind == "multiply" and shape.values is not None else max(width, shape.num_features)
    limit, refused = config.runtime.embed_memory_gb, ""
    most = gathered_width(steps, shape.num_features)
    tiled = most if _in_tiles(config, _FLOAT * nodes * most, memory) else 0
    try:
        sizes = block_sizes(nodes, shape.undirected, width, widest, limit, threads, tiled=tiled)
    except ConfigError as error:
        sizes, refused = block_sizes(nodes, shape.undirected, width, widest, limit, threads, 1, tiled), str(error)
    block = min(sizes.piece if refused else sizes.block, nodes)
    if tiled and not refused:
        block = min(block, sizes.block_for(nodes, processes))
    widths = [shape.num_features, *[model.width] * model.layers]
    flops = 2 * nodes * sum(a * b for a, b in itertools.pairwise(widths))
    flops *= 2 if model.encoder == "sage" else 1
    gathers = [step for step in steps if step.kind == "gather"]
    gathered = [_width_below(step, steps, shape) for step in gathers]
    return LayerNeed(
        allocated=8 * nodes
        + 2 * _FLOAT * width * block
        + threads * sizes.piece * _PIECE * (width + widest)
        + (tiled > 0) * (block * (2 * _FLOAT * tiled + 8) + 2 * _FLOAT * tiled * sizes.tile),
        files=_FLOAT * nodes * sum(step.width for step in steps),
        mapped=_FLOAT * nodes * _width_mapped(steps),
        gathered=0 if tiled else _FLOAT * nodes * most,
        blocks=-(-nodes // block) * len(steps),
        core_s=flops * rates.flop + shape.entries * sum(gathered) * rates.gather,
        read=(tiled > 0) * -(-nodes // block) * _FLOAT * nodes * sum(gathered),
        refused=refused,
    )


def _in_tiles(config: Config, rows: int, memory: int) -> bool:
    """As `embed.plan.reads_tiles`, for so many bytes of rows."""
    setting = bool(config.runtime.embed_scratch) or config.runtime.embed_tiles
    if config.model.encoder == "gat" or setting is False:
        return False
    return setting is True or rows > memory - config.runtime.embed_memory_gb * (1 << 30)


def _steps(model: ModelConfig, shape: GraphShape) -> list[Step]:
    heads = math.gcd(model.width, _MOST_HEADS) if model.encoder == "gat" else 0
    loops = shape.num_nodes * (model.encoder == "gat" or (model.encoder == "gcn" and model.self_loops))
    features: Features = "read" if model.feature_scaling == "none" else "scaled"
    features = features if shape.values is None else "sparse"
    widths = [shape.num_features, *[model.width] * model.layers]
    width = embedding_width(model, shape)
    joined = width if width > model.width else 0
    return steps_of(widths, heads, joined, shape.num_nodes, shape.entries + loops, features)


def _width_below(step: Step, steps: list[Step], shape: GraphShape) -> int:
    """Width of the rows that a step gathers."""
    return next((one.width for one in steps if one.file == step.gathered), shape.num_features)


def _width_mapped(steps: list[Step]) -> int:
    """The most columns of files mapped at a time: what a step reads, or the output and what was gathered last."""
    widths = {step.file: step.width for step in steps}
    read = [sum(widths[file] for file in {step.below, step.gathered} if file) for step in steps]
    last = steps[-1]
    held = widths[last.gathered] if last.gathered else 0
    return max(*read, last.width + held)


def program_bytes(model: ModelConfig) -> int:
    """Bytes of the interpreter and the libraries of a process that has a model."""
    return _PROGRAM + (_GEOMETRIC if model.encoder in ("sage", "gat") else 0)


def embedding_need(config: Config, shape: GraphShape, machines: Machines, rates: Rates) -> StageNeed:
    """What `embed` takes."""
    local = machines.number == 1 and config.runtime.engine == "local"
    threads = machines.cores if local else max(1, int(config.runtime.worker_cpus))
    processes = 1 if local else max(1, machines.cores // threads)
    if config.runtime.embed_workers and not local:
        processes = min(processes, -(-config.runtime.embed_workers // machines.number))
    need = layer_need(config, shape, threads, rates, machines.memory, processes * machines.number)
    width = embedding_width(config.model, shape)
    stays = shape.num_nodes * (_FLOAT * width * (1 + config.runtime.npy) + 8)
    mapped = shape.folder_bytes + need.mapped
    traffic = 0
    if machines.number > 1:
        traffic = need.gathered + (shape.folder_bytes + need.files + need.read) // machines.number
    return StageNeed(
        "embed", need.blocks, machines.number, processes, program_bytes(config.model) + need.allocated, mapped,
        need.gathered, stays, need.files, traffic,
        need.core_s, processes * threads * machines.number,
        ((stays + need.files) / machines.number + (traffic or need.read)) * rates.write, need.refused,
    )  # fmt: skip
