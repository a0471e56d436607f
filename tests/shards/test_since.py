import filecmp
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import FolderError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.arrow import map_array
from gscl_scale.io.json import read_json, read_json_lines, write_json
from gscl_scale.runtime.console import Console
from gscl_scale.shards import levels
from gscl_scale.shards.journal import Journal
from gscl_scale.shards.reader import Samples
from tests.graphs import make_graph, make_samples, random_edges
from tests.shards.test_precompute import assert_same_bytes, files_of, flip
from tests.slow import examples

CONFIG = RingsConfig(hops=2, width=4, per_ring=3, beyond=5, rounds=2, part_anchors=60, engine="sketch")


@pytest.fixture(autouse=True)
def passes_of_several_ranges(monkeypatch):
    monkeypatch.setattr(levels, "PASS_SHIFT", 7)


def both_ways(folder, before, after, config, before_undirected=True, **options):
    """Samples of the graph `after` from nothing, and since `before`; returns the log of the second."""
    folder.mkdir(exist_ok=True)
    was = {"undirected": options.get("undirected", True) and before_undirected}
    make_graph(folder / "old", before[0], len(before[1]), ids=before[1], **{**options, **was})
    make_graph(folder / "new", after[0], len(after[1]), ids=after[1], **options)
    make_samples(folder / "old", folder / "old-samples", config)
    make_samples(folder / "new", folder / "nothing", config)
    log = folder / "log.jsonl"
    earlier = folder / "old", folder / "old-samples"
    make_samples(folder / "new", folder / "since", config, console=Console(log, quiet=True), since=earlier)
    assert_same_bytes(folder / "nothing", folder / "since")
    return [line for line in read_json_lines(log) if line["event"] == "since"]


def change_edges(edges, num_nodes, number, rng):
    """Some edges removed, as many others added."""
    keep = rng.permutation(len(edges))[number:]
    return np.concatenate([edges[np.sort(keep)], rng.integers(0, num_nodes, (number, 2))])


@settings(max_examples=examples(40))
@given(
    seed=st.integers(0, 10_000),
    degree=st.floats(0.5, 5),
    hubs=st.integers(0, 2),
    changes=st.integers(0, 6),
    hops=st.integers(1, 4),
    engine=st.sampled_from(["sketch", "exact"]),
    undirected=st.booleans(),
    nodes=st.sampled_from(["same", "more", "fewer", "other order"]),
    per_ring=st.integers(1, 6),
    beyond=st.integers(1, 40),
)
def test_samples_since_an_earlier_run_are_those_from_nothing(
    tmp_path_factory, seed, degree, hubs, changes, hops, engine, undirected, nodes, per_ring, beyond
):
    rng = np.random.default_rng(seed)
    num_nodes = 300
    edges = random_edges(num_nodes, int(num_nodes * degree / 2) + 5, seed, hubs)
    changed = change_edges(edges, num_nodes, min(changes, len(edges)), rng)
    ids = np.arange(num_nodes) * 7 + 3
    new_ids = ids
    if nodes == "more":
        new_ids = np.concatenate([ids, [5, 6]])
        changed = np.concatenate([changed, [[num_nodes, 4], [num_nodes + 1, num_nodes]]])
    elif nodes == "fewer":
        gone = rng.integers(0, num_nodes)
        changed = changed[(changed != gone).all(axis=1)]
        changed = changed - (changed > gone)
        new_ids = np.delete(ids, gone)
    elif nodes == "other order":
        place = rng.permutation(num_nodes)
        changed, new_ids = place[changed], np.empty_like(ids)
        new_ids[place] = ids
    update = {"engine": engine, "hops": hops, "per_ring": per_ring, "beyond": beyond, "rounds": 1}
    config = CONFIG.model_copy(update=update)
    folder = tmp_path_factory.mktemp("since")
    both_ways(folder, (edges, ids), (changed, new_ids), config, undirected=undirected)


@settings(max_examples=examples(80))
@given(
    seed=st.integers(0, 10_000),
    degree=st.floats(1, 6),
    hub=st.integers(0, 12),
    changes=st.integers(1, 12) | st.integers(20, 60),
    come=st.integers(0, 2),
    gone=st.integers(0, 3),
    hops=st.integers(1, 3),
    width=st.integers(1, 12),
    per_ring=st.sampled_from([1, 2, 3, "ratio:0.5"]),
    directed=st.sampled_from(["never", "never", "never", "before", "always"]),
)
def test_rings_that_only_grew_or_shrank_are_counted_as_they_are_from_nothing(
    tmp_path_factory, seed, degree, hub, changes, come, gone, hops, width, per_ring, directed
):
    """Short lists in a small graph whose edges change all over: what changes is often in the size of a ring alone."""
    rng = np.random.default_rng(seed)
    around_hub = np.stack([np.zeros(hub, np.int64), 1 + np.arange(hub)], axis=1)
    edges = np.concatenate([random_edges(80, int(40 * degree), seed), around_hub])
    changed = change_edges(edges, 80, min(changes, len(edges)), rng)
    changed = np.concatenate([changed, np.stack([80 + np.arange(come), rng.integers(0, 80, come)], axis=1)])
    ids = np.arange(80 + come)
    left = np.setdiff1d(ids, rng.integers(0, 80, gone))
    changed = np.searchsorted(left, changed[np.isin(changed, left).all(axis=1)])
    update = {"engine": "exact", "hops": hops, "width": width, "per_ring": per_ring, "beyond": 1, "rounds": 1}
    config = RingsConfig.model_validate({**CONFIG.model_dump(), **update})
    folder = tmp_path_factory.mktemp("counted")
    if directed == "before":  # but for a few
        edges = np.concatenate([edges, edges[4:, ::-1]])
    graphs = (edges, ids[:80]), (changed, left)
    both_ways(folder, *graphs, config, directed == "never", undirected=directed != "always")


def test_only_anchors_near_a_change_are_sampled_again_and_other_parts_are_the_old_files(tmp_path):
    path = np.stack([np.arange(999), np.arange(1, 1000)], axis=1)
    edges = np.concatenate([path, path[:, [0, 1]] + [0, 4]])[: 999 + 995]
    changed = np.concatenate([np.delete(edges, 500, axis=0), [[500, 700]]])
    log = both_ways(tmp_path, (edges, np.arange(1000)), (changed, np.arange(1000)), CONFIG)
    assert len(log) == CONFIG.rounds
    assert all(3 <= line["anchors_again"] < 60 for line in log)
    parts = sorted((tmp_path / "since" / "round-000").glob("part-*"))
    linked = [p for p in parts if p.samefile(tmp_path / "old-samples" / "round-000" / p.name)]
    assert len(parts) - 5 <= len(linked) < len(parts)


def test_a_changed_edge_that_the_samples_cannot_see_costs_little(tmp_path):
    edges = random_edges(3000, 60_000, seed=1)  # balls of 2 hops hold about half of all nodes
    rng = np.random.default_rng(0)
    changed = change_edges(edges, 3000, 2, rng)
    log = both_ways(tmp_path, (edges, np.arange(3000)), (changed, np.arange(3000)), CONFIG)
    assert log[0]["anchors_again"] < 100  # though some 300 anchors have a changed row within two hops


@pytest.mark.parametrize("lacks", ["a round", "priorities", "the bits of the head"])
def test_a_round_that_cannot_build_on_the_earlier_run_is_made_from_nothing(tmp_path, lacks):
    edges = random_edges(300, 900, seed=2)
    make_graph(tmp_path / "old", edges, 300, ids=np.arange(300))
    make_graph(tmp_path / "new", edges[1:], 300, ids=np.arange(300))
    config = CONFIG.model_copy(update={"sharing": "independent", "engine": "exact"} if lacks == "priorities" else {})
    make_samples(tmp_path / "old", tmp_path / "old-samples", config)
    manifest = read_json(tmp_path / "old-samples/manifest.json")
    if lacks == "a round":  # as rings.ahead leaves it
        manifest["rounds"][1] = None
    if lacks == "the bits of the head":  # an older version made it
        manifest["format"] = 1
    write_json(tmp_path / "old-samples/manifest.json", manifest)
    log, earlier = tmp_path / "log.jsonl", (tmp_path / "old", tmp_path / "old-samples")
    make_samples(tmp_path / "new", tmp_path / "since", config, console=Console(log, quiet=True), since=earlier)
    make_samples(tmp_path / "new", tmp_path / "nothing", config)
    assert_same_bytes(tmp_path / "nothing", tmp_path / "since")
    known = [line["round"] for line in read_json_lines(log) if line["event"] == "since"]
    assert known == ([0] if lacks == "a round" else [])


def test_exact_samples_whose_lists_are_the_same_are_not_searched_again(tmp_path):
    edges = random_edges(3000, 60_000, seed=1)
    changed = change_edges(edges, 3000, 2, np.random.default_rng(0))
    config = CONFIG.model_copy(update={"engine": "exact"})
    log = both_ways(tmp_path, (edges, np.arange(3000)), (changed, np.arange(3000)), config)
    old, new = (Samples.open(tmp_path / name).round(0).take(np.arange(3000)) for name in ("old-samples", "since"))
    sizes = (old.ring_size != new.ring_size).any(axis=1).sum()
    assert log[0]["anchors_again"] < 20 < sizes <= log[0]["anchors_counted"]


@pytest.mark.parametrize("undirected", [True, False])
def test_sizes_that_a_search_has_found_are_estimates_again_once_nodes_of_the_head_are_gone(tmp_path, undirected):
    around_hubs = random_edges(300, 600, seed=1011) % [3, 300]
    edges = np.concatenate([around_hubs, random_edges(300, 300, seed=11)])
    left = np.delete(np.arange(300), np.arange(10, 15))
    changed = np.searchsorted(left, edges[np.isin(edges, left).all(axis=1)])
    config = CONFIG.model_copy(update={"width": 2, "per_ring": 2, "beyond": 3, "rounds": 4})
    both_ways(tmp_path, (edges, np.arange(300)), (changed, left), config, undirected=undirected)


def test_nothing_changed_nothing_sampled(tmp_path):
    edges = random_edges(300, 900, seed=2)
    log = both_ways(tmp_path, (edges, np.arange(300)), (edges, np.arange(300)), CONFIG)
    assert [line["anchors_again"] for line in log] == [0, 0]


def test_weights_that_have_changed_are_not_trusted(tmp_path):
    config = CONFIG.model_copy(update={"sampling": "pagerank", "rounds": 1})
    make_graph(tmp_path / "old", random_edges(200, 600, seed=3), 200)
    make_samples(tmp_path / "old", tmp_path / "samples", config)
    flip(tmp_path / "samples" / "weights.arrow")
    with pytest.raises(FolderError, match=r"weights\.arrow.*precompute again"):
        Samples.open(tmp_path / "samples").round(0)
    with pytest.raises(FolderError, match=r"weights\.arrow.*precompute again"):
        make_samples(tmp_path / "old", tmp_path / "since", config, since=(tmp_path / "old", tmp_path / "samples"))


def test_scores_of_pagerank_are_kept_and_new_nodes_count_like_the_mean(tmp_path, monkeypatch):
    edges = random_edges(200, 600, seed=3)
    more = np.concatenate([edges, [[200, 5]]])
    config = CONFIG.model_copy(update={"sampling": "pagerank", "rounds": 1})
    make_graph(tmp_path / "old", edges, 200)
    make_graph(tmp_path / "new", more, 201)
    make_samples(tmp_path / "old", tmp_path / "old-samples", config)
    make_samples(tmp_path / "new", tmp_path / "since", config, since=(tmp_path / "old", tmp_path / "old-samples"))
    old, new = (map_array(tmp_path / name / "weights.arrow", "weight") for name in ("old-samples", "since"))
    assert new[:200].tolist() == old.tolist()
    assert new[200] == pytest.approx(1 / 200)
    # from nothing with these very scores: the same bytes
    nothing = tmp_path / "nothing"
    monkeypatch.setattr("gscl_scale.shards.rounds.pagerank", lambda *_: new)
    make_samples(tmp_path / "new", nothing, config)
    assert_same_bytes(nothing, tmp_path / "since")


@pytest.fixture
def scores(tmp_path, monkeypatch):
    """Settings, an earlier run, and a way to begin a folder that a kill leaves without a manifest."""
    config = CONFIG.model_copy(update={"sampling": "pagerank"})
    edges = random_edges(200, 600, seed=3)
    make_graph(tmp_path / "old", edges, 200)
    make_graph(tmp_path / "new", edges[:-50], 200)
    earlier = tmp_path / "old", tmp_path / "old-samples"
    make_samples(*earlier, config)

    def begin(folder, since=None):
        with monkeypatch.context() as patch:
            patch.setattr(Journal, "close", lambda _: None)
            make_samples(tmp_path / "new", folder, config, since=since)
        (folder / "manifest.json").unlink()
        (folder / "round-001" / "part-00001.arrow").unlink()

    return config, earlier, begin


def test_scores_of_an_attempt_from_nothing_and_of_the_earlier_run_are_not_mixed(tmp_path, scores):
    config, earlier, begin = scores
    begin(tmp_path / "begun")
    with pytest.raises(
        FolderError, match=r"the PageRank scores of .*begun differ from those of the .* leave --since out"
    ):
        make_samples(tmp_path / "new", tmp_path / "begun", config, since=earlier)
    begin(tmp_path / "again", earlier)
    with pytest.raises(FolderError, match=r"the PageRank scores of .*again differ .* give --since again"):
        make_samples(tmp_path / "new", tmp_path / "again", config)
    make_samples(tmp_path / "new", tmp_path / "again", config, since=earlier)


@pytest.mark.parametrize(
    ("file", "with_earlier"),
    [("weights.arrow", True), ("weights.arrow", False), ("round-000/priorities.arrow", False)],
)
def test_damaged_scores_and_priorities_are_made_again_when_a_run_goes_on(tmp_path, scores, file, with_earlier):
    config, earlier, begin = scores
    since = earlier if with_earlier else None
    make_samples(tmp_path / "new", tmp_path / "whole", config, since=since)
    begin(tmp_path / "begun", since)
    flip(tmp_path / "begun" / file)
    make_samples(tmp_path / "new", tmp_path / "begun", config, since=since)
    assert_same_bytes(tmp_path / "whole", tmp_path / "begun")


def test_damaged_scores_of_the_earlier_run_are_not_replaced_by_others_in_a_finished_folder(tmp_path, scores):
    config, earlier, _ = scores
    make_samples(tmp_path / "new", tmp_path / "since", config, since=earlier)
    flip(tmp_path / "since" / "weights.arrow")
    with pytest.raises(FolderError, match=r"the PageRank scores of .*since differ .* give --since again"):
        make_samples(tmp_path / "new", tmp_path / "since", config)
    make_samples(tmp_path / "new", tmp_path / "since", config, since=earlier)
    Samples.open(tmp_path / "since").round(0)


def test_passes_around_the_changes_are_no_whole_passes_for_an_attempt_from_nothing(tmp_path, monkeypatch):
    edges = random_edges(300, 900, seed=4)
    make_graph(tmp_path / "old", edges, 300)
    make_graph(tmp_path / "new", edges[1:], 300)
    make_samples(tmp_path / "old", tmp_path / "old-samples", CONFIG)

    def fail(_):
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("gscl_scale.shards.rounds.run_part", fail)
        earlier = tmp_path / "old", tmp_path / "old-samples"
        with pytest.raises(ZeroDivisionError):
            make_samples(tmp_path / "new", tmp_path / "begun", CONFIG, since=earlier)
    assert (tmp_path / "begun" / "scratch" / "round-000" / "radius-1").exists()
    make_samples(tmp_path / "new", tmp_path / "begun", CONFIG)
    make_samples(tmp_path / "new", tmp_path / "nothing", CONFIG)
    assert_same_bytes(tmp_path / "nothing", tmp_path / "begun")


def test_a_damaged_part_of_the_earlier_run_is_named_and_nothing_is_finished(tmp_path):
    edges = random_edges(300, 900, seed=4)
    make_graph(tmp_path / "old", edges, 300)
    make_samples(tmp_path / "old", tmp_path / "old-samples", CONFIG)
    flip(tmp_path / "old-samples" / "round-000" / "part-00002.arrow")
    with pytest.raises(FolderError, match=r"part-00002\.arrow is damaged"):
        make_samples(tmp_path / "old", tmp_path / "since", CONFIG, since=(tmp_path / "old", tmp_path / "old-samples"))
    assert not (tmp_path / "since" / "manifest.json").exists()
    make_samples(tmp_path / "old", tmp_path / "since", CONFIG)  # without the earlier run
    make_samples(tmp_path / "old", tmp_path / "nothing", CONFIG)
    assert_same_bytes(tmp_path / "nothing", tmp_path / "since")


def test_another_neighbour_in_the_graph_of_the_earlier_run_is_noticed(tmp_path):
    path = np.stack([np.arange(99), np.arange(1, 100)], axis=1)
    graph = make_graph(tmp_path / "old", path, 100)
    make_samples(tmp_path / "old", tmp_path / "old-samples", CONFIG)
    make_graph(tmp_path / "new", path[:-1], 100)
    file = tmp_path / "old" / "indices.arrow"
    last = graph.indices[-3:]
    file.write_bytes(file.read_bytes().replace(last.tobytes(), (last - [0, 0, 1]).astype(last.dtype).tobytes()))
    with pytest.raises(FolderError, match=r"indices\.arrow does not match its checksum"):
        make_samples(tmp_path / "new", tmp_path / "since", CONFIG, since=(tmp_path / "old", tmp_path / "old-samples"))
    assert not (tmp_path / "since" / "manifest.json").exists()


def test_an_earlier_run_with_other_settings_or_another_graph_is_refused(tmp_path):
    edges = random_edges(100, 200, seed=5)
    make_graph(tmp_path / "old", edges, 100)
    make_graph(tmp_path / "other", edges[:-9], 100)
    make_samples(tmp_path / "old", tmp_path / "old-samples", CONFIG)
    other = CONFIG.model_copy(update={"hops": 3})
    with pytest.raises(FolderError, match=r"--since: .* was made with rings\.hops = 2, now it is 3"):
        make_samples(tmp_path / "old", tmp_path / "x", other, since=(tmp_path / "old", tmp_path / "old-samples"))
    with pytest.raises(FolderError, match=r"was not made from .*other"):
        make_samples(tmp_path / "old", tmp_path / "y", CONFIG, since=(tmp_path / "other", tmp_path / "old-samples"))
    make_graph(tmp_path / "text", edges, 100, ids=[str(v) for v in range(100)])
    with pytest.raises(FolderError, match=r"old are integers, those of this graph are text, .* leave --since out"):
        make_samples(tmp_path / "text", tmp_path / "z", CONFIG, since=(tmp_path / "old", tmp_path / "old-samples"))


def test_the_engine_of_the_earlier_run_is_kept(tmp_path):
    edges = random_edges(100, 200, seed=6)
    make_graph(tmp_path / "old", edges, 100)
    make_samples(tmp_path / "old", tmp_path / "old-samples", CONFIG)
    auto = CONFIG.model_copy(update={"engine": "auto"})
    make_samples(tmp_path / "old", tmp_path / "since", auto, since=(tmp_path / "old", tmp_path / "old-samples"))
    manifest = json.loads((tmp_path / "since" / "manifest.json").read_text())
    assert manifest["rings"]["engine"] == "sketch"
    assert filecmp.cmp(tmp_path / "since" / "manifest.json", tmp_path / "old-samples" / "manifest.json")
    assert files_of(tmp_path / "since") == files_of(tmp_path / "old-samples")
    assert Graph.open(tmp_path / "old").num_nodes == 100
