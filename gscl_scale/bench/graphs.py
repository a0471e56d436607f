"""Graphs for benches: drawn ones of a given size, and the edges of any."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.bench.harness import Bench
from gscl_scale.bench.options import Embed, Scale
from gscl_scale.config.config import Config
from gscl_scale.config.graphs import SyntheticGraph
from gscl_scale.config.sections import RingsConfig
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources.read import read

_EDGES_PER_NODE = 10


def graph_folders(bench: Scale | Embed, scratch: Path, num_features: int = 1) -> Iterator[Path]:
    """Folders of graphs drawn with so many edges, from small to large, then folders that exist."""
    features = f"-features-{num_features}" if num_features > 1 else ""
    for number in bench.sizes:
        folder = (bench.keep or scratch) / f"edges-{number}{features}"
        if not (folder / "manifest.json").exists():
            bench.say(f"drawing a graph of {number:,} edges")
            bench.alone(draw, number, folder, num_features)
        yield folder
    yield from bench.graph or []


def draw(edges: int, folder: Path, num_features: int) -> None:
    """Write a synthetic graph of about so many undirected edges."""
    nodes = max(100, edges // _EDGES_PER_NODE)
    config = SyntheticGraph(
        source="synthetic", preset="large", num_nodes=nodes, mean_degree=2 * edges / nodes, num_features=num_features
    )
    write_graph(read(config), config, folder)


def config_graph(bench: Bench, config: Config, scratch: Path) -> Graph:
    """Ingest the graph of a config into a folder `graph`."""
    bench.say(f"reading the graph (source {config.graph.source})")
    graph = write_graph(read(config.graph), config.graph, scratch / "graph")
    bench.say(f"graph {graph.name}: {graph.num_nodes:,} nodes, {num_edges(graph):,} edges")
    return graph


def describe(graph: Graph, *more: str) -> str:
    """Name and size of a graph, and more about it, for a page."""
    facts = f"{graph.num_nodes:,} nodes", f"{graph.indices.size:,} directed entries", *more
    return f"`{graph.name}` ({', '.join(facts)})"


def describe_lists(rings: RingsConfig) -> str:
    """How much is sampled, for a page."""
    return f"{rings.per_ring} per ring, {rings.beyond} beyond, width {rings.width}"


def graph_setting(graph: Graph) -> dict[str, object]:
    """Name and size of a graph, for the setting of a bench."""
    return {
        "graph": graph.name, "nodes": graph.num_nodes, "entries": int(graph.indices.size),
        "features": graph.num_features,
    }  # fmt: skip


def num_edges(graph: Graph) -> int:
    """Edges of a graph, each undirected edge counted once."""
    return int(graph.indices.size) // 2 if graph.undirected else int(graph.indices.size)


def edges_of(graph: Graph, both_ways: bool) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Sources and targets of the edges [E]; `both_ways` has each undirected edge twice, as the graph stores it."""
    sources = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    if both_ways or not graph.undirected:
        return sources, graph.indices
    once = sources < graph.indices
    return sources[once], graph.indices[once]
