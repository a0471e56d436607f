"""Nights without labels: versions compared by edges that neither learnt, and by edges that came since."""

import numpy as np
import pyarrow as pa
import pytest

from gscl_scale.cli.registry import list_versions
from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.config.retrain import GateConfig
from gscl_scale.embed.store import write_embeddings
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.graph.held_out_edges import HeldOutEdges, HoldOut
from gscl_scale.registry.versions import Figures, Registry, refusal_of
from gscl_scale.retrain.foresight import compare_links, edges_since, held_out_by_both, link_sentences
from gscl_scale.retrain.gate import judge
from gscl_scale.retrain.night import retrain
from gscl_scale.retrain.notify import write_metrics
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.shards.graph_diff import match_nodes
from tests.graphs import random_edges
from tests.retrain.test_columns import OPEN
from tests.retrain.test_nights import metrics_in
from tests.retrain.town import Town

pytestmark = pytest.mark.usefixtures("blank_curves")

QUIET = Console(quiet=True)


# --- which edges -----------------------------------------------------------------------------------------------------


def graph_of(folder, ids, edges, undirected, share):
    """A graph of those edges, given as pairs of ids, that have both ends among its ids."""
    place = {int(one): number for number, one in enumerate(ids)}
    inside = [(place[u], place[v]) for u, v in edges if u in place and v in place]
    draft = GraphDraft("made", "a test", len(ids), [tuple(np.array(inside).T)], ids=pa.array(ids))
    config = MemoryGraph(undirected=undirected, structural_features=8)
    return write_graph(draft, config, folder, HoldOut(share) if share else HoldOut())


def two_graphs(folder, undirected, share):
    """An earlier graph, and a later one with other nodes, other edges and another order."""
    draw = np.random.default_rng(1)
    edges = [(int(u), int(v)) for u, v in random_edges(90, 900, seed=5) if u != v]
    old = graph_of(folder / "old", np.arange(10, 90), edges[:600], undirected, share)
    return old, graph_of(folder / "new", draw.permutation(80), edges[100:], undirected, share)


def by_ids(graph, pairs):
    ids = graph.ids.to_numpy()[np.asarray(pairs)]
    return {tuple(sorted(pair)) if graph.undirected else tuple(pair) for pair in ids.tolist()}


def remaining(graph):
    left = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return by_ids(graph, np.stack([left, graph.indices], axis=1))


def held_out(graph):
    found = HeldOutEdges.of(graph)
    return by_ids(graph, np.concatenate([found.validation, found.test])) if found else set()


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("share", [0, 0.3])
def test_edges_that_came_are_those_of_the_later_graph_between_old_nodes_without_an_earlier_edge(
    tmp_path, undirected, share
):
    old, new = two_graphs(tmp_path, undirected, share)
    before = remaining(old) | held_out(old)
    expected = {
        (u, v)
        for u, v in remaining(new) | held_out(new)
        if min(u, v) >= 10 and (u, v) not in before and (v, u) not in before
    }
    count, pairs = edges_since(old, new, match_nodes(old, new))
    assert by_ids(new, pairs) == expected
    assert count == len(pairs) == len(expected) > 50
    some = edges_since(old, new, match_nodes(old, new), most=20)
    assert (some[0], len(some[1])) == (count, 20)
    assert by_ids(new, some[1]) < expected


@pytest.mark.parametrize("undirected", [True, False])
def test_edges_held_out_by_both_are_test_edges_of_both(tmp_path, undirected):
    old, new = two_graphs(tmp_path, undirected, 0.4)
    found = by_ids(new, held_out_by_both(old, new, match_nodes(old, new)))
    before, now = (by_ids(graph, HeldOutEdges.of(graph).test) for graph in (old, new))
    assert found == {(u, v) for u, v in now if (u, v) in before or (v, u) in before}
    assert len(found) > 10
    plain, _ = two_graphs(tmp_path / "plain", undirected, 0)
    assert not len(held_out_by_both(plain, new, match_nodes(plain, new)))


# --- the scores ------------------------------------------------------------------------------------------------------


def version_of(graph, rows):
    run = Run(graph.folder.parent / f"run-{graph.folder.name}", graph.folder)
    write_embeddings(run.embeddings, graph, rows.astype(np.float32), "made", npy=False)
    return run


def test_each_version_scores_the_same_pairs_by_the_rows_of_its_own_nodes(tmp_path):
    old, new = two_graphs(tmp_path, True, 0.3)
    place = np.random.default_rng(0).normal(size=(90, 6))  # of each id
    rows = [place[graph.ids.to_numpy()] for graph in (old, new)]
    same = compare_links(version_of(old, rows[0]), version_of(new, -3 * rows[1]), 0)
    assert same.keys() == {"held_out", "since"}
    for compared in same.values():
        assert compared["new"]["auc"] == pytest.approx(compared["current"]["auc"], abs=1e-6)
        assert compared["measured"] == compared["edges"] > 10
    blind = compare_links(version_of(old, np.ones((80, 6))), version_of(new, rows[1]), 0)
    assert blind["since"]["current"]["auc"] == blind["held_out"]["current"]["auc"] == 0.5
    assert blind["since"]["new"] == same["since"]["new"]


# --- the gate --------------------------------------------------------------------------------------------------------

NOW = Figures(probe=None, ranking=None, alignment=None, norm=2.0, cosine=0.3, rank=20.0, links=0.8)


def compared(new, current, edges=100):
    scores = {"new": {"auc": new, "mrr": 0.2}, "current": {"auc": current, "mrr": 0.1}}
    return {"edges": edges, "measured": edges, **scores}


@pytest.mark.parametrize(
    ("links", "named"),
    [
        ({"held_out": compared(0.7799, 0.80)}, "AUC on edges that both versions held out is 0.7799, expected at least"),
        ({"since": compared(0.6299, 0.65)}, "AUC on new edges is 0.6299, expected at least 0.6300 (that of the"),
        ({"since": compared(0.63, 0.65), "held_out": compared(0.78, 0.80)}, ""),
        ({"since": compared(0.1, 0.65, edges=99)}, ""),  # too few to judge by
    ],
)
def test_a_version_that_tells_edges_worse_than_the_current_one_is_refused(links, named):
    refusal = refusal_of(judge(NOW, NOW, GateConfig(), links))
    assert refusal.startswith(named) if named else not refusal


def test_a_first_version_has_to_tell_held_out_edges_better_than_chance():
    assert refusal_of(judge({**NOW, "links": 0.55}, None, GateConfig())) == ""
    found = refusal_of(judge({**NOW, "links": 0.5499}, None, GateConfig()))
    assert found == "AUC on held-out edges is 0.5499, expected at least 0.5500 (gate.links_least)"


# --- nights ----------------------------------------------------------------------------------------------------------


def test_nights_without_labels_tell_what_was_foreseen_and_refuse_a_collapsed_version(tmp_path, capsys):
    town, where = Town(tmp_path / "town", labelled=False), tmp_path / "registry"
    config = town.config(evaluate={"held_out_edges": 0.2}, gate={**OPEN, "norm_factor": 1e9})
    registry, first = Registry(where), retrain(config, where, QUIET)
    assert (first.result, first.links) == ("promoted", {})
    assert "AUC on held-out edges" in {check["name"] for check in first.checks}

    town.grow(200)
    capsys.readouterr()
    second = retrain(config, where, Console())
    assert second.result == "promoted", second.reason
    since, apart = second.links["since"], second.links["held_out"]
    assert 150 < since["edges"] <= 200
    assert apart["edges"] > 200
    assert 0.7 < since["current"]["auc"] < since["new"]["auc"]
    assert {"AUC on new edges", "AUC on edges that both versions held out"} < {one["name"] for one in second.checks}
    assert registry.version(second.version).index["links"] == second.links
    told = capsys.readouterr().err
    for sentence in link_sentences(second.links, first.version):
        assert sentence in told
    write_metrics(tmp_path / "retrain.prom", second)
    assert metrics_in(tmp_path / "retrain.prom")["foreseen_auc", ""] == since["current"]["auc"]
    list_versions(str(where))
    table = capsys.readouterr().out
    assert "foreseen" in table
    assert f"{since['current']['auc']:.4f}" in table

    town.flatten_features()
    town.grow(200)
    third = retrain(config, where, QUIET)
    assert (third.result, third.current) == ("refused", second.version)
    assert {check["name"] for check in third.checks if not check["holds"]} == {
        "AUC on held-out edges",
        "AUC on edges that both versions held out",
        "AUC on new edges",
    }
