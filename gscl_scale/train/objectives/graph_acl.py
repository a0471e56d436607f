"""GraphACL (Xiao et al., NeurIPS 2023): a node predicts its neighbors, asymmetrically, against all other nodes.

    s_vu = g(h_v) . h'_u / t            (g: a predictor; h': a slowly following encoder; rows have length one)
    n_v  = sum_w exp(h_v . h_w / t)
    loss = - mean over v of the mean over neighbors u of log (exp(s_vu) / (exp(s_vu) + n_v))

Neighbors are the nodes that v gathers from and v itself, as in its code. Beyond 4,096 nodes n_v is estimated from
nodes that are drawn in each step, scaled up to all.

Shapes: N nodes, D width, P pairs, K nodes of the sum.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils.checkpoint import checkpoint

from gscl_scale.model.encoder import Encoder
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.model.pairs import pair_products
from gscl_scale.model.propagation import entry_rows
from gscl_scale.train.objectives.grace import draw_nodes
from gscl_scale.train.objectives.linked import LinkedPairs
from gscl_scale.train.objectives.moving_average import follow
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs
from gscl_scale.train.objectives.views import View

_NUMBERS_AT_ONCE = 1 << 24


class GraphAcl(Objective):
    """Defaults are those of its code for Cora. The target encoder begins with the weights of the encoder."""

    title = "GraphACL"
    paper: ClassVar = {
        "train": {"epochs": 50, "learning_rate": 5e-4, "weight_decay": 1e-6},
        "model": {"last_activation": False},
    }
    defaults: ClassVar = {"temperature": 1.0, "momentum": 0.97, "negatives": None}
    views = (View(),)

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        self._temperature, self._momentum, self._negatives = given.temperature, given.momentum, given.negatives
        self.predictor = nn.Linear(given.model.width, given.model.width)
        self.target = Encoder(given.model, given.graph.num_features).requires_grad_(False)
        self.pairs = LinkedPairs(given.graph)

    def begin(self, model: Model) -> None:
        """The target encoder begins with the weights of the encoder."""
        follow(self.target, model.encoder, momentum=0.0)

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Mean over nodes, and of each over its neighbors and itself."""
        own_ND = normalize(hidden_ND[0])
        with torch.no_grad():
            target_ND = normalize(self.target(views[0], key).float())
        predicted_ND = normalize(self.predictor(hidden_ND[0])) / self._temperature
        pairs = self.pairs()
        scores_P = pair_products(predicted_ND, target_ND, pairs)
        rows_P = entry_rows(pairs.indptr, pairs.indices.shape[0])
        others_N = self._others(own_ND, draw_nodes(own_ND.shape[0], self._negatives, key).to(own_ND.device))
        losses_P = torch.logaddexp(scores_P, others_N[rows_P]) - scores_P
        share_N = 1 / (pairs.indptr.diff() * own_ND.shape[0])
        return (losses_P * share_N[rows_P]).sum()

    def _others(self, own_ND: Tensor, drawn_K: Tensor) -> Tensor:
        """log n_v of each node [N]; the gradient computes blocks of rows again, which bounds the memory."""

        def block(part_RD: Tensor) -> Tensor:
            return (part_RD @ own_ND[drawn_K].T / self._temperature).logsumexp(dim=1)

        num_nodes, count = own_ND.shape[0], drawn_K.shape[0]
        parts = own_ND.split(max(1, _NUMBERS_AT_ONCE // count))
        blocks = [checkpoint(block, part_RD, use_reentrant=False) for part_RD in parts]
        return torch.cat(blocks) + math.log(num_nodes / count)

    def after_step(self, model: Model, done: float) -> None:
        """The target follows by a moving average."""
        follow(self.target, model.encoder, self._momentum)
