"""GraphMAE (Hou et al., KDD 2022): features of masked nodes are decoded from the rows of the others.

    x~_v = a learnt token for masked nodes, the features of another node for a few of these, x_v for all others
    z    = layer(W h~)                              h~: rows of the encoder, zero for masked nodes
    loss = mean over masked v of (1 - cos(x_v, z_v))^gamma                                     (eq. 2)

The layer is one of the encoder's kind. Features are dense here, because the token has an entry for each column.

Shapes: N nodes, F features, D width, M masked nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from gscl_scale import seeding
from gscl_scale.graph.graph import Graph
from gscl_scale.model.encoder import build_layer
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.model.propagation import SparseInput
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs
from gscl_scale.train.objectives.schedule import cosine
from gscl_scale.train.objectives.views import View

_COPIES = 6  # of the dense features at once: given, masked, decoded, and gradients


class GraphMae(Objective):
    """Defaults are those of its code for Cora, without dropout in the decoder."""

    title = "GraphMAE"
    paper: ClassVar = {
        "train": {"epochs": 1500, "learning_rate": 1e-3, "weight_decay": 2e-4},
        "model": {"feature_dropout": 0.2},
    }
    defaults: ClassVar = {"masked": 0.5, "replaced": 0.05, "sharpness": 3.0}
    views = (View(),)

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        self._masked, self._replaced, self._sharpness = given.masked, given.replaced, given.sharpness
        width, num_features = given.model.width, given.graph.num_features
        self.token = nn.Parameter(torch.zeros(num_features))
        self.to_decoder = nn.Linear(width, width, bias=False)
        self.decoder = build_layer(given.model.encoder, width, num_features, bias=True)

    @classmethod
    def step_bytes(cls, graph: Graph) -> int:
        """Dense features, several times."""
        return _COPIES * 4 * graph.num_nodes * graph.num_features

    def prepare(self, views: Sequence[Inputs], key: int) -> Sequence[Inputs]:
        """The graph with masked features."""
        features_NF = _dense(views[0])
        drawn = self._draw(features_NF, key)
        rows_NF = features_NF.index_copy(0, drawn.replaced_R, features_NF[drawn.others_R])
        rows_NF = rows_NF.index_put((drawn.tokens_T,), self.token)
        return [replace(views[0], features=rows_NF, propagated=None)]

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Scaled cosine error of the masked nodes, eq. 2."""
        masked_M = self._draw(_dense(views[0]), key).masked_M
        return self.error(views, self.to_decoder(hidden_ND[0]).index_fill(0, masked_M, 0.0), key)

    def error(self, views: Sequence[Inputs], rows_ND: Tensor, key: int) -> Tensor:
        """Scaled cosine error of the masked nodes, decoded from these rows."""
        features_NF = _dense(views[0])
        masked_M = self._draw(features_NF, key).masked_M
        decoded_NF = self.decoder(rows_ND, views[0].layers[-1], None)
        similarity_M = cosine_similarity(features_NF[masked_M], decoded_NF[masked_M])
        return ((1 - similarity_M) ** self._sharpness).mean()

    def _draw(self, features_NF: Tensor, key: int) -> "_Drawn":
        return _Drawn.of(features_NF.shape[0], self._masked, self._replaced, key, features_NF.device)

    def rate(self, done: float) -> float:
        """A cosine down to 0."""
        return cosine(done)


@dataclass(frozen=True)
class _Drawn:
    """The masked nodes of a step: those that get the token, and those that get the features of others."""

    tokens_T: Tensor
    replaced_R: Tensor
    others_R: Tensor

    @classmethod
    def of(cls, num_nodes: int, masked: float, replaced: float, key: int, device: torch.device) -> "_Drawn":
        generator = seeding.generator("mask", key)
        number = max(1, int(masked * num_nodes))
        count = int(replaced * number)
        nodes, others = (torch.from_numpy(generator.permutation(num_nodes)).to(device) for _ in range(2))
        return cls(nodes[count:number], nodes[:count], others[:count])

    @property
    def masked_M(self) -> Tensor:
        """All masked nodes."""
        return torch.cat([self.tokens_T, self.replaced_R])


def _dense(view: Inputs) -> Tensor:
    assert view.features is not None
    return view.features.dense() if isinstance(view.features, SparseInput) else view.features
