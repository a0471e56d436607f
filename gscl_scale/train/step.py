"""One step: encode, compare, rank, descend.

Shapes: A anchors, U distinct nodes of the batch, M members of a level, C candidates.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from gscl_scale import seeding
from gscl_scale.batches import Batch, Level
from gscl_scale.config import LossConfig
from gscl_scale.errors import DivergedError
from gscl_scale.model import Inputs, Model, RingLoss, ring_loss


@dataclass(frozen=True)
class StepResult:
    """What a step tells."""

    loss: float
    per_level: list[float]
    gated: float
    gradient_norm: float


def training_step(
    model: Model,
    optimizer: torch.optim.Optimizer,
    inputs: Inputs,
    batch: Batch,
    loss_config: LossConfig,
    clip: float,
    seed: int,
    step: int,
) -> StepResult:
    """Take one step; dropout depends on (seed, step) alone, so a resumed run repeats it."""
    torch.manual_seed(seeding.integer("step", seed, step))
    model.train()
    optimizer.zero_grad(set_to_none=True)
    result = batch_loss(model, inputs, batch, loss_config)
    if not torch.isfinite(result.loss):
        raise DivergedError(
            f"step {step}: the loss is {float(result.loss.detach())}; lower train.learning_rate, "
            "raise loss.temperature, or set train.clip to 1; the last checkpoint is kept"
        )
    result.loss.backward()  # type: ignore[no-untyped-call]
    limit = clip if clip > 0 else float("inf")
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), limit)
    if not torch.isfinite(norm):
        raise DivergedError(
            f"step {step}: the gradient is not finite; lower train.learning_rate or set train.clip to 1; "
            "the last checkpoint is kept"
        )
    optimizer.step()
    return StepResult(
        loss=float(result.loss.detach()),
        per_level=[float(value) for value in result.per_level],
        gated=float(result.gated),
        gradient_norm=float(norm),
    )


def batch_loss(model: Model, inputs: Inputs, batch: Batch, loss_config: LossConfig) -> RingLoss:
    """The ranking loss of a batch: similarities of anchors and distinct nodes are one product, then looked up."""
    device = next(model.parameters()).device
    nodes = torch.from_numpy(batch.nodes).to(device)
    critic_UD = model.project(model.encode(inputs)[nodes])
    anchors = torch.from_numpy(batch.anchors).to(device)
    similarity_AU = critic_UD[anchors] @ critic_UD.T
    theta, present = zip(*(_look_up(similarity_AU, level) for level in batch.rings), strict=True)
    own_AM, own_present = _look_up(similarity_AU, batch.beyond)
    candidates = torch.from_numpy(batch.candidates).to(device)
    beyond = torch.cat([own_AM, similarity_AU[:, candidates]], dim=1)
    beyond_present = torch.cat([own_present, torch.from_numpy(batch.decided).to(device)], dim=1)
    weights = None
    if batch.log_weight is not None:
        weights = torch.from_numpy(batch.log_weight).to(device).unbind(dim=1)
    return ring_loss([*theta, beyond], [*present, beyond_present], weights, loss_config)


def _look_up(similarity_AU: Tensor, level: Level) -> tuple[Tensor, Tensor]:
    device = similarity_AU.device
    positions_AM = torch.from_numpy(level.positions).to(device)
    return similarity_AU.gather(1, positions_AM), torch.from_numpy(level.present).to(device)
