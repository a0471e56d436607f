"""What the encoder reads of a graph: scaled features and the matrix that messages travel by."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gscl_scale.config import ModelConfig
from gscl_scale.graph import Graph, SparseFeatures
from gscl_scale.model.propagation import SparseInput, SparsePair, normalised_adjacency


@dataclass(frozen=True)
class Inputs:
    """Features [N, F], dense or sparse, and the propagation: a sparse matrix for gcn, edges [2, E] for others."""

    features: Tensor | SparseInput
    adjacency: SparsePair | None
    edge_index: Tensor | None


def prepare_inputs(graph: Graph, config: ModelConfig, device: torch.device) -> Inputs:
    """Bring a graph to the device in the form that the encoder wants."""
    features = prepare_features(graph, config.feature_scaling)
    if config.encoder == "gcn":
        return Inputs(features.to(device), normalised_adjacency(graph).to(device), None)
    row = np.repeat(np.arange(graph.num_nodes, dtype=np.int64), np.diff(graph.indptr))
    # messages flow from the neighbour to the row's node
    edge_index = torch.from_numpy(np.stack([graph.indices.astype(np.int64), row]))
    return Inputs(features.to(device), None, edge_index.to(device))


def prepare_features(graph: Graph, scaling: str) -> Tensor | SparseInput:
    """Scaled features; sparse ones stay sparse (`standard` then divides by the deviation without moving the mean)."""
    if isinstance(graph.features, SparseFeatures):
        return SparseInput(graph.features, _scale_sparse(graph.features, scaling))
    return torch.from_numpy(_scale_dense(graph.features, scaling))


def _scale_dense(features: npt.NDArray[np.float32], scaling: str) -> npt.NDArray[np.float32]:
    if scaling == "row":
        sums = np.abs(features).sum(axis=1, keepdims=True)
        return features / np.where(sums > 0, sums, 1)
    if scaling == "standard":
        deviation = features.std(axis=0)
        return (features - features.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    return np.array(features)


def _scale_sparse(features: SparseFeatures, scaling: str) -> npt.NDArray[np.float32]:
    num_nodes = features.indptr.size - 1
    if scaling == "row":
        rows = np.repeat(np.arange(num_nodes), np.diff(features.indptr))
        sums = np.bincount(rows, np.abs(features.values), minlength=num_nodes)
        return (features.values / np.where(sums > 0, sums, 1)[rows]).astype(np.float32)
    if scaling == "standard":
        mean = np.bincount(features.indices, features.values, minlength=features.width) / num_nodes
        square = np.bincount(features.indices, features.values.astype(np.float64) ** 2, minlength=features.width)
        deviation = np.sqrt(np.maximum(square / num_nodes - mean**2, 0))
        return (features.values / np.where(deviation > 0, deviation, 1)[features.indices]).astype(np.float32)
    return np.array(features.values)
