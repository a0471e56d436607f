"""The gated ranking loss over rings, in log space (GSCL, pairwise and listwise ranking InfoNCE).

Shapes: A anchors, M members of a level (padded), k rings; level k + 1 is beyond.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

from gscl_scale.config import LossConfig


@dataclass(frozen=True)
class RingLoss:
    """The loss and what it is made of.

    loss          mean over anchors, to descend
    per_level [k] mean term of each level over the anchors that have one
    gated         share of terms that the gate stops
    """

    loss: Tensor
    per_level: Tensor
    gated: Tensor


@dataclass(frozen=True)
class _Terms:
    """Log ratios of one level against one set of farther members: [A] for `in`, [A, M] for `out`."""

    log_ratio: Tensor
    present: Tensor
    weight: Tensor | None


def ring_loss(
    similarity: Sequence[Tensor], present: Sequence[Tensor], log_weight: Sequence[Tensor] | None, config: LossConfig
) -> RingLoss:
    """The loss from similarities [A, M] of anchors and the members of each level, nearest first, beyond last.

    `present` marks the entries that are members, `log_weight` [A] per level scales a level's sum to the whole ring. A
    level without members, or with nobody farther to compare with, contributes nothing.
    """
    hops = len(similarity) - 1
    exists = torch.stack([mask.any(dim=1) for mask in present], dim=1)
    per_level, total, stopped, counted = [], similarity[0].new_zeros(()), 0.0, 0.0
    sums: dict[float, list[Tensor]] = {}
    for level in range(hops):
        temperature = config.temperature + level * config.temperature_step
        if temperature not in sums:
            sums[temperature] = [
                _log_sum(similarity[q], present[q], _of(log_weight, q), temperature) for q in range(hops + 1)
            ]
        terms = _terms(level, similarity, present, log_weight, sums[temperature], exists, temperature, config)
        value = similarity[0].new_zeros(similarity[0].shape[0])
        for term in terms:
            gated, is_stopped = _gate(term, config.gate)
            value = value - gated
            stopped, counted = stopped + is_stopped, counted + term.present.sum()
        total = total + value.sum()
        has_term = torch.stack([t.present.reshape(len(value), -1).any(dim=1) for t in terms]).any(dim=0).sum()
        per_level.append(value.detach().sum() / has_term.clamp(min=1))
    share = torch.as_tensor(stopped) / torch.as_tensor(counted).clamp(min=1)
    return RingLoss(total / (hops * similarity[0].shape[0]), torch.stack(per_level), share)


def _terms(
    level: int,
    similarity: Sequence[Tensor],
    present: Sequence[Tensor],
    log_weight: Sequence[Tensor] | None,
    sums: list[Tensor],
    exists: Tensor,
    temperature: float,
    config: LossConfig,
) -> list[_Terms]:
    """The comparisons of one ring: with all that is farther at once, or with each farther ring."""
    farther = range(level + 1, len(sums))
    groups = [list(farther)] if config.ranking == "listwise" else [[q] for q in farther]
    terms = []
    for group in groups:
        denominator = torch.logsumexp(torch.stack([sums[level], *(sums[q] for q in group)]), dim=0)
        comparable = exists[:, level] & exists[:, group].any(dim=1)
        if config.positives == "in":
            terms.append(_Terms(sums[level] - denominator, comparable, None))
            continue
        members = similarity[level] / temperature
        weight = _of(log_weight, level)
        # the member's own weight stands before its term: the sum over the sample stands for the whole ring
        scale = None if weight is None else weight.exp()[:, None]
        terms.append(_Terms(members - denominator[:, None], present[level] & comparable[:, None], scale))
    return terms


def _of(log_weight: Sequence[Tensor] | None, level: int) -> Tensor | None:
    return None if log_weight is None else log_weight[level]


def _log_sum(similarity_AM: Tensor, present_AM: Tensor, log_weight_A: Tensor | None, temperature: float) -> Tensor:
    """log of a level's sum; a very low number, not minus infinity, where it is empty: its gradient stays finite."""
    lowest = torch.finfo(similarity_AM.dtype).min / 4
    result = torch.logsumexp((similarity_AM / temperature).masked_fill(~present_AM, lowest), dim=1)
    return result if log_weight_A is None else result + log_weight_A.to(result.dtype)


def _gate(term: _Terms, gate: float) -> tuple[Tensor, Tensor]:
    """The gated log ratios summed per anchor [A], and how many the gate stops."""
    present = term.present
    value = torch.where(present, term.log_ratio, 0.0)
    stopped = present.new_zeros(()).sum()
    if gate < 1:
        over = present & (value.detach() > log(gate))
        value = torch.where(over, log(gate), value)
        stopped = over.sum()
    if term.weight is not None:
        value = value * term.weight.to(value.dtype)
    return value if value.ndim == 1 else value.sum(dim=1), stopped
