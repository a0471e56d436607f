"""Encoders: features and edges of a graph in, one row per node out."""

import itertools
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gscl_scale.config.graph_size import FeatureBlocks
from gscl_scale.config.sections import ModelConfig
from gscl_scale.model.attention import attend
from gscl_scale.model.fused import rows as fused
from gscl_scale.model.fused.availability import runs_fused
from gscl_scale.model.inputs import Inputs, Layer
from gscl_scale.model.keyed_random import StepKey
from gscl_scale.model.noise import SLOPES, Noise, with_noise
from gscl_scale.model.propagation import SparseInput, SparsePair, sparse_product
from gscl_scale.model.take import take_distinct

_MOST_HEADS = 8
# Keys of a step: `key` for the features, key + 1 + layer for the activations, and from these for each layer
_HIDDEN_KEY, _EDGES_KEY = 100, 200
_NONE = Noise(None, 0.0, 0)
_BATCH_MOMENTUM = 0.99  # Thakoor et al. (2022); torch counts it for the newest batch


class Encoder(nn.Module):
    """Layers of one kind with an activation after each (the last if wanted) and, in training, dropout before it.

    features   how many a node has of each kind; given as a number they are all the user's
    beside     how many columns stand beside the output in embeddings
    """

    def __init__(self, config: ModelConfig, features: FeatureBlocks | int) -> None:
        super().__init__()
        self.features = blocks = features if isinstance(features, FeatureBlocks) else FeatureBlocks(features)
        few = blocks.own if blocks.means else 0
        self.beside = few + blocks.means + blocks.structural if config.skip == "auto" else 0
        self.adjacency = config.messages()  # arguments of NormalisedAdjacency.of
        self.widths = widths = [sum(blocks), *[config.width] * config.layers]
        layer = _LAYERS[config.encoder]
        activation = {"relu": nn.ReLU, "prelu": PReLU, "rrelu": KeyedRReLU}[config.activation]
        self.layers = nn.ModuleList(layer(a, b, config.bias) for a, b in itertools.pairwise(widths))
        self.activations = nn.ModuleList(activation() for _ in widths[1:])
        if not config.last_activation:
            self.activations[-1] = nn.Identity()
        batch = widths[1:] if config.norm == "batch" else []
        self.norms = nn.ModuleList(nn.BatchNorm1d(width, momentum=_BATCH_MOMENTUM) for width in batch)
        self._dropout, self._hidden_dropout = config.dropped_features, config.hidden_dropout
        self._edge_dropout, self._recompute = config.message_dropout, config.recompute

    def forward(self, inputs: Inputs, key: StepKey = 0) -> Tensor:
        """Embeddings [nodes asked for, width]; in training, `key` decides what is dropped."""
        (hidden,) = deque(self.each_layer(inputs, key), maxlen=1)
        return hidden if inputs.rows is None else take_distinct(hidden, inputs.rows)

    def each_layer(self, inputs: Inputs, key: StepKey = 0) -> Iterator[Tensor]:
        """The rows of each layer, the first layer first; those of the last are the embeddings."""
        assert inputs.features is not None
        share = self._dropout if self.training else 0.0
        propagated = inputs.propagated if share == 0 else None
        hidden: Tensor | SparsePair
        if isinstance(inputs.features, SparseInput):
            hidden = inputs.features.with_dropout(share, key)
        else:
            hidden = with_noise(inputs.features, inputs.nodes, Noise(None, share, key))
        for number, read in enumerate(self._with_edge_dropout(inputs.layers, inputs.nodes, key)):
            if propagated is not None and read.nodes is not None:
                propagated = propagated[read.nodes]
            if self._recompute and self.training:
                hidden = checkpoint(self._layer, number, hidden, read, propagated, key, use_reentrant=False)
            else:
                hidden = self._layer(number, hidden, read, propagated, key)
            propagated = None  # it was of the features
            assert isinstance(hidden, Tensor)
            yield hidden

    def _with_edge_dropout(self, layers: Sequence[Layer], below: Tensor | None, key: StepKey) -> Iterator[Layer]:
        """What each layer reads; in training, with a share of the edges dropped."""
        for number, read in enumerate(layers):
            edges = read.edges
            if self.training and self._edge_dropout > 0:
                assert isinstance(edges, SparsePair)
                edges = edges.with_edge_dropout(self._edge_dropout, key + (_EDGES_KEY + number), read.nodes, below)
            yield replace(read, edges=edges)
            below = read.nodes

    def _layer(
        self, number: int, hidden: Tensor | SparsePair, read: Layer, propagated: Tensor | None, key: StepKey
    ) -> Tensor:
        last = number == len(self.layers) - 1
        share = 0.0 if last or not self.training else self._hidden_dropout
        noise = Noise(key + (number + 1), share, key + (_HIDDEN_KEY + number))
        return self.activate(number, self.layers[number](hidden, read, propagated), noise, read.nodes)

    def join(self, output: Tensor, features: Tensor) -> Tensor:
        """Embeddings: the output, and beside it structural features and what stands with these, where there are any.

        The output and the structural features have length one. Few columns of the user, and their means over
        neighbours, pass around the encoder too, because there the structural features drown them.
        """
        if not self.beside:
            return output
        own, means, structural = features.split(list(self.features), dim=1)
        few = [_at_most_half(rows) for rows in (own, means)] if means.shape[1] else []
        return torch.cat([nn.functional.normalize(output), *few, nn.functional.normalize(structural)], dim=1)

    @property
    def width(self) -> int:
        """Columns of the embeddings."""
        return self.widths[-1] + self.beside

    def layer(self, number: int) -> "GraphLayer":
        """A layer by its number; -1 is the last."""
        layer = self.layers[number]
        assert isinstance(layer, GraphLayer)
        return layer

    def activate(self, number: int, hidden: Tensor, noise: Noise = _NONE, nodes: Tensor | None = None) -> Tensor:
        """The norm, the activation and, in training, the dropout after a layer."""
        activation = self.activations[number]
        hidden = self.norms[number](hidden) if self.norms else hidden
        if not isinstance(activation, KeyedRReLU) or not self.training:
            hidden, noise = activation(hidden), noise._replace(slope_key=None)
        return with_noise(hidden, nodes, noise)


class PReLU(nn.PReLU):
    """torch's PReLU with a quicker gradient: its own took half of an encoder's backward on the CPU."""

    def forward(self, hidden: Tensor) -> Tensor:
        """max(x, 0) + weight * min(x, 0)."""
        result: Tensor = _PReLU.apply(hidden, self.weight)  # type: ignore[no-untyped-call]  # torch's apply
        return result


class _PReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(hidden, weight)
        return nn.functional.prelu(hidden, weight.to(hidden.dtype))

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        hidden, weight = ctx.saved_tensors
        if runs_fused(gradient):
            both: tuple[Tensor, Tensor] = fused.prelu_gradient(gradient, hidden, weight)
            return both
        of_weight = (gradient * hidden.clamp(max=0)).sum(dtype=weight.dtype).reshape(weight.shape)
        return torch.where(hidden > 0, gradient, gradient * weight.to(gradient.dtype)), of_weight


class KeyedRReLU(nn.Module):
    """RReLU whose slopes are keyed by node and column, which `with_noise` draws in training."""

    def forward(self, hidden: Tensor) -> Tensor:
        """The mean of the random slopes."""
        return nn.functional.leaky_relu(hidden, sum(SLOPES) / 2)


class GraphLayer(nn.Module, ABC):
    """A layer that multiplies rows and gathers them along edges."""

    @abstractmethod
    def affine(self) -> tuple[Sequence[Tensor], Tensor | None]:
        """The matrices [width_in, width_out] that rows are multiplied by, that of the messages first, and the bias."""

    def messages(self, hidden: Tensor | SparsePair) -> Tensor:
        """What nodes send, where rows are multiplied before they are gathered; the other order is as good."""
        return _times(hidden, self.affine()[0][0])

    def finish(self, gathered: Tensor, own: Tensor | SparsePair | None) -> Tensor:
        """The layer's rows from gathered messages and, for sage, the nodes' own rows of the layer below."""
        return _plus(gathered, self.affine()[1])

    def clear(self, first: int) -> None:
        """Set all columns from `first` on to zero."""
        weights, bias = self.affine()
        with torch.no_grad():
            for columns in weights if bias is None else (*weights, bias):
                columns[..., first:] = 0


class GcnLayer(GraphLayer):
    """A_hat X W + b, with A_hat the symmetrically normalised adjacency (GSCL, the GCN layer)."""

    def __init__(self, width_in: int, width_out: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(width_in, width_out)))
        self.bias = nn.Parameter(torch.zeros(width_out)) if bias else None

    def forward(self, hidden: Tensor | SparsePair, read: Layer, propagated: Tensor | None) -> Tensor:
        """[R, width_out]; `propagated` is A_hat X where that is known already."""
        return _propagate(hidden, read, propagated, self.weight, self.bias)

    def affine(self) -> tuple[Sequence[Tensor], Tensor | None]:  # noqa: D102
        return [self.weight], self.bias


class SageLayer(GraphLayer):
    """torch-geometric's SAGEConv with the mean as one sparse product, in place of one message per edge in memory."""

    def __init__(self, width_in: int, width_out: int, bias: bool) -> None:
        from torch_geometric.nn import SAGEConv

        super().__init__()
        self.conv = SAGEConv(width_in, width_out, bias=bias)

    def forward(self, hidden: Tensor | SparsePair, read: Layer, propagated: Tensor | None) -> Tensor:
        """[R, width_out]; `propagated` is the mean over neighbours where that is known already."""
        (neighbour_weight, own_weight), bias = self.affine()
        neighbours = _propagate(hidden, read, propagated, neighbour_weight, bias)
        if isinstance(hidden, Tensor):
            return neighbours + _own(hidden, read) @ own_weight
        return neighbours + _own(_times(hidden, own_weight), read)

    def finish(self, gathered: Tensor, own: Tensor | SparsePair | None) -> Tensor:  # noqa: D102
        assert own is not None
        return super().finish(gathered, own) + _times(own, self.affine()[0][1])

    def affine(self) -> tuple[Sequence[Tensor], Tensor | None]:  # noqa: D102
        return [self.conv.lin_l.weight.T, self.conv.lin_r.weight.T], self.conv.lin_l.bias


class GatLayer(GraphLayer):
    """torch-geometric's GATConv with an attention of our own, and with as many of 8 heads as divide the width."""

    def __init__(self, width_in: int, width_out: int, bias: bool) -> None:
        from torch_geometric.nn import GATConv

        super().__init__()
        heads = math.gcd(width_out, _MOST_HEADS)
        self.conv = GATConv(width_in, width_out // heads, heads, add_self_loops=False, bias=bias)  # edges have loops

    def forward(self, hidden: Tensor, read: Layer, propagated: None) -> Tensor:
        """[R, width_out]."""
        assert isinstance(read.edges, SparsePair)
        rows = _times(hidden, self.affine()[0][0])
        sender, receiver = self._terms(rows)
        gathered = attend(read.edges, rows, sender, _own(receiver, read), self.conv.negative_slope)
        return self.finish(gathered, None)

    def messages(self, hidden: Tensor | SparsePair) -> Tensor:
        """What nodes send [R, width_out + 2 heads]: last the terms of the attention, as senders and as receivers."""
        rows = super().messages(hidden)
        return torch.cat([rows, *self._terms(rows)], dim=1)

    def _terms(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The terms of the attention [R, heads], as senders and as receivers."""
        heads = self.conv.heads
        by_head = torch.stack([self.conv.att_src[0], self.conv.att_dst[0]], dim=2)  # [heads, channels, 2]
        of_head = torch.eye(heads, device=rows.device)[:, None, :, None]
        weight = (by_head[:, :, None, :] * of_head).flatten(0, 1).flatten(1)
        with torch.autocast(rows.device.type, enabled=False):  # a softmax of rounded terms would be another one
            sender, receiver = (rows.to(weight.dtype) @ weight).view(-1, heads, 2).unbind(dim=2)
        return sender, receiver

    def affine(self) -> tuple[Sequence[Tensor], Tensor | None]:  # noqa: D102
        return [self.conv.lin.weight.T], self.conv.bias


_LAYERS: dict[str, Callable[[int, int, bool], GraphLayer]] = {"gcn": GcnLayer, "sage": SageLayer, "gat": GatLayer}


def build_layer(kind: str, width_in: int, width_out: int, bias: bool) -> GraphLayer:
    """A layer of a kind of encoder."""
    return _LAYERS[kind](width_in, width_out, bias)


def _at_most_half(rows: Tensor) -> Tensor:
    """Rows made shorter than a half, the longest ones most; those about as long as most rows become about 0.35."""
    return rows / (2 * torch.sqrt(rows.shape[1] + (rows * rows).sum(dim=1, keepdim=True)))


def _own(rows: Tensor, read: Layer) -> Tensor:
    return rows if read.own is None else rows[read.own]


def _propagate(
    hidden: Tensor | SparsePair, read: Layer, propagated: Tensor | None, weight: Tensor, bias: Tensor | None
) -> Tensor:
    """edges @ hidden @ weight + bias, in the order in which the sparse product has the fewer columns."""
    if propagated is None:
        assert isinstance(read.edges, SparsePair)
        if not isinstance(hidden, Tensor) or weight.shape[0] > weight.shape[1]:
            return _plus(sparse_product(read.edges, _times(hidden, weight)), bias)
        propagated = sparse_product(read.edges, hidden, rounded=True)  # as autocast rounds what a product reads
    return propagated @ weight if bias is None else torch.addmm(bias, propagated, weight)


def _plus(rows: Tensor, bias: Tensor | None) -> Tensor:
    return rows if bias is None else rows + bias


def _times(hidden: Tensor | SparsePair, weight: Tensor) -> Tensor:
    return sparse_product(hidden, weight) if isinstance(hidden, SparsePair) else hidden @ weight
