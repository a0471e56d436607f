"""What training takes: the nodes that a batch reads, layer by layer, and the numbers that a step keeps of them."""

from dataclasses import dataclass

import numpy as np

from gscl_scale.config.config import Config
from gscl_scale.planning.embedding import program_bytes
from gscl_scale.planning.graph_shape import GraphShape
from gscl_scale.planning.need import Machines, StageNeed
from gscl_scale.planning.rates import Rates
from gscl_scale.planning.sampling import ring_sizes
from gscl_scale.rings.sample import target_sizes
from gscl_scale.shards.reader import are_few
from gscl_scale.train.device_plan import compared_bytes, step_bytes

_FLOAT = 4
_WHOLE = 0.75  # as in batches.sampled_subgraph: where a layer needs this share of all nodes, it takes all
_MOST_MAPPED = 4 << 30  # as in shards.reader: where more is mapped, pages of samples are given back
_ENTRY = 20  # bytes of the adjacency in memory, and while it is made
_QUEUED = 3  # batches: one in the step, two that wait or are made
_KEPT = 1.4  # of what is allocated at once: freed blocks are kept, of the preparation too (machine.keep_freed_memory)
_HUBS = 2.0  # neighbours of a node that a batch compares, over those of any node: hubs are in more rings
_SHARED = 0.5  # of the nodes that could be drawn as neighbours are: those of the lowest priorities, and hubs
_DRAWN = 8  # bytes of a message that another process has drawn
_MESSAGE = 16  # bytes in a batch: place and weight, and both again transposed


@dataclass(frozen=True)
class BatchShape:
    """Nodes of each layer that a batch reads, the compared ones last, and the messages between them."""

    nodes: list[float]
    messages: list[float]

    @property
    def compared(self) -> float:
        """Distinct nodes that the loss compares."""
        return self.nodes[-1]


def batch_shape(config: Config, shape: GraphShape, anchors: int) -> BatchShape:
    """The likely batch of so many anchors, where neighbours and members are those of the lowest priorities."""
    nodes = [_compared(config, shape, anchors)]
    messages: list[float] = []
    given = config.model.fanouts()
    fanouts: list[int | None] = [*given] if given else [None for _ in range(config.model.layers)]
    for fanout in reversed(fanouts):
        if fanout is None:
            drawn, pool = min(shape.entries, _HUBS * nodes[0] * shape.degree), float(shape.num_nodes)
        else:
            taken = min(fanout, shape.degree)
            drawn, pool = nodes[0] * taken, _SHARED * shape.num_nodes * taken / max(1.0, shape.degree)
        below = min(shape.num_nodes, nodes[0] + distinct(pool, drawn))
        if fanout is None and below > _WHOLE * shape.num_nodes:
            below = shape.num_nodes
        messages.insert(0, drawn + nodes[0])
        nodes.insert(0, below)
    return BatchShape(nodes, messages)


def distinct(pool: float, draws: float) -> float:
    """Different nodes among so many draws from a pool.

    >>> round(distinct(100, 1), 1), round(distinct(100, 10000), 1)
    (1.0, 100.0)
    """
    return pool * -float(np.expm1(-draws / max(1.0, pool)))


def _compared(config: Config, shape: GraphShape, anchors: int) -> float:
    """Anchors, members of their rings, far nodes and negatives."""
    rings, total = config.rings, float(anchors)
    sizes = ring_sizes(shape, rings.hops)
    for size, members in zip(sizes, target_sizes(rings.per_ring, sizes), strict=True):
        stored = min(float(size), float(members))
        total += distinct(shape.num_nodes * stored / max(1, size), anchors * stored)
    left = max(1.0, shape.num_nodes - float(sizes.sum()))
    total += distinct(rings.beyond * shape.num_nodes / left, anchors * rings.beyond) + config.train.negatives
    return min(total, shape.num_nodes)


def training_need(config: Config, shape: GraphShape, machines: Machines, rates: Rates, round_bytes: int) -> StageNeed:
    """What `train` takes; `round_bytes` are those of the samples of a round."""
    sized = config.sized(shape.size)
    local = machines.number == 1 and config.runtime.engine == "local"
    workers = 1 if local else sized.runtime.for_training().workers[1]
    sized = sized.among(workers)
    here = min(workers, machines.number)
    threads = machines.cores if local else max(1, int(sized.runtime.worker_cpus))
    total = max(1, shape.num_nodes - round(sized.train.held_out * shape.num_nodes))
    anchors = min(total, -(-sized.train.batch_size // workers))
    batch = batch_shape(sized, shape, -(-anchors // sized.train.accumulate))
    sampled = sized.model.propagation == "sampled"
    steps = sized.train.num_epochs * (-(-total // sized.train.batch_size) if sized.train.reads_samples else 1)
    owned = _owned(sized, shape, workers)
    shared = sized.runtime.edges == "owned" and workers > 1
    edges = shape.item * shape.entries
    processes, allocated = -(-workers // here), _allocated(sized, shape, batch) + owned
    allocated += (edges + 8 * shape.num_nodes) // workers if shared else 0
    samples, chosen = _samples(shape, round_bytes, total)
    if shared and not chosen:
        priorities, lists = _samples(shape, round_bytes, total, few=True)
        if processes * (allocated + lists // workers) <= machines.memory:
            samples, chosen = priorities, lists // workers
    allocated += chosen
    mapped = max(shape.folder_bytes, min(_MOST_MAPPED, shape.folder_bytes + samples))
    random = (shape.feature_bytes * (not owned) + edges * (not shared)) * sampled + min(_MOST_MAPPED, samples)
    weights = _weights(sized, shape)
    exchanged = 2.0 * _FLOAT * weights if workers > 1 else 0.0  # bytes of gradients in a step, and of rows
    room = max(0, machines.memory - processes * allocated)
    rows = _FLOAT * batch.nodes[0] * shape.num_features  # bytes of the features of a batch
    read = steps * rows * max(0.0, 1 - room / random) if sampled and not owned else 0.0
    exchanged += 2 * rows * (1 - owned / shape.feature_bytes) if owned else 0.0
    exchanged += 2 * _DRAWN * sum(batch.messages) * shared
    traffic = 0 if machines.number == 1 else int(shape.folder_bytes + workers * (read + steps * exchanged) / here)
    return StageNeed(
        "train", steps, here, processes, allocated, mapped, random, 3 * _FLOAT * weights, 0, traffic,
        workers * steps * _seconds(sized, shape, batch, rates), workers * threads, max(traffic, read) * rates.write,
    )  # fmt: skip


def _samples(shape: GraphShape, round_bytes: int, anchors: int, few: bool = False) -> tuple[int, int]:
    """Bytes of a round that are mapped, and that are held: the samples of few anchors are, beside mapped priorities."""
    anchor = round_bytes / max(1, shape.num_nodes)
    priorities = (8 + shape.item) * shape.num_nodes
    if not few and not are_few(anchors, shape.num_nodes, anchor):
        return round_bytes, 0
    return min(round_bytes, priorities), int(anchors * anchor)


def _owned(config: Config, shape: GraphShape, workers: int) -> int:
    """Bytes of the features that each of some processes keeps for all; 0 where they read the graph folder."""
    if config.runtime.features == "mapped" or workers == 1:
        return 0
    return min(shape.feature_bytes, shape.feature_bytes // workers + config.runtime.frequent_memory)


def _allocated(config: Config, shape: GraphShape, batch: BatchShape) -> int:
    model, nodes = config.model, shape.num_nodes
    numbers = shape.num_features if shape.values is None else shape.values / max(1, nodes)
    if not config.train.reads_samples:
        held = _FLOAT * nodes * numbers + 12 * shape.entries
        return program_bytes(model) + int(held) + step_bytes(model, nodes, int(nodes * numbers), shape.entries + nodes)
    sampled = model.propagation == "sampled"
    held = 8.0 * nodes
    if not sampled:
        known = model.dropped_features == model.message_dropout == 0 and shape.num_features <= model.width
        held = _FLOAT * nodes * numbers * (1 + known) + _ENTRY * (shape.entries + nodes)
    queued = sum(batch.messages) * _MESSAGE + sampled * batch.nodes[0] * numbers * _FLOAT
    attends = model.encoder == "gat"  # computes rows of the layer below, and none for each message
    rows = sum(batch.nodes[:-1] if attends else batch.nodes[1:]) / model.layers
    step = step_bytes(model, int(rows), int(batch.nodes[0] * numbers), int(max(batch.messages)), kernels=attends)
    return program_bytes(model) + int(_KEPT * (held + _QUEUED * queued + step + compared_bytes(config)))


def _weights(config: Config, shape: GraphShape) -> int:
    model = config.model
    return model.width * shape.num_features + (model.layers - 1) * model.width**2 + 2 * model.projection * model.width


def _seconds(config: Config, shape: GraphShape, batch: BatchShape, rates: Rates) -> float:
    """Core seconds of a step of one process: three times the forward pass, and making the batch."""
    model = config.model
    if not config.train.reads_samples:
        batch = BatchShape([float(shape.num_nodes)] * (model.layers + 1), [float(shape.entries)] * model.layers)
    widths = [shape.num_features, *[model.width] * model.layers]
    total = batch.compared * 2 * model.projection * model.width * rates.flop
    for number, messages in enumerate(batch.messages):
        total += messages * widths[number] * rates.gather
        total += 2 * batch.nodes[number + 1] * widths[number] * widths[number + 1] * rates.flop
    return 3 * total + config.train.batch_size * rates.anchor
