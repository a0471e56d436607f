"""Edge weights: what is stored of them, in whatever order and memory, and what is refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.errors import FolderError, GraphError
from gscl_scale.graph import csr, edge_rows
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.graph.edge_weights import FILE
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.held_out_edges import ALL_STAY, HeldOutEdges, HoldOut
from gscl_scale.io.arrow_writer import write_column
from tests.graphs import make_graph, random_edges, random_weights
from tests.oracles import dense_weights, entries_of

NODES = 60


def weighted_edges(num_edges=400, seed=1):
    """Some edges twice, some in both directions, some from a node to itself."""
    edges = random_edges(NODES, num_edges, seed, hubs=2)
    edges = np.concatenate([edges, edges[:50], edges[30:90, ::-1]])
    return edges, random_weights(len(edges), seed)


def draft_of(edges, weights, chunk=None, **fields):
    edges = np.asarray(edges, np.int64).reshape(-1, 2)
    size = chunk or max(1, len(edges))
    parts = (slice(low, low + size) for low in range(0, len(edges), size))
    chunks = [(edges[part, 0], edges[part, 1], np.asarray(weights)[part]) for part in parts]
    return GraphDraft(**{"name": "made", "origin": "mine.csv", "num_nodes": NODES, "edges": chunks, **fields})


def write(folder, draft, asked=ALL_STAY, **options):
    return write_graph(draft, MemoryGraph(structural_features=8, **options), folder, asked)


def content(graph):
    return {name: entry["sha256"] for name, entry in graph.manifest["files"].items()}


@given(
    edges=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40),
    undirected=st.booleans(),
    seed=st.integers(0, 3),
)
def test_an_edge_has_the_sum_of_the_weights_that_it_was_given(tmp_path_factory, edges, undirected, seed):
    """In undirected graphs those of both directions."""
    edges = [*edges, (0, 1)]
    weights = random_weights(len(edges), seed)
    graph = make_graph(tmp_path_factory.mktemp("g") / "graph", edges, 10, weights=weights, undirected=undirected)
    expected = dense_weights(edges, weights, 10, undirected)
    np.testing.assert_allclose(entries_of(graph), expected, rtol=1e-6)
    np.testing.assert_array_equal(entries_of(graph) > 0, expected > 0)
    assert graph.edge_weights.dtype == np.float32


@pytest.mark.parametrize("undirected", [True, False])
def test_order_of_edges_memory_and_buckets_change_no_byte(tmp_path, monkeypatch, undirected):
    edges, weights = weighted_edges(3000)
    whole = write(tmp_path / "one", draft_of(edges, weights), undirected=undirected)
    order = np.random.default_rng(0).permutation(len(edges))
    monkeypatch.setattr(csr, "_LEAST_ROWS", 4)
    monkeypatch.setattr(csr, "_CHUNK_EDGES", 257)
    small = lambda buckets, column, *_: csr.build_rows(buckets, column, 600, 2, _[-1])  # noqa: E731
    monkeypatch.setattr(edge_rows, "build_rows", small)
    parts = write(tmp_path / "many", draft_of(edges[order], weights[order], chunk=700), undirected=undirected)
    assert content(whole) == content(parts)
    assert whole.fingerprint == parts.fingerprint


@pytest.mark.parametrize(("number", "small"), [(16, 2**-54), (1024, 2**-60)])
def test_both_directions_of_an_undirected_edge_have_the_same_bits_whatever_the_order(tmp_path, number, small):
    """The sum of these is just above the middle of two 32-bit floats, unless large ones are added first."""
    weights = np.array([1, 2**-24, *[small] * number])
    expected = np.float32(1 + 2**-23)
    for name, numbers in (("falling", weights), ("rising", weights[::-1])):
        edges = np.tile([[5, 2]], (weights.size, 1))
        graph = write(tmp_path / name, draft_of(edges, numbers))
        assert graph.edge_weights.tolist() == [expected, expected]


def test_a_graph_whose_edges_are_all_given_both_ways_with_equal_weights_has_them_once(tmp_path):
    """As torch-geometric has undirected graphs."""
    edges, weights = random_edges(NODES, 200, seed=4), random_weights(200)
    once = write(tmp_path / "once", draft_of(edges, weights))
    both = draft_of(np.concatenate([edges, edges[::-1, ::-1]]), np.concatenate([weights, weights[::-1]]))
    twice = write(tmp_path / "twice", both)
    assert content(once) == content(twice)
    assert "every edge is given in both directions with the same weight, which counts once" in twice.manifest["notes"]
    assert not any("both directions with" in note for note in once.manifest["notes"])
    weights = np.concatenate([weights, weights[::-1]])
    weights[7] *= 2
    added = write(tmp_path / "added", draft_of(np.concatenate([edges, edges[::-1, ::-1]]), weights))
    assert added.edge_weights.sum() > 1.9 * once.edge_weights.sum()


def test_a_note_names_the_range_and_a_graph_without_weights_has_no_such_file(tmp_path):
    graph = write(tmp_path / "graph", draft_of([(0, 1), (1, 2), (0, 1)], [2.0, 0.5, 1.0]))
    assert "edges have weights from 0.5 to 3, on average 1.75" in graph.manifest["notes"]
    assert FILE in graph.manifest["files"]
    for unit, hint in ((1, False), (1000, True), (0.001, True)):
        notes = write(tmp_path / str(unit), draft_of([(0, 1)], [unit])).manifest["notes"]
        assert any("gcn counts a node itself with weight 1" in note for note in notes) == hint
    for largest, hint in ((3.0, False), (5000.0, True)):
        weights = [1.0] * 58 + [largest]
        notes = write(tmp_path / f"{largest}", draft_of([(a, a + 1) for a in range(59)], weights)).manifest["notes"]
        assert any("compare with their logarithms, or with no weights" in note for note in notes) == hint
    plain = make_graph(tmp_path / "plain", [(0, 1)], 2)
    assert plain.edge_weights is None
    assert not (plain.folder / FILE).exists()
    assert write(tmp_path / "none", draft_of([], [])).edge_weights is None


def test_weights_of_self_loops_alone_leave_a_graph_without_edges(tmp_path):
    graph = write(tmp_path / "graph", draft_of([(1, 1), (2, 2)], [2.0, 0.5]))
    assert graph.edge_weights.size == graph.indices.size == 0
    assert (NormalisedAdjacency.of(graph, "gcn").row_scale == 1).all()
    assert not graph.features.any()


@pytest.mark.parametrize("undirected", [True, False])
def test_weights_of_held_out_edges_leave_with_them(tmp_path, undirected):
    """Every file, structural features too, is that of a graph that never had these edges."""
    edges, weights = weighted_edges()
    graph = write(tmp_path / "held out", draft_of(edges, weights), HoldOut(0.3), undirected=undirected)
    held_out = HeldOutEdges.of(graph)
    taken = {tuple(pair) for pair in np.concatenate([held_out.validation, held_out.test]).tolist()}
    stay = np.array([(u, v) not in taken and not (undirected and (v, u) in taken) for u, v in edges.tolist()])
    assert (~stay).sum() > 50
    never = write(tmp_path / "never there", draft_of(edges[stay], weights[stay]), undirected=undirected)
    assert content(never).items() <= content(graph).items()
    assert FILE in content(never)


REFUSED = {
    "a negative weight": (-0.5, "mine.csv: the weight of edge 2 is -0.5; expected a number above 0"),
    "zero": (0.0, "edge 2 is 0; expected a number above 0 .*: an edge of weight 0 is no edge, drop it"),
    "NaN": (np.nan, "edge 2 is nan; expected a number above 0"),
    "infinity": (np.inf, "edge 2 is inf; expected"),
    "a number that 32 bits do not hold": (1e300, r"edge 2 is 1e\+300; expected .* \(from 1e-20 to 1e\+20\)"),
    "a number that is zero in 32 bits": (1e-60, "edge 2 is 1e-60; expected"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("chunk", [None, 1])
def test_numbers_that_are_no_weights_are_refused_with_their_place(tmp_path, case, chunk):
    wrong, sentence = REFUSED[case]
    with pytest.raises(GraphError, match=sentence):
        write(tmp_path / "graph", draft_of([(0, 1), (1, 2), (2, 3)], [1.0, 1.0, wrong], chunk))
    assert not (tmp_path / "graph").exists()


def test_weights_for_some_edges_only_or_of_another_shape_are_refused(tmp_path):
    one, two = np.array([0]), np.array([1])
    for edges, sentence in (
        ([(one, two, np.ones(1)), (one, two)], "some edges have weights and others have none"),
        ([(one, two), (one, two, np.ones(1))], "some edges have weights and others have none"),
        ([(one, two, np.ones(2))], r"edge weights are float64 of shape \(2,\), expected a number for each of 1 edges"),
        ([(one, two, np.array(["1"]))], "expected a number for each"),
    ):
        with pytest.raises(GraphError, match=sentence):
            write(tmp_path / "graph", GraphDraft("made", "a test", NODES, edges))


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_a_folder_with_damaged_weights_is_refused(tmp_path, wrong):
    graph = write(tmp_path / "graph", draft_of([(0, 1), (1, 2)], [1.0, 2.0]))
    write_column(graph.folder / FILE, "weight", np.array([1, 1, wrong, 2], np.float32))
    with pytest.raises(FolderError, match="edge weights are not all positive numbers; delete"):
        Graph.open(graph.folder)


def test_a_folder_with_too_few_weights_is_refused(tmp_path):
    graph = write(tmp_path / "graph", draft_of([(0, 1), (1, 2)], [1.0, 2.0]))
    write_column(graph.folder / FILE, "weight", np.ones(3, np.float32))
    manifest = json.loads((graph.folder / "manifest.json").read_text())
    manifest["files"][FILE]["bytes"] = (graph.folder / FILE).stat().st_size
    manifest.pop("seal", None)
    (graph.folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(FolderError, match="3 edge weights for 4 neighbours"):
        Graph.open(graph.folder)
