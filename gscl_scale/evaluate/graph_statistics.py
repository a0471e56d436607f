"""Statistics of a graph: degrees, homophily, and per hop the size of rings and the consistency of their labels."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NotRequired

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from gscl_scale import seeding
from gscl_scale.errors import FolderError
from gscl_scale.evaluate.schema import Number
from gscl_scale.graph.components import component_sizes
from gscl_scale.graph.graph import Graph
from gscl_scale.io.json import read_json
from gscl_scale.io.validate import Count, Finite
from gscl_scale.rings.exact.ring_sizes import ring_profile

_EXACT_VISITS = 20_000_000_000  # of edges: about half a minute on one core
_SAMPLED_VISITS = 5_000_000_000
_MOST_SAMPLED = 1_000
_LEAST_SAMPLED = 50
_HOPS, _FEWER_HOPS, _SEED = 5, 3, 0
_MAX_HOPS = 100  # of a file that is read


class Degrees(TypedDict):
    """Numbers of neighbours."""

    min: Finite
    mean: Finite
    median: Finite
    max: Finite


class Components(TypedDict):
    """Connected components: their number, that of those with two or more nodes, and the nodes of the largest."""

    count: Count
    joined: NotRequired[Count]  # younger than some runs
    largest: Count


_EmptyRings = TypedDict("_EmptyRings", {"empty rings": NotRequired[str]})  # a key that is no name in Python


class RingsProtocol(_EmptyRings):
    """The anchors whose rings were measured."""

    anchors: Count
    exact: bool
    seed: int | None
    walk: str


class Consistency(TypedDict):
    """Label consistency per hop over the anchors whose ring has labelled nodes; `se` of a sample only.

    anchors   how many these are; mean is null where there are none, and se where there are fewer than two
    """

    mean: list[Number]
    se: list[Number] | None
    anchors: list[Count]


class GraphStatistics(TypedDict):
    """Degrees, and per hop the mean ring size and label consistency; `_se` of a sample only.

    homophily, lc   by the paper's definition, in which an anchor with an empty ring counts as 0
    """

    name: str
    nodes: Count
    entries: NotRequired[Count]
    edges: Count
    directed: bool
    features: Count
    classes: Count
    labelled: Count
    labels_per_node: NotRequired[Finite]  # where a node has many
    isolated: Count
    degree: Degrees
    components: NotRequired[Components]  # younger than some runs
    homophily: Number
    ring_size: list[Finite]
    ring_size_se: list[float] | None
    lc: list[Finite] | None
    lc_se: list[float] | None
    consistency: NotRequired[Consistency | None]  # younger than some runs
    protocol: RingsProtocol


class SavedStatistics(GraphStatistics):
    """statistics.json of a graph."""

    graph_fingerprint: str


def read_statistics(path: Path) -> SavedStatistics:
    """Read the statistics of a graph."""
    cure = "delete it and run gscl-scale stats again"
    values: Any = read_json(path, SavedStatistics, cure)
    statistics: SavedStatistics = values
    hops = len(statistics["ring_size"])
    per_ring = statistics.get("consistency")
    columns: list[Sequence[Number] | None] = [statistics["ring_size_se"], statistics["lc"], statistics["lc_se"]]
    if per_ring:
        columns += [per_ring["mean"], per_ring["se"], per_ring["anchors"]]
    if not 1 <= hops <= _MAX_HOPS or any(one and len(one) != hops for one in columns):
        raise FolderError(f"{path} is damaged: expected a number for each hop; {cure}")
    return statistics


def statistics(graph: Graph, anchors: int | None = None) -> GraphStatistics:
    """Degrees, node homophily HM, label consistency LC(n) and mean ring size for n = 1..5, of large graphs 1..3.

    LC(n) is the mean over labelled anchors of the share of the labelled nodes in ring n that have the anchor's label.
    `consistency` has the mean over the anchors with such nodes; in `lc` and in HM = LC(1), as in the paper's mean over
    all nodes, an empty ring counts as 0. A reader who compares hops wants the former: most far rings are empty.
    `anchors` is how many to sample; by default all where that is cheap. Of a directed graph, rings follow the direction
    of the edges.
    """
    chosen = _anchors(graph, anchors)
    exact = bool(chosen.size == graph.num_nodes)
    sizes, shares, per_ring = _rings(graph, chosen, _hops(graph, anchors))
    entries = int(graph.indices.size)
    measured: GraphStatistics = {
        "name": graph.name,
        "nodes": graph.num_nodes,
        "entries": entries,
        "edges": entries // 2 if graph.undirected else entries,
        "directed": not graph.undirected,
        "features": graph.num_features,
        "classes": len(graph.classes),
        "labelled": int(graph.labelled.sum()),
        "isolated": int((np.diff(graph.indptr) == 0).sum()),
        "degree": _degrees(np.diff(graph.indptr)),
        "components": _components(graph),
        "homophily": _homophily(graph),
        "ring_size": sizes.mean(axis=0).tolist(),
        "ring_size_se": None if exact else _errors(sizes),
        "lc": _means(shares) if shares.size else None,
        "lc_se": _errors(shares) if shares.size and not exact else None,
        "consistency": _consistency(per_ring, exact) if shares.size else None,
        "protocol": {
            "anchors": int(chosen.size),
            "exact": exact,
            "seed": None if exact else _SEED,
            "walk": "edges both ways" if graph.undirected else "edges in their direction",
            "empty rings": "count as 0 in LC",
        },
    }
    if graph.label_sets is not None:
        measured["labels_per_node"] = graph.label_sets.indices.size / measured["labelled"]
    return measured


def statistics_table(stats: GraphStatistics) -> list[tuple[str, str]]:
    """The statistics as (name, value) rows for a reader."""
    per_hop = [(f"{name} {hop}", value) for name, values in hop_rows(stats) for hop, value in enumerate(values, 1)]
    return [*graph_rows(stats), *per_hop, ("rings measured from", ring_protocol(stats))]


def graph_rows(stats: GraphStatistics) -> list[tuple[str, str]]:
    """The statistics of the whole graph, as (name, value)."""
    classes = f"{stats['classes']:,} ({stats['labelled']:,} nodes labelled)" if stats["labelled"] else "no labels"
    many = f", on average {stats['labels_per_node']:.2f} per labelled node" if "labels_per_node" in stats else ""
    rows = [
        ("nodes", f"{stats['nodes']:,}"),
        ("edges (directed)" if stats["directed"] else "edges", f"{stats['edges']:,}"),
        ("features", f"{stats['features']:,}"),
        ("labels" if many else "classes", classes + many),
        ("out-degree" if stats["directed"] else "degree", _degree_words(stats["degree"])),
        ("nodes without neighbours", f"{stats['isolated']:,}"),
    ]
    if parts := stats.get("components"):
        rows.append(("connected components", f"{parts['count']:,}, the largest of {parts['largest']:,} nodes"))
    if stats["homophily"] is not None:
        alone = " (nodes without neighbours count as 0)" if stats["isolated"] else ""
        rows.append(("homophily HM", f"{stats['homophily']:.4f}{alone}"))
    return rows


def hop_rows(stats: GraphStatistics) -> list[tuple[str, list[str]]]:
    """The statistics per hop, as (name, one value per hop)."""
    rows = [("mean size of ring", _with_errors(stats["ring_size"], stats["ring_size_se"], 1))]
    if found := stats.get("consistency"):
        if min(found["anchors"]) < stats["protocol"]["anchors"]:
            rows.insert(0, ("anchors with such a ring, hop", [f"{anchors:,}" for anchors in found["anchors"]]))
        rows.insert(0, ("label consistency LC, hop", _with_errors(found["mean"], found["se"], 4)))
    return rows


def ring_protocol(stats: GraphStatistics) -> str:
    """The anchors whose rings were measured, and the edges that were followed."""
    protocol = stats["protocol"]
    who = "all nodes" if protocol["exact"] else f"a sample of {protocol['anchors']:,} nodes (seed {protocol['seed']})"
    return f"{who}; {protocol['walk']}"


def _anchors(graph: Graph, wanted: int | None) -> npt.NDArray[np.int64]:
    """All nodes where a search from each is affordable, else a seeded sample, smaller the more edges there are."""
    everyone = np.arange(graph.num_nodes, dtype=np.int64)
    visits = graph.indices.size + graph.num_nodes
    if wanted is None:
        if visits * graph.num_nodes <= _EXACT_VISITS:
            return everyone
        wanted = max(_LEAST_SAMPLED, min(_MOST_SAMPLED, _SAMPLED_VISITS // visits))
    return seeding.sample(everyone, wanted, "statistics", _SEED)


def _hops(graph: Graph, wanted: int | None) -> int:
    """Five, fewer where even the least sample of searches through the whole graph is not affordable."""
    affordable = (graph.indices.size + graph.num_nodes) * _LEAST_SAMPLED <= _SAMPLED_VISITS
    return _HOPS if wanted is not None or affordable else _FEWER_HOPS


def _degrees(degrees: npt.NDArray[np.int64]) -> Degrees:
    return {
        "min": int(degrees.min()),
        "mean": float(degrees.mean()),
        "median": float(np.median(degrees)),
        "max": int(degrees.max()),
    }


def _components(graph: Graph) -> Components:
    sizes = component_sizes(graph.indptr, graph.indices)
    return {"count": int(sizes.size), "joined": int((sizes > 1).sum()), "largest": int(sizes[0])}


def _homophily(graph: Graph) -> float | None:
    """LC(1) over all labelled nodes: one pass over the edges, exact at any size."""
    if graph.labels is None or not (graph.labels >= 0).any():
        return None
    labelled = np.flatnonzero(graph.labels >= 0)
    return _means(_shares(ring_profile(graph.indptr, graph.indices, labelled, 1, graph.labels))[0])[0]


def _rings(
    graph: Graph, anchors: npt.NDArray[np.int64], hops: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Sizes [A, hops] of the rings, and of labelled anchors the share of each ring with their label (`_shares`)."""
    profile = ring_profile(graph.indptr, graph.indices, anchors, hops, graph.labels)
    labelled = graph.labels[anchors] >= 0 if graph.labels is not None else np.zeros(anchors.size, bool)
    return profile[0], *_shares([column[labelled] for column in profile])


def _shares(profile: Sequence[npt.NDArray[np.int64]]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Shares of the labelled members of rings with the anchor's label, by `ring_profile`; NaN without such members.

    In the first of two arrays an empty ring counts as 0.
    """
    sizes, same, known = profile
    shares = np.where(known == 0, np.nan, same / np.maximum(known, 1))
    return np.where(sizes == 0, 0.0, shares), shares


def _consistency(shares: npt.NDArray[np.float64], exact: bool) -> Consistency:
    anchors = (~np.isnan(shares)).sum(axis=0).tolist()
    means = [mean if count else None for mean, count in zip(_means(shares), anchors, strict=True)]
    errors = [error if count > 1 else None for error, count in zip(_errors(shares), anchors, strict=True)]
    return {"mean": means, "se": None if exact else errors, "anchors": anchors}


def _means(values: npt.NDArray[np.float64]) -> list[float]:
    """The mean of each column without its NaN; 0 where there is nothing else."""
    known = [column[~np.isnan(column)] for column in values.T]
    return [float(column.mean()) if column.size else 0.0 for column in known]


def _errors(values: npt.NDArray[Any]) -> list[float]:
    """The standard error of the mean of each column without its NaN."""
    columns = [column[~np.isnan(column)] for column in values.T.astype(float)]
    return [float(column.std(ddof=1) / math.sqrt(column.size)) if column.size > 1 else math.nan for column in columns]


def _with_errors(values: Sequence[Number], errors: Sequence[Number] | None, digits: int) -> list[str]:
    """Each value with its error, as far as they are known."""
    pairs = zip(values, errors or [None] * len(values), strict=True)
    return [
        "-" if value is None else f"{value:,.{digits}f}" + (f" ± {error:,.{digits}f}" if error is not None else "")
        for value, error in pairs
    ]


def _degree_words(degree: Degrees) -> str:
    return f"mean {degree['mean']:.2f}, median {degree['median']:g}, {degree['min']:,} to {degree['max']:,}"
