"""The gated ranking loss over rings, in log space (GSCL, pairwise and listwise ranking InfoNCE).

Shapes: A anchors, M members of a ring (padded), Q a ring and all farther ones, T comparisons of a ring with farther
ones, L levels with a loss (the k rings, and hop 0 before them where it is ranked); level k + 1 is beyond.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from gscl_scale.config.loss import LossConfig


@dataclass(frozen=True)
class RingLoss:
    """The loss and its parts.

    loss                                mean over anchors, to descend
    level_sum [L], level_anchors [L]    sum of the terms of each level, and how many anchors have one; hop 0 counts
                                        without its weight
    stopped, terms                      number of terms that the gate stops, and of all
    """

    loss: Tensor
    level_sum: Tensor
    level_anchors: Tensor
    stopped: Tensor
    terms: Tensor

    @property
    def per_level(self) -> Tensor:
        """Mean term of each level over the anchors that have one; 0 where none has."""
        return self.level_sum / self.level_anchors.clamp(min=1)

    @property
    def gated(self) -> Tensor:
        """Share of the terms that the gate stops."""
        return self.stopped / self.terms.clamp(min=1)

    def flat(self) -> Tensor:
        """All of it, detached, in one row; rows of parts of a batch add up."""
        parts = (self.loss, self.level_sum, self.level_anchors, self.stopped, self.terms)
        return torch.cat([part.detach().reshape(-1).float() for part in parts])

    @classmethod
    def of_flat(cls, row: Tensor) -> "RingLoss":
        """The inverse of `flat`."""
        levels = (row.shape[0] - 3) // 2
        loss, level_sum, level_anchors, rest = torch.split(row, [1, levels, levels, 2])
        return cls(loss, level_sum, level_anchors, rest[0], rest[1])


@dataclass(frozen=True)
class _Nearer:
    """What is compared with farther rings: logarithms [A, M], and which of them there are.

    One sum of a ring (InfoNCE_in), each of its members (InfoNCE_out), or the anchor itself. `log_weight_A` is the
    weight of a ring whose members stand alone: the sum over them outside the log stands for the whole ring too.
    """

    log_AM: Tensor
    present_AM: Tensor
    log_weight_A: Tensor | None = None

    @property
    def factor_A(self) -> Tensor | None:
        """What the terms of an anchor are multiplied by; a ring without members has weights without meaning."""
        if self.log_weight_A is None:
            return None
        return torch.where(self.present_AM.any(dim=1), self.log_weight_A, 0.0).exp().to(self.log_AM.dtype)


@dataclass(frozen=True)
class _Terms:
    """The terms of one ring: log ratios [A, T, M], which of them count, and a factor per anchor [A]."""

    log_ratio_ATM: Tensor
    present_ATM: Tensor
    factor_A: Tensor | None


def ring_loss(
    similarity: Sequence[Tensor],
    present: Sequence[Tensor],
    log_weight: Sequence[Tensor] | None,
    config: LossConfig,
    num_anchors: int | None = None,
    own_A: Tensor | None = None,
) -> RingLoss:
    """The loss from similarities [A, M] of anchors and the members of each level, nearest first, beyond last.

    `present` [A, M] marks the entries that are members; `log_weight` [A] per level scales the level's sum up to the
    whole ring. A ring without members, or with no farther node to compare with, contributes nothing. Where these
    anchors are a share of a batch, `num_anchors` is its size: the losses of all shares add up to that of the batch.
    `own_A` is the similarity of anchors with themselves in another view: hop 0, ranked above all rings with the weight
    `config.hop_zero`.
    """
    hops = len(similarity) - 1
    assert hops >= 1, "expected at least one ring and what is beyond"
    assert len(present) == hops + 1
    exists_AQ = torch.stack([mask.any(dim=1) for mask in present], dim=1)
    ranked = []  # terms and their weight, those of hop 0 first
    for level in range(hops):
        temperature = config.temperature + level * config.temperature_step
        if level == 0 or config.temperature_step > 0:  # with one temperature the sums of the first level serve all
            first, sums_AQ = level, _log_sums(similarity, present, log_weight, level, temperature)
        if level == 0 and own_A is not None:
            itself = _Nearer(own_A[:, None] / temperature, torch.ones_like(exists_AQ[:, :1]))
            ranked.append((_terms(itself, sums_AQ, exists_AQ, config.ranking), config.hop_zero))
        if config.positives == "in":
            nearer = _Nearer(sums_AQ[:, level - first, None], exists_AQ[:, level, None])
        else:
            weight_A = None if log_weight is None else log_weight[level]
            nearer = _Nearer(similarity[level] / temperature, present[level], weight_A)
        farther = slice(level - first + 1, None), slice(level + 1, None)
        ranked.append((_terms(nearer, sums_AQ[:, farther[0]], exists_AQ[:, farther[1]], config.ranking), 1.0))
    summed = [_gated_sum(terms, config.gate) for terms, _ in ranked]
    costs = [-weight * value_A for (_, weight), (value_A, _) in zip(ranked, summed, strict=True)]
    return RingLoss(
        loss=torch.stack(costs).sum() / (hops * max(1, num_anchors or exists_AQ.shape[0])),
        level_sum=-torch.stack([value_A.detach().sum() for value_A, _ in summed]),
        level_anchors=torch.stack([terms.present_ATM.flatten(1).any(dim=1).sum() for terms, _ in ranked]),
        stopped=torch.stack([over_ATM.sum() for _, over_ATM in summed]).sum(),
        terms=torch.stack([terms.present_ATM.sum() for terms, _ in ranked]).sum(),
    )


def _log_sums(
    similarity: Sequence[Tensor],
    present: Sequence[Tensor],
    log_weight: Sequence[Tensor] | None,
    first: int,
    temperature: float,
) -> Tensor:
    """log Z of ring `first` and each farther one, [A, Q]; without meaning where a ring is empty."""
    sums = [_log_sum(*level, temperature) for level in zip(similarity[first:], present[first:], strict=True)]
    if log_weight is not None:
        sums = [sum_A + weight_A.to(sum_A.dtype) for sum_A, weight_A in zip(sums, log_weight[first:], strict=True)]
    return torch.stack(sums, dim=1)


def _terms(nearer: _Nearer, sums_AT: Tensor, exists_AT: Tensor, ranking: str) -> _Terms:
    """What is nearer against all farther rings at once, or against each of them.

    log(z / (z + Z_far)) is taken as logsigmoid(log z - log Z_far): never above 0, and exact where it is close to 0.
    """
    if ranking == "listwise":
        sums_AT = _log_sum(sums_AT, exists_AT, 1.0)[:, None]
        exists_AT = exists_AT.any(dim=1, keepdim=True)
    compared_ATM = nearer.present_AM[:, None, :] & exists_AT[:, :, None]
    margin_ATM = torch.where(compared_ATM, nearer.log_AM[:, None, :] - sums_AT[:, :, None], 0.0)
    return _Terms(logsigmoid(margin_ATM), compared_ATM, nearer.factor_A)


def _gated_sum(terms: _Terms, gate: float) -> tuple[Tensor, Tensor]:
    """The sum of log min(ratio, gate) per anchor [A], and which terms the gate stops."""
    value_ATM, over_ATM = terms.log_ratio_ATM, torch.zeros_like(terms.present_ATM)
    if gate < 1:
        over_ATM = terms.present_ATM & (value_ATM.detach() > math.log(gate))
        value_ATM = torch.where(over_ATM, math.log(gate), value_ATM)
    value_A = torch.where(terms.present_ATM, value_ATM, 0.0).sum(dim=(1, 2))
    return (value_A if terms.factor_A is None else value_A * terms.factor_A), over_ATM


def _log_sum(value_AM: Tensor, present_AM: Tensor, temperature: float) -> Tensor:
    """log sum over present entries of exp(value / temperature), row by row; minus infinity for an empty row."""
    result: Tensor = _LogSum.apply(value_AM, present_AM, temperature)  # type: ignore[no-untyped-call]  # torch's apply
    return result


class _LogSum(torch.autograd.Function):
    """One pass that saves only the softmax for the gradient, which is zero, never NaN, for padding and empty rows."""

    @staticmethod
    def forward(ctx: Any, value_AM: Tensor, present_AM: Tensor, temperature: float) -> Tensor:
        share_AM = (value_AM / temperature).masked_fill_(~present_AM, -torch.inf)
        if share_AM.shape[1] == 0:
            share_AM = share_AM.new_full((share_AM.shape[0], 1), -torch.inf)
        highest_A1 = share_AM.amax(dim=1, keepdim=True).clamp_(min=torch.finfo(value_AM.dtype).min)
        share_AM.sub_(highest_A1).exp_()
        total_A1 = share_AM.sum(dim=1, keepdim=True)
        ctx.save_for_backward(share_AM.div_(total_A1.clamp(min=1)))  # the highest gives 1, so only 0 is below
        ctx.width, ctx.temperature = value_AM.shape[1], temperature
        return (highest_A1 + total_A1.log()).squeeze(1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient_A: Tensor) -> tuple[Tensor, None, None]:
        (share_AM,) = ctx.saved_tensors
        return (share_AM * (gradient_A / ctx.temperature)[:, None])[:, : ctx.width], None, None
