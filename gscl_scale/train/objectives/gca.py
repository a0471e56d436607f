"""GCA (Zhu et al., WWW 2021): GRACE with views that keep what is central in the graph.

    s_uv = log((phi(u) + phi(v)) / 2 + 1)        s_i = log(sum_u |x_ui| phi(u) + 1)        (phi: centrality)
    p    = min((max(s) - s) / (max(s) - mean(s)) * share, most)                            (eq. 3 to 6)

The 1 in the logarithms is that of its code; in a directed graph an edge has the centrality of the node it ends at.
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.rings.pagerank import pagerank
from gscl_scale.train.objectives.grace import Grace
from gscl_scale.train.objectives.objective import ObjectiveInputs
from gscl_scale.train.objectives.views import DropWeights, View

_ITERATIONS = 100  # of the power iteration, as networkx has them


class Gca(Grace):
    """Defaults are those of its code for Coauthor CS, with degrees as centrality."""

    title = "GCA"
    paper: ClassVar = {
        "train": {"epochs": 1000, "learning_rate": 5e-4, "weight_decay": 1e-5},
        "model": {"projection": 256},
    }
    defaults: ClassVar = {
        **Grace.defaults, "edges": [0.3, 0.2], "centrality": "degree", "most_dropped": 0.7,
    }  # fmt: skip

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__(given)
        scores_N = centrality(given.graph, given.centrality)
        weights = DropWeights(
            _relative(np.log(_edge_scores(given.graph, scores_N) + 1)),
            _relative(np.log(_column_scores(given.graph, scores_N) + 1)),
            given.most_dropped,
        )
        pairs = zip(given.edges, given.features, strict=True)
        self.views = [View(edges, features, weights=weights) for edges, features in pairs]


def centrality(graph: Graph, kind: str) -> npt.NDArray[np.float64]:
    """Degree, PageRank with mean 1, or eigenvector centrality of length 1, of each node; by edges towards it."""
    num_nodes, ends = graph.num_nodes, graph.indices
    if kind == "pagerank":
        return num_nodes * pagerank(graph.indptr, ends)
    if kind == "degree":
        return np.bincount(ends, minlength=num_nodes).astype(np.float64)
    starts, scores = _starts(graph), np.full(num_nodes, 1 / num_nodes)
    for _ in range(_ITERATIONS):
        scores = scores + np.bincount(ends, scores[starts], minlength=num_nodes)
        scores /= np.linalg.norm(scores)
    return scores


def _starts(graph: Graph) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))


def _edge_scores(graph: Graph, scores_N: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    ends = scores_N[graph.indices]
    return (ends + scores_N[_starts(graph)]) / 2 if graph.undirected else ends


def _column_scores(graph: Graph, scores_N: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    features = graph.features
    if isinstance(features, SparseFeatures):
        of_value = np.repeat(scores_N, np.diff(features.indptr))
        values = np.abs(features.values) * of_value
        return np.bincount(features.indices, values, minlength=features.width).astype(np.float64)
    return scores_N @ np.abs(features)


def _relative(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """How often each is dropped relative to the mean; all alike where all have the same score."""
    if not scores.size or np.ptp(scores) == 0:
        return np.ones_like(scores)
    return (scores.max() - scores) / (scores.max() - scores.mean())
