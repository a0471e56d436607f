"""What the encoder reads of a graph: scaled features, and for each layer the messages."""

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
from gscl_scale.model.propagation import SpmmBackend, Propagation, SparseInput, SparsePair, sparse_product
from gscl_scale.model.scaling import Scaling

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Layer:
    """What a layer reads.

    edges       for gcn and sage a matrix; for gat an edge_index [2, E] from neighbour to gathering node; None where the
                layer's messages are in `propagated`
    own [R]     where the layer's nodes are among those of the layer below; None: they are the same
    nodes [R]   which nodes these are; None: all
    """

    edges: SparsePair | Tensor | None
    own: Tensor | None = None
    nodes: Tensor | None = None

    def thinned(self, share: float, key: int, below: Tensor | None) -> "Layer":
        """A share of the messages dropped, those of `below` (None: all nodes), and the others scaled up."""
        assert isinstance(self.edges, SparsePair)
        return replace(self, edges=self.edges.thinned(share, key, self.nodes, below))


@dataclass(frozen=True)
class Inputs:
    """What an encoder reads, for all nodes or for the receptive field of some.

    features [R, F]     scaled, dense or sparse, of `nodes` (None: all); None where each batch brings its own
    layers              the first layer first
    propagated [N, F]   all messages times all features, made once where the first layer always begins with it
    rows                those of the last layer that are asked for; None: all
    product             who multiplies the matrices of batches; None: gat, which reads edges instead
    """

    features: Tensor | SparseInput | None
    layers: Sequence[Layer]
    propagated: Tensor | None = None
    nodes: Tensor | None = None
    rows: Tensor | None = None
    product: SpmmBackend | None = "auto"
    device: torch.device = _CPU


def prepare_inputs(graph: Graph, config: ModelConfig, device: torch.device) -> Inputs:
    """Bring a graph to the device in the form that the encoder wants; sparse features become dense for gat alone.

    Where batches read samples of the neighbours the graph stays on disk.
    """
    product = None if config.encoder == "gat" else config.product
    if config.propagation == "sampled":
        return Inputs(None, [Layer(None)] * config.layers, product=product, device=device)
    features = prepare_features(graph, config.feature_scaling, config.product)
    layers = prepare_layers(graph, config, device)
    matrix = layers[0].edges
    if not isinstance(matrix, SparsePair):
        dense = features.dense() if isinstance(features, SparseInput) else features
        return Inputs(dense.to(device), layers, product=None, device=device)
    features = features.to(device)
    always = config.feature_dropout == config.message_dropout == 0
    narrow = isinstance(features, Tensor) and always and graph.num_features <= config.width
    propagated = sparse_product(matrix, features) if narrow and isinstance(features, Tensor) else None
    return Inputs(features, layers, propagated, product=product, device=device)


def prepare_layers(graph: Graph, config: ModelConfig, device: torch.device) -> list[Layer]:
    """All messages of a graph on the device, for each layer."""
    messages = NormalisedAdjacency.of(graph, *config.messages())
    if config.encoder == "gat":
        return [Layer(edge_index(messages).to(device))] * config.layers
    return [Layer(Propagation.of(messages, graph.undirected, config.product).to(device))] * config.layers


@dataclass(frozen=True)
class MappedFeatures:
    """Features that stay on disk: the rows of some nodes are read and scaled when they are needed."""

    features: npt.NDArray[np.float32] | SparseFeatures
    scaling: Scaling

    @classmethod
    def of(cls, graph: Graph, config: ModelConfig) -> "MappedFeatures":
        """The features of a graph as the encoder wants them."""
        return cls(graph.features, Scaling.of(graph.features, config.feature_scaling))

    def rows(self, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.float32] | SparseFeatures:
        """The scaled features of some nodes."""
        if not isinstance(self.features, SparseFeatures):
            return self.scaling.dense(self.features[nodes])
        rows = self.features.take(nodes)
        return replace(rows, values=self.scaling.sparse(rows))


def features_on(
    device: torch.device, rows: npt.NDArray[np.float32] | SparseFeatures, nodes: Tensor, product: SpmmBackend | None
) -> Tensor | SparseInput:
    """Rows that a batch brings, as the encoder reads them; dense where it reads edges."""
    if not isinstance(rows, SparseFeatures):
        return torch.from_numpy(rows).to(device, non_blocking=True)
    sparse = SparseInput.of(rows, rows.values, product or "auto", nodes.cpu()).to(device)
    return sparse.dense() if product is None else sparse


def edge_index(messages: NormalisedAdjacency) -> Tensor:
    """Edges [2, E] as torch-geometric reads them, loops included: from each neighbour to the node that gathers."""
    rows = np.repeat(np.arange(messages.num_nodes), np.diff(messages.indptr))
    edges = np.stack([messages.indices.astype(np.int64), rows])
    if messages.loops:
        edges = np.concatenate([edges, np.tile(np.arange(messages.num_nodes), (2, 1))], axis=1)
    return torch.from_numpy(edges)


def prepare_features(graph: Graph, scaling: str, product: SpmmBackend = "auto") -> Tensor | SparseInput:
    """Scaled features; sparse ones stay sparse: `standard` then divides by the deviation without moving the mean."""
    known = Scaling.of(graph.features, scaling)
    if isinstance(graph.features, SparseFeatures):
        return SparseInput.of(graph.features, known.sparse(graph.features), product)
    return torch.from_numpy(known.dense(graph.features))
