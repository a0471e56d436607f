"""GMI (Peng et al., WWW 2020): mutual information of a node's row with the features around it, and of edges.

    I(h, y) = - mean of sp(-D(h_i, y_i)) - mean over drawn j of sp(D(h_i, y_j)),  D(h, y) = sigmoid(y W h + b)
    loss    = - a_1 I(h; x) - a_2 I(prelu(mean of neighbors' rows of X W_1); h) + a_3 E
    E       = N^2 / (N^2 - E') * mean over all pairs of
              - (N^2 - E') / E' [linked] log p_ij - [not linked] log (1 - p_ij),      p_ij = sigmoid(h_i . h_j)

sp is softplus, X W_1 the first product of the encoder, and E' half the number of edges (both ways) and loops. All of
it is that of its code; beyond 4,096 nodes the pairs that are not linked are drawn, as for GAE.

Shapes: N nodes, D width.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from gscl_scale import seeding
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.model.propagation import SparseInput, SparsePair, adjacency_pair, sparse_product
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs
from gscl_scale.train.objectives.reconstruction import Reconstruction
from gscl_scale.train.objectives.views import View


class Gmi(Objective):
    """Defaults are those of its code, which stops when the training loss has not fallen for 20 epochs."""

    title = "GMI"
    paper: ClassVar = {"train": {"epochs": 550, "learning_rate": 1e-3, "weight_decay": 0.0}}
    defaults: ClassVar = {"terms": [0.8, 1.0, 1.0], "negatives": 5}
    views = (View(),)

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        assert given.negatives is not None
        self._terms, self._negatives, width = given.terms, given.negatives, given.model.width
        self.of_features = _Discriminator(given.graph.num_features, width)
        self.of_neighbours = _Discriminator(width, width)
        self.activation = nn.PReLU()
        self.edges = Reconstruction(given.graph, None)
        mean = adjacency_pair(NormalisedAdjacency.of(given.graph, "sage"), undirected=False)
        self.register_buffer("mean", mean.matrix, persistent=False)
        self.register_buffer("transposed", mean.transposed, persistent=False)

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Weighted sum of both terms of features and of the term of edges."""
        rows_ND, features = hidden_ND[0], views[0].features
        stored = features.pair if isinstance(features, SparseInput) else features
        assert stored is not None
        sent_ND = model.encoder.layer(0).messages(stored)[:, : rows_ND.shape[1]]
        assert isinstance(self.mean, Tensor)
        assert isinstance(self.transposed, Tensor)
        around_ND = self.activation(sparse_product(SparsePair(self.mean, self.transposed), sent_ND))
        drawn = [_others(rows_ND.shape[0], key, number).to(rows_ND.device) for number in range(self._negatives)]
        of_features = self.of_features(stored, rows_ND, drawn)
        of_neighbours = self.of_neighbours(rows_ND, around_ND, drawn)
        terms = torch.stack([of_features, of_neighbours, self._edge_term(rows_ND, key)])
        return (terms * torch.tensor(self._terms, device=terms.device)).sum()

    def _edge_term(self, rows_ND: Tensor, key: int) -> Tensor:
        linked, others = self.edges(rows_ND, key)
        pairs, number = rows_ND.shape[0] ** 2, self.edges.pairs.codes.size
        half = number / 2
        weighted = (pairs - half) / half * number * linked + (pairs - number) * others
        return weighted / (pairs - half)


class _Discriminator(nn.Module):
    """-I(h, y) by the Jensen-Shannon estimator, of rows y that may be sparse and rows h."""

    def __init__(self, width_in: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, width_in, width))[0])
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(self, stored: Tensor | SparsePair, rows_ND: Tensor, drawn: Sequence[Tensor]) -> Tensor:
        seen_ND = stored @ self.weight if isinstance(stored, Tensor) else sparse_product(stored, self.weight)
        own = softplus(-self._score(seen_ND, rows_ND)).mean()
        others = [softplus(self._score(seen_ND[nodes_N], rows_ND)).mean() for nodes_N in drawn]
        return own + torch.stack(others).mean()

    def _score(self, seen_ND: Tensor, rows_ND: Tensor) -> Tensor:
        return torch.sigmoid((seen_ND * rows_ND).sum(dim=1) + self.bias)


def _others(num_nodes: int, key: int, number: int) -> Tensor:
    """Another node for each node, drawn with replacement [N]."""
    drawn = seeding.generator("negatives", key, number).integers(0, max(1, num_nodes - 1), num_nodes)
    return torch.from_numpy(drawn + (drawn >= np.arange(num_nodes)) * (num_nodes > 1))
