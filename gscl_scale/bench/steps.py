"""One training step measured: ours, ours without one idea, and the same step in torch-geometric."""

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from gscl_scale import seeding
from gscl_scale.batches.collate import Batch
from gscl_scale.batches.sampled_subgraph import NeighbourSampler
from gscl_scale.batches.schedule import steps_per_epoch
from gscl_scale.batches.stream import BatchStream, epoch_order
from gscl_scale.bench.graphs import edges_of
from gscl_scale.config.config import Config
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.kernels.kernel import kernel
from gscl_scale.machine import keep_freed_memory, peak_memory, usable_cores
from gscl_scale.model import pairs
from gscl_scale.model.inputs import prepare_inputs
from gscl_scale.model.loss import ring_loss
from gscl_scale.model.model import Model, build_model, normalise
from gscl_scale.shards.reader import Samples
from gscl_scale.train.step import training_step

B = TypeVar("B", Batch, "_PeerBatch")

FORMS = ("edge_index", "sparse CSR")
WITHOUT = (
    "numba's sparse product",
    "only what the batch depends on",
    "features gathered once",
    "pairs instead of a dense product",
    "a lean gradient of PReLU",
    "freed memory kept",
)


@dataclass(frozen=True)
class Competitor:
    """A way to take a step.

    kind      ours; idea: ours without one idea; peer: a form of torch-geometric
    without   the idea that is left out
    form      how the peer holds the edges
    """

    name: str
    kind: str
    precision: str = "float32"
    without: str = ""
    form: str = ""


@dataclass(frozen=True)
class Measured:
    """The median of the timed steps of one process, and its loss at the end.

    unseen_loss   of a batch that nobody was trained on, whose samples are drawn per anchor
    """

    step_s: float
    waiting: float
    nodes: float
    loss: float
    unseen_loss: float
    peak_bytes: int


def measure(folder: Path, config: Config, competitor: Competitor, steps: int) -> Measured:
    """Take the steps of a competitor in this process."""
    torch.set_num_threads(len(usable_cores()))
    graph = Graph.open(folder / "graph")
    if competitor.kind == "peer":
        return _measure_peer(graph, config, competitor.form, steps)
    return _measure_ours(graph, folder / "samples", config, competitor, steps)


def _measure_ours(graph: Graph, folder: Path, config: Config, competitor: Competitor, steps: int) -> Measured:
    """Our step, from the samples on disk to the new weights."""
    without = competitor.without
    train = config.train.model_copy(update={"precision": competitor.precision})
    product = "torch" if without == "numba's sparse product" else "auto"
    config = config.model_copy(update={"train": train, "model": config.model.model_copy(update={"product": product})})
    if without != "freed memory kept":
        keep_freed_memory()
    model = build_model(config.model, graph.feature_blocks, config.train.seed)
    inputs = prepare_inputs(graph, config.model, torch.device("cpu"))
    if without == "features gathered once":
        inputs = replace(inputs, propagated=None)
    if without == "pairs instead of a dense product":
        pairs.DENSE_PER_PAIR = 1 << 40
    if without == "a lean gradient of PReLU":
        model.encoder.activations = nn.ModuleList(nn.PReLU() for _ in model.encoder.activations)
    sampler = None
    if without != "only what the batch depends on":
        messages = NormalisedAdjacency.of(graph, *config.model.messages())
        sampler = NeighbourSampler(messages, config.model.layers, None, inputs.propagated is not None)
    stream = BatchStream(Samples.open(folder), graph.num_nodes, config.rings, config.train, config.loss, sampler)
    optimizer = torch.optim.Adam(model.parameters(), lr=config.train.learning_rate)

    def take(batch: Batch, step: int) -> float:
        return training_step(model, optimizer, inputs, [batch], config, step).result().loss

    measured = _timed(stream.batches(0, steps + 1), steps + 1, take)
    model.eval()
    with torch.inference_mode():
        unseen = _unseen_loss(model.encode(inputs), model.projection, graph, config)
    return replace(measured, unseen_loss=unseen)


def _measure_peer(graph: Graph, config: Config, form: str, steps: int) -> Measured:
    """The step as users of torch-geometric write it: a vector gathered for every pair, samples drawn per anchor."""
    edges = _edges(graph, form)
    features = torch.from_numpy(np.array(graph.features))
    model = _Peer(build_model(config.model, graph.feature_blocks, config.train.seed))
    optimizer = torch.optim.Adam(model.parameters(), lr=config.train.learning_rate)
    batches = list(_independent_batches(graph, config, 0, steps + 1))

    def take(batch: _PeerBatch, _: int) -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = _pair_loss(model(features, edges), model.projection, batch, config)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    measured = _timed(iter(batches), steps + 1, take)
    with torch.inference_mode():
        unseen = _unseen_loss(model(features, edges), model.projection, graph, config)
    return replace(measured, unseen_loss=unseen)


def _timed(batches: Iterator[B], steps: int, take: Callable[[B, int], float]) -> Measured:
    """Take steps; the first one does not count."""
    took, waited, nodes, loss = list[float](), list[float](), list[int](), 0.0
    for step in range(steps):
        began = time.perf_counter()
        batch = next(batches)
        waited.append(time.perf_counter() - began)
        loss = take(batch, step)
        took.append(time.perf_counter() - began)
        nodes.append(batch.num_nodes)
    waiting = sum(waited[1:]) / sum(took[1:])
    return Measured(float(np.median(took[1:])), waiting, float(np.mean(nodes)), loss, np.nan, peak_memory())


def _unseen_loss(hidden: Tensor, projection: nn.Module, graph: Graph, config: Config) -> float:
    """The loss of the last batch of the epoch."""
    last = steps_per_epoch(graph.num_nodes, config.train.batch_size) - 1
    return float(_pair_loss(hidden, projection, next(_independent_batches(graph, config, last, last + 1)), config))


def _pair_loss(hidden: Tensor, projection: nn.Module, batch: "_PeerBatch", config: Config) -> Tensor:
    """The ring loss of a batch, with a vector gathered for every pair of an anchor and a member."""
    critic_UD = normalise(projection(hidden[batch.nodes]))
    anchors_A1D = critic_UD[batch.anchors][:, None]
    theta = [(anchors_A1D * critic_UD[positions]).sum(dim=2) for positions in batch.levels]
    return ring_loss(theta, batch.present, None, config.loss).loss


@dataclass(frozen=True)
class _PeerBatch:
    """Distinct nodes [U], positions of anchors [A] and of the members of each level [A, M], and which are there."""

    nodes: Tensor
    anchors: Tensor
    levels: list[Tensor]
    present: list[Tensor]

    @property
    def num_nodes(self) -> int:
        return len(self.nodes)


class _Peer(nn.Module):
    """The model of a configuration in layers of torch-geometric, with the same first weights."""

    def __init__(self, ours: Model) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_conv_like(layer) for layer in ours.encoder.layers)
        self.activations = nn.ModuleList(nn.PReLU() for _ in ours.encoder.layers)
        self.projection = ours.projection

    def forward(self, features: Tensor, edges: Tensor) -> Tensor:
        """Embeddings of all nodes."""
        for layer, activation in zip(self.layers, self.activations, strict=True):
            features = activation(layer(features, edges))
        return features


def _conv_like(layer: nn.Module) -> GCNConv:
    weight, bias = layer.get_parameter("weight"), dict(layer.named_parameters()).get("bias")
    conv = GCNConv(*weight.shape, cached=True, bias=bias is not None)
    with torch.no_grad():
        conv.lin.weight.copy_(weight.T)
        if bias is not None:
            conv.bias.copy_(bias)
    return conv


def _edges(graph: Graph, form: str) -> Tensor:
    """The edges as torch-geometric takes them: [2, E], or an adjacency in compressed sparse rows."""
    sources, targets = edges_of(graph, both_ways=True)
    edge_index = torch.from_numpy(np.stack([targets.astype(np.int64), sources]))
    if form == "edge_index":
        return edge_index
    from torch_geometric.utils import to_torch_csr_tensor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch: CSR tensors are young
        adjacency: Tensor = to_torch_csr_tensor(edge_index.flip(0), size=(graph.num_nodes, graph.num_nodes))
    return adjacency


def _independent_batches(graph: Graph, config: Config, first: int, end: int) -> Iterator[_PeerBatch]:
    """Batches of the same anchors as ours; every anchor draws members of its rings, and far nodes, of its own."""
    rings, size = config.rings, config.train.batch_size
    assert isinstance(rings.per_ring, int)
    order = epoch_order(graph.num_nodes, config.train.seed, 0)
    for step in range(first, end):
        anchors = order[step * size : (step + 1) * size]
        near = np.full((rings.hops, anchors.size, rings.per_ring), -1, np.int64)
        far = np.full((anchors.size, rings.beyond), -1, np.int64)
        indptr, indices = np.asarray(graph.indptr), np.asarray(graph.indices)
        _draw(indptr, indices, anchors, seeding.key("bench-train", step), near, far)
        yield _peer_batch(anchors, [*near, far])


def _peer_batch(anchors: npt.NDArray[np.int64], members: list[npt.NDArray[np.int64]]) -> _PeerBatch:
    nodes = np.unique(np.concatenate([anchors, *(level[level >= 0] for level in members)]))
    positions = [torch.from_numpy(np.searchsorted(nodes, np.maximum(level, nodes[0]))) for level in members]
    return _PeerBatch(
        torch.from_numpy(nodes), torch.from_numpy(np.searchsorted(nodes, anchors)),
        positions, [torch.from_numpy(level >= 0) for level in members],
    )  # fmt: skip


@kernel
def _draw(indptr, indices, anchors, key, near, far):
    """Members of each ring and nodes beyond, uniformly and for each anchor anew."""
    num_nodes = indptr.size - 1
    seen = np.full(num_nodes, -1, np.int64)
    queue = np.empty(num_nodes, np.int64)
    state = key
    for a in range(anchors.size):
        queue[0] = anchors[a]
        seen[anchors[a]] = a
        head, tail = 0, 1
        for hop in range(near.shape[0]):
            first = tail
            for i in range(head, first):
                for e in range(indptr[queue[i]], indptr[queue[i] + 1]):
                    u = indices[e]
                    if seen[u] != a:
                        seen[u] = a
                        queue[tail] = u
                        tail += 1
            for j in range(min(near.shape[2], tail - first)):
                state += np.uint64(0x9E3779B97F4A7C15)
                other = first + j + np.int64(seeding.mix(state) % np.uint64(tail - first - j))
                queue[first + j], queue[other] = queue[other], queue[first + j]
                near[hop, a, j] = queue[first + j]
            head = first
        found = 0
        for _ in range(20 * far.shape[1]):
            state += np.uint64(0x9E3779B97F4A7C15)
            u = np.int64(seeding.mix(state) % np.uint64(num_nodes))
            if seen[u] != a:
                far[a, found] = u
                found += 1
                if found == far.shape[1]:
                    break
