"""What the encoder reads of a graph: scaled features and the matrix that messages travel by."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gscl_scale.config import ModelConfig
from gscl_scale.graph import Graph, SparseFeatures
from gscl_scale.model.propagation import Propagation, SparseInput, sparse_product

_ROWS_AT_ONCE = 65536


@dataclass(frozen=True)
class Inputs:
    """What an encoder reads.

    features [N, F]     scaled, dense or sparse
    edges               Propagation for gcn and sage; for gat an edge_index [2, E] from neighbour to gathering node
    propagated [N, F]   the propagation times the features, made once where the first layer always begins with it
    """

    features: Tensor | SparseInput
    edges: Propagation | Tensor
    propagated: Tensor | None = None


def prepare_inputs(graph: Graph, config: ModelConfig, device: torch.device) -> Inputs:
    """Bring a graph to the device in the form that the encoder wants; sparse features become dense for gat alone."""
    features = prepare_features(graph, config.feature_scaling)
    if config.encoder == "gat":
        dense = features.dense() if isinstance(features, SparseInput) else features
        return Inputs(dense.to(device), edge_index(graph).to(device))
    edges = Propagation.of(graph, "mean" if config.encoder == "sage" else "symmetric").to(device)
    features = features.to(device)
    if isinstance(features, Tensor) and config.feature_dropout == 0 and graph.num_features <= config.width:
        return Inputs(features, edges, sparse_product(edges, features))
    return Inputs(features, edges)


def edge_index(graph: Graph) -> Tensor:
    """Edges [2, E] as torch-geometric reads them: from each neighbour to the node whose row it stands in."""
    rows = np.repeat(np.arange(graph.num_nodes, dtype=np.int64), np.diff(graph.indptr))
    return torch.from_numpy(np.stack([graph.indices.astype(np.int64), rows]))


def prepare_features(graph: Graph, scaling: str) -> Tensor | SparseInput:
    """Scaled features; sparse ones stay sparse: `standard` then divides by the deviation without moving the mean."""
    if isinstance(graph.features, SparseFeatures):
        return SparseInput.of(graph.features, _scale_sparse(graph.features, scaling))
    return torch.from_numpy(_scale_dense(graph.features, scaling))


def _scale_dense(features: npt.NDArray[np.float32], scaling: str) -> npt.NDArray[np.float32]:
    """A scaled copy; blocks of rows keep what is in double precision small."""
    out = np.array(features, np.float32)
    if scaling == "row":
        for rows in _blocks(out):
            sums = np.abs(rows).sum(axis=1, keepdims=True)
            rows /= np.where(sums > 0, sums, 1)
    elif scaling == "standard":
        mean = sum(rows.sum(axis=0, dtype=np.float64) for rows in _blocks(out)) / len(out)
        square = sum(((rows - mean) ** 2).sum(axis=0) for rows in _blocks(out)) / len(out)
        divisor = _divisor(square)
        for rows in _blocks(out):
            rows[:] = (rows - mean) / divisor
    return out


def _scale_sparse(features: SparseFeatures, scaling: str) -> npt.NDArray[np.float32]:
    num_nodes = features.indptr.size - 1
    if scaling == "row":
        rows = np.repeat(np.arange(num_nodes), np.diff(features.indptr))
        sums = np.bincount(rows, np.abs(features.values), minlength=num_nodes)
        return (features.values / np.where(sums > 0, sums, 1)[rows]).astype(np.float32)
    if scaling == "standard":
        stored = np.bincount(features.indices, minlength=features.width)
        mean = np.bincount(features.indices, features.values, minlength=features.width) / num_nodes
        away = (features.values - mean[features.indices]) ** 2
        square = np.bincount(features.indices, away, minlength=features.width) + (num_nodes - stored) * mean**2
        return (features.values / _divisor(square / num_nodes)[features.indices]).astype(np.float32)
    return np.array(features.values)


def _blocks(features: npt.NDArray[np.float32]) -> Iterator[npt.NDArray[np.float32]]:
    for low in range(0, len(features), _ROWS_AT_ONCE):
        yield features[low : low + _ROWS_AT_ONCE]


def _divisor(square: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The deviation of each column; 1 for a constant column, whose mean is exact in double precision."""
    return np.where(square > 0, np.sqrt(square), 1)
