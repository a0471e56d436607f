"""Statistics of a graph: degrees, homophily, and per hop the size of rings and the consistency of their labels."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.graph.components import component_sizes
from gscl_scale.graph.graph import Graph
from gscl_scale.rings.exact.ring_sizes import ring_profile

_EXACT_VISITS = 20_000_000_000  # of edges: about half a minute on one core
_SAMPLED_VISITS = 5_000_000_000
_MOST_SAMPLED = 1_000
_LEAST_SAMPLED = 50


def statistics(graph: Graph, hops: int = 5, anchors: int | None = None, seed: int = 0) -> dict[str, Any]:
    """Degrees, node homophily HM, label consistency LC(n) and mean ring size for n = 1..hops.

    LC(n) is the mean over labelled anchors of the share of ring n with the anchor's label; an empty ring counts as 0,
    so HM = LC(1). `anchors` is how many to sample; by default all where that is cheap. Of a directed graph, rings
    follow the direction of the edges.
    """
    chosen = _anchors(graph, anchors, seed)
    entries = int(graph.indices.size)
    return {
        "name": graph.name,
        "nodes": graph.num_nodes,
        "entries": entries,
        "edges": entries // 2 if graph.undirected else entries,
        "directed": not graph.undirected,
        "features": graph.num_features,
        "classes": len(graph.classes),
        "labelled": int((graph.labels >= 0).sum()) if graph.labels is not None else 0,
        "isolated": int((np.diff(graph.indptr) == 0).sum()),
        "degree": _degrees(np.diff(graph.indptr)),
        "components": _components(graph),
        "homophily": _homophily(graph),
        **_rings(graph, chosen, hops),
        "protocol": {
            "anchors": int(chosen.size),
            "exact": bool(chosen.size == graph.num_nodes),
            "seed": None if chosen.size == graph.num_nodes else seed,
            "walk": "edges both ways" if graph.undirected else "edges in their direction",
            "empty rings": "count as 0 in LC",
        },
    }


def statistics_table(stats: dict[str, Any]) -> list[tuple[str, str]]:
    """The statistics as (name, value) rows for a reader."""
    per_hop = [(f"{name} {hop}", value) for name, values in hop_rows(stats) for hop, value in enumerate(values, 1)]
    return [*graph_rows(stats), *per_hop, ("rings measured from", ring_protocol(stats))]


def graph_rows(stats: dict[str, Any]) -> list[tuple[str, str]]:
    """What concerns the whole graph, as (name, value)."""
    classes = f"{stats['classes']:,} ({stats['labelled']:,} nodes labelled)" if stats["labelled"] else "no labels"
    rows = [
        ("nodes", f"{stats['nodes']:,}"),
        ("edges (directed)" if stats["directed"] else "edges", f"{stats['edges']:,}"),
        ("features", f"{stats['features']:,}"),
        ("classes", classes),
        ("out-degree" if stats["directed"] else "degree", _degree_words(stats["degree"])),
        ("nodes without neighbours", f"{stats['isolated']:,}"),
    ]
    if parts := stats.get("components"):  # younger than some runs
        rows.append(("connected parts", f"{parts['count']:,}, the largest of {parts['largest']:,} nodes"))
    return rows if stats["homophily"] is None else [*rows, ("homophily HM", f"{stats['homophily']:.4f}")]


def hop_rows(stats: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """What is measured per hop, as (name, one value a hop)."""
    rows = []
    for name, key, digits in (("label consistency LC, hop", "lc", 4), ("mean size of ring", "ring_size", 1)):
        if values := stats[key]:
            errors = stats[f"{key}_se"] or [None] * len(values)
            rows.append((name, [_with_error(*pair, digits) for pair in zip(values, errors, strict=True)]))
    return rows


def ring_protocol(stats: dict[str, Any]) -> str:
    """Which anchors the rings were measured from, and along which edges."""
    protocol = stats["protocol"]
    who = "all nodes" if protocol["exact"] else f"a sample of {protocol['anchors']:,} nodes (seed {protocol['seed']})"
    return f"{who}; {protocol['walk']}"


def _anchors(graph: Graph, wanted: int | None, seed: int) -> npt.NDArray[np.int64]:
    """All nodes where a search from each is affordable, else a seeded sample, smaller the more edges there are."""
    everyone = np.arange(graph.num_nodes, dtype=np.int64)
    visits = graph.indices.size + graph.num_nodes
    if wanted is None:
        if visits * graph.num_nodes <= _EXACT_VISITS:
            return everyone
        wanted = max(_LEAST_SAMPLED, min(_MOST_SAMPLED, _SAMPLED_VISITS // visits))
    if wanted >= graph.num_nodes:
        return everyone
    return np.sort(seeding.generator("statistics", seed).choice(everyone, wanted, replace=False))


def _degrees(degrees: npt.NDArray[np.int64]) -> dict[str, float]:
    return {
        "min": int(degrees.min()),
        "mean": float(degrees.mean()),
        "median": float(np.median(degrees)),
        "max": int(degrees.max()),
    }


def _components(graph: Graph) -> dict[str, int]:
    sizes = component_sizes(graph.indptr, graph.indices)
    return {"count": int(sizes.size), "largest": int(sizes[0])}


def _homophily(graph: Graph) -> float | None:
    """LC(1) over all labelled nodes: one pass over the edges, exact at any size."""
    if graph.labels is None or not (graph.labels >= 0).any():
        return None
    labelled = np.flatnonzero(graph.labels >= 0)
    sizes, same = ring_profile(graph.indptr, graph.indices, labelled, 1, graph.labels)
    return float((same[:, 0] / np.maximum(sizes[:, 0], 1)).mean())


def _rings(graph: Graph, anchors: npt.NDArray[np.int64], hops: int) -> dict[str, Any]:
    sizes, same = ring_profile(graph.indptr, graph.indices, anchors, hops, graph.labels)
    exact = anchors.size == graph.num_nodes
    out = {"ring_size": sizes.mean(axis=0).tolist(), "ring_size_se": None if exact else _errors(sizes)}
    labelled = graph.labels[anchors] >= 0 if graph.labels is not None else np.zeros(anchors.size, bool)
    if not labelled.any():
        return {**out, "lc": None, "lc_se": None}
    shares = same[labelled] / np.maximum(sizes[labelled], 1)
    return {**out, "lc": shares.mean(axis=0).tolist(), "lc_se": None if exact else _errors(shares)}


def _errors(values: npt.NDArray[Any]) -> list[float]:
    if values.shape[0] < 2:
        return [math.nan] * values.shape[1]
    return (values.std(axis=0, ddof=1) / math.sqrt(values.shape[0])).tolist()


def _with_error(value: float, error: float | None, digits: int) -> str:
    return f"{value:,.{digits}f}" + (f" ± {error:,.{digits}f}" if error is not None else "")


def _degree_words(degree: dict[str, float]) -> str:
    return f"mean {degree['mean']:.2f}, median {degree['median']:g}, {degree['min']:,} to {degree['max']:,}"
