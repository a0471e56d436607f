"""Link prediction: formulas by hand, non-edges that are none, and figures of whole runs without labels."""

import json
import math

import numpy as np
import pytest

from gscl_scale.config.evaluate import EvaluateConfig
from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.evaluate.links import (
    LinkPairs,
    by_adamic_adar,
    by_cosine,
    by_preferential_attachment,
    link_figures,
    validation_auc,
)
from gscl_scale.evaluate.repeats import combine_repeats
from gscl_scale.evaluate.run import evaluate_run
from gscl_scale.evaluate.schema import flaw_of_metrics
from gscl_scale.evaluate.summary import figures_table, warnings_of
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.graph.held_out_edges import HeldOutEdges, HoldOut
from tests.commands import cli
from tests.graphs import random_edges

TASKS = ("random", "degree_matched")
NODES = 120


def held_out_graph(folder, edges=None, share=0.3, num_nodes=NODES, undirected=True, features=None):
    edges = random_edges(num_nodes, 700, seed=3, hubs=4) if edges is None else np.asarray(edges)
    draft = GraphDraft("made", "a test", num_nodes, [(edges[:, 0], edges[:, 1])], features=features)
    config = MemoryGraph(undirected=undirected, structure="auto" if features is None else "none")
    return write_graph(draft, config, folder, HoldOut(share))


def pairs_of(graph, task, part="test", **options):
    return LinkPairs.draw(graph, getattr(HeldOutEdges.of(graph), part), task, 0, **options)


# --- the controls, by hand -------------------------------------------------------------------------------------------

TINY = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (3, 4)]


def test_adamic_adar_and_preferential_attachment_are_as_computed_by_hand(make_graph):
    graph = make_graph(5, TINY)
    left, right = np.array([0, 2, 2, 0, 4]), np.array([1, 3, 4, 4, 4])
    two, three = 1 / math.log(2), 1 / math.log(3)
    assert by_adamic_adar(graph)(left, right) == pytest.approx([two + three, 2 * three, 0, three, three])
    assert by_preferential_attachment(graph)(left, right).tolist() == [9, 6, 2, 3, 1]


def test_in_a_directed_graph_common_targets_count_with_all_their_edges(make_graph):
    graph = make_graph(5, [(0, 2), (1, 2), (0, 3), (1, 3), (3, 4)], undirected=False)
    score = by_adamic_adar(graph)(np.array([0, 2]), np.array([1, 3]))
    assert score == pytest.approx([1 / math.log(2) + 1 / math.log(3), 0])
    assert by_preferential_attachment(graph)(np.array([0, 3]), np.array([3, 4])).tolist() == [6, 3]


def test_figures_are_as_counted_by_hand():
    pairs = LinkPairs(np.array([0, 1]), np.array([10, 11]), np.array([[20, 21], [22, 23]]))
    known = {(0, 10): 0.9, (1, 11): 0.4, (0, 20): 0.9, (0, 21): 0.1, (1, 22): 0.7, (1, 23): 0.6}

    def score(left, right):
        return np.array([known[pair] for pair in zip(left.tolist(), right.tolist(), strict=True)])

    found = link_figures(score, pairs)
    assert found["auc"] == pytest.approx((0.5 + 3 + 1) / 8)  # 0.9 against 4 (one is equal), 0.4 against 4
    assert found["mrr"] == pytest.approx((1 / 1.5 + 1 / 3) / 2)
    assert found["hits_at_10"] == 1
    # from the top: an edge and a half non-edge; two halves; the other edge
    assert found["average_precision"] == pytest.approx((1 / 1.5 + 2 / 3.5) / 2)


def test_ranks_beyond_ten_are_no_hits_and_what_is_all_alike_is_in_the_middle():
    pairs = LinkPairs(np.array([0, 0]), np.array([1, 2]), np.tile(np.arange(3, 13), (2, 1)))
    places = np.concatenate([[0, 1.5, 11.5], np.arange(2, 12)])  # the first edge is behind 10 others, the second one

    found = link_figures(lambda left, right: places[right], pairs)
    assert (found["hits_at_10"], found["mrr"]) == (0.5, pytest.approx((1 / 11 + 1) / 2))
    alike = link_figures(lambda left, right: np.zeros(left.size), pairs)
    assert (alike["auc"], alike["mrr"]) == (0.5, pytest.approx(1 / 6))


def test_parts_of_the_edges_have_figures_of_their_own_edges_and_pairs():
    draw = np.random.default_rng(0)
    scores = draw.random((100, 11))  # of an edge, and of its ten pairs
    pairs = LinkPairs(np.arange(100), np.zeros(100, np.int64), np.tile(np.arange(1, 11), (100, 1)))
    found = link_figures(lambda left, right: scores[left, right], pairs)
    assert len(found["auc_by_part"]) == 20
    own = scores[3::20]
    higher = own[:, 0][:, None] > own[:, 1:].ravel()[None]
    assert found["auc_by_part"][3] == pytest.approx(higher.mean())
    few = LinkPairs(pairs.near[:99], pairs.far[:99], pairs.others[:99])
    assert "auc_by_part" not in link_figures(lambda left, right: scores[left, right], few)


# --- non-edges -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("undirected", [True, False])
def test_non_edges_are_no_edges_neither_remaining_nor_held_out(tmp_path, task, undirected):
    graph = held_out_graph(tmp_path / "graph", random_edges(30, 300, seed=1), num_nodes=30, undirected=undirected)
    edges, known = HeldOutEdges.of(graph), {(node, node) for node in range(30)}
    rows = np.stack([np.repeat(np.arange(30), np.diff(graph.indptr)), graph.indices], 1)
    for part in (rows, edges.validation, edges.test):
        known |= {(u, v) for u, v in part.tolist()} | {(v, u) for u, v in part.tolist()}
    pairs = pairs_of(graph, task)
    assert pairs.others.shape == (len(edges.test), 100)
    assert not known & set(zip(np.repeat(pairs.near, 100).tolist(), pairs.others.ravel().tolist(), strict=True))
    ends = {tuple(sorted(pair)) for pair in zip(pairs.near.tolist(), pairs.far.tolist(), strict=True)}
    assert ends == {tuple(sorted(pair)) for pair in edges.test.tolist()}
    assert 0 < (pairs.near < pairs.far).mean() < 1  # one end or the other


def test_an_edge_whose_end_has_an_edge_to_every_node_is_left_out(tmp_path):
    wheel = [(0, node) for node in range(1, 40)] + [(node, node % 39 + 1) for node in range(1, 40)]
    graph = held_out_graph(tmp_path / "graph", wheel, 0.5, 40)
    pairs = pairs_of(graph, "random")
    assert 0 < pairs.near.size < len(HeldOutEdges.of(graph).test)
    assert (pairs.near > 0).all()


def test_far_ends_are_drawn_uniformly_or_by_degree(tmp_path):
    graph = held_out_graph(tmp_path / "graph", random_edges(2000, 6000, seed=1, hubs=10), num_nodes=2000)
    by_degree = np.diff(graph.indptr)[:10].sum() / graph.indices.size
    shares = {task: (pairs_of(graph, task).others < 10).mean() for task in TASKS}
    assert shares["random"] == pytest.approx(10 / 2000, rel=0.2)
    assert by_degree / 2 < shares["degree_matched"] < by_degree  # edges of the hubs are no non-edges of theirs
    assert by_degree > 0.1


def test_as_many_edges_as_asked_for_are_scored_and_the_seed_decides_which(tmp_path):
    graph = held_out_graph(tmp_path / "graph")
    one, again = (pairs_of(graph, "random", most=20, non_edges=5) for _ in range(2))
    assert one.others.shape == (20, 5)
    np.testing.assert_array_equal(one.others, again.others)
    other = LinkPairs.draw(graph, HeldOutEdges.of(graph).test, "random", 1, most=20, non_edges=5)
    assert set(zip(other.near, other.far, strict=True)) != set(zip(one.near, one.far, strict=True))


# --- figures of vectors ----------------------------------------------------------------------------------------------


def test_features_that_know_the_held_out_edges_are_found_out(tmp_path):
    """A planted leak: rows of the whole adjacency. Structural features of the remaining edges are far from it."""
    edges = random_edges(NODES, 700, seed=3)
    leaking = np.eye(NODES, dtype=np.float32)
    np.add.at(leaking, (edges[:, 0], edges[:, 1]), 1)
    np.add.at(leaking, (edges[:, 1], edges[:, 0]), 1)
    graph = held_out_graph(tmp_path / "leak", edges, features=leaking)
    clean = held_out_graph(tmp_path / "clean", edges)
    known, unknown = (
        link_figures(by_cosine(one.features), pairs_of(one, "degree_matched"))["auc"] for one in (graph, clean)
    )
    assert known > 0.85
    assert 0.35 < unknown < 0.65  # random edges: nothing can be known of them


@pytest.mark.parametrize("alike", ["validation", "test"])
def test_a_choice_reads_the_edges_for_validation_alone_and_a_report_those_for_test(tmp_path, alike):
    graph = held_out_graph(tmp_path / "graph", random_edges(600, 1500, seed=3), 0.2, 600)
    vectors = np.random.default_rng(0).normal(size=(600, 8)).astype(np.float32)
    for u, v in getattr(HeldOutEdges.of(graph), alike).tolist():
        vectors[v] = vectors[u]
    found = {
        "validation": validation_auc(graph, 0)(by_cosine(vectors)),
        "test": link_figures(by_cosine(vectors), pairs_of(graph, "degree_matched"))["auc"],
    }
    assert found.pop(alike) > 0.8
    assert next(iter(found.values())) < 0.65


def measured(graph, seed=0):
    config = EvaluateConfig(seed=seed)
    draw = np.random.default_rng(seed)
    vectors = {name: draw.normal(size=(graph.num_nodes, 8)).astype(np.float32) for name in ("trained", "untrained")}
    return evaluate_run(graph, {**vectors, "raw": graph.features}, None, config)


def test_metrics_of_repeats_carry_standard_errors_and_the_remarks_tell_how_links_were_measured(tmp_path):
    graph = held_out_graph(tmp_path / "graph")
    figures = [measured(graph, seed) for seed in range(3)]
    assert not flaw_of_metrics(figures[0])
    whole = combine_repeats(figures)
    assert not flaw_of_metrics(whole)
    aucs = [one["links"]["trained"]["random"]["auc"] for one in figures]
    assert whole["links"]["trained"]["random"]["auc"] == pytest.approx(np.mean(aucs))
    assert whole["links"]["trained"]["random"]["auc_se"] == pytest.approx(np.std(aucs, ddof=1) / math.sqrt(3))
    remarks = " ".join(figures_table(figures[0])[2])
    assert f"Links: {len(HeldOutEdges.of(graph).test)} held-out edges, each against 100 pairs" in remarks
    assert "held_out_edges=0.1" not in remarks


def test_a_training_that_brought_nothing_or_may_have_is_warned_of(tmp_path):
    figures = measured(held_out_graph(tmp_path / "graph"))
    links = figures["links"]
    links["trained"]["degree_matched"]["auc"], links["untrained"]["degree_matched"]["auc"] = 0.61, 0.62
    for method in ("trained", "untrained", "raw"):
        links[method]["degree_matched"]["auc_se"] = 0.001
    assert any("no gain over the untrained encoder (-1.00 points of AUC" in one for one in warnings_of(figures))
    links["trained"]["degree_matched"]["auc"], links["raw"]["degree_matched"]["auc"] = 0.63, 0.7
    assert any("no gain over the input features (-7.00 points of AUC" in one for one in warnings_of(figures))
    links["raw"]["degree_matched"]["auc"] = 0.6
    assert not any("held-out edges" in one for one in warnings_of(figures))
    links["trained"]["degree_matched"]["auc_se"] = 0.012
    (told,) = (one for one in warnings_of(figures) if "held-out edges" in one)
    assert "helped: the gain in points of AUC of held-out edges is 1.00 ± 1.20 over the untrained encoder; " in told
    assert told.endswith("--set train.repeats=5 --set evaluate.held_out_edges=0.3")


def test_edges_too_few_to_measure_are_a_reason(tmp_path):
    edges = [(u, v) for u in range(6) for v in range(u)]
    figures = measured(held_out_graph(tmp_path / "graph", edges, 0.4, 6))
    assert figures["missing"]["links"] == "too few edges are held out (evaluate.held_out_edges)"


# --- whole runs ------------------------------------------------------------------------------------------------------

SMALL = [
    "graph.source=tables", "graph.edges=edges.csv", "graph.structural_features=16", "rings.hops=1", "rings.width=16",
    "rings.per_ring=4", "rings.beyond=8", "rings.rounds=1", "model.width=8", "model.projection=8", "train.epochs=2",
    "train.batch_size=100", "train.negatives=16", "runtime.workers=1", "runtime.device=cpu",
]  # fmt: skip


@pytest.fixture
def customers(tmp_path):
    """A folder with edges.csv: customers in groups, without labels or features."""
    draw = np.random.default_rng(0)
    left = draw.integers(0, 200, 900)
    right = (left // 20 * 20 + draw.integers(0, 20, 900)) % 200
    lines = [f"c{one:03d},c{other:03d}" for one, other in zip(left, right, strict=True) if one != other]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *lines]) + "\n")
    return tmp_path


def run(folder, name, *more):
    options = [word for setting in (*SMALL, *more) for word in ("--set", setting)]
    return cli("run", "--run", name, *options, cwd=folder)


def test_a_run_without_labels_has_figures_of_links_in_metrics_terminal_and_report(customers):
    ended = run(customers, "held", "evaluate.held_out_edges=0.2")
    assert ended.returncode == 0, ended.stderr
    metrics = json.loads((customers / "held/metrics.json").read_text())
    assert not flaw_of_metrics(metrics)
    for name in ("trained", "untrained", "raw", "adamic_adar", "preferential_attachment"):
        for task in TASKS:
            assert metrics["links"][name][task].keys() == {"auc", "average_precision", "hits_at_10", "mrr"}
    assert metrics["links"]["raw"]["random"]["auc"] > 0.8
    assert metrics["links"]["adamic_adar"]["degree_matched"]["auc"] > 0.6
    for words in ("AUC %", "Hits@10 %", "Adamic-Adar", "preferential attachment", "trained encoder", "Links: "):
        assert words in ended.stdout
    page = (customers / "held/report.html").read_text()
    for words in ("Does it predict links?", "Held-out edges against nodes drawn by degree, in %", "Adamic-Adar"):
        assert words in page
    assert "no accuracy can be given" not in page


def test_a_run_without_labels_and_held_out_edges_tells_how_to_get_figures(customers):
    ended = run(customers, "whole")
    assert ended.returncode == 0, ended.stderr
    how = "use a new run folder (--run) and add --set evaluate.held_out_edges=0.1"
    assert how in ended.stdout
    assert how in (customers / "whole/report.html").read_text()
    assert "Does it predict links?" not in (customers / "whole/report.html").read_text()
    refused = run(customers, "whole", "evaluate.held_out_edges=0.1")
    assert refused.returncode == 2
    assert "evaluate.held_out_edges=0.0, but the config now says 0.1; use a new folder (--run)" in refused.stderr
