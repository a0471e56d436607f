"""One step: encode, compare, rank, descend."""

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gscl_scale import seeding
from gscl_scale.batches.collate import Batch
from gscl_scale.batches.sampled_subgraph import Block
from gscl_scale.config.config import Config
from gscl_scale.config.sections import TrainConfig
from gscl_scale.errors import DivergedError
from gscl_scale.model.inputs import Inputs, Layer, features_on
from gscl_scale.model.loss import RingLoss
from gscl_scale.model.model import Model
from gscl_scale.model.propagation import SparseInput, SparsePair, csr_tensor
from gscl_scale.model.take import take_distinct
from gscl_scale.train.comparison import compare, to_device
from gscl_scale.train.process_group import ALONE, World


@dataclass(frozen=True)
class StepResult:
    """Loss and figures of a step; `anchors` are those of the whole batch, `nodes` those that this process encoded.

    per_level   the mean term of each ring
    hop_zero    the mean term of hop 0 without its weight; None where it is not ranked
    negatives   candidates of the batch; fewer than `asked` where no more nodes are known to be beyond
    used        the mean number of negatives that count for an anchor of this process
    """

    loss: float
    per_level: list[float]
    gated: float
    gradient_norm: float
    hop_zero: float | None = None
    anchors: int = 0
    nodes: int = 0
    stop: bool = False
    negatives: int = 0
    asked: int = 0
    used: float = 0.0


@dataclass(frozen=True)
class LaunchedStep:
    """A step whose figures are still on the device, where it may still be running.

    figures     float64: a `RingLoss` as a row, whether to stop, negatives that count, norm of the gradient
    step, hops  its number, and how many rings have a figure
    own         anchors of this process; the others are those of `StepResult`
    """

    figures: Tensor
    step: int
    hops: int
    own: int
    anchors: int
    nodes: int
    negatives: int = 0
    asked: int = 0

    def result(self) -> StepResult:
        """Wait for the step."""
        return fetch([self])[0]


def training_step(
    model: Model,
    optimizer: torch.optim.Optimizer,
    inputs: Inputs,
    micro_batches: Iterable[Batch],
    config: Config,
    step: int,
    world: World = ALONE,
    stop: bool = False,
) -> LaunchedStep:
    """Take one step with our share of a batch, whole or in micro-batches whose gradients add up.

    Dropout depends on (seed, step) and the node alone, so a resumed run repeats it, and micro-batches are as one.
    `stop` of one process becomes the `stop` of all.
    """
    model.train()
    optimizer.zero_grad(set_to_none=True)
    key = seeding.integer("step", config.train.seed, step)
    results, anchors, nodes, own, negatives, asked = list[Tensor](), 0, 0, 0, 0, 0
    used = torch.zeros((), dtype=torch.float64, device=inputs.device)
    for batch in micro_batches:
        result = batch_loss(model, batch_inputs(inputs, batch), batch, config, key)
        result.loss.backward()
        results.append(result.flat())
        anchors, nodes, own = batch.whole_size, nodes + batch.num_nodes, own + batch.anchors.shape[0]
        negatives, asked, used = batch.candidates.shape[0], batch.asked, used + batch.decided.sum()
    total = _summed(model, results, world, stop)
    norm = descend(optimizer, model.parameters(), config.train)
    figures = torch.cat([total.double(), torch.stack([used, norm.double()])])
    return LaunchedStep(figures, step, config.rings.hops, own, anchors, nodes, negatives, asked)


def descend(optimizer: torch.optim.Optimizer, parameters: Iterable[Tensor], config: TrainConfig) -> Tensor:
    """Follow the gradient of parameters; returns its norm, which `fetch` refuses where it is not finite."""
    limit = config.clip if config.clip > 0 else float("inf")
    norm = torch.nn.utils.clip_grad_norm_(parameters, limit)
    optimizer.step()
    return norm.detach()


def fetch(launched: Sequence[LaunchedStep]) -> list[StepResult]:
    """Wait for steps that follow each other, and bring their figures here in one copy; all of them are finite."""
    rows = torch.stack([one.figures for one in launched]).cpu()
    return [_result(one, row) for one, row in zip(launched, rows, strict=True)]


def _result(launched: LaunchedStep, row: Tensor) -> StepResult:
    summed, (stop, used, norm) = RingLoss.of_flat(row[:-3].float()), row[-3:].tolist()
    loss, step = float(summed.loss), launched.step
    if not math.isfinite(loss):
        raise DivergedError(
            f"step {step}: the loss is {loss}; lower train.learning_rate, raise the temperature, or set train.clip to 1"
        )
    if not math.isfinite(norm):
        raise DivergedError(
            f"step {step}: the gradient is not finite; lower train.learning_rate or set train.clip to 1"
        )
    levels, hops = summed.per_level.tolist(), launched.hops
    return StepResult(
        loss=loss,
        per_level=levels[len(levels) - hops :],
        gated=float(summed.gated),
        gradient_norm=norm,
        hop_zero=levels[0] if len(levels) > hops else None,
        anchors=launched.anchors,
        nodes=launched.nodes,
        stop=stop > 0,
        negatives=launched.negatives,
        asked=launched.asked,
        used=round(used / max(launched.own, 1), 1),
    )


def batch_loss(model: Model, inputs: Inputs, batch: Batch, config: Config, key: int) -> RingLoss:
    """The ranking loss of a batch: its distinct nodes are encoded once and compared pair by pair."""
    device = next(model.parameters()).device
    with torch.autocast(device.type, torch.bfloat16, enabled=config.train.uses_bfloat16(device.type)):
        critic_UD = model.project(model.encode(inputs, key))
    anchors, own_A = to_device(device, batch.anchors), None
    anchor_AD = take_distinct(critic_UD, anchors)
    compared = compare(anchor_AD, critic_UD, batch)
    if config.loss.hop_zero:
        own_A = (anchor_AD * _other_view(model, inputs, anchors, config, key)).sum(dim=1)
    return compared.loss(config.loss, batch.whole_size, own_A)


def _other_view(model: Model, inputs: Inputs, anchors: Tensor, config: Config, key: int) -> Tensor:
    """The anchors [A, D] once more, with other features, edges and hidden values dropped."""
    rows = anchors if inputs.rows is None else inputs.rows[anchors]
    device = anchors.device.type
    with torch.autocast(device, torch.bfloat16, enabled=config.train.uses_bfloat16(device)):
        return model.project(model.encode(replace(inputs, rows=rows), seeding.integer("hop zero", key)))


def batch_inputs(inputs: Inputs, batch: Batch) -> Inputs:
    """What the encoder reads for the nodes of a batch: only the part of the graph that they depend on."""
    subgraph, on_device = batch.subgraph, functools.partial(to_device, inputs.device)
    if subgraph is None:
        return inputs if batch.nodes is None else replace(inputs, rows=on_device(batch.nodes))
    features, nodes = inputs.features, None if subgraph.inputs is None else on_device(subgraph.inputs)
    if subgraph.inputs is not None and batch.features is not None:
        features = features_on(inputs.device, batch.features, subgraph.inputs, inputs.product)
    elif nodes is not None and features is not None:
        features = features.rows(nodes) if isinstance(features, SparseInput) else features[nodes]
    layers = [
        layer if block is None else Layer(_edges(block, inputs), on_device(block.own), on_device(block.nodes))
        for layer, block in zip(inputs.layers, subgraph.blocks, strict=True)
    ]
    rows = None if subgraph.rows is None else on_device(subgraph.rows)
    return Inputs(features, layers, inputs.propagated, nodes, rows, product=inputs.product, device=inputs.device)


def _edges(block: Block, inputs: Inputs) -> SparsePair | None:
    """The edges of a block in the form that the encoder reads."""
    rows, back = block.messages, block.transposed
    if rows is None or back is None:
        return None
    shape = (rows.indptr.size - 1, rows.width)
    matrix = csr_tensor(rows.indptr, rows.indices, rows.values, shape)
    transposed = csr_tensor(back.indptr, back.indices, back.values, shape[::-1])
    return SparsePair(matrix, transposed, inputs.product or "auto").to(inputs.device)


def _summed(model: Model, results: list[Tensor], world: World, stop: bool) -> Tensor:
    """Sum gradients and figures over all processes; every process then has those of the whole batch."""
    figures = torch.stack(results).sum(dim=0)
    figures = torch.cat([figures, figures.new_full((1,), float(stop))])
    if world.size > 1:
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        flat = world.sum(torch.cat([figures, *(gradient.reshape(-1) for gradient in gradients)]))
        figures, rest = flat[: figures.shape[0]], flat[figures.shape[0] :]
        for gradient, part in zip(gradients, torch.split(rest, [g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))
    return figures
