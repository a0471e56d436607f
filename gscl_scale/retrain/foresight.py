"""Link prediction by two versions on the same pairs: edges that neither learnt, and edges that have come since.

The edges that have come since the current version are the only ones that nobody had to hold out to measure it.
"""

from collections.abc import Iterator

import numpy as np

from gscl_scale import seeding
from gscl_scale.embed.store import open_embeddings
from gscl_scale.evaluate.links import EdgeRows, LinkPairs, Nodes, by_cosine, link_figures
from gscl_scale.evaluate.vectors import Vectors
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.held_out_edges import HeldOutEdges, Pairs
from gscl_scale.graph.types import cut_rows
from gscl_scale.registry.versions import LinkComparison, Links, LinkScore
from gscl_scale.run.folder import Run
from gscl_scale.shards.graph_diff import Matching, match_nodes

_ENTRIES_AT_ONCE = 1 << 22
_MOST_KEPT = 1_000_000  # of the edges that have come; more are a sample


def compare_links(current: Run, new: Run, seed: int) -> Links:
    """The comparisons of two versions by edges; one that has no edges is left out."""
    old, graph = Graph.open(current.graph), Graph.open(new.graph)
    matching = match_nodes(old, graph)
    apart, (count, come) = held_out_by_both(old, graph, matching), edges_since(old, graph, matching)
    if not apart.size and not come.size:
        return {}
    links: Links = {}
    with (
        open_embeddings(new.embeddings, new.folder, "new") as rows,
        open_embeddings(current.embeddings, new.folder, "current") as before,
    ):
        both = _Both(graph, matching.old_of_new, rows, before, seed)
        if found := both.compare(apart, len(apart)):
            links["held_out"] = found
        if found := both.compare(come, count):
            links["since"] = found
    return links


def edges_since(old: Graph, new: Graph, matching: Matching, most: int = _MOST_KEPT) -> tuple[int, Pairs]:
    """The number of edges between nodes of both graphs that only the new one has, and these or a sample of them."""
    known, places = EdgeRows.of(old), matching.old_of_new
    draw, count = seeding.generator("edges since", 0), 0
    kept, lots = np.empty((0, 2), np.int64), np.empty(0)
    for left, right in _all_edges(new):
        before = places[left], places[right]
        common = (before[0] >= 0) & (before[1] >= 0)
        left, right, before = left[common], right[common], (before[0][common], before[1][common])
        come = ~known.has(*before)
        count += int(come.sum())
        kept = np.concatenate([kept, np.stack([left[come], right[come]], axis=1)])
        lots = np.concatenate([lots, draw.random(len(kept) - lots.size)])
        if lots.size > most:
            lowest = np.sort(np.argpartition(lots, most)[:most])
            kept, lots = kept[lowest], lots[lowest]
    return count, kept


def held_out_by_both(old: Graph, new: Graph, matching: Matching) -> Pairs:
    """The edges, in the new graph, that both graphs hold out for test: no version has learnt or chosen by them."""
    before, now = HeldOutEdges.of(old), HeldOutEdges.of(new)
    if before is None or now is None:
        return np.empty((0, 2), np.int64)
    places = matching.old_of_new[now.test]  # [E, 2]
    common = (places >= 0).all(axis=1)
    both = EdgeRows.of_pairs(before.test, old.num_nodes).has(*places[common].T)
    return np.asarray(now.test[common][both])


def link_sentences(links: Links, current: str) -> list[str]:
    """The comparisons in words."""
    sentences = []
    if since := links.get("since"):
        sentences.append(
            f"New edges: {_sample(since)} came between nodes of {current}, whose embeddings foresaw them with "
            f"{_in_words(since['current'])} against nodes drawn by degree (chance: 50.0 % and 0.05). The new version, "
            f"whose graph has them, has {_in_words(since['new'])}."
        )
    if apart := links.get("held_out"):
        sentences.append(
            f"Held-out edges: on {_sample(apart)} that both versions held out, {current} has "
            f"{_in_words(apart['current'])}, the new version {_in_words(apart['new'])}."
        )
    return sentences


def _sample(compared: LinkComparison) -> str:
    some = f" ({compared['measured']:,} measured)" if compared["measured"] < compared["edges"] else ""
    return f"{compared['edges']:,}{some}"


def _in_words(score: LinkScore) -> str:
    return f"AUC {100 * score['auc']:.1f} % and MRR {score['mrr']:.2f}"


class _Both:
    """The vectors of two versions: `rows` [N, d] of the nodes of a graph, `before` where `places` [N] says."""

    def __init__(self, graph: Graph, places: Nodes, rows: Vectors, before: Vectors, seed: int) -> None:
        self._graph, self._places, self._seed = graph, places, seed
        self._rows, self._before = rows, before

    def compare(self, edges: Pairs, count: int) -> LinkComparison | None:
        """The scores on some edges, None where none of them can be measured."""
        if not len(edges):
            return None
        pairs = LinkPairs.draw(self._graph, edges, "degree_matched", self._seed, among=self._places >= 0)
        if not pairs.near.size:
            return None
        return {
            "edges": count,
            "measured": int(pairs.near.size),
            "new": _score(self._rows, pairs),
            "current": _score(self._before, pairs.renumbered(self._places)),
        }


def _score(rows: Vectors, pairs: LinkPairs) -> LinkScore:
    figures = link_figures(by_cosine(rows), pairs)
    return {"auc": figures["auc"], "mrr": figures["mrr"]}


def _all_edges(graph: Graph) -> Iterator[tuple[Nodes, Nodes]]:
    """The ends of all edges, held out or not, in blocks; of an undirected graph each once."""
    indptr, indices = graph.indptr, graph.indices
    for low, high in cut_rows(indptr, 0, graph.num_nodes, _ENTRIES_AT_ONCE):
        left = np.repeat(np.arange(low, high), np.diff(indptr[low : high + 1]))
        right = indices[indptr[low] : indptr[high]].astype(np.int64)
        once = left < right if graph.undirected else left != right
        yield left[once], right[once]
    if held_out := HeldOutEdges.of(graph):
        for pairs in (held_out.validation, held_out.test):
            yield pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64)
