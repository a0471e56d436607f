"""GraphMAE2 (Hou et al., WWW 2023): GraphMAE with decodings of random rows, and a prediction of a target's rows.

    loss = sum over decodings of the loss of GraphMAE, each with a random share of h~ in place of the masked nodes
           replaced by a learnt row
           + weight * mean over nodes of (1 - cos(q(g(h)), g'(h')))                              (eq. 4 and 5)

h is of masked and h' of whole features; h' and g' are of an encoder and a projector that follow slowly.

Shapes: N nodes, F features, D width, M masked nodes.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from gscl_scale import seeding
from gscl_scale.graph.graph import Graph
from gscl_scale.model.encoder import Encoder
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.train.objectives.graphmae import GraphMae
from gscl_scale.train.objectives.moving_average import follow
from gscl_scale.train.objectives.objective import ObjectiveInputs

_PROJECTION = 256  # width of the projectors' hidden layer, as in its code


class GraphMae2(GraphMae):
    """Defaults are those of its code for Cora, with the decodings of its paper, as for ogbn-arxiv."""

    title = "GraphMAE2"
    paper: ClassVar = {**GraphMae.paper, "train": {**GraphMae.paper["train"], "epochs": 2000}}
    defaults: ClassVar = {
        "masked": 0.5, "sharpness": 3.0, "remasked": 0.5, "decodings": 3, "weight": 0.15, "momentum": 0.996,
    }  # fmt: skip

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        self._remasked, self._decodings = given.remasked, given.decodings
        self._weight, self._momentum = given.weight, given.momentum
        width, num_features = given.model.width, given.graph.num_features
        nn.init.xavier_normal_(self.token[None])
        self.decoder_token = nn.Parameter(nn.init.xavier_normal_(torch.empty(1, width))[0])
        nn.init.xavier_normal_(self.to_decoder.weight, gain=1.414)
        self.projector, self.target_projector = _projector(width), _projector(width).requires_grad_(False)
        self.predictor = nn.Sequential(nn.PReLU(), nn.Linear(width, width))
        self.target = Encoder(given.model, num_features).requires_grad_(False)

    @classmethod
    def step_bytes(cls, graph: Graph) -> int:
        """Dense features, and decoded ones of each of three decodings with their gradient."""
        return 2 * super().step_bytes(graph)

    def begin(self, model: Model) -> None:
        """The target begins with the weights of the encoder and of the projector."""
        self._follow(model, momentum=0.0)

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Scaled cosine errors of all decodings, and the cosine error of the latent rows."""
        with torch.no_grad():
            target_ND = self.target_projector(self.target(views[0], key).float())
        latent = 1 - cosine_similarity(self.predictor(self.projector(hidden_ND[0])), target_ND).mean()
        rows_ND = self.to_decoder(hidden_ND[0])
        errors = [
            self.error(views, rows_ND.index_put((self._remask(rows_ND, key, number),), self.decoder_token), key)
            for number in range(self._decodings)
        ]
        return torch.stack(errors).sum() + self._weight * latent

    def _remask(self, rows_ND: Tensor, key: int, number: int) -> Tensor:
        num_nodes = rows_ND.shape[0]
        drawn = seeding.generator("remask", key, number).permutation(num_nodes)[: int(self._remasked * num_nodes)]
        return torch.from_numpy(drawn).to(rows_ND.device)

    def after_step(self, model: Model, done: float) -> None:
        """The target follows by a moving average."""
        self._follow(model, self._momentum)

    def _follow(self, model: Model, momentum: float) -> None:
        follow(self.target, model.encoder, momentum)
        follow(self.target_projector, self.projector, momentum)


def _projector(width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, _PROJECTION), nn.PReLU(), nn.Linear(_PROJECTION, width))
