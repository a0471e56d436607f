"""Views of a graph: edges dropped, feature columns masked, features shuffled, each keyed by seed and step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale import seeding
from gscl_scale.batches.schedule import Schedule
from gscl_scale.config.config import Config
from gscl_scale.graph.graph import Graph
from gscl_scale.kernels.kernel import kernel
from gscl_scale.model.inputs import Inputs, prepare_layers
from gscl_scale.model.keyed_random import node_state
from gscl_scale.model.propagation import SparseInput
from gscl_scale.runtime.threads import one_ahead

_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, eq=False)
class DropWeights:
    """How often each edge and column is dropped relative to the mean, and the largest share of any.

    edges [E], features [F]   of the graph's entries, the same in both directions of an undirected edge, and columns
    """

    edges: npt.NDArray[np.float64]
    features: npt.NDArray[np.float64]
    most: float


@dataclass(frozen=True)
class View:
    """How a view differs from the graph.

    edges       share of the edges to drop
    features    share of the feature columns to mask
    shuffled    whether nodes exchange their features at random
    weights     where some edges and columns are dropped more often than others
    """

    edges: float = 0.0
    features: float = 0.0
    shuffled: bool = False
    weights: DropWeights | None = None

    def shares(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The chance of each edge and of each column to be dropped; of length 1 where all have the same."""
        if self.weights is None:
            return np.array([self.edges]), np.array([self.features])
        edges, features, most = self.weights.edges, self.weights.features, self.weights.most
        return np.minimum(edges * self.edges, most), np.minimum(features * self.features, most)


class ViewStream:
    """The views of every step; those of the next step are drawn on another thread while a step runs."""

    num_micro_batches = 1

    def __init__(self, graph: Graph, inputs: Inputs, config: Config, views: Sequence[View]) -> None:
        self.schedule = Schedule(num_anchors=1, batch_size=1)  # one step an epoch
        self._graph, self._inputs, self._config, self._views = graph, inputs, config, views

    def batches(self, first: int, end: int) -> Iterator[list[Inputs]]:
        """The views of the steps first..end."""
        return one_ahead(self.views(step) for step in range(first, end))

    def views(self, step: int) -> list[Inputs]:
        """The views of a step: a function of the seed and the step."""
        return [self._view(view, step, number) for number, view in enumerate(self._views)]

    def _view(self, view: View, step: int, number: int) -> Inputs:
        if view == View():
            return self._inputs
        identity, device = (self._config.train.seed, step, number), self._inputs.device
        features, layers = self._inputs.features, self._inputs.layers
        assert features is not None
        edge_shares, column_shares = view.shares()
        if view.edges:
            left = drop_edges(self._graph, edge_shares, seeding.key("edges", *identity))
            layers = prepare_layers(left, self._config.model, device)
        if view.features:
            drawn = seeding.generator("columns", *identity).random(features.shape[1])
            kept = torch.from_numpy((drawn >= column_shares).astype(np.float32)).to(device)
            features = features.masked(kept) if isinstance(features, SparseInput) else features * kept
        if view.shuffled:
            order = torch.from_numpy(seeding.generator("shuffle", *identity).permutation(features.shape[0])).to(device)
            features = features.rows(order) if isinstance(features, SparseInput) else features[order]
        return replace(self._inputs, features=features, layers=layers, propagated=None)


def drop_edges(graph: Graph, shares: npt.NDArray[np.float64], key: np.uint64) -> Graph:
    """The graph in memory without some of its edges; both directions of an undirected edge go together.

    shares [E] or [1]   the chance of each edge to be dropped, or of all
    """
    indptr, indices = np.zeros_like(graph.indptr), np.empty_like(graph.indices)
    weights = None if graph.edge_weights is None else np.empty_like(graph.edge_weights)
    kept = _drop(
        graph.indptr, graph.indices, graph.edge_weights, graph.undirected, key, shares, indptr, indices, weights
    )
    return replace(
        graph, indptr=indptr, indices=indices[:kept], edge_weights=None if weights is None else weights[:kept]
    )


@kernel
def _drop(indptr, indices, weights, undirected, key, shares, out_indptr, out_indices, out_weights):
    kept = 0
    for v in range(indptr.size - 1):
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            one, other = (u, v) if undirected and u < v else (v, u)
            bits = seeding.mix(node_state(key, one) + np.uint64(other) * _ODD)
            if np.float64(bits >> np.uint64(11)) * 2.0**-53 >= shares[min(e, shares.size - 1)]:
                out_indices[kept] = u
                if weights is not None:
                    out_weights[kept] = weights[e]
                kept += 1
        out_indptr[v + 1] = kept
    return kept
