"""Priorities that are drawn in bounded memory have the bytes of those that are drawn in one piece."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gscl_scale import seeding
from gscl_scale.rings import priorities
from gscl_scale.rings.priorities import Priorities, order_draws, round_key, sorted_ranges
from gscl_scale.shards import drawing
from gscl_scale.shards.drawing import draw, draw_bounded
from gscl_scale.shards.format import map_priorities
from gscl_scale.shards.reader import flaw_of_priorities
from tests.graphs import make_graph, random_edges

NUM_NODES = 3000


@pytest.fixture(scope="module", params=["integers", "text"])
def graph(tmp_path_factory, request):
    ids = [f"node {number * 7919 % NUM_NODES}" for number in range(NUM_NODES)] if request.param == "text" else None
    edges = random_edges(NUM_NODES, 9000, seed=1)
    return make_graph(tmp_path_factory.mktemp("graph") / "graph", edges, NUM_NODES, ids=ids and pa.array(ids))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("memory", [4_000, 50_000, 1 << 20])
def test_the_file_has_the_same_bytes_and_the_ranks_are_those_of_its_order(
    graph, tmp_path, monkeypatch, weighted, memory
):
    monkeypatch.setattr(drawing, "_LEAST", 10)
    weights = np.random.default_rng(0).uniform(0.01, 1, NUM_NODES) if weighted else None
    one, other, ranks = tmp_path / "one.arrow", tmp_path / "other.arrow", tmp_path / "scratch" / "ranks.raw"
    draw(one, graph, round_key(3, 1), weights)
    draw_bounded(other, graph, round_key(3, 1), weights, ranks, memory)
    assert other.read_bytes() == one.read_bytes()
    assert np.fromfile(ranks, graph.indices.dtype).tolist() == map_priorities(one).rank().tolist()
    assert [path.name for path in ranks.parent.iterdir()] == ["ranks.raw"]


@pytest.mark.parametrize(
    ("order", "priority", "flaw"),
    [
        ([2, 0, 1], [0.0, 0.5, 0.5], ""),
        ([2, 0, 2], [0.0, 0.5, 0.5], "each of 3 nodes once"),
        ([2, 0, 3], [0.0, 0.5, 0.5], "each of 3 nodes once"),
        ([2, 0, -1], [0.0, 0.5, 0.5], "each of 3 nodes once"),
        ([1, 0], [0.0, 0.5], "each of 3 nodes once"),
        ([2, 0, 1], [0.0, 0.5, 0.4], "ascending"),
        ([2, 0, 1], [np.nan, 0.5, 0.5], "ascending"),
        ([2, 0, 1], [0.0, 0.5, np.nan], "ascending"),
    ],
)
def test_priorities_that_are_not_an_order_of_all_nodes_are_refused(order, priority, flaw):
    found = flaw_of_priorities(Priorities(np.array(order, np.int32), np.array(priority)), 3)
    assert flaw in found
    assert bool(found) == bool(flaw)


@given(
    values=st.lists(st.sampled_from([0.0, -0.0, 0.5, 1.0, 1.5, np.inf]), min_size=1, max_size=60),
    ranges=st.integers(1, 12),
)
def test_draws_that_are_equal_stay_in_the_order_of_the_nodes(values, ranges):
    drawn = np.array(values)
    parts = list(sorted_ranges(lambda first, end: drawn[first:end], drawn.size, np.int32, ranges))
    assert np.concatenate([part.order for part in parts]).tolist() == np.argsort(drawn, kind="stable").tolist()
    assert order_draws(drawn.copy(), None, np.int32).priority.tolist() == np.sort(drawn).tolist()


def test_a_range_holds_about_its_share_of_the_nodes(monkeypatch):
    monkeypatch.setattr(priorities, "_AT_ONCE", 1 << 14)
    drawn = seeding.exponentials(np.uint64(5), np.arange(200_000, dtype=np.uint64))
    sizes = [part.order.size for part in sorted_ranges(lambda first, end: drawn[first:end], drawn.size, np.int32, 40)]
    assert sum(sizes) == drawn.size
    assert len(sizes) == 40
    assert max(sizes) < 1.5 * drawn.size / 40
