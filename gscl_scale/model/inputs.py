"""What an encoder reads: scaled features, and for each layer the edges that it gathers along."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gscl_scale.config.sections import ModelConfig
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.model.propagation import SparseInput, SparsePair, SpmmBackend, adjacency_pair, sparse_product
from gscl_scale.model.scaling import Scaling

_CPU = torch.device("cpu")
_ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class Layer:
    """What a layer reads.

    edges       a matrix, of which gat reads only the pattern; None where the layer's sums are in `propagated`
    own [R]     where the layer's nodes are among those of the layer below; None: they are the same
    nodes [R]   the layer's nodes; None: all nodes
    """

    edges: SparsePair | None
    own: Tensor | None = None
    nodes: Tensor | None = None


@dataclass(frozen=True)
class Inputs:
    """What an encoder reads, for all nodes or for the receptive field of some.

    features [R, F]     scaled, dense or sparse, of `nodes` (None: all); None where each batch brings its own
    layers              the first layer first
    propagated [N, F]   adjacency times features, computed once where the first layer always begins with it
    rows                the rows of the last layer to return; None: all
    product             the backend that multiplies the matrices of batches; None: gat, which reads dense features
    """

    features: Tensor | SparseInput | None
    layers: Sequence[Layer]
    propagated: Tensor | None = None
    nodes: Tensor | None = None
    rows: Tensor | None = None
    product: SpmmBackend | None = "auto"
    device: torch.device = _CPU


def prepare_inputs(graph: Graph, config: ModelConfig, device: torch.device) -> Inputs:
    """Bring a graph to the device in the form that the encoder reads; sparse features become dense for gat only.

    Where batches sample neighbours the graph stays on disk.
    """
    product = None if config.encoder == "gat" else config.product
    if config.propagation == "sampled":
        return Inputs(None, [Layer(None)] * config.layers, product=product, device=device)
    features = prepare_features(graph, config.feature_scaling, config.product)
    layers = prepare_layers(graph, config, device)
    matrix = layers[0].edges
    if product is None or matrix is None:
        dense = features.dense() if isinstance(features, SparseInput) else features
        return Inputs(dense.to(device), layers, product=None, device=device)
    features = features.to(device)
    fixed = config.dropped_features == config.message_dropout == 0
    narrow = fixed and graph.num_features <= config.width
    propagated = sparse_product(matrix, features) if narrow and isinstance(features, Tensor) else None
    return Inputs(features, layers, propagated, product=product, device=device)


def prepare_layers(graph: Graph, config: ModelConfig, device: torch.device) -> list[Layer]:
    """The whole graph on the device, as each layer reads it."""
    adjacency = NormalisedAdjacency.of(graph, *config.messages())
    return [Layer(adjacency_pair(adjacency, graph.undirected, config.product).to(device))] * config.layers


@dataclass(frozen=True)
class MappedFeatures:
    """Features that stay on disk; rows are read and scaled when they are needed."""

    features: npt.NDArray[np.float32] | SparseFeatures
    scaling: Scaling

    @classmethod
    def of(cls, graph: Graph, config: ModelConfig) -> "MappedFeatures":
        """The features of a graph with the scaling of the config."""
        return cls(graph.features, Scaling.of(graph.features, config.feature_scaling))

    def rows(self, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.float32] | SparseFeatures:
        """The scaled features of some nodes."""
        if not isinstance(self.features, SparseFeatures):
            taken = np.empty((nodes.size, self.features.shape[1]), np.float32)
            order = np.argsort(nodes, kind="stable")  # so that the file is read from its beginning to its end
            for low in range(0, nodes.size, _ROWS_AT_ONCE):
                some = order[low : low + _ROWS_AT_ONCE]
                taken[some] = self.features[nodes[some]]
            self.scaling.scale(taken)
            return taken
        rows = self.features.take(nodes)
        return replace(rows, values=self.scaling.sparse(rows))


def features_on(
    device: torch.device,
    rows: npt.NDArray[np.float32] | SparseFeatures,
    nodes: npt.NDArray[np.int64],
    product: SpmmBackend | None,
) -> Tensor | SparseInput:
    """Features that a batch brings, as the encoder reads them; dense for gat, whose `product` is None."""
    if not isinstance(rows, SparseFeatures):
        return torch.from_numpy(rows).to(device, non_blocking=True)
    sparse = SparseInput.of(rows, rows.values, product or "auto", torch.from_numpy(nodes)).to(device)
    return sparse.dense() if product is None else sparse


def prepare_features(graph: Graph, kind: str, product: SpmmBackend = "auto") -> Tensor | SparseInput:
    """Scaled features; sparse ones stay sparse: `standard` then divides by the deviation without moving the mean."""
    scaling = Scaling.of(graph.features, kind)
    if isinstance(graph.features, SparseFeatures):
        return SparseInput.of(graph.features, scaling.sparse(graph.features), product)
    return torch.from_numpy(scaling.dense(graph.features))
