"""Encoders: a graph's features and edges in, one row per node out."""

import itertools
import math

import torch
from torch import Tensor, nn

from gscl_scale.config import ModelConfig
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.propagation import Propagation, SparseInput, SparsePair, sparse_product

_ACTIVATIONS = {"relu": nn.ReLU, "prelu": nn.PReLU, "rrelu": nn.RReLU}
_MOST_HEADS = 8


class Encoder(nn.Module):
    """Layers of one kind, an activation after each; dropout of the features in training."""

    def __init__(self, config: ModelConfig, num_features: int) -> None:
        super().__init__()
        widths = [num_features, *[config.width] * config.layers]
        kind = {"gcn": GcnLayer, "sage": SageLayer, "gat": GatLayer}[config.encoder]
        self.layers = nn.ModuleList(kind(a, b) for a, b in itertools.pairwise(widths))
        self.activations = nn.ModuleList(_ACTIVATIONS[config.activation]() for _ in widths[1:])
        self._dropout = config.feature_dropout

    def forward(self, inputs: Inputs) -> Tensor:
        """Embeddings [N, width]."""
        share = self._dropout if self.training else 0.0
        propagated = inputs.propagated if share == 0 else None
        hidden: Tensor | SparsePair = _thinned(inputs.features, share)
        for layer, activation in zip(self.layers, self.activations, strict=True):
            hidden = activation(layer(hidden, inputs.edges, propagated))
            propagated = None  # was of the features
        assert isinstance(hidden, Tensor)
        return hidden


class GcnLayer(nn.Module):
    """A_hat X W + b, with A_hat the symmetrically normalised adjacency (GSCL, the GCN layer)."""

    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width_in, width_out)))
        self.bias = nn.Parameter(torch.zeros(width_out))

    def forward(self, hidden: Tensor | SparsePair, edges: Propagation, propagated: Tensor | None) -> Tensor:
        """[N, width_out]; `propagated` is A_hat X where that is known already."""
        return _propagate(hidden, edges, propagated, self.weight) + self.bias


class SageLayer(nn.Module):
    """torch-geometric's SAGEConv with the mean as one sparse product, in place of one message per edge in memory."""

    def __init__(self, width_in: int, width_out: int) -> None:
        from torch_geometric.nn import SAGEConv

        super().__init__()
        self.conv = SAGEConv(width_in, width_out)

    def forward(self, hidden: Tensor | SparsePair, edges: Propagation, propagated: Tensor | None) -> Tensor:
        """[N, width_out]; `propagated` is the mean over neighbours where that is known already."""
        of_neighbours = _propagate(hidden, edges, propagated, self.conv.lin_l.weight.T) + self.conv.lin_l.bias
        return of_neighbours + _times(hidden, self.conv.lin_r.weight.T)


class GatLayer(nn.Module):
    """torch-geometric's GATConv, with as many of 8 heads as divide the width."""

    def __init__(self, width_in: int, width_out: int) -> None:
        from torch_geometric.nn import GATConv

        super().__init__()
        heads = math.gcd(width_out, _MOST_HEADS)
        self.conv = GATConv(width_in, width_out // heads, heads)

    def forward(self, hidden: Tensor, edges: Tensor, propagated: None) -> Tensor:
        """[N, width_out]."""
        result: Tensor = self.conv(hidden, edges)
        return result


def build_encoder(config: ModelConfig, num_features: int) -> Encoder:
    """The encoder of a configuration; its weights come from torch's generator."""
    return Encoder(config, num_features)


def _thinned(features: Tensor | SparseInput, share: float) -> Tensor | SparsePair:
    """Features with a share of their values dropped and the others scaled up."""
    if isinstance(features, SparseInput):
        return features.pair(share)
    return nn.functional.dropout(features, share) if share else features


def _propagate(hidden: Tensor | SparsePair, edges: SparsePair, propagated: Tensor | None, weight: Tensor) -> Tensor:
    """edges @ hidden @ weight, in the order in which the sparse product has the fewer columns."""
    if propagated is None and isinstance(hidden, Tensor) and weight.shape[0] <= weight.shape[1]:
        propagated = sparse_product(edges, hidden)
    if propagated is not None:
        return propagated @ weight
    return sparse_product(edges, _times(hidden, weight))


def _times(hidden: Tensor | SparsePair, weight: Tensor) -> Tensor:
    return sparse_product(hidden, weight) if isinstance(hidden, SparsePair) else hidden @ weight
