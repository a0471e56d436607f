"""COSTA (Zhang et al., KDD 2022): two views are contrasted after the same random sketch of their rows.

    H~   = P H, H~' = P H'                      P: k x N normal numbers / sqrt(k), drawn in each step
    s_ij = cos(g(H~_i), g(H~'_j)) / t           (g: the projection head)
    loss = - (mean of log softmax_j(s)_ii + mean of log softmax_i(s)_ii) / 2

The sketch has a share of the nodes as rows, beyond 4,096 nodes at most 2,048.

Shapes: N nodes, B of them at once, D width, k rows of the sketch.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from gscl_scale import seeding
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs

_ALL_UP_TO, _MOST_ROWS = 4096, 2048
_NUMBERS_AT_ONCE = 1 << 24


class Costa(Objective):
    """Defaults are those of its code for Cora, which masks the first share of columns in both views."""

    title = "COSTA"
    paper: ClassVar = {
        "train": {"epochs": 700, "learning_rate": 1e-4, "weight_decay": 0.0},
        "model": {"projection": 256},
    }
    defaults: ClassVar = {"edges": [0.2, 0.4], "features": [0.3, 0.3], "temperature": 0.4, "sketched": 0.5}

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        self._temperature = given.temperature
        most = given.graph.num_nodes if given.graph.num_nodes <= _ALL_UP_TO else _MOST_ROWS
        self._rows = min(max(1, int(given.sketched * given.graph.num_nodes)), most)

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Cross entropy of the rows of one sketch among those of the other, both ways."""
        both = sketch(torch.cat(list(hidden_ND), dim=1), self._rows, key)
        one_kP, other_kP = (model.project(rows) for rows in both.chunk(2, dim=1))
        similarity_kk = one_kP @ other_kP.T / self._temperature
        own_k = torch.arange(self._rows, device=similarity_kk.device)
        return (cross_entropy(similarity_kk, own_k) + cross_entropy(similarity_kk.T, own_k)) / 2


def sketch(rows_ND: Tensor, number: int, key: int) -> Tensor:
    """So many random mixtures of the rows; the gradient draws the numbers again, which bounds the memory."""

    def block(part_BD: Tensor, place: int) -> Tensor:
        noise = seeding.generator("sketch", key, place).standard_normal((number, part_BD.shape[0]), "float32")
        return torch.from_numpy(noise).to(part_BD.device) @ part_BD

    parts = rows_ND.split(max(1, _NUMBERS_AT_ONCE // number))
    if len(parts) == 1:
        return block(rows_ND, 0) / math.sqrt(number)
    mixtures = [checkpoint(block, part_BD, place, use_reentrant=False) for place, part_BD in enumerate(parts)]
    return torch.stack(mixtures).sum(dim=0) / math.sqrt(number)
