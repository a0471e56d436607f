import os
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from gscl_scale import seeding
from gscl_scale.config.graphs import NpzGraph
from gscl_scale.errors import FolderError
from gscl_scale.evaluate import graph_statistics
from gscl_scale.evaluate.graph_statistics import read_statistics, statistics, statistics_table
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources.read import read
from gscl_scale.io.json import write_json

LABELLED = [0, 1, 0, 0, 1, 0]
PATH = [(0, 1), (1, 2), (2, 3), (3, 4)]  # and node 5 alone


def oracle(edges: list[tuple[int, int]], labels: np.ndarray, hops: int, directed: bool) -> tuple[list, list, list]:
    """Mean ring sizes, LC, and LC over the anchors with labelled nodes in the ring, from all shortest paths."""
    graph = nx.DiGraph() if directed else nx.Graph()
    graph.add_nodes_from(range(labels.size))
    graph.add_edges_from(edges)
    distance = dict(nx.all_pairs_shortest_path_length(graph))
    sizes, shares = np.zeros((labels.size, hops)), np.full((labels.size, hops), np.nan)
    for anchor in range(labels.size):
        for hop in range(1, hops + 1):
            ring = [node for node, far in distance[anchor].items() if far == hop]
            sizes[anchor, hop - 1] = len(ring)
            same = sum(labels[node] == labels[anchor] for node in ring)
            known = sum(labels[node] >= 0 for node in ring)
            shares[anchor, hop - 1] = same / known if known else np.nan
    by_paper = np.where(sizes == 0, 0, shares)
    means = [np.nanmean(values[labels >= 0], axis=0).tolist() for values in (by_paper, shares)]
    return sizes.mean(axis=0).tolist(), *means


@pytest.mark.parametrize("undirected", [True, False])
def test_rings_and_consistency_are_those_of_all_shortest_paths(
    make_graph: Callable[..., Graph], undirected: bool
) -> None:
    draw = seeding.generator("statistics test", 1)
    edges = [(int(a), int(b)) for a, b in draw.integers(0, 80, (100, 2)) if a != b]
    labels = draw.integers(-1, 3, 80)
    stats = statistics(make_graph(80, edges, undirected, labels=labels))
    sizes, by_paper, shares = oracle(edges, labels, 5, not undirected)
    assert stats["ring_size"] == pytest.approx(sizes)
    assert stats["lc"] == pytest.approx(by_paper)
    assert stats["consistency"]["mean"] == pytest.approx(shares)
    assert stats["homophily"] == pytest.approx(stats["lc"][0])
    assert stats["directed"] is not undirected


def test_a_small_graph_gives_the_numbers_worked_out_by_hand(make_graph: Callable[..., Graph]) -> None:
    stats = statistics(make_graph(6, PATH, labels=np.array(LABELLED)))
    assert (stats["nodes"], stats["edges"], stats["entries"], stats["isolated"]) == (6, 4, 8, 1)
    assert stats["components"] == {"count": 2, "joined": 1, "largest": 5}
    assert stats["degree"] == {"min": 0, "mean": 8 / 6, "median": 1.5, "max": 2}
    assert stats["homophily"] == pytest.approx((0 + 0 + 1 / 2 + 1 / 2 + 0 + 0) / 6)
    assert stats["lc"][1] == pytest.approx((1 + 0 + 1 / 2 + 0 + 0 + 0) / 6)
    assert stats["ring_size"] == pytest.approx([8 / 6, 6 / 6, 4 / 6, 2 / 6, 0])
    assert stats["consistency"]["mean"] == [1 / 5, pytest.approx(1.5 / 5), 1, 0, None]
    assert stats["consistency"]["anchors"] == [5, 5, 4, 2, 0]
    assert stats["consistency"]["se"] is None
    table = dict(statistics_table(stats))
    assert (table["label consistency LC, hop 3"], table["anchors with such a ring, hop 3"]) == ("1.0000", "4")
    assert table["label consistency LC, hop 5"] == "-"


def test_a_sample_is_stated_with_its_error_and_homophily_stays_exact(make_graph: Callable[..., Graph]) -> None:
    draw = seeding.generator("statistics sample", 1)
    graph = make_graph(300, draw.integers(0, 300, (900, 2)).tolist(), labels=draw.integers(0, 2, 300))
    exact, sampled = statistics(graph), statistics(graph, anchors=100)
    assert sampled["protocol"] == {**exact["protocol"], "anchors": 100, "exact": False, "seed": 0}
    assert sampled["homophily"] == exact["homophily"]
    assert sampled == statistics(graph, anchors=100)
    for name in ("lc", "ring_size"):
        assert exact[f"{name}_se"] is None
        far = np.abs(np.subtract(sampled[name], exact[name])) / np.maximum(sampled[f"{name}_se"], 1e-12)
        assert (far < 4).all()


def test_large_graphs_are_sampled_without_being_asked(
    make_graph: Callable[..., Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make_graph(100, [(a, (a + 1) % 100) for a in range(100)])
    assert statistics(graph)["protocol"]["exact"]
    monkeypatch.setattr(graph_statistics, "_EXACT_VISITS", 10_000)
    monkeypatch.setattr(graph_statistics, "_SAMPLED_VISITS", 20_000)
    assert statistics(graph)["protocol"]["anchors"] == 66


def test_a_graph_without_labels_has_no_consistency(make_graph: Callable[..., Graph]) -> None:
    stats = statistics(make_graph(6, PATH))
    assert stats["homophily"] is None
    assert stats["lc"] is None
    assert stats["consistency"] is None
    assert ("classes", "no labels") in statistics_table(stats)


def test_the_table_says_what_was_measured_and_how(make_graph: Callable[..., Graph]) -> None:
    table = dict(statistics_table(statistics(make_graph(6, PATH, labels=np.array(LABELLED)), anchors=4)))
    assert table["nodes"] == "6"
    assert table["homophily HM"] == "0.1667 (nodes without neighbours count as 0)"
    assert table["rings measured from"] == "a sample of 4 nodes (seed 0); edges both ways"
    assert "±" in table["label consistency LC, hop 1"]


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "homophily"), [("cora", "0.8252"), ("citeseer", "0.7062"), ("pubmed", "0.7924"), ("photo", "0.8365")]
)
def test_homophily_of_real_graphs_is_the_published_one(name: str, homophily: str, tmp_path: Path) -> None:
    config = NpzGraph(source="npz", path=Path(os.environ["GSCL_DATA"]) / f"{name}.npz")
    stats = statistics(write_graph(read(config), config, tmp_path / name))
    assert f"{stats['homophily']:.4f}" == f"{stats['lc'][0]:.4f}" == homophily


def test_large_graphs_have_fewer_hops_unless_anchors_are_asked_for(
    make_graph: Callable[..., Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make_graph(6, PATH, labels=np.array(LABELLED))
    assert len(statistics(graph)["ring_size"]) == 5
    monkeypatch.setattr(graph_statistics, "_SAMPLED_VISITS", 50 * (graph.indices.size + graph.num_nodes) - 1)
    few = statistics(graph)
    assert len(few["ring_size"]) == len(few["lc"] or ()) == 3
    assert ("mean size of ring 3", f"{few['ring_size'][2]:,.1f}") in statistics_table(few)
    assert len(statistics(graph, anchors=4)["ring_size"]) == 5


@pytest.mark.parametrize("part", ["mean", "anchors"])
def test_a_file_without_a_number_for_each_hop_is_refused(
    make_graph: Callable[..., Graph], tmp_path: Path, part: str
) -> None:
    stats = {**statistics(make_graph(6, PATH, labels=np.array(LABELLED))), "graph_fingerprint": "abc"}
    write_json(tmp_path / "s.json", stats)
    assert read_statistics(tmp_path / "s.json") == stats
    stats["consistency"][part].pop()
    write_json(tmp_path / "s.json", stats)
    with pytest.raises(FolderError, match="a number for each hop"):
        read_statistics(tmp_path / "s.json")
    none: dict[str, list[float]] = {"ring_size": [], "lc": []}
    write_json(tmp_path / "s.json", {**stats, **none, "consistency": {"mean": [], "se": None, "anchors": []}})
    with pytest.raises(FolderError, match="a number for each hop"):
        read_statistics(tmp_path / "s.json")
