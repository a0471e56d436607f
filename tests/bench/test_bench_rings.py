import json
from dataclasses import replace

import numpy as np
import pytest

from gscl_scale.bench import engines, listing, rings
from gscl_scale.bench.engines import Whole, batch_of
from gscl_scale.bench.large_balls import BallSizes, _core_s, _draw, difference
from gscl_scale.bench.listing import random_anchors
from gscl_scale.bench.peers import PEERS, Peer
from gscl_scale.bench.rings import RingsBench, _rate_rows, bench_rings, mean_visits, take_cores
from gscl_scale.bench.rings_page import peer_depth, rings_page
from gscl_scale.config.config import Config
from gscl_scale.errors import RunError, UserError
from gscl_scale.rings.exact.ring_sizes import ring_profile
from gscl_scale.runtime.console import Console
from gscl_scale.shards.reader import Samples
from tests.graphs import make_graph, make_samples, random_edges
from tests.oracles import distances

QUIET = Console(quiet=True)
TINY = ["graph.source=synthetic", "graph.preset=tiny", "rings.width=16", "rings.per_ring=4", "rings.beyond=8"]
SMALL = BallSizes(star=3000, random=2000, mean_degree=20)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Our engines at 3 hops beside scipy at 2; one peer is missing and one dies."""
    out = tmp_path_factory.mktemp("bench")
    scipy = [peer for peer in PEERS if peer.package == "scipy"]

    def dies_at_rows(peer, *rest):
        if peer == scipy[1].name:
            raise RunError("bench: a process was killed")
        return listing.measure_peer(peer, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rings, "PEERS", (*scipy, Peer("nowhere rings", "no_such_package", ())))
        patch.setattr(rings, "measure_peer", dies_at_rows)
        page = bench_rings(Config.load(None, TINY), RingsBench([3], [2], 1, 0.1, 1, sections=["tools"]), out, QUIET)
    return out, json.loads((out / "rings.json").read_text()), page


def figures_of(written, name):
    return {row["figure"]: row["value"] for row in written["rows"] if row["competitor"] == name}


def test_there_is_a_row_per_competitor_and_figure(measured):
    _, written, _ = measured
    assert all(row.keys() == {"competitor", "hops", "figure", "value", "unit"} for row in written["rows"])
    common = {"anchors_per_second", "ratio_to_best_peer", "edge_visits_per_second", "peak_memory", "anchors_measured"}
    common |= {"cores_used", "anchors_per_core_second"}
    whole = {"seconds", "verify_seconds", "bytes_written", "short_share"} | {
        f"batch_{kind}_{place}"
        for kind in ("references", "distinct")
        for place in ("ring_1", "ring_2", "ring_3", "all_rings")
    }
    assert common <= figures_of(written, "scipy frontier products").keys()
    assert common <= figures_of(written, "exact").keys()
    for engine in ("auto", "sketch"):
        assert common | whole <= figures_of(written, engine).keys()
    assert {(row["competitor"], row["hops"]) for row in written["rows"]} == {
        ("scipy frontier products", 2), ("exact", 3), ("auto", 3), ("sketch", 3)
    }  # fmt: skip


def test_figures_fit_each_other(measured):
    _, written, _ = measured
    ours, peer = figures_of(written, "sketch"), figures_of(written, "scipy frontier products")
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
    _, written, _ = measured
    setting = written["setting"]
    assert (setting["hops"], setting["peer_hops"], setting["cores"]) == ([3], [2], 1)
    assert setting["processor"]
    assert {"gscl_scale", "python", "numpy", "scipy"} <= setting["versions"].keys()
    (forms,) = setting["forms"]
    rates = [trial["anchors_per_second"] for trial in forms["trials"]]
    assert len(rates) == 6
    assert rates == sorted(rates, reverse=True)


def test_a_peer_that_is_missing_or_dies_is_named_and_the_others_are_measured(measured):
    _, written, page = measured
    assert written["setting"]["left_out"] == {
        "nowhere rings": "the package no_such_package is not installed",
        "scipy rows and numpy marks": "bench: a process was killed",
    }
    assert "left out: nowhere rings: the package no_such_package is not installed" in page
    assert "| 2 | scipy frontier products |" in page


def test_the_page_is_written_and_says_at_which_depth_the_peers_were(measured):
    out, _, page = measured
    assert (out / "rings.md").read_text().strip() == page
    lines = [line for line in page.splitlines() if "**gscl-scale `sketch`**" in line]
    assert len(lines) == 1
    assert "(its k = 2)" in lines[0]
    assert "`sketch` at k = 3 against each other tool at k = 2: " in page or "`auto` at k = 3 against" in page
    assert sorted(path.name for path in out.iterdir()) == ["rings.json", "rings.md"]


@pytest.fixture(scope="module")
def on_large_balls(tmp_path_factory):
    """Our engines on a small star, a graph of 300 nodes with a node joined to all, and a small random graph."""
    out = tmp_path_factory.mktemp("bench")
    asked = RingsBench([3], [2], 1, 0.1, 1, "the command", ["large-balls"], SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "in_process", lambda _, function, *arguments: function(*arguments))  # for quickness
        patch.setattr(engines, "compile_kernels", lambda *_: None)
        page = bench_rings(Config.load(None, TINY), asked, out, QUIET)
    return json.loads((out / "rings.json").read_text()), page


def ball_figures(found, graph, engine):
    rows = [row for row in found["rows"] if (row["graph"], row["competitor"]) == (graph, engine)]
    return {row["figure"]: row["value"] for row in rows}


def test_balls_of_the_graphs_hold_all_nodes(tmp_path):
    graph = make_graph(tmp_path / "graph", random_edges(200, 300, seed=3), 200, undirected=False)
    star, with_hub, dense = _draw(graph, SMALL, tmp_path)
    assert [(made.num_nodes, hops) for made, hops in (star, with_hub, dense)] == [(3000, 2), (201, 2), (2000, 4)]
    assert star[0].indices.size == 2 * 2999
    assert with_hub[0].indices.size == graph.indices.size + 2 * 200
    assert 19 < dense[0].indices.size / 2000 <= 20
    for made, hops in (star, with_hub, dense):
        sizes, _ = ring_profile(made.indptr, made.indices, np.arange(0, made.num_nodes, 40), hops)
        assert (1 + sizes.sum(axis=1) == made.num_nodes).all()


def test_there_is_a_row_per_graph_with_large_balls_engine_and_figure(on_large_balls):
    written, _ = on_large_balls
    found = written["large_balls"]
    assert written["rows"] == []
    assert [graph["graph"] for graph in found["graphs"]] == [
        "star of 3,000 nodes", f"{written['setting']['graph']} with a node joined to all",
        "random, 2,000 nodes, mean degree 20",
    ]  # fmt: skip
    assert [(graph["hops"], graph["samples_differ"]) for graph in found["graphs"]] == [(2, ""), (2, ""), (4, "")]
    for graph in found["graphs"]:
        auto, sketch, exact = (ball_figures(found, graph["graph"], engine) for engine in ("auto", "sketch", "exact"))
        chosen = {"sketch": sketch, "exact": exact}[graph["engine_chosen"]]
        assert auto["core_seconds_estimated"] == chosen["core_seconds_estimated"] > 0
        for of in (auto, sketch, exact):
            for name in ("seconds", "core_seconds"):
                faster = min(sketch[name], exact[name])
                assert of[f"{name}_to_faster_engine"] == pytest.approx(of[name] / faster)
            assert of["measured_to_estimated"] == pytest.approx(of["core_seconds"] / of["core_seconds_estimated"])


def test_core_seconds_are_without_the_reading_back():
    whole = Whole(5.0, 1.0, "exact", 10, 0, 0.0, 0, 0.5, [], [])
    assert _core_s(whole) == 2.0


def test_the_page_has_a_section_about_large_balls(on_large_balls):
    written, page = on_large_balls
    assert page.startswith("## Graphs whose balls hold all nodes\n\n")
    assert "`the command` makes this table" in page
    chosen = written["large_balls"]["graphs"][0]["engine_chosen"]
    assert f"| star of 3,000 nodes | 3,000 | 5,998 | 2 | **auto** (it chose {chosen}) |" in page
    assert page.count("| sketch |") == page.count("| exact |") == 3
    assert page.count("`sketch` and `exact` have equal bytes in all columns but") == 3
    found = written["large_balls"]
    found["graphs"][1]["samples_differ"] = "beyond of part 0"
    assert "all: the samples of `sketch` and `exact` **differ**, first in beyond of part 0" in rings_page(written)


def test_a_difference_of_samples_is_named_but_not_that_of_estimated_sizes(tmp_path):
    make_graph(tmp_path / "graph", random_edges(300, 2500, seed=4), 300)
    make_samples(tmp_path / "graph", tmp_path / "samples", Config.load(None, TINY).rings)
    (sample,) = Samples.open(tmp_path / "samples").round(0).parts
    assert difference(sample, sample) == ""
    exact = np.arange(300) > 0
    one, other = replace(sample, ring_size=sample.ring_size + ~exact[:, None]), replace(sample, ring_size_exact=exact)
    assert difference(one, sample) == "ring_size"
    assert difference(one, other) == difference(other, one) == ""
    for name in ("decided", "anchor"):
        field = {"anchor": "anchors"}.get(name, name)
        assert difference(replace(sample, **{field: getattr(sample, field) + 1}), sample) == name
    beyond = replace(sample.beyond, members=sample.beyond.members[::-1])
    assert difference(replace(sample, beyond=beyond), sample) == "beyond"
    assert difference(replace(sample, rings=[*sample.rings[:-1], sample.beyond]), sample) == "ring_2"


def test_peers_stand_beside_us_at_our_depth_or_else_at_their_deepest():
    assert peer_depth(3, [2, 3, 4]) == 3
    assert peer_depth(5, [2, 3]) == 3
    assert peer_depth(2, []) == 0


def test_the_ratio_is_to_the_best_peer_at_the_depth_beside_ours():
    peers = {("igraph", 2): 90.0, ("igraph", 3): 10.0, ("scipy", 3): 20.0}
    rows = {row.figure: row for row in _rate_rows("sketch", 4, [300.0, 500.0, 400.0], peers)}
    assert (rows["anchors_per_second"].value, rows["anchors_per_second"].hops) == (400, 4)
    assert (rows["anchors_per_second_lowest"].value, rows["anchors_per_second_highest"].value) == (300, 500)
    assert (rows["ratio_to_best_peer"].value, rows["ratio_to_best_peer"].unit) == (20, "times, best peer at 3 hops")
    assert (rows["ratio_to igraph"].value, rows["ratio_to scipy"].value) == (40, 20)
    assert next(row.value for row in _rate_rows("sketch", 2, [180.0], peers) if row.figure == "ratio_to_best_peer") == 2
    assert not [row for row in _rate_rows("sketch", 2, [180.0], {}) if "ratio" in row.figure]


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
    references, distinct = batch_of(samples, 300, 2)
    sample = samples.round(0).take(np.arange(300))
    rings = [
        [ring.members[a:b][:16].tolist() for a, b in zip(ring.offsets, ring.offsets[1:], strict=False)]
        for ring in sample.rings
    ]
    members = [[node for one in ring for node in one] for ring in rings]
    assert max(len(ring) for ring in rings[1]) == 16
    assert references == [len(members[0]), len(members[1]), len(members[0] + members[1])]
    assert distinct == [len(set(members[0])), len(set(members[1])), len(set(members[0] + members[1]))]


def test_all_competitors_take_the_same_random_anchors_each_once():
    assert (random_anchors(50) == random_anchors(50)).all()
    assert sorted(random_anchors(50)) == list(range(50))


def test_priorities_of_each_anchors_own_are_refused(tmp_path):
    config = Config.load(None, [*TINY, "rings.sharing=independent"])
    with pytest.raises(UserError, match=r"set rings\.sharing to shared"):
        bench_rings(config, RingsBench([2], [2]), tmp_path, QUIET)


def test_more_cores_than_there_are_are_refused():
    assert take_cores(1) == take_cores(0)[:1]
    with pytest.raises(UserError, match="--cores 4096 asks for more than the"):
        take_cores(4096)
