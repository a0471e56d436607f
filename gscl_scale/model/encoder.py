"""Encoders: a graph's features and edges in, one row per node out."""

import itertools

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from gscl_scale.config import ModelConfig
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.propagation import SparseInput, sparse_product

_ACTIVATIONS = {"relu": nn.ReLU, "prelu": nn.PReLU, "rrelu": nn.RReLU}


class GcnEncoder(nn.Module):
    """sigma(A_hat X W + b), layer after layer, with A_hat the symmetrically normalised adjacency (GSCL, GCN layer)."""

    def __init__(self, config: ModelConfig, num_features: int) -> None:
        super().__init__()
        widths = [num_features, *[config.width] * config.layers]
        self.weights = nn.ParameterList(
            nn.init.xavier_uniform_(torch.empty(a, b)) for a, b in itertools.pairwise(widths)
        )
        self.biases = nn.ParameterList(torch.zeros(width) for width in widths[1:])
        self.activations = nn.ModuleList(_ACTIVATIONS[config.activation]() for _ in widths[1:])
        self._dropout = config.feature_dropout

    def forward(self, inputs: Inputs) -> Tensor:
        """Embeddings [N, width]."""
        assert inputs.adjacency is not None
        share = self._dropout if self.training else 0.0
        hidden: Tensor | None = None
        for weight, bias, activation in zip(self.weights, self.biases, self.activations, strict=True):
            product = _first_product(inputs.features, weight, share) if hidden is None else hidden @ weight
            hidden = activation(sparse_product(inputs.adjacency, product) + bias)
        assert hidden is not None
        return hidden


def _first_product(features: Tensor | SparseInput, weight: Tensor, share: float) -> Tensor:
    if isinstance(features, SparseInput):
        return sparse_product(features.pair(share), weight)
    return dropout(features, share) @ weight if share else features @ weight


class MessageEncoder(nn.Module):
    """Layers of torch-geometric by name, each followed by an activation; sparse features pass a linear layer first."""

    def __init__(self, config: ModelConfig, num_features: int) -> None:
        from torch_geometric.nn import GATConv, SAGEConv

        super().__init__()
        kind = {"sage": SAGEConv, "gat": GATConv}[config.encoder]
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(num_features, config.width)))
        self.layers = nn.ModuleList(kind(config.width, config.width) for _ in range(config.layers))
        self.activations = nn.ModuleList(_ACTIVATIONS[config.activation]() for _ in range(config.layers))
        self._dropout = config.feature_dropout

    def forward(self, inputs: Inputs) -> Tensor:
        """Embeddings [N, width]."""
        hidden = _first_product(inputs.features, self.first, self._dropout if self.training else 0.0)
        for layer, activation in zip(self.layers, self.activations, strict=True):
            hidden = activation(layer(hidden, inputs.edge_index))
        return hidden
