"""AF-GCL (Wang et al., 2022): a node is close to the most similar nodes of a pool, and orthogonal to drawn ones.

    z    = g(relu(h)) of length one                                         (g: two layers)
    P_i  = the k nodes of the pool with the largest z_i . z_p, i among them
    loss = mean over i of (- 2 / k * sum over P_i of z_i . z_p + sum over drawn n of (z_i . z_n)^2)

There are no views: h is aggregated along the edges, and similar h give the positives. In each step the pool is drawn
from the 2-hop neighborhoods of drawn nodes, a node at most once, and a node's negatives from the pool, with
replacement. All of it is that of the code of its later version SP-GCL (Wang et al., 2023), which sums over negatives.

Shapes: B nodes of the pool, D width, k positives, n negatives of each.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from gscl_scale import seeding
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.model.noise import Noise, with_noise
from gscl_scale.model.pairs import Nodes
from gscl_scale.train.objectives.linked import edge_matrix, neighborhoods
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs
from gscl_scale.train.objectives.views import View

_HOPS = 2


class AfGcl(Objective):
    """Defaults are those of its code for Cora; dropout is also that of the last layer.

    Rows get length one behind the head only, so validation nodes choose how the probe scales them.
    """

    title = "AF-GCL"
    paper: ClassVar = {
        "train": {"epochs": 500, "learning_rate": 1e-3, "weight_decay": 1e-4},
        "model": {"hidden_dropout": 0.3},
        "evaluate": {"probe_scaling": "auto"},
    }
    defaults: ClassVar = {"pool": 256, "nearest": 5, "negatives": 100}
    decoupled = True
    views = (View(),)

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        assert given.negatives is not None
        self._pool, self._nearest, self._negatives = given.pool, given.nearest, given.negatives
        self._dropout, width = given.model.hidden_dropout, given.model.width
        self._edges = edge_matrix(given.graph)
        self.head = nn.Sequential(nn.Linear(width, width), nn.PReLU(), nn.Linear(width, width))

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Mean over the pool of the spectral contrastive loss."""
        nodes_B = torch.from_numpy(self._draw(key)).to(hidden_ND[0].device)
        dropped_BD = with_noise(hidden_ND[0][nodes_B], nodes_B, Noise(None, self._dropout, key))
        rows_BD = normalize(self.head(dropped_BD.relu()))
        similarity_BB, number = rows_BD @ rows_BD.T, nodes_B.shape[0]
        near_Bk = similarity_BB.topk(min(self._nearest, number), dim=1).values
        drawn = seeding.generator("negatives", key).integers(0, number, (number, self._negatives))
        far_Bn = similarity_BB.gather(1, torch.from_numpy(drawn).to(nodes_B.device))
        return ((far_Bn**2).sum(dim=1) - 2 * near_Bk.mean(dim=1)).mean()

    def _draw(self, key: int) -> Nodes:
        """The pool of a step: nodes that are near many of the drawn nodes have a larger chance."""
        generator, num_nodes = seeding.generator("pool", key), self._edges.shape[0]
        drawn = generator.choice(num_nodes, min(self._pool, num_nodes), replace=False, shuffle=False)
        *_, near = neighborhoods(self._edges, drawn, _HOPS)
        pool = generator.choice(near.indices, min(self._pool, near.indices.size), replace=False)
        return np.unique(pool).astype(np.int64)
