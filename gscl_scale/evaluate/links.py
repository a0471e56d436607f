"""Link prediction: are the ends of held-out edges more similar than nodes without an edge between them?

Shapes: E held-out edges, K non-edges for each, n pairs of nodes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.evaluate.link_schema import LinkFigures, LinkTask
from gscl_scale.evaluate.vectors import Vectors, cosines
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.held_out_edges import HeldOutEdges, Pairs
from gscl_scale.kernels.kernel import kernel

NON_EDGES = 100
MOST_EDGES = 10_000
PARTS, _EDGES_OF_PART = 20, 5  # of the edges, whose figures tell how far those of other edges would differ
_NEAR_TOP = 10
_REDRAWS = 100
_EDGES_OF_CHOICE, _NON_EDGES_OF_CHOICE = 5_000, 20  # a choice is made often, and needs a fraction of the precision

Nodes = npt.NDArray[np.int64]
Score = Callable[[Nodes, Nodes], npt.NDArray[np.float64]]  # of n pairs of nodes


@dataclass(frozen=True)
class LinkPairs:
    """Held-out edges between `near` [E] and `far` [E], and far ends `others` [E, K] without an edge to `near`."""

    near: Nodes
    far: Nodes
    others: Nodes

    @classmethod
    def draw(
        cls,
        graph: Graph,
        edges: Pairs,
        task: LinkTask,
        seed: int,
        most: int = MOST_EDGES,
        non_edges: int = NON_EDGES,
        among: npt.NDArray[np.bool_] | None = None,
    ) -> "LinkPairs":
        """Draw the near end of each edge, of at most `most`, and far ends that make no edge with it, held out or not.

        The task `random` draws any node as a far end, `degree_matched` each with probability proportional to its
        degree, as it is the end of an edge; `among` [N] are the nodes that may be drawn, all by default. An edge whose
        near end has an edge to nearly all of them is left out.
        """
        chosen = edges[seeding.sample(np.arange(len(edges)), most, "link edges", seed)].astype(np.int64)
        first = seeding.generator("near ends", seed).integers(0, 2, len(chosen))
        near, far = (chosen[np.arange(len(chosen)), end] for end in (first, 1 - first))
        draw, known = seeding.generator(f"non-edges, {task}", seed), EdgeRows.of(graph)

        def drawn(count: int) -> Nodes:
            if task == "random":
                return draw.integers(0, graph.num_nodes, count)
            return graph.indices[draw.integers(0, graph.indices.size, count)].astype(np.int64)

        def is_wrong(places: Nodes) -> npt.NDArray[np.bool_]:
            found = known.has(near[places // non_edges], others[places])
            return found if among is None else found | ~among[others[places]]

        others = drawn(near.size * non_edges)
        wrong = np.arange(others.size)
        for _ in range(_REDRAWS):
            wrong = wrong[is_wrong(wrong)]
            if not wrong.size:
                break
            others[wrong] = drawn(wrong.size)
        measurable = np.ones(near.size, np.bool_)
        measurable[wrong // non_edges] = False
        return cls(near[measurable], far[measurable], others.reshape(-1, non_edges)[measurable])

    def renumbered(self, numbers: Nodes) -> "LinkPairs":
        """The same pairs in a graph where node v has the number numbers[v]."""
        return LinkPairs(numbers[self.near], numbers[self.far], numbers[self.others])


@dataclass(frozen=True)
class EdgeRows:
    """Edges to look pairs of nodes up in, as rows of sorted neighbours (indptr, indices).

    both_ways   whether each edge stands in the rows of both of its ends
    """

    rows: list[tuple[npt.NDArray[np.int64], npt.NDArray[Any]]]
    both_ways: bool = True

    @classmethod
    def of(cls, graph: Graph) -> "EdgeRows":
        """All edges of a graph, the held-out ones too."""
        rows = [(graph.indptr, graph.indices)]
        if held_out := HeldOutEdges.of(graph):
            rows += cls.of_pairs(np.concatenate([held_out.validation, held_out.test]), graph.num_nodes).rows
        return cls(rows, graph.undirected)

    @classmethod
    def of_pairs(cls, pairs: Pairs, num_nodes: int) -> "EdgeRows":
        """Edges given as pairs of nodes."""
        left, right = (np.concatenate([pairs[:, one], pairs[:, 1 - one]]) for one in (0, 1))
        starts = np.zeros(num_nodes + 1, np.int64)
        np.cumsum(np.bincount(left, minlength=num_nodes), out=starts[1:])
        return cls([(starts, right[np.lexsort((right, left))])])

    def has(self, left: Nodes, right: Nodes) -> npt.NDArray[np.bool_]:
        """Which pairs [n] are an edge in either direction, or one node twice."""
        found = left == right
        for indptr, indices in self.rows:
            _find_pairs(indptr, indices, left, right, np.argsort(left), found)
            if not self.both_ways:
                _find_pairs(indptr, indices, right, left, np.argsort(right), found)
        return found


def by_cosine(vectors: Vectors) -> Score:
    """The cosine of the vectors of both nodes."""
    return lambda left, right: cosines(vectors, left, right)


def by_preferential_attachment(graph: Graph) -> Score:
    """The product of the degrees of both nodes."""
    degrees = _degrees(graph).astype(np.float64)
    return lambda left, right: degrees[left] * degrees[right]


def by_adamic_adar(graph: Graph) -> Score:
    """The sum of 1 / log(degree) over common neighbours (Adamic and Adar, 2003); of a directed graph, common targets.

    A common neighbour has at least two edges, so that no logarithm is 0.
    """
    weights = 1 / np.log(np.maximum(_degrees(graph), 2))

    def score(left: Nodes, right: Nodes) -> npt.NDArray[np.float64]:
        out = np.zeros(left.size)
        _adamic_adar(graph.indptr, graph.indices, weights, left, right, np.argsort(right), out)
        return out

    return score


def link_figures(score: Score, pairs: LinkPairs) -> LinkFigures:
    """Figures of a score; equal scores count half.

    auc, average_precision   of the edges among all non-edges, these weighted down to one per edge
    auc_by_part              of every 20th edge from the first one, from the second one, ...; only of 100 edges or more
    hits_at_10, mrr          of the rank, from 1, of an edge among the non-edges of its near end
    """
    edges, non_edges = _scores(score, pairs)
    figures = _figures(edges, non_edges)
    if edges.size >= PARTS * _EDGES_OF_PART:
        parts = [(edges[part::PARTS], non_edges[part::PARTS]) for part in range(PARTS)]
        figures["auc_by_part"] = [_auc(*part) for part in parts]
    return figures


def _figures(edges: npt.NDArray[np.float64], non_edges: npt.NDArray[np.float64]) -> LinkFigures:
    """Figures of the scores of edges [E] and of their non-edges [E, K]."""
    from sklearn.metrics import average_precision_score  # takes a second to import

    higher = (non_edges > edges[:, None]).sum(axis=1) + (non_edges == edges[:, None]).sum(axis=1) / 2
    is_edge, scores, weights = _weighted(edges, non_edges)
    return {
        "auc": _auc(edges, non_edges),
        "average_precision": float(average_precision_score(is_edge, scores, sample_weight=weights)),
        "hits_at_10": float((higher + 1 <= _NEAR_TOP).mean()),
        "mrr": float((1 / (higher + 1)).mean()),
    }


def _auc(edges: npt.NDArray[np.float64], non_edges: npt.NDArray[np.float64]) -> float:
    from sklearn.metrics import roc_auc_score  # takes a second to import

    is_edge, scores, weights = _weighted(edges, non_edges)
    return float(roc_auc_score(is_edge, scores, sample_weight=weights))


def _weighted(edges: npt.NDArray[np.float64], non_edges: npt.NDArray[np.float64]) -> tuple[npt.NDArray[Any], ...]:
    """Whether each score is of an edge, the scores, and weights by which an edge counts as much as its non-edges."""
    sizes = [edges.size, non_edges.size]
    scores = np.concatenate([edges, non_edges.ravel()])
    return np.repeat([1, 0], sizes), scores, np.repeat([1.0, 1 / non_edges.shape[1]], sizes)


def validation_auc(graph: Graph, seed: int) -> Callable[[Score], float] | None:
    """The figure of a score that chooses by held-out edges: AUC on those for validation, degree-matched.

    None where none of them can be measured.
    """
    held_out = HeldOutEdges.of(graph)
    if held_out is None:
        return None
    sizes = _EDGES_OF_CHOICE, _NON_EDGES_OF_CHOICE
    pairs = LinkPairs.draw(graph, held_out.validation, "degree_matched", seed, *sizes)
    return (lambda score: _auc(*_scores(score, pairs))) if pairs.near.size else None


def _scores(score: Score, pairs: LinkPairs) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    near = np.repeat(pairs.near, pairs.others.shape[1])
    return score(pairs.near, pairs.far), score(near, pairs.others.ravel()).reshape(pairs.others.shape)


def _degrees(graph: Graph) -> npt.NDArray[np.int64]:
    """Edges of each node; of a directed graph, those that leave or enter it."""
    leaving = np.diff(graph.indptr)
    return leaving if graph.undirected else leaving + np.bincount(graph.indices, minlength=graph.num_nodes)


@kernel
def is_neighbour(indptr, indices, node, wanted):
    """Whether `wanted` is among the neighbours of a node, which ascend."""
    low, high = indptr[node], indptr[node + 1]
    while low < high:
        middle = (low + high) // 2
        if indices[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low < indptr[node + 1] and indices[low] == wanted


@kernel
def _find_pairs(indptr, indices, left, right, order, found):
    """Find pairs whose right node is a neighbour of the left one, in an order that reads mapped edges in order."""
    for i in order:
        if not found[i]:
            found[i] = is_neighbour(indptr, indices, left[i], right[i])


@kernel
def _adamic_adar(indptr, indices, weights, left, right, order, out):
    for i in order:
        few, many = left[i], right[i]
        if indptr[few + 1] - indptr[few] > indptr[many + 1] - indptr[many]:
            few, many = many, few
        for e in range(indptr[few], indptr[few + 1]):
            if is_neighbour(indptr, indices, many, indices[e]):
                out[i] += weights[indices[e]]
