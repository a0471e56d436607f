"""Seeded graphs."""

import itertools

import numpy as np
import pytest

from gscl_scale.config.graphs import SyntheticGraph
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources import synthetic
from gscl_scale.graph.sources.read import read


def ingest(folder, **options):
    config = SyntheticGraph(source="synthetic", **options)
    return write_graph(read(config), config, folder)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return ingest(tmp_path_factory.mktemp("small") / "graph")


def rings_of(graph, anchor, hops):
    ring, seen = {anchor}, {anchor}
    for _ in range(hops):
        ring = {int(v) for u in ring for v in graph.indices[graph.indptr[u] : graph.indptr[u + 1]]} - seen
        seen |= ring
        yield np.array(sorted(ring), int)


def test_labels_agree_less_with_every_hop(small):
    shares = [[], [], []]
    for anchor in range(0, 3000, 15):
        for hop, ring in enumerate(rings_of(small, anchor, 3)):
            if ring.size:
                shares[hop].append(float((small.labels[ring] == small.labels[anchor]).mean()))
    means = [float(np.mean(values)) for values in shares]
    assert all(near > far + 0.1 for near, far in itertools.pairwise(means)), means


def test_a_few_hubs_have_many_neighbours(small):
    degrees = np.sort(np.diff(small.indptr))
    assert degrees[-1] > 20 * np.median(degrees)
    assert 8 <= degrees.mean() <= 10


def test_features_tell_something_of_the_class_but_not_all(small):
    centroids = np.stack([small.features[small.labels == label][::2].mean(axis=0) for label in range(10)])
    nearest = np.argmin(((small.features[:, None] - centroids) ** 2).sum(axis=2), axis=1)
    assert 0.3 < (nearest == small.labels).mean() < 0.95


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"preset": "tiny"}, (300, 1200, 64)),
        ({"preset": "small", "mean_degree": 4}, (3000, 6000, 64)),
        ({"preset": "arxiv", "num_nodes": 500, "num_features": 3}, (500, 3825, 3)),
        ({"preset": "large", "num_nodes": 10}, (10, 110, 32)),
    ],
)
def test_presets_and_their_changes_set_the_shape_which_is_known_without_drawing(tmp_path, options, shape):
    graph, size = ingest(tmp_path / "graph", **options), synthetic.size(SyntheticGraph(source="synthetic", **options))
    assert (graph.num_nodes, graph.manifest["edges_given"], graph.num_features) == shape
    assert (size.num_nodes, size.num_edges, size.num_features) == shape


def test_the_graph_of_a_seed_never_changes(tmp_path):
    graph = ingest(tmp_path / "graph", preset="tiny")
    assert graph.indices[:8].tolist() == [78, 91, 119, 152, 2, 3, 10, 17]
    assert graph.labels[:8].tolist() == [2, 2, 2, 2, 2, 1, 1, 2]


def test_edges_and_rows_come_in_chunks_that_are_drawn_on_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic, "_CHUNK_EDGES", 100)
    monkeypatch.setattr(synthetic, "_CHUNK_ROWS", 64)
    draft = read(SyntheticGraph(source="synthetic", preset="tiny"))
    chunks = list(draft.edges)
    assert [source.size for source, _ in chunks] == [100] * 12
    assert len({source.tobytes() for source, _ in chunks}) == 12
    rows = list(draft.features.parts)
    assert [part.shape[0] for part in rows] == [64] * 4 + [44]
    assert np.unique(np.concatenate(rows), axis=0).shape == (300, 64)


def test_equal_seeds_give_equal_bytes_with_any_number_of_threads_and_others_another_graph(tmp_path, monkeypatch):
    monkeypatch.setattr(synthetic, "_CHUNK_EDGES", 100)
    monkeypatch.setattr(synthetic, "_CHUNK_ROWS", 64)
    prints = []
    for threads, seed in ((1, 1), (2, 1), (1, 2)):
        monkeypatch.setattr(synthetic, "num_threads", lambda threads=threads: threads)
        prints.append(ingest(tmp_path / f"{threads}-{seed}", preset="tiny", seed=seed).fingerprint)
    assert prints[0] == prints[1] != prints[2]


def test_positions_are_those_of_a_binary_search():
    draw = np.random.default_rng(0)
    weights = np.concatenate([[0], np.cumsum(draw.pareto(1.0, 500) + 0.001)])
    guide = np.empty(500, np.int32)
    synthetic._fill_guide(weights, weights[-1] / 500, guide)
    wanted = np.concatenate([weights, draw.random(2000) * weights[-1]])
    expected = np.clip(np.searchsorted(weights, wanted, side="right") - 1, 0, 499).tolist()
    for rounding in (0, 1):
        cells = (wanted * 500 / weights[-1]).astype(int) + rounding
        found = [synthetic._find(weights, guide, cell, at) for cell, at in zip(cells.tolist(), wanted, strict=True)]
        assert found == expected


def test_ends_are_those_of_an_obvious_draw():
    plan = synthetic._plan(3, 2000, 10)
    source, target = synthetic._draw_edges(np.random.default_rng(5), plan, 3000)
    first, level, second = np.random.default_rng(5).random((3, 3000))
    line = np.empty(2000, int)
    line[plan.node_at] = np.arange(2000)

    def position(weight):
        return np.clip(np.searchsorted(plan.weights, weight, side="right") - 1, 0, 1999)

    at = position(first * plan.weights[-1])
    np.testing.assert_array_equal(line[source], at)
    labels = plan.labels[plan.node_at]
    groups = plan.group_of_class[labels]
    communities = np.searchsorted(plan.starts, np.arange(2000), side="right")
    for part, low, high in ((communities, 0, 0.45), (labels, 0.45, 0.75), (groups, 0.75, 0.92)):
        chosen = (level >= low) & (level < high)
        begin, end = np.searchsorted(part, part[at]), np.searchsorted(part, part[at], side="right")
        low_weight, high_weight = plan.weights[begin], plan.weights[end]
        expected = position(low_weight + (high_weight - low_weight) * second)
        np.testing.assert_array_equal(line[target][chosen], expected[chosen])
    everywhere = level >= 0.92
    np.testing.assert_array_equal(line[target][everywhere], position(second * plan.weights[-1])[everywhere])


def test_the_large_preset_has_hubs_in_proportion(tmp_path):
    """At 10 million nodes the largest degree is 132,750: some 1 % of the nodes."""
    graph = ingest(tmp_path / "graph", preset="large", num_nodes=50_000, num_features=1)
    degrees = np.diff(graph.indptr)
    assert 300 < degrees.max() < 25_000
    assert 18 < degrees.mean() < 22
    assert np.median(degrees) < 15
