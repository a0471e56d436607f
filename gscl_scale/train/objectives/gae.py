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

from torch import Tensor

from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs
from gscl_scale.train.objectives.reconstruction import Reconstruction
from gscl_scale.train.objectives.views import View


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
        self.pairs = Reconstruction(given.graph, given.negatives)

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Weighted binary cross entropy of pairs."""
        return self.reconstruction(hidden_ND[0], key)

    def reconstruction(self, rows_ND: Tensor, key: int) -> Tensor:
        """Half the mean loss of edges and of other pairs."""
        edges, others = self.pairs(rows_ND, key)
        return (edges + others) / 2
