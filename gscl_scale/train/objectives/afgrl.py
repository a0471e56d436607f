"""AFGRL (Lee et al., AAAI 2022): a node predicts similar nodes that are its neighbors or in its cluster.

    B_i  = the k nodes j with the largest cos(h_i, h'_j), i among them        (h': a slowly following encoder)
    P_i  = those in B_i that are neighbors of i, or in the cluster of i in any of 5 runs of k-means over h'  (eq. 5)
    loss = mean over i and j in P_i of (2 - 2 cos(q(h_i), h'_j)) + (2 - 2 cos(q(h_j), h'_i))                 (eq. 6)

Both directions and the mean over all pairs are those of its code. There are no views. Each step compares all nodes
with all others, in blocks: memory stays bounded, and time grows with N x N.

Shapes: N nodes, R of them at once, D width, k nodes of B.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, normalize

from gscl_scale import seeding
from gscl_scale.model.encoder import Encoder
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.train.objectives.k_means import k_means
from gscl_scale.train.objectives.linked import linked_codes
from gscl_scale.train.objectives.moving_average import follow
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs
from gscl_scale.train.objectives.schedule import cosine
from gscl_scale.train.objectives.views import View

_RUNS, _ITERATIONS = 5, 20  # of k-means, as in its code
_NUMBERS_AT_ONCE = 1 << 24


class Afgrl(Objective):
    """Defaults are those of its code for Photo, with at most 5,000 epochs: it stops by the validation accuracy."""

    title = "AFGRL"
    paper: ClassVar = {
        "train": {"epochs": 5000, "learning_rate": 1e-3, "weight_decay": 1e-5},
        "model": {"norm": "batch"},
    }
    defaults: ClassVar = {"nearest": 4, "clusters": 100, "predictor": 1024, "momentum": 0.9}
    decoupled = True
    views = (View(),)
    linked_P: Tensor

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        self._nearest, self._clusters, self._momentum = given.nearest, given.clusters, given.momentum
        width, hidden = given.model.width, given.predictor
        first, last = nn.Linear(width, hidden), nn.Linear(hidden, width)
        for layer in (first, last):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.constant_(layer.bias, 0.01)
        self.predictor = nn.Sequential(first, nn.BatchNorm1d(hidden), nn.PReLU(), last)
        self.target = Encoder(given.model, given.graph.num_features).requires_grad_(False)
        self.register_buffer("linked_P", torch.from_numpy(linked_codes(given.graph)), persistent=False)

    def begin(self, model: Model) -> None:
        """The target encoder begins with the weights of the encoder."""
        follow(self.target, model.encoder, momentum=0.0)

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Mean over pairs of a node and a similar one, eq. 6 in both directions."""
        with torch.no_grad():
            target_ND = normalize(self.target(views[0], key).float())
            similar_Nk = most_similar(normalize(hidden_ND[0]), target_ND, self._nearest)
            counts_Nk = self._linked(similar_Nk) | self._in_one_cluster(target_ND, similar_Nk, key)
        predicted_ND = self.predictor(hidden_ND[0])
        losses = [
            4
            - 2 * cosine_similarity(predicted_ND, target_ND[nodes_N])
            - 2 * cosine_similarity(predicted_ND[nodes_N], target_ND)
            for nodes_N in similar_Nk.unbind(dim=1)
        ]
        return (torch.stack(losses, dim=1) * counts_Nk).sum() / counts_Nk.sum()

    def _linked(self, similar_Nk: Tensor) -> Tensor:
        num_nodes = similar_Nk.shape[0]
        codes = torch.arange(num_nodes, device=similar_Nk.device)[:, None] * num_nodes + similar_Nk
        place = torch.searchsorted(self.linked_P, codes).clamp(max=self.linked_P.shape[0] - 1)
        return self.linked_P[place] == codes

    def _in_one_cluster(self, target_ND: Tensor, similar_Nk: Tensor, key: int) -> Tensor:
        together_Nk = torch.zeros_like(similar_Nk, dtype=torch.bool)
        for run in range(_RUNS):
            cluster_N = k_means(target_ND, self._clusters, _ITERATIONS, seeding.integer("run", key, run))
            together_Nk |= cluster_N[:, None] == cluster_N[similar_Nk]
        return together_Nk

    def after_step(self, model: Model, done: float) -> None:
        """The target follows by a moving average whose momentum rises to 1 along a cosine."""
        follow(self.target, model.encoder, 1 - (1 - self._momentum) * cosine(done))


def most_similar(rows_ND: Tensor, others_ND: Tensor, count: int) -> Tensor:
    """The nodes with the largest products with each row, the node itself first [N, count]."""
    size = max(1, _NUMBERS_AT_ONCE // rows_ND.shape[0])
    found = []
    for number, part_RD in enumerate(rows_ND.split(size)):
        similarity_RN = part_RD @ others_ND.T
        similarity_RN.diagonal(offset=number * size).add_(10)  # more than any cosine
        found.append(similarity_RN.topk(min(count, rows_ND.shape[0]), dim=1).indices)
    return torch.cat(found)
