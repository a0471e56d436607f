"""What each ring kernel may cost on graphs with the worst of shapes, in entries of the graph that it reads."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gscl_scale.rings import choose_engine
from gscl_scale.rings.pilot import pilot_search
from gscl_scale.rings.sketch.level import head_words
from tests.rings.visits import (
    HOPS,
    KERNELS,
    NARROW,
    PILOT_BUDGET,
    SHAPES,
    SIZES,
    change,
    counted,
    graph_of,
    result_of,
    told,
)

BITS = 64
LEAST_DEGREE_OF_HUB = 64

every_graph = pytest.mark.parametrize(("shape", "num_nodes"), [(shape, size) for shape in SHAPES for size in SIZES])


@pytest.fixture(scope="module")
def counts():
    """Of each kernel and graph: entries of `indices` and of `order` that were read, and what was returned."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.rings.visits"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def visits(counts, shape, num_nodes):
    """Entries of `indices` that a kernel reads."""
    return lambda kernel: counts[repr((kernel, shape, num_nodes))][0]


@pytest.fixture
def looks(counts, shape, num_nodes):
    """Entries of `order` that a kernel reads."""
    return lambda kernel: counts[repr((kernel, shape, num_nodes))][1]


@pytest.fixture
def graph(shape, num_nodes):
    return graph_of(shape, num_nodes)


def words_of(anchors):
    return -(-anchors // BITS)


def edges_out_of_balls(graph, anchors, radius):
    """Entries that searches from these anchors read to find the ring behind that radius."""
    return int(((graph.distances()[anchors] <= radius) @ graph.degrees).sum())


def steps_of_walks(graph, anchors, at_once):
    """Nodes in the order of the round that are passed to find the lists of the anchors, so many sharing a walk.

    In place of a walk, 1 / 16 of the nodes may be sorted.
    """
    distance = graph.distances()[anchors][:, graph.priorities.order]
    steps = 0
    for hop in range(1, HOPS + 2):
        listed, most = distance == hop, max(NARROW.width, NARROW.per_ring)
        if hop > HOPS:
            listed, most = distance > HOPS, NARROW.beyond
        enough = np.minimum(listed.sum(axis=1), most)
        last = (np.cumsum(listed, axis=1) >= enough[:, None]).argmax(axis=1)
        walks = np.maximum.reduceat(np.where(enough > 0, last + 1, 0), np.arange(0, anchors.size, at_once))
        steps += np.maximum(walks, graph.anchors.size // 16).sum()
    return steps


def num_listed(result):
    """Members of all lists of a sample."""
    return sum(len(members) for members in result[1 : 2 * (HOPS + 1) : 2])


def cost_of_finding_shortcuts(num_entries, edges_of_hubs, words):
    """Three looks at the edges of the anchors and four at those of hubs; and to find second rings no more than the
    second hop of all words, and what these save by them.
    """
    return 3 * num_entries + 4 * edges_of_hubs + (2 * words * num_entries if edges_of_hubs else 0)


def cost_of_shortcuts(graph, words, hops):
    """To find them, and to pass the hubs in every hop but the last; none are taken at two hops."""
    if hops < 3:
        return 0
    edges_of_hubs = int(graph.degrees[graph.degrees >= LEAST_DEGREE_OF_HUB].sum())
    return cost_of_finding_shortcuts(graph.indices.size, edges_of_hubs, words) + words * (hops - 1) * edges_of_hubs


def num_searches(graph, hops):
    """Anchors with short lists; of those with the same neighbours one, but for those whose first two rings are short.

    All nodes of these graphs have neighbours.
    """
    _, short = told(graph, hops)
    alone = short[:, :2].any(axis=1)
    others = np.flatnonzero(short.any(axis=1) & ~alone)
    neighbours = {tuple(graph.indices[graph.indptr[v] : graph.indptr[v + 1]]) for v in others}
    return int(alone.sum()) + len(neighbours)


def test_a_counted_array_counts_what_is_read_of_it_and_of_its_slices():
    array = counted(np.arange(10))
    assert [array[3], *array[2:6], *array[[1, 2]].tolist()] == [3, 2, 3, 4, 5, 1, 2]
    assert array.reads == [7]
    with pytest.raises(TypeError):
        array + 1


@every_graph
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_work_is_counted_of_runs_that_return_what_the_compiled_kernel_returns(counts, kernel, shape, num_nodes):
    assert result_of(kernel, graph_of(shape, num_nodes)) == counts[repr((kernel, shape, num_nodes))][2]


@every_graph
@pytest.mark.parametrize("kernel", ["exact_one_by_one", "profile"])
def test_a_search_of_one_anchor_reads_each_edge_out_of_the_ball_of_one_hop_less_once(visits, graph, kernel):
    assert visits(kernel) == edges_out_of_balls(graph, graph.some, HOPS - 1)


@every_graph
def test_64_anchors_at_once_read_each_edge_at_most_once_a_hop(visits, graph):
    words = words_of(graph.anchors.size)
    limit = words * HOPS * graph.indices.size + cost_of_shortcuts(graph, words, HOPS)
    assert visits("exact_64_at_once") <= limit


@every_graph
@pytest.mark.parametrize("kernel", ["exact_one_by_one", "exact_64_at_once"])
def test_a_walk_over_the_nodes_ends_when_each_anchor_that_shares_it_has_enough(looks, graph, kernel):
    """A walk for each list; and the nodes of the head, and those that are listed."""
    anchors, at_once = (graph.some, 1) if kernel == "exact_one_by_one" else (graph.anchors, BITS)
    in_head = -(-anchors.size // at_once) * BITS * head_words(NARROW.width, graph.anchors.size)
    listed = num_listed(result_of(kernel, graph))
    assert looks(kernel) <= steps_of_walks(graph, anchors, at_once) + in_head + listed


@every_graph
def test_the_first_pass_of_the_sketch_reads_each_edge_once(visits, graph):
    assert visits("first_pass") == graph.indices.size


@every_graph
def test_another_pass_of_the_sketch_reads_each_edge_at_most_seven_times(visits, graph):
    """To compare twins, twice; to fetch ahead, twice; for the heads, for a bound, and for the tails."""
    assert visits("next_pass") <= 7 * graph.indices.size


@every_graph
def test_reading_the_lists_takes_no_edge_and_only_the_nodes_that_are_listed(looks, graph):
    """It is not given the edges; for the size of each ring it takes the node at its threshold, too."""
    listed = num_listed(result_of("read_lists", graph))
    assert looks("read_lists") <= listed + HOPS * graph.anchors.size


@every_graph
@pytest.mark.parametrize("hops", [2, 3])
def test_short_lists_of_64_anchors_are_finished_by_one_search(visits, looks, graph, hops):
    """It reads each edge at most once a hop, or once to ask who is beyond; to find twins takes three looks at an edge.

    It walks over all nodes at most once for each ring and for what is beyond, and looks up what it lists.
    """
    searches = num_searches(graph, hops)
    words, num_entries = words_of(searches), graph.indices.size
    kernel = f"complete_{hops}_hops"
    assert visits(kernel) <= (words * hops + 3) * num_entries + cost_of_shortcuts(graph, words, hops)
    listed = searches * (hops * NARROW.per_ring + NARROW.beyond)
    assert looks(kernel) <= words * (hops + 1) * graph.anchors.size + listed


@pytest.mark.parametrize("num_nodes", SIZES)
def test_these_graphs_have_what_makes_completion_work(num_nodes):
    for shape in ("star", "hub joined to all", "dense"):
        assert told(graph_of(shape, num_nodes), HOPS)[1][:, -1].all()
    assert told(graph_of("path", num_nodes), HOPS)[1][:, :-1].any(axis=1).all()


@every_graph
def test_to_find_twins_reads_each_edge_of_the_anchors_at_most_three_times(visits, graph):
    """For the key, and on both sides of a comparison."""
    assert visits("find_twins") <= 3 * graph.indices.size


@every_graph
def test_shortcuts_take_no_more_than_the_second_hop_of_the_searches_and_what_they_save(visits, graph):
    words, num_entries = words_of(graph.anchors.size), graph.indices.size
    assert visits("find_shortcuts") <= cost_of_shortcuts(graph, words, HOPS)
    assert visits("find_every_shortcut") <= cost_of_finding_shortcuts(num_entries, num_entries, words)


@every_graph
def test_a_pilot_reads_at_most_five_times_its_budget(visits, graph):
    budget = PILOT_BUDGET * graph.indices.size
    assert visits("search_pilot") <= min(5 * budget, edges_out_of_balls(graph, graph.anchors[::4], HOPS - 1))


@every_graph
def test_the_choice_of_the_engine_takes_a_pilot_and_the_twins_among_its_anchors(visits, graph):
    anchors = choose_engine._pilot_anchors(graph.anchors.size)
    assert visits("choose") <= 5 * PILOT_BUDGET * graph.indices.size + 3 * graph.degrees[anchors].sum()


@every_graph
def test_growth_reads_the_ball_of_two_hops_less_and_the_edges_of_nodes_that_changed(visits, graph):
    """A changed node is looked at once an anchor: three reads of an edge, and one for each neighbour won or lost."""
    anchors, changes = change(graph)
    assert anchors.size > graph.anchors.size / 3
    changed = changes.row >= 0
    of_changed = 3 * graph.degrees[changed].sum() + changes.other.size
    assert visits("growth") <= edges_out_of_balls(graph, anchors, HOPS - 2) + anchors.size * of_changed


@pytest.mark.parametrize("num_nodes", SIZES)
def test_the_estimate_counts_what_is_beyond_as_short_where_less_is_left_than_is_wanted(num_nodes):
    for shape in ("star", "hub joined to all", "dense", "path"):
        graph = graph_of(shape, num_nodes)
        sizes = pilot_search(graph.indptr, graph.indices, graph.anchors, HOPS).sizes
        _, beyond = choose_engine._expected_short(sizes, num_nodes, NARROW)
        few_of_many = shape == "path"
        assert beyond.tolist() == [not few_of_many] * num_nodes
