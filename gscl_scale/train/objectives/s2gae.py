"""S2GAE (Tan et al., WSDM 2023): masked edges are decoded from the rows of all layers on the graph without them.

    h^1 .. h^L = rows of the layers on the edges that are left
    z_vu = h_v^i * h_u^j for all i, j, one after the other              (cross-correlation)
    p_vu = sigmoid(MLP(z_vu))
    loss = - mean over masked edges of log p_vu - mean over drawn pairs of log (1 - p_vu)

Both directions of an edge are masked each on its own. A step reads as many of the masked edges as there are negatives,
a batch of its code, and draws the mask anew. Drawn pairs are any two nodes, as there. The embedding is h^L.

Shapes: N nodes, D width, L layers, E edges in both directions, P pairs.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from gscl_scale import seeding
from gscl_scale.errors import ConfigError
from gscl_scale.graph.graph import Graph
from gscl_scale.model.inputs import Inputs, prepare_layers
from gscl_scale.model.model import Model
from gscl_scale.model.noise import Noise, with_noise
from gscl_scale.model.pairs import Nodes
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs
from gscl_scale.train.objectives.views import View


class S2gae(Objective):
    """Defaults are those of its code: up to 400 passes over the masked edges of Cora, 8 batches each.

    Its code stops when the AUC of edges that it holds out has not risen for 50 passes.
    """

    title = "S2GAE"
    paper: ClassVar = {
        "train": {"epochs": 3200, "learning_rate": 1e-3, "weight_decay": 0.0, "clip": 1.0},
        "model": {"hidden_dropout": 0.5},
    }
    defaults: ClassVar = {"masked": 0.8, "negatives": 1024, "predictor": 256}
    views = (View(),)

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        assert given.negatives is not None
        if not given.graph.indices.size:
            raise ConfigError("train.objective: s2gae decodes masked edges, but the graph has none; choose another")
        self._model, self._graph = given.model, given.graph
        self._masked, self._negatives, hidden = given.masked, given.negatives, given.predictor
        products = given.model.layers**2 * given.model.width
        self.decoder = nn.ModuleList([nn.Linear(products, hidden), nn.Linear(hidden, hidden), nn.Linear(hidden, 1)])

    def prepare(self, views: Sequence[Inputs], key: int) -> Sequence[Inputs]:
        """The graph without the masked edges."""
        left = without_edges(self._graph, self._mask(key))
        layers = prepare_layers(left, self._model, views[0].device)
        return [replace(views[0], layers=layers, propagated=None)]

    def encode(self, model: Model, view: Inputs, key: int) -> Tensor:
        """The rows of all layers beside each other [N, L D]."""
        return torch.cat(list(model.encoder.each_layer(view, key)), dim=1)

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Cross entropy of masked edges and of as many drawn pairs."""
        edges = self._mask(key)[: self._negatives]
        firsts = np.searchsorted(self._graph.indptr, edges, side="right") - 1
        linked = np.stack([firsts, self._graph.indices[edges]])
        drawn = seeding.generator("negatives", key).integers(0, self._graph.num_nodes, linked.shape)
        pairs = torch.from_numpy(np.concatenate([linked, drawn], axis=1)).to(hidden_ND[0].device)
        of_linked, of_drawn = self._decode(hidden_ND[0], pairs, key).chunk(2)
        return softplus(-of_linked).mean() + softplus(of_drawn).mean()

    def _mask(self, key: int) -> Nodes:
        """Places of the masked edges, in random order."""
        number = self._graph.indices.size
        return seeding.generator("mask", key).permutation(number)[: max(1, int(self._masked * number))]

    def _decode(self, rows_NLD: Tensor, pairs: Tensor, key: int) -> Tensor:
        """The logit of each pair [P]."""
        first, second = (rows_NLD[nodes_P].unflatten(1, (self._model.layers, -1)) for nodes_P in pairs)
        rows = (first[:, :, None] * second[:, None]).flatten(1)
        *inner, last = self.decoder
        for number, layer in enumerate(inner):
            noise = Noise(None, self._model.hidden_dropout, seeding.integer("decoder", key, number))
            rows = with_noise(layer(rows).relu(), None, noise)
        logit_P: Tensor = last(rows)[:, 0]
        return logit_P


def without_edges(graph: Graph, places: Nodes) -> Graph:
    """The graph in memory without the edges at some places, each in its own direction."""
    kept = np.ones(graph.indices.size, bool)
    kept[places] = False
    indptr = np.concatenate([[0], np.cumsum(kept)])[graph.indptr]
    weights = None if graph.edge_weights is None else graph.edge_weights[kept]
    return replace(graph, indptr=indptr, indices=graph.indices[kept], edge_weights=weights, undirected=False)
