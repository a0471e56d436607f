from dataclasses import replace

import numpy as np
import pytest

from gscl_scale.bench import engines, large_balls, listing, tools
from gscl_scale.bench.engines import Round, batch_of
from gscl_scale.bench.graphs import config_graph, num_edges
from gscl_scale.bench.large_balls import BallSizes, core_seconds, difference, draw_graphs
from gscl_scale.bench.listing import random_anchors
from gscl_scale.bench.peers import PEERS, Peer
from gscl_scale.bench.rings import bench_rings
from gscl_scale.bench.tools import mean_visits, peer_depth, rate_figures
from gscl_scale.config.config import Config
from gscl_scale.errors import RunError, UserError
from gscl_scale.rings.exact.ring_sizes import ring_profile
from gscl_scale.runtime.console import Console
from gscl_scale.shards.reader import Samples
from tests.bench.conftest import TINY, figures_of, quiet_bench, written_by
from tests.graphs import make_graph, make_samples, random_edges
from tests.oracles import distances

SMALL = BallSizes(star=3000, random=2000, mean_degree=20)
PEER, DEAD = "scipy frontier products", "scipy rows and numpy marks"


@pytest.fixture(scope="module")
def measured(tmp_path_factory, in_this_process):
    """Our engines at 3 hops and scipy at 2; one peer is missing and one dies."""
    depths = {"hops": [3], "peer_hops": [2], "seconds": 0.1, "turns": 1, "cores": 1, "only": "tools"}
    bench = quiet_bench("rings", tmp_path_factory.mktemp("bench"), config=Config.load(None, TINY), **depths)
    scipy = [peer for peer in PEERS if peer.package == "scipy"]

    def dies(peer, *rest):
        if peer == DEAD:
            raise RunError("bench: a process was killed")
        return listing.measure_peer(peer, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tools, "PEERS", (*scipy, Peer("nowhere rings", "no_such_package", ())))
        patch.setattr(tools, "measure_peer", dies)
        page = bench_rings(bench)
    return written_by(bench, page), page


@pytest.mark.slow
def test_there_is_a_row_per_competitor_and_figure(measured):
    rows = measured[0]["rows"]
    assert all(row.keys() == {"competitor", "hops", "figure", "value", "unit"} for row in rows)
    common = {
        "anchors_per_second", "ratio_to_best_peer", "edge_visits_per_second", "peak_memory", "anchors_measured",
        "cores_used", "anchors_per_core_second",
    }  # fmt: skip
    places = "ring_1", "ring_2", "ring_3", "all_rings"
    batch = {f"batch_{kind}_{place}" for kind in ("references", "distinct") for place in places}
    of_round = common | batch | {"seconds", "verify_seconds", "bytes_written", "short_share"}
    expected = {(PEER, 2): common, ("exact", 3): common, ("auto", 3): of_round, ("sketch", 3): of_round}
    assert {(row["competitor"], row["hops"]) for row in rows} == expected.keys()
    for (name, _), figures in expected.items():
        assert figures <= figures_of(rows, competitor=name).keys()


def test_figures_fit_each_other(measured):
    written, _ = measured
    ours, peer = (figures_of(written["rows"], competitor=name) for name in ("sketch", PEER))
    assert ours["anchors_measured"] == written["setting"]["nodes"] == 300
    assert ours["anchors_per_second"] == pytest.approx(300 / ours["seconds"])
    assert ours["ratio_to_best_peer"] == pytest.approx(ours["anchors_per_second"] / peer["anchors_per_second"])
    assert ours["verify_seconds"] < ours["seconds"]
    assert ours["edge_visits_per_second"] == pytest.approx(3 * written["setting"]["entries"] / ours["seconds"])
    assert 0 <= ours["short_share"] <= 1
    assert ours["peak_memory"] > 30e6
    assert ours["bytes_written"] > 300 * 4 * 10
    assert peer["ratio_to_best_peer"] == 1
    assert 0.02 < peer["cores_used"] <= 1.05
    assert peer["anchors_per_core_second"] == pytest.approx(peer["anchors_per_second"] / peer["cores_used"])


def test_the_setting_says_what_was_measured_and_with_what(measured):
    setting = measured[0]["setting"]
    assert (setting["hops"], setting["peer_hops"], setting["cores"]) == ([3], [2], 1)
    assert setting["processor"]
    assert {"gscl_scale", "python", "numpy", "scipy"} <= setting["versions"].keys()
    (forms,) = setting["forms"]
    rates = [trial["anchors_per_second"] for trial in forms["trials"]]
    assert len(rates) == 6
    assert rates == sorted(rates, reverse=True)


def test_a_peer_that_is_missing_or_dies_is_named_and_the_others_are_measured(measured):
    written, page = measured
    missing = "the package no_such_package is not installed"
    assert written["setting"]["left_out"] == {"nowhere rings": missing, DEAD: "bench: a process was killed"}
    assert f"left out: nowhere rings: {missing}" in page
    assert f"| 2 | {PEER} |" in page


def test_the_page_says_at_which_depth_the_peers_were(measured):
    _, page = measured
    (line,) = [line for line in page.splitlines() if "**gscl-scale `sketch`**" in line]
    assert "(its k = 2)" in line
    assert "`sketch` at k = 3 against each other tool at k = 2: " in page or "`auto` at k = 3 against" in page


@pytest.fixture(scope="module")
def on_large_balls(tmp_path_factory, in_this_process):
    """Our engines on a small star, a graph of 300 nodes with a node joined to all, and a small random graph."""
    settings = {"config": Config.load(None, TINY), "turns": 1, "only": "large-balls"}
    bench = quiet_bench("rings", tmp_path_factory.mktemp("bench"), **settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_balls, "SIZES", SMALL)
        patch.setattr(engines, "compile_kernels", lambda *_: None)
        page = bench_rings(bench)
    return written_by(bench, page), page


def test_balls_of_the_graphs_hold_all_nodes(tmp_path):
    graph = make_graph(tmp_path / "graph", random_edges(200, 300, seed=3), 200, undirected=False)
    star, with_hub, dense = drawn = list(draw_graphs(graph, SMALL, tmp_path))
    assert [(made.num_nodes, hops) for made, hops in drawn] == [(3000, 2), (201, 2), (2000, 4)]
    assert star[0].indices.size == 2 * 2999
    assert with_hub[0].indices.size == graph.indices.size + 2 * 200
    assert 19 < dense[0].indices.size / 2000 <= 20
    for made, hops in drawn:
        sizes, *_ = ring_profile(made.indptr, made.indices, np.arange(0, made.num_nodes, 40), hops)
        assert (1 + sizes.sum(axis=1) == made.num_nodes).all()


def test_there_is_a_row_per_graph_with_large_balls_engine_and_figure(on_large_balls):
    written, _ = on_large_balls
    found = written["large_balls"]
    assert written["rows"] == []
    assert [(graph["graph"], graph["hops"], graph["samples_differ"]) for graph in found["graphs"]] == [
        ("star of 3,000 nodes", 2, ""),
        (f"{written['setting']['graph']} with a node joined to all", 2, ""),
        ("random, 2,000 nodes, mean degree 20", 4, ""),
    ]
    for graph in found["graphs"]:
        auto, sketch, exact = engines_on = [
            figures_of(found["rows"], graph=graph["graph"], competitor=name) for name in ("auto", "sketch", "exact")
        ]
        chosen = {"sketch": sketch, "exact": exact}[graph["engine_chosen"]]
        assert auto["core_seconds_estimated"] == chosen["core_seconds_estimated"] > 0
        for figures in engines_on:
            for name in ("seconds", "core_seconds"):
                faster = min(sketch[name], exact[name])
                assert figures[f"{name}_to_faster_engine"] == pytest.approx(figures[name] / faster)
            to_estimate = figures["core_seconds"] / figures["core_seconds_estimated"]
            assert figures["measured_to_estimated"] == pytest.approx(to_estimate)


def test_core_seconds_are_without_the_reading_back():
    assert core_seconds(Round(2.0, 10, 0, 0.5, 5.0, 1.0, "exact", 0, 0.0, [], [])) == 2.0


def test_the_page_has_a_section_about_large_balls(on_large_balls):
    written, page = on_large_balls
    assert page.startswith("## Graphs whose balls hold all nodes\n\n")
    chosen = written["large_balls"]["graphs"][0]["engine_chosen"]
    assert f"| star of 3,000 nodes | 3,000 | 5,998 | 2 | **auto** (it chose {chosen}) |" in page
    assert page.count("| sketch |") == page.count("| exact |") == 3
    assert page.count("`sketch` and `exact` have equal bytes in all columns but") == 3


def test_the_page_names_the_first_difference_of_samples(tmp_path, monkeypatch, in_this_process):
    monkeypatch.setattr(large_balls, "SIZES", BallSizes(star=300, random=200, mean_degree=20))
    monkeypatch.setattr(engines, "compile_kernels", lambda *_: None)
    monkeypatch.setattr("gscl_scale.bench.large_balls.difference", lambda one, other: "beyond")
    config = Config.load(None, TINY)
    page = bench_rings(quiet_bench("rings", tmp_path, config=config, turns=1, only="large-balls"))
    assert "all: the samples of `sketch` and `exact` **differ**, first in beyond of part 0" in page


def test_a_difference_of_samples_is_named_but_not_that_of_estimated_sizes(tmp_path):
    make_graph(tmp_path / "graph", random_edges(300, 2500, seed=4), 300)
    make_samples(tmp_path / "graph", tmp_path / "samples", Config.load(None, TINY).rings)
    (sample,) = Samples.open(tmp_path / "samples").round(0).parts
    exact = np.arange(300) > 0
    one, other = replace(sample, ring_size=sample.ring_size + ~exact[:, None]), replace(sample, ring_size_exact=exact)
    assert difference(sample, sample) == difference(one, other) == difference(other, one) == ""
    beyond = replace(sample.beyond, members=sample.beyond.members[::-1])
    for name, changed in {
        "ring_size": one,
        "decided": replace(sample, decided=sample.decided + 1),
        "anchor": replace(sample, anchors=sample.anchors + 1),
        "beyond": replace(sample, beyond=beyond),
        "ring_2": replace(sample, rings=[*sample.rings[:-1], sample.beyond]),
    }.items():
        assert difference(changed, sample) == name


def test_peers_are_compared_at_our_depth_or_else_at_their_deepest():
    assert [peer_depth(3, [2, 3, 4]), peer_depth(5, [2, 3]), peer_depth(2, [])] == [3, 3, 0]


def test_the_ratio_is_to_the_best_peer_at_the_depth_that_is_compared():
    peers = {("igraph", 2): 90.0, ("igraph", 3): 10.0, ("scipy", 3): 20.0}
    figures = rate_figures(4, [300.0, 500.0, 400.0], peers)
    values = {name: value for name, (value, _) in figures.items()}
    assert values == {
        "anchors_per_second": 400, "anchors_per_second_lowest": 300, "anchors_per_second_highest": 500,
        "ratio_to_best_peer": 20, "ratio_to igraph": 40, "ratio_to scipy": 20,
    }  # fmt: skip
    assert figures["ratio_to_best_peer"][1] == "times, best peer at 3 hops"
    assert rate_figures(2, [180.0], peers)["ratio_to_best_peer"][0] == 2
    assert not [name for name in rate_figures(2, [180.0], {}) if "ratio" in name]


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_edge_visits_are_the_edges_out_of_the_ball_of_one_hop_less(tmp_path, hops):
    graph = make_graph(tmp_path / "graph", random_edges(200, 300, seed=3, hubs=2), 200)
    inside = distances(graph.indptr, graph.indices) < hops
    assert mean_visits(graph, hops) == pytest.approx((inside * np.diff(graph.indptr)).sum(axis=1).mean())


def test_a_batch_counts_the_lowest_of_each_ring_and_the_distinct_among_them(tmp_path):
    make_graph(tmp_path / "graph", random_edges(300, 2500, seed=4), 300)
    config = Config.load(None, ["rings.hops=2", "rings.per_ring=20", "rings.width=64"]).rings
    make_samples(tmp_path / "graph", tmp_path / "samples", config)
    samples = Samples.open(tmp_path / "samples")
    rings = samples.round(0).take(np.arange(300)).rings
    lowest = [
        [ring.members[a:b][:16].tolist() for a, b in zip(ring.offsets, ring.offsets[1:], strict=False)]
        for ring in rings
    ]
    assert max(map(len, lowest[1])) == 16
    members = [[node for one in lists for node in one] for lists in lowest]
    members.append(members[0] + members[1])
    assert batch_of(samples, 300, 2) == ([len(ring) for ring in members], [len(set(ring)) for ring in members])


def test_all_competitors_take_the_same_random_anchors_each_once():
    assert (random_anchors(50) == random_anchors(50)).all()
    assert sorted(random_anchors(50)) == list(range(50))


def test_independent_priorities_are_refused(tmp_path):
    config = Config.load(None, [*TINY, "rings.sharing=independent"])
    with pytest.raises(UserError, match=r"set rings\.sharing to shared"):
        bench_rings(quiet_bench("rings", tmp_path, config=config))


def test_the_graph_that_is_read_is_printed(tmp_path, capsys):
    config = Config.load(None, TINY)
    bench = quiet_bench("rings", tmp_path, config=config)
    bench.console = Console()
    graph = config_graph(bench, config, tmp_path)
    assert capsys.readouterr().err.splitlines() == [
        "bench rings: reading the graph (source synthetic)",
        f"bench rings: graph {graph.name}: {graph.num_nodes:,} nodes, {num_edges(graph):,} edges",
    ]
