"""The ring loss with all terms of an anchor in one kernel, and their gradient in another.

Shapes: A anchors, M members of all levels (padded), Q levels, R levels with a loss (the rings, and hop 0 before them).
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gscl_scale.config.loss import LossConfig
from gscl_scale.model.fused.launch import start
from gscl_scale.model.fused.operation import operation
from gscl_scale.model.loss import RingLoss

_ENTRIES = 128  # that a program reads at once
_MOST_LEVELS = 9  # that the kernels have arguments for: rings.hops is 8 at most


def ring_loss(
    similarity_AM: Tensor,
    present_AM: Tensor,
    widths: Sequence[int],
    log_weight_AQ: Tensor | None,
    config: LossConfig,
    num_anchors: int,
    own_A: Tensor | None,
) -> RingLoss:
    """`model.loss.ring_loss` of levels that stand beside each other, each with so many columns."""
    options = (config.temperature, config.temperature_step, math.log(config.gate))
    ways = (config.ranking == "pairwise", config.positives != "in")
    inputs = (similarity_AM, present_AM, log_weight_AQ, own_A, list(widths), *options, *ways)
    terms: tuple[Tensor, Tensor, Tensor] = _RingTerms.apply(*inputs)  # type: ignore[no-untyped-call]  # torch's apply
    value_AR, counted_AR, stopped_AR = terms
    level_sum_R = value_AR.sum(dim=0)
    total = level_sum_R.sum()
    if own_A is not None:
        total = total + (config.hop_zero - 1) * level_sum_R[0]
    return RingLoss(
        loss=total * (-1 / ((len(widths) - 1) * max(1, num_anchors))),
        level_sum=-level_sum_R.detach(),
        level_anchors=(counted_AR > 0).sum(dim=0),
        stopped=stopped_AR.sum(),
        terms=counted_AR.sum(),
    )


class _RingTerms(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, ...]:
        *tensors, ctx.widths, ctx.temperature, ctx.temperature_step, ctx.log_gate, ctx.pairwise, ctx.outside = arguments
        ctx.save_for_backward(*tensors)
        value, *counts = _ring_terms(*arguments)
        ctx.mark_non_differentiable(*counts)
        ctx.set_materialize_grads(False)
        return value, *counts

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        own = ctx.saved_tensors[3]
        ways = (ctx.widths, ctx.temperature, ctx.temperature_step, ctx.log_gate, ctx.pairwise, ctx.outside)
        of_similarity, of_own = _ring_terms_gradient(gradient, *ctx.saved_tensors, *ways)
        return of_similarity, None, None, None if own is None else of_own, *[None] * 6


def _empty_terms(
    similarity: Tensor, present: Tensor, log_weight: Tensor | None, own: Tensor | None, widths: Sequence[int], *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    shape, device = (similarity.shape[0], len(widths) - 1 + (own is not None)), similarity.device
    counts = [torch.empty(shape, dtype=torch.int32, device=device) for _ in range(2)]
    return torch.empty(shape, device=device), counts[0], counts[1]


def _empty_gradients(
    gradient: Tensor, similarity: Tensor, present: Tensor, log_weight: Tensor | None, own: Tensor | None, *_: Any
) -> tuple[Tensor, Tensor]:
    number = 0 if own is None else own.shape[0]
    return torch.empty(similarity.shape, device=similarity.device), torch.empty(number, device=similarity.device)


@operation(_empty_terms)
def _ring_terms(
    similarity: Tensor, present: Tensor, log_weight: Tensor | None, own: Tensor | None, widths: list[int],
    temperature: float, temperature_step: float, log_gate: float, pairwise: bool, outside: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The sum of the terms of each level of an anchor [A, R], how many there are, and how many the gate stops."""
    inputs = (similarity, present, log_weight, own)
    out = _empty_terms(*inputs, widths)
    _launch("terms", inputs, out, widths, temperature, temperature_step, log_gate, pairwise, outside)
    return out


@operation(_empty_gradients)
def _ring_terms_gradient(
    gradient: Tensor, similarity: Tensor, present: Tensor, log_weight: Tensor | None, own: Tensor | None,
    widths: list[int], temperature: float, temperature_step: float, log_gate: float, pairwise: bool, outside: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients of the sums in the similarities and in those of anchors with themselves (none: an empty one)."""
    inputs = (gradient, similarity, present, log_weight, own)
    out = _empty_gradients(*inputs)
    _launch("terms_gradient", inputs, out, widths, temperature, temperature_step, log_gate, pairwise, outside)
    return out


def _launch(
    kernel: str, inputs: tuple[Tensor | None, ...], out: tuple[Tensor, ...], widths: Sequence[int],
    temperature: float, temperature_step: float, log_gate: float, pairwise: bool, outside: bool,
) -> None:  # fmt: skip
    """Start a program for each anchor; the last inputs are similarities, masks, weights and own similarities."""
    *_, similarity, _, log_weight, own = inputs
    assert similarity is not None
    assert len(widths) <= _MOST_LEVELS
    ends = [*itertools.accumulate(widths), *[0] * (_MOST_LEVELS - len(widths))]
    ways = (log_weight is not None, own is not None, pairwise, outside, temperature_step > 0)
    start(
        "ranking", kernel, (similarity.shape[0],),
        *(one if one is None else one.contiguous() for one in inputs), *out, similarity.shape[1], *ends,
        temperature, temperature_step, log_gate, *ways, len(widths), 1 << (len(widths) - 1).bit_length(), _ENTRIES,
        num_warps=1,
    )  # fmt: skip
