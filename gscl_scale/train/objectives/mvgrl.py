"""MVGRL (Hassani and Khasahmadi, ICML 2020): nodes on the graph against a summary of its diffusion, and the reverse.

    S    = a (I - (1 - a) A^)^-1                A^: D^-1/2 (A + I) D^-1/2             (PageRank from each node)
    c    = sigmoid(mean row),  s(h, c) = h . W c + b
    loss = mean cross entropy of s(h_S, c_A), s(h_A, c_S) as true and s(h~_S, c_A), s(h~_A, c_S) as false

h_A are rows of the encoder on the graph, h_S those of a second encoder on S, h~ those of shuffled features. The
paper's embeddings are h_A + h_S; here they are h_A, because the encoder of a run is one. S has an entry for each pair
of nodes, so memory grows with N x N.

Shapes: N nodes, D width.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from gscl_scale.errors import ConfigError
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.model.encoder import Encoder
from gscl_scale.model.inputs import Inputs, Layer
from gscl_scale.model.model import Model
from gscl_scale.model.propagation import SparsePair, adjacency_pair, csr_tensor
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs
from gscl_scale.train.objectives.views import View

_BYTES_PER_PAIR = 32  # the matrix and its inverse in double precision, then values and columns of S and its transpose


class Mvgrl(Objective):
    """Defaults are those of its code, which stops when the training loss has not fallen for 20 epochs."""

    title = "MVGRL"
    paper: ClassVar = {"train": {"epochs": 300, "learning_rate": 1e-3, "weight_decay": 0.0}}
    defaults: ClassVar = {"teleport": 0.2}
    views = (View(), View(shuffled=True))

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        if given.model.encoder == "gat":
            raise ConfigError("model.encoder: mvgrl weights pairs of nodes, which gat does not read; set it to gcn")
        width, self._product = given.model.width, given.model.product
        self.diffusion_encoder = Encoder(given.model, given.graph.num_features)
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(1, width, width))[0])
        self.bias = nn.Parameter(torch.zeros(()))
        pair = diffusion(given.graph, given.teleport)
        self.register_buffer("matrix", pair.matrix, persistent=False)
        self.register_buffer("transposed", pair.transposed, persistent=False)

    @classmethod
    def step_bytes(cls, graph: Graph) -> int:
        """S and what it is computed from."""
        return _BYTES_PER_PAIR * graph.num_nodes**2

    def loss(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """Binary cross entropy of nodes of one view and the summary of the other."""
        assert isinstance(self.matrix, Tensor)
        assert isinstance(self.transposed, Tensor)
        layer = Layer(SparsePair(self.matrix, self.transposed, self._product))
        diffused = [replace(view, layers=[layer] * len(view.layers), propagated=None) for view in views]
        other_ND = [self.diffusion_encoder(view, key + number).float() for number, view in enumerate(diffused)]
        summaries_D = [torch.sigmoid(rows[0].mean(dim=0)) for rows in (other_ND, hidden_ND)]
        pairs = zip((hidden_ND, other_ND), summaries_D, strict=True)
        scores = torch.stack([torch.stack([rows @ (self.weight @ c) + self.bias for rows in two]) for two, c in pairs])
        truth = torch.zeros_like(scores)
        truth[:, 0] = 1
        return binary_cross_entropy_with_logits(scores, truth)


def diffusion(graph: Graph, teleport: float) -> SparsePair:
    """PageRank from each node, as a matrix with all its entries."""
    num_nodes = graph.num_nodes
    adjacency = adjacency_pair(NormalisedAdjacency.of(graph, "gcn"), graph.undirected).matrix.to_dense().numpy()
    matrix = teleport * np.linalg.inv(np.eye(num_nodes) - (1 - teleport) * adjacency)
    forward, back = (_csr(one) for one in (matrix, matrix.T))
    return SparsePair(forward, forward if graph.undirected else back)


def _csr(matrix: npt.NDArray[Any]) -> Tensor:
    rows = sp.csr_array(matrix.astype(np.float32))
    return csr_tensor(rows.indptr, rows.indices, rows.data, (matrix.shape[0], matrix.shape[1]))
