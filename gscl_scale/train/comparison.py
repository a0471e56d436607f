"""The ring loss of a batch whose nodes are encoded: pairs, candidates, levels.

Shapes: A anchors, U distinct nodes of the batch, M members of all levels (padded), P pairs, C candidates.
"""

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from gscl_scale.batches.collate import Array, Batch
from gscl_scale.config.loss import LossConfig
from gscl_scale.model.fused import pairs as fused_pairs
from gscl_scale.model.fused import ranking as fused_ranking
from gscl_scale.model.fused.availability import runs_fused
from gscl_scale.model.loss import RingLoss, ring_loss
from gscl_scale.model.pairs import PairPattern, pair_products
from gscl_scale.model.take import take_distinct


@dataclass(frozen=True)
class Comparison:
    """Similarities of anchors with the members of their levels and with the candidates of the batch.

    member_AM [A, M]      levels beside each other, 0 where there is no member
    present               k + 1 masks: which entries of a level are members
    candidate_AC, decided [A, C]   candidates, and which of them are beyond all rings of an anchor
    log_weight [A, k+1]   as `Batch` has it
    """

    member_AM: Tensor
    present: list[Tensor]
    candidate_AC: Tensor
    decided: Tensor
    log_weight: Tensor | None

    def loss(self, config: LossConfig, num_anchors: int, own_A: Tensor | None) -> RingLoss:
        """The ranking loss; a batch has `num_anchors`, and `own_A` is hop 0 (`ring_loss`)."""
        widths = [mask.shape[1] for mask in self.present]
        if runs_fused(self.member_AM):
            similarity = torch.cat([self.member_AM, self.candidate_AC], dim=1)
            present = torch.cat([*self.present, self.decided], dim=1)
            widths[-1] += self.decided.shape[1]
            return fused_ranking.ring_loss(similarity, present, widths, self.log_weight, config, num_anchors, own_A)
        theta, masks = list(torch.split(self.member_AM, widths, dim=1)), list(self.present)
        theta[-1] = torch.cat([theta[-1], self.candidate_AC], dim=1)
        masks[-1] = torch.cat([masks[-1], self.decided], dim=1)
        weights = None if self.log_weight is None else self.log_weight.unbind(dim=1)
        return ring_loss(theta, masks, weights, config, num_anchors, own_A)


def compare(anchor_AD: Tensor, critic_UD: Tensor, batch: Batch) -> Comparison:
    """Compare anchors with nodes of the batch, both in rows of length one."""
    on_device = functools.partial(to_device, critic_UD.device)
    pairs = batch.pairs
    parts = (pairs.indptr, pairs.indices, pairs.back_indptr, pairs.back_indices, pairs.order)
    pattern = PairPattern(*(on_device(part) for part in parts))
    present = [on_device(mask) for mask in batch.present]
    mask_AM = torch.cat(present, dim=1)
    if runs_fused(critic_UD):
        member_AM = fused_pairs.member_products(anchor_AD, critic_UD, mask_AM, *vars(pattern).values())
    else:
        member_AM = _padded(pair_products(anchor_AD, critic_UD, pattern), mask_AM)
    candidate_AC = anchor_AD @ take_distinct(critic_UD, on_device(batch.candidates)).T
    log_weight = None if batch.log_weight is None else on_device(batch.log_weight)
    return Comparison(member_AM, present, candidate_AC, on_device(batch.decided), log_weight)


def to_device(device: torch.device, array: Array) -> Tensor:
    """An array on a device."""
    return torch.as_tensor(array).to(device, non_blocking=True)


def _padded(products_P: Tensor, member_AM: Tensor) -> Tensor:
    """The products at the entries of padded rows that are members, in their order, and 0 elsewhere.

    As `masked_scatter` does it, whose gradient would wait for the device to count the members.
    """
    number, entries = products_P.shape[0], member_AM.numel()
    rank_E = torch.where(member_AM.view(-1), member_AM.view(-1).cumsum(0) - 1, number)  # others go to the end
    place_P = torch.empty(number + 1, dtype=torch.int64, device=rank_E.device)
    place_P = place_P.scatter_(0, rank_E, torch.arange(entries, device=rank_E.device))[:number]
    return products_P.new_zeros(entries).scatter(0, place_P, products_P).view(member_AM.shape)
