"""The five tasks that AutoSSL weights: parts and clusters to tell, Deep Graph Infomax, pairs near and alike to tell.

    Par       cross entropy of a node's part of the graph, which grew along edges from a drawn node
    Clu       cross entropy of a node's cluster of k-means over the features
    DGI       as the method of that name
    PairDis   cross entropy of W |h_v - h_u|: 1, 2, 3 or more hops
    PairSim   cross entropy of W |h_v - h_u|: u is among the nodes with the features most similar to v, or not

Numbers of clusters, parts and pairs are those of its code for most graphs. Its parts are those of METIS, which is no
dependency here, and of PairDis it has more pairs of more hops; here each class has as many where there are as many.

Shapes: N nodes, D width, P pairs.
"""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from gscl_scale import seeding
from gscl_scale.graph.graph import Graph
from gscl_scale.model.inputs import Inputs, prepare_features
from gscl_scale.model.model import Model
from gscl_scale.model.pairs import Nodes
from gscl_scale.model.propagation import SparseInput
from gscl_scale.train.objectives.afgrl import most_similar
from gscl_scale.train.objectives.dgi import Dgi
from gscl_scale.train.objectives.k_means import k_means
from gscl_scale.train.objectives.linked import edge_matrix, neighborhoods
from gscl_scale.train.objectives.objective import ObjectiveInputs

TASKS = ("Par", "Clu", "DGI", "PairDis", "PairSim")
_PARTS, _CLUSTERS, _ITERATIONS, _ALIKE = 400, 10, 20, 10
_HOPS, _SOURCES, _PER_HOP, _PAIRS = 3, 256, 1000, 4000  # nodes that pairs begin at; pairs of each distance; alike
_ENTRIES = 1 << 22  # of all pairs that the sources begin


class Pretexts(nn.Module):
    """The losses of the tasks, in the order of TASKS; what they tell from the graph is the same in every run."""

    part_N: Tensor
    cluster_N: Tensor

    def __init__(self, given: ObjectiveInputs) -> None:
        super().__init__()
        self._edges, width, self.dgi = edge_matrix(given.graph), given.model.width, Dgi(given)
        features = prepare_features(given.graph, given.model.feature_scaling)
        dense_NF = features.dense() if isinstance(features, SparseInput) else features
        alike = most_similar(normalize(dense_NF), normalize(dense_NF), _ALIKE)
        codes = torch.arange(alike.shape[0])[:, None] * alike.shape[0] + alike
        self.register_buffer("part_N", torch.from_numpy(grown_parts(given.graph, _PARTS)), persistent=False)
        self.register_buffer("cluster_N", k_means(dense_NF, _CLUSTERS, _ITERATIONS, 0), persistent=False)
        self.alike_P = codes.flatten().sort().values.numpy()
        self.of_parts, self.of_clusters = nn.Linear(width, _PARTS), nn.Linear(width, _CLUSTERS)
        self.of_hops, self.of_alike = nn.Linear(width, _HOPS + 1), nn.Linear(width, 2)

    def forward(self, model: Model, views: Sequence[Inputs], hidden_ND: Sequence[Tensor], key: int) -> Tensor:
        """The loss of each task [5]."""
        rows_ND = hidden_ND[0]
        return torch.stack(
            [
                cross_entropy(self.of_parts(rows_ND), self.part_N, ignore_index=-1),
                cross_entropy(self.of_clusters(rows_ND), self.cluster_N),
                self.dgi.loss(model, views, hidden_ND, key),
                _of_pairs(self.of_hops, rows_ND, pairs_by_hops(self._edges, key)),
                _of_pairs(self.of_alike, rows_ND, pairs_alike(self.alike_P, rows_ND.shape[0], key)),
            ]
        )


def _of_pairs(layer: nn.Linear, rows_ND: Tensor, classes: Sequence[Nodes]) -> Tensor:
    """Cross entropy of pairs by their codes, first * N + second, a list of each class."""
    first_P, second_P = np.divmod(np.concatenate(classes), rows_ND.shape[0])
    truth_P = np.repeat(np.arange(len(classes)), [codes.size for codes in classes])
    first, second, truth = (torch.from_numpy(part).to(rows_ND.device) for part in (first_P, second_P, truth_P))
    return cross_entropy(layer((rows_ND[first] - rows_ND[second]).abs()), truth)


def grown_parts(graph: Graph, number: int) -> Nodes:
    """A part of each node, -1 where none grew: all parts take their neighbors without a part, hop by hop."""
    firsts = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    seeds = seeding.generator("parts").permutation(graph.num_nodes)[:number]
    part_N = np.full(graph.num_nodes, number)
    part_N[seeds] = np.arange(seeds.size)
    while True:
        grown_N = part_N.copy()
        np.minimum.at(grown_N, firsts, part_N[graph.indices])
        grown_N = np.where(part_N < number, part_N, grown_N)
        if np.array_equal(grown_N, part_N):
            return np.where(part_N < number, part_N, -1)
        part_N = grown_N


def pairs_by_hops(edges: sp.csr_array, key: int) -> list[Nodes]:
    """Codes of drawn pairs 1, 2 and 3 hops apart, and of pairs farther than that."""
    num_nodes, generator = edges.shape[0], seeding.generator("hops", key)
    number = min(_SOURCES, max(1, _ENTRIES // num_nodes), num_nodes)
    sources = np.sort(generator.choice(num_nodes, number, replace=False, shuffle=False)).astype(np.int64)
    inside, classes = sources * (num_nodes + 1), []
    for near in neighborhoods(edges, sources, _HOPS):
        reached = np.repeat(sources, np.diff(near.indptr)) * num_nodes + near.indices
        classes.append(_some(np.setdiff1d(reached, inside, assume_unique=True), _PER_HOP, generator))
        inside = reached
    drawn = generator.choice(sources, _PER_HOP) * num_nodes + generator.integers(0, num_nodes, _PER_HOP)
    return [*classes, np.setdiff1d(drawn, inside)]


def pairs_alike(alike: Nodes, num_nodes: int, key: int) -> list[Nodes]:
    """Codes of drawn pairs that are not alike, and of pairs that are."""
    generator = seeding.generator("alike", key)
    drawn = generator.integers(0, num_nodes**2, _PAIRS)
    return [np.setdiff1d(drawn, alike), _some(alike, _PAIRS, generator)]


def _some(codes: Nodes, most: int, generator: np.random.Generator) -> Nodes:
    return codes if codes.size <= most else generator.choice(codes, most, replace=False)
