"""GRACE (Zhu et al., 2020): a node's two views against all other nodes, or against a sample of them.

Shapes: N nodes, P width of the projection, K negatives, R rows at once.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from gscl_scale import seeding
from gscl_scale.errors import ConfigError
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs

_ALL_UP_TO, _DRAWN = 4096, 2048  # nodes; the subsampled GRACE of Thakoor et al. (2022) draws as many
_NUMBERS_AT_ONCE = 1 << 24


class Grace(Objective):
    """Defaults are those of the paper for Cora."""

    title = "GRACE"
    paper: ClassVar = {
        "train": {"epochs": 200, "learning_rate": 5e-4, "weight_decay": 1e-5},
        "model": {"projection": 128},
    }
    defaults: ClassVar = {"edges": [0.2, 0.4], "features": [0.3, 0.4], "temperature": 0.4, "negatives": None}

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        self._temperature, self._negatives = given.temperature, given.negatives
        if given.negatives == 1:  # it may be the node itself, which is no negative of its own
            raise ConfigError("baseline.negatives: expected 2 or more here, got 1; leave it out, or set it to 2048")

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Mean over nodes and both views as the anchor, eq. 1 and 2."""
        one_NP, other_NP = (model.project(rows) for rows in hidden_ND)
        drawn_K = draw_nodes(one_NP.shape[0], self._negatives, key).to(one_NP.device)
        both = (contrast(*pair, drawn_K, self._temperature) for pair in ((one_NP, other_NP), (other_NP, one_NP)))
        return torch.cat(list(both)).mean()


def draw_nodes(num_nodes: int, number: int | None, key: int) -> Tensor:
    """So many nodes, drawn without repeats; by default all of a small graph and 2,048 of a large one."""
    count = number or (num_nodes if num_nodes <= _ALL_UP_TO else _DRAWN)
    if count >= num_nodes:
        return torch.arange(num_nodes)
    drawn = seeding.generator("negatives", key).choice(num_nodes, count, replace=False, shuffle=False)
    return torch.from_numpy(drawn)


def contrast(anchor_NP: Tensor, positive_NP: Tensor, drawn_K: Tensor, temperature: float) -> Tensor:
    """-log of a node's share in the similarities with its other view and, in both views, with the drawn nodes [N].

    Rows have length one; a node is no negative of its own. The gradient computes blocks of rows again, which bounds
    the memory.
    """

    def block(first: int, end: int) -> Tensor:
        anchor_RP = anchor_NP[first:end] / temperature
        self_RK = torch.arange(first, end, device=drawn_K.device)[:, None] == drawn_K
        own_R = (anchor_RP * positive_NP[first:end]).sum(dim=1)
        inter_R, intra_R = (
            (anchor_RP @ view_NP[drawn_K].T).masked_fill_(self_RK, -torch.inf).logsumexp(dim=1)
            for view_NP in (positive_NP, anchor_NP)
        )
        return torch.logaddexp(own_R, torch.logaddexp(inter_R, intra_R)) - own_R

    num_nodes = anchor_NP.shape[0]
    size = max(1, _NUMBERS_AT_ONCE // (2 * drawn_K.shape[0]))
    if size >= num_nodes:
        return block(0, num_nodes)
    firsts = range(0, num_nodes, size)
    return torch.cat([checkpoint(block, low, min(low + size, num_nodes), use_reentrant=False) for low in firsts])
