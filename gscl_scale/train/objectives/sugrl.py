"""SUGRL (Mo et al., AAAI 2022): a node's own row is closer to rows with structure than to other nodes' rows.

    h: rows without edges (an MLP); h+: rows on the graph; h*: mean of h over drawn neighbors; h-: h of another node
    L_S  = sum over negatives of the mean of max(0, |h - h+| - |h - h-| + alpha)
    L_N  = the same with h* in place of h+
    L_U  = mean over negatives of the sum over nodes of max(0, |h - h-| - |h - h+| - alpha - beta)
    loss = weight * (L_S + L_N) + L_U

Distances, sums and means are those of its code; L_U moves only the distances to negatives, as there. The MLP has the
weights of the shared encoder: of a gcn with one layer, h+ is the normalised adjacency times h, as in the paper.

Shapes: N nodes, D width.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pairwise_distance

from gscl_scale import seeding
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs
from gscl_scale.train.objectives.views import View

_NEIGHBOURS = 5  # that are drawn for h*


class Sugrl(Objective):
    """Defaults are those of its code for Cora. Margins are lengths, so validation nodes choose the scaling of rows."""

    title = "SUGRL"
    paper: ClassVar = {
        "train": {"epochs": 500, "learning_rate": 5e-3, "weight_decay": 5e-5},
        "model": {"feature_dropout": 0.3, "last_activation": False},
        "evaluate": {"probe_scaling": "auto"},
    }
    defaults: ClassVar = {"margin": 0.8, "bound": 0.2, "weight": 10.0, "negatives": 4}
    views = (View(edges=1.0), View())

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        assert given.negatives is not None
        self._margin, self._bound, self._weight = given.margin, given.bound, given.weight
        self._negatives, self._graph = given.negatives, given.graph

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Weighted sum of both triplet losses and the upper bound."""
        own_ND, structural_ND = hidden_ND
        drawn = [self._neighbours(key, number).to(own_ND.device) for number in range(_NEIGHBOURS)]
        neighbour_ND = torch.stack([own_ND[nodes] for nodes in drawn]).mean(dim=0)
        near_N = pairwise_distance(own_ND, structural_ND)
        near = torch.stack([near_N, pairwise_distance(own_ND, neighbour_ND)])
        triplets, beyond = own_ND.new_zeros(()), own_ND.new_zeros(())
        for number in range(self._negatives):
            order = seeding.generator("negatives", key, number).permutation(own_ND.shape[0])
            far_N = pairwise_distance(own_ND, own_ND[torch.from_numpy(order).to(own_ND.device)])
            triplets = triplets + (near - far_N + self._margin).relu().mean(dim=1).sum()
            beyond = beyond + (far_N - near_N.detach() - self._margin - self._bound).relu().sum()
        return self._weight * triplets + beyond / self._negatives

    def _neighbours(self, key: int, number: int) -> Tensor:
        """A neighbour of each node, or the node itself, all with the same chance [N]."""
        degrees = np.diff(self._graph.indptr)
        drawn = (seeding.generator("neighbours", key, number).random(degrees.size) * (degrees + 1)).astype(np.int64)
        nodes, linked = np.arange(degrees.size), drawn < degrees
        nodes[linked] = self._graph.indices[self._graph.indptr[:-1][linked] + drawn[linked]]
        return torch.from_numpy(nodes)
