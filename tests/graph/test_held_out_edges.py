"""Edges held out of a graph: which, and that nothing else of a graph knows of them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from gscl_scale import seeding
from gscl_scale.config.config import Config
from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.errors import FolderError, GraphError
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.held_out_edges import HeldOutEdges, HoldOut
from gscl_scale.io.json import write_json
from tests.graphs import awkward_graphs, make_samples, random_edges

NODES = 200
RINGS = Config.parse(
    {"rings": {"hops": 2, "width": 16, "per_ring": 4, "beyond": 8, "rounds": 2, "engine": "exact"}}
).rings


def write(folder, edges, share=0.0, seed=0, undirected=True, num_nodes=NODES, ids=None):
    edges = np.asarray(edges, np.int64).reshape(-1, 2)
    draft = GraphDraft(
        "made", "a test", num_nodes, [(edges[:, 0], edges[:, 1])], ids=None if ids is None else pa.array(ids)
    )
    return write_graph(draft, MemoryGraph(undirected=undirected), folder, HoldOut(share, seed))


def rows(graph):
    """The edges of a graph's rows, as pairs of the user's ids."""
    ids = np.array(graph.ids.to_pylist())
    left = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return set(zip(ids[left].tolist(), ids[graph.indices].tolist(), strict=True))


def pairs(graph, part="test"):
    ids = np.array(graph.ids.to_pylist())
    found = ids[getattr(HeldOutEdges.of(graph), part)]
    return {tuple(sorted(pair)) for pair in found.tolist()}


def both_ways(edges):
    return {*edges, *((v, u) for u, v in edges)}


@pytest.mark.parametrize("undirected", [True, False])
def test_nothing_computed_from_a_graph_has_a_trace_of_edges_that_are_held_out(tmp_path, undirected):
    """Rows, structural features and ring samples are, byte by byte, those of a graph without these edges."""
    edges = random_edges(NODES, 900, seed=1, hubs=5)
    edges = np.concatenate([edges, edges[:300], edges[200:500, ::-1]])  # repeated and reversed ones
    graph = write(tmp_path / "held out", edges, 0.3, undirected=undirected)
    taken = both_ways(pairs(graph) | pairs(graph, "validation"))
    assert len(taken) > 200
    rest = [edge for edge in edges.tolist() if tuple(edge) not in taken]
    never = write(tmp_path / "never there", rest, undirected=undirected)
    for name, entry in never.manifest["files"].items():
        assert entry == graph.manifest["files"][name], name
    assert graph.num_structural == graph.num_features
    assert graph.manifest["num_entries"] == never.manifest["num_entries"] == graph.indices.size
    if undirected:
        assert not rows(graph) & taken
    for one in (graph, never):
        make_samples(one.folder, tmp_path / f"samples of {one.folder.name}", RINGS)
    sampled = sorted((tmp_path / "samples of held out").rglob("*.arrow"))
    assert len(sampled) >= 4
    for path in sampled:
        other = tmp_path / "samples of never there" / path.relative_to(tmp_path / "samples of held out")
        assert path.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("undirected", [True, False])
def test_the_edges_are_the_same_whatever_the_order_of_nodes_and_edges(tmp_path, undirected):
    edges, draw = random_edges(NODES, 900, seed=1), seeding.generator("order", 1)
    names = [f"customer {number}" for number in range(NODES)]
    order = draw.permutation(NODES)
    places = np.argsort(order)
    other_edges = places[edges][draw.permutation(len(edges))]
    graph = write(tmp_path / "one", edges, 0.2, undirected=undirected, ids=names)
    other = write(tmp_path / "other", other_edges, 0.2, undirected=undirected, ids=[names[node] for node in order])
    assert rows(graph) == rows(other)
    for part in ("validation", "test"):
        assert pairs(graph, part) == pairs(other, part)
    assert pairs(write(tmp_path / "another seed", edges, 0.2, 1, undirected, ids=names)) != pairs(graph)


def test_the_share_is_held_out_in_two_halves_that_share_no_edge(tmp_path):
    graph = write(tmp_path / "graph", random_edges(2000, 20_000, seed=2), 0.2, num_nodes=2000)
    held_out, total = HeldOutEdges.of(graph), 20_000
    size = len(held_out.validation) + len(held_out.test)
    assert size == pytest.approx(0.2 * total, rel=0.05)
    assert len(held_out.test) == pytest.approx(size / 2, rel=0.1)
    assert not pairs(graph) & pairs(graph, "validation")
    assert (held_out.test[:, 0] < held_out.test[:, 1]).all()
    assert any(f"{size:,} of " in note for note in graph.manifest["notes"])


@settings(max_examples=60, deadline=None)
@given(drawn=awkward_graphs())
@pytest.mark.parametrize("undirected", [True, False])
def test_no_node_loses_its_last_edge(tmp_path_factory, undirected, drawn):
    edges, num_nodes = drawn
    folder = tmp_path_factory.mktemp("graph")
    whole = write(folder / "whole", edges, undirected=undirected, num_nodes=num_nodes)
    try:
        rest = write(folder / "rest", edges, 0.8, undirected=undirected, num_nodes=num_nodes)
    except GraphError as error:
        assert "no edge can be held out" in str(error)  # noqa: PT017
        return
    for end in (0, 1):  # of a directed graph: the last that leaves it, and the last that enters it
        assert {edge[end] for edge in rows(rest)} == {edge[end] for edge in rows(whole)}
    held_out = HeldOutEdges.of(rest)
    taken = [tuple(pair) for pair in np.concatenate([held_out.validation, held_out.test]).tolist()]
    assert len(taken) == len(set(taken)) == len(rows(whole) - rows(rest)) // (2 if undirected else 1)
    assert rows(whole) - rows(rest) == (both_ways(taken) if undirected else set(taken))
    if not undirected:  # with an edge its reverse goes too
        assert not both_ways(taken) & rows(rest)


def test_a_graph_without_edges_to_spare_is_refused(tmp_path):
    with pytest.raises(GraphError, match=r"a test: evaluate.held_out_edges is 0.5, but no edge can be held out"):
        write(tmp_path / "star", [(0, node) for node in range(1, NODES)], 0.5)
    assert not (tmp_path / "star").exists()


def test_without_a_share_a_graph_is_as_it_always_was(tmp_path):
    edges = random_edges(NODES, 900, seed=1)
    graph = write(tmp_path / "graph", edges, 0.0, seed=5)
    assert HeldOutEdges.of(graph) is None
    assert graph.fingerprint == write(tmp_path / "again", edges).fingerprint
    assert not list(graph.folder.glob("held_out*"))


def test_pairs_of_nodes_that_do_not_exist_are_refused(tmp_path):
    graph = write(tmp_path / "graph", random_edges(NODES, 900, seed=1), 0.2)
    other = write(tmp_path / "other", random_edges(2 * NODES, 900, seed=1), 0.2, num_nodes=2 * NODES)
    name = "held_out_test.arrow"
    (graph.folder / name).write_bytes((other.folder / name).read_bytes())
    files = {**graph.manifest["files"], name: other.manifest["files"][name]}
    write_json(graph.folder / "manifest.json", {**graph.manifest, "files": files})
    with pytest.raises(FolderError, match=r"held_out_test.arrow is damaged: expected pairs of nodes"):
        HeldOutEdges.of(Graph.open(graph.folder))
