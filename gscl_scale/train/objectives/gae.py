"""GAE (Kipf and Welling, 2016): products of embeddings tell edges from other pairs of nodes.

    p_ij = sigmoid(z_i . z_j)
    loss = - (mean of log p_ij over edges and loops + mean of log (1 - p_ij) over other pairs) / 2

This is the cross entropy of all N x N pairs with the weights of its code: pos_weight makes both kinds of pairs count
alike, and norm halves their sum. Up to 4,096 nodes all other pairs count, beyond them as many as there are edges,
drawn in each step: the mean over these is an estimate of the mean over all.

Shapes: N nodes, D width, P edges and loops.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus
from torch.utils.checkpoint import checkpoint

from gscl_scale import seeding
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.model.pairs import Nodes, pair_products
from gscl_scale.train.objectives.linked import LinkedPairs, pattern_of
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs
from gscl_scale.train.objectives.views import View

_ALL_UP_TO = 4096  # nodes
_NUMBERS_AT_ONCE = 1 << 24


class Gae(Objective):
    """Defaults are those of its code. The length of a row has a meaning, so validation nodes choose its scaling."""

    title = "GAE"
    paper: ClassVar = {
        "train": {"epochs": 200, "learning_rate": 1e-2, "weight_decay": 0.0},
        "model": {"last_activation": False},
        "evaluate": {"probe_scaling": "auto"},
    }
    defaults: ClassVar = {"negatives": None}
    views = (View(),)

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        self._num_nodes, self.pairs = given.graph.num_nodes, LinkedPairs(given.graph)
        default = None if self._num_nodes <= _ALL_UP_TO else self.pairs.codes.size
        self._negatives = given.negatives or default

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Weighted binary cross entropy of pairs."""
        return self.reconstruction(hidden_ND[0], key)

    def reconstruction(self, rows_ND: Tensor, key: int) -> Tensor:
        """Half the mean loss of edges and of other pairs."""
        products_P = pair_products(rows_ND, rows_ND, self.pairs())
        if self._negatives is None:
            number = max(1, self._num_nodes**2 - products_P.shape[0])
            others = (_sum_of_all(rows_ND) - softplus(products_P).sum()) / number
        else:
            drawn = pattern_of(self._draw(self._negatives, key), self._num_nodes).to(rows_ND.device)
            others = softplus(pair_products(rows_ND, rows_ND, drawn)).sum() / max(1, drawn.indices.shape[0])
        return (softplus(-products_P).mean() + others) / 2

    def _draw(self, number: int, key: int) -> Nodes:
        """Pairs drawn with replacement, without those that are edges or loops, in ascending order."""
        drawn = np.sort(seeding.generator("negatives", key).integers(0, self._num_nodes**2, number))
        linked = self.pairs.codes
        return drawn[linked[np.searchsorted(linked, drawn).clip(max=linked.size - 1)] != drawn]


def _sum_of_all(rows_ND: Tensor) -> Tensor:
    """Sum of softplus over all pairs; the gradient computes blocks of rows again, which bounds the memory."""

    def block(part_RD: Tensor) -> Tensor:
        return softplus(part_RD @ rows_ND.T).sum()

    size = max(1, _NUMBERS_AT_ONCE // rows_ND.shape[0])
    if size >= rows_ND.shape[0]:
        return block(rows_ND)
    blocks = [checkpoint(block, part_RD, use_reentrant=False) for part_RD in rows_ND.split(size)]
    return torch.stack(blocks).sum()
