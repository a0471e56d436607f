"""Many features that tell nothing of the edges: found by a sample of these, and joined by those of the structure."""

import numpy as np
import pytest

from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.graph import alikeness, features
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.graph.row_file import RowStream
from tests.graph.tables import ingest

NODES, COLUMNS = 1000, 100
REASON = "those of neighbours are no more alike than those of other nodes"


@pytest.fixture(autouse=True)
def as_shipped(features_as_they_are, monkeypatch):
    monkeypatch.setattr(features, "FEW", features_as_they_are)
    monkeypatch.setattr(alikeness, "_FEWEST_EDGES", 500)


def customers(draw, hubs=0):
    """Edges of customers in groups of 20; of the first ones, the hubs, edges to anybody."""
    left = draw.integers(0, NODES, 5000)
    right = left // 20 * 20 + draw.integers(0, 20, 5000)
    far = draw.integers(0, hubs, 5000) if hubs else left
    return np.concatenate([left, far]), np.concatenate([right, draw.permutation(right)])


def ingested(folder, rows, edges, **settings):
    return write_graph(GraphDraft("made", "a test", NODES, [edges], rows), MemoryGraph(**settings), folder)


JUNK = {
    "normal": lambda draw, shape: draw.normal(size=shape),
    "lognormal": lambda draw, shape: draw.lognormal(0, 2, shape),
    "numbers": lambda draw, shape: draw.integers(0, 1000, shape),
    "flags": lambda draw, shape: draw.random(shape) < 0.05,
}


@pytest.mark.parametrize("kind", JUNK)
@pytest.mark.parametrize("hubs", [0, 5])
@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_columns_of_junk_are_joined_by_structural_features(tmp_path, kind, hubs, seed):
    draw = np.random.default_rng(seed)
    junk = JUNK[kind](draw, (NODES, COLUMNS)).astype(np.float32)
    graph = ingested(tmp_path / "graph", junk, customers(draw, hubs))
    assert (graph.num_own, graph.num_structural) == (COLUMNS, 128)
    assert REASON in " ".join(graph.manifest["notes"])
    own = graph.features[:, :COLUMNS]
    assert own.mean(axis=0) == pytest.approx(0, abs=0.2)
    kept = ingested(tmp_path / "kept", junk, customers(draw, hubs), structure="none")
    assert kept.num_structural == 0
    assert (kept.features == junk).all()


@pytest.mark.parametrize("telling", [5, 20, 100])
def test_columns_that_neighbours_share_are_kept_as_they_are(tmp_path, telling):
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(NODES, COLUMNS)).astype(np.float32)
    rows[:, :telling] += 2 * draw.normal(size=(NODES // 20, telling))[np.arange(NODES) // 20]
    graph = ingested(tmp_path / "graph", rows, customers(draw))
    assert (graph.num_features, graph.num_structural) == (COLUMNS, 0)
    assert (graph.features == rows).all()
    assert REASON not in " ".join(graph.manifest["notes"])


def test_rows_that_come_once_in_parts_are_looked_at_too(tmp_path):
    draw = np.random.default_rng(0)
    junk, edges = draw.normal(size=(NODES, COLUMNS)).astype(np.float32), customers(draw)
    stream = RowStream(junk.shape, iter(np.array_split(junk, 7)))
    parts, whole = (ingested(tmp_path / name, rows, edges) for name, rows in (("parts", stream), ("whole", junk)))
    assert parts.num_structural == 128
    assert parts.features == pytest.approx(whole.features, abs=1e-5)


def test_a_graph_with_few_edges_or_constant_features_is_not_judged_by_chance(tmp_path):
    draw = np.random.default_rng(0)
    junk, (left, right) = draw.normal(size=(NODES, COLUMNS)).astype(np.float32), customers(draw)
    assert ingested(tmp_path / "few", junk, (left[:200], right[:200])).num_structural == 0
    assert ingested(tmp_path / "constant", 0 * junk + 3, (left, right)).num_structural == 128


def test_a_table_of_few_columns_is_joined_however_many_features_its_texts_become(tmp_path):
    """The group of most customers stands in the table, so that neighbours are alike in its columns."""
    draw = np.random.default_rng(0)
    words = [" ".join(draw.choice(["tram", "lake", "north", "old", "blue", "fast"], 3)) + str(v) for v in range(NODES)]
    left, right = customers(draw)
    edges = {"source": [f"c{v}" for v in left], "target": [f"c{v}" for v in right]}
    nodes = {"id": [f"c{v}" for v in range(NODES)], "about": words, "group": [f"g{v // 20 % 25}" for v in range(NODES)]}
    graph = ingest(tmp_path, edges, nodes, kind=".csv")
    assert graph.num_own >= 64
    assert graph.num_structural == 128
    assert any(
        "from fewer than 64 columns of the table, so 128 of the structure" in note for note in graph.manifest["notes"]
    )
