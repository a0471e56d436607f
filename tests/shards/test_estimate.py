import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from gscl_scale import machine, seeding
from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import ConfigError, RunError
from gscl_scale.graph.graph import Graph
from gscl_scale.rings import choose_engine
from gscl_scale.rings.exact.shared_search import shared_search
from gscl_scale.rings.exact.workspace import free_buffers
from gscl_scale.rings.priorities import order_draws
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.settings import NOTHING, MemoryNeed
from gscl_scale.shards import estimate
from gscl_scale.shards.estimate import check_resources, estimate_need
from gscl_scale.shards.format import part_path
from gscl_scale.shards.levels import levels_folder
from gscl_scale.shards.plan import make_plan
from gscl_scale.shards.precompute import precompute
from gscl_scale.shards.reader import Samples
from tests.graphs import make_graph, make_samples, random_edges
from tests.slow import slow

CONFIG = RingsConfig(hops=3, width=32, per_ring=8, beyond=16, rounds=1, engine="sketch")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    return make_graph(tmp_path_factory.mktemp("graph") / "graph", random_edges(20_000, 80_000, seed=0, hubs=5), 20_000)


def plan_of(graph, folder, **changes):
    return make_plan(graph, folder, CONFIG.model_copy(update=changes))[0]


@pytest.mark.parametrize(
    "changes", [{}, {"hops": 1, "engine": "exact"}, *slow({"per_ring": "ratio:0.2", "engine": "exact"})]
)
def test_the_estimate_of_a_round_is_near_what_is_written(graph, tmp_path, changes):
    need = estimate_need(graph, plan_of(graph, tmp_path, **changes), workers=1)
    make_samples(graph.folder, tmp_path / "samples", CONFIG.model_copy(update=changes))
    written = sum(path.stat().st_size for path in (tmp_path / "samples" / "round-000").iterdir())
    assert 0.7 * written < need.samples < 1.4 * written


def test_it_is_told_before_the_start(graph, tmp_path):
    told = check_resources(graph, plan_of(graph, tmp_path), 2, tmp_path, local=True)
    assert told.startswith("precompute takes about ")
    assert "of disk per round" in told
    assert "of memory" in told
    elsewhere = check_resources(graph, plan_of(graph, tmp_path), 2, tmp_path, local=False)
    assert "of memory on each machine and 0.3 GiB for each task there" in elsewhere


@pytest.mark.parametrize(("seconds", "long"), [((3, 1.1), True), ((3, 0.9), False)])
def test_work_of_less_than_a_second_begins_without_a_word(graph, tmp_path, capsys, monkeypatch, seconds, long):
    monkeypatch.setattr(choose_engine, "_costs", lambda *_: np.array(seconds) * 1e9 / graph.num_nodes)
    config = CONFIG.model_copy(update={"engine": "auto"})
    make_samples(graph.folder, tmp_path / "samples", config, console=Console())
    told = capsys.readouterr().err
    assert [line in told for line in ("Sampling rings with the engine ", "precompute takes about ")] == [long, long]


def test_more_than_the_memory_is_refused_with_the_setting_to_change(graph, tmp_path, monkeypatch):
    plan = plan_of(graph, tmp_path)
    need = estimate_need(graph, plan, workers=2)
    monkeypatch.setattr(machine, "available_memory", lambda: need.memory + need.random - 1)
    with pytest.raises(ConfigError, match=r"rings\.width: 20,000 nodes .* are available; set runtime\.workers to 1"):
        check_resources(graph, plan, 2, tmp_path, local=True)
    monkeypatch.setattr(machine, "available_memory", lambda: 1 << 20)
    with pytest.raises(ConfigError, match=r"lower rings\.width and make more rounds"):
        check_resources(graph, plan, 2, tmp_path, local=True)
    monkeypatch.setattr(machine, "available_memory", lambda: need.driver)
    check_resources(graph, plan, 2, tmp_path, local=False)
    monkeypatch.setattr(machine, "available_memory", lambda: need.driver - 1)
    with pytest.raises(
        ConfigError, match=r"drawing 20,000 nodes takes .* on this machine .* start the command on a mach"
    ):
        check_resources(graph, plan, 2, tmp_path, local=False)


def test_levels_in_tiles_take_less_memory_and_one_level_more_of_disk(graph, tmp_path, monkeypatch):
    whole, memory = plan_of(graph, tmp_path), 4 << 20
    tiled = make_plan(graph, tmp_path, CONFIG, memory=memory)[0]
    need, less = estimate_need(graph, whole, workers=1), estimate_need(graph, tiled, workers=1)
    level, rows = whole.num_nodes * (24 + 64 + 4 * 32), graph.indices.nbytes + 8 * whole.num_nodes
    assert (need.random, less.scratch - need.scratch) == (rows + level, level)
    monkeypatch.setattr(machine, "available_memory", lambda: need.memory + need.random - 1)
    monkeypatch.setattr(estimate, "_LEAST_TILES_GB", 0.001)
    with pytest.raises(
        ConfigError, match=r"set runtime\.precompute_memory_gb to 0\.0, so that levels are read in tiles"
    ):
        check_resources(graph, whole, 1, tmp_path, local=True)
    assert "of memory" in check_resources(graph, tiled, 1, tmp_path, local=True)


def test_tasks_in_tiles_need_no_room_for_what_they_read_in_order_only_for_the_ranks(graph, tmp_path, monkeypatch):
    tiled = make_plan(graph, tmp_path, CONFIG, memory=4 << 20)[0]
    need = estimate_need(graph, tiled, workers=1)
    assert need.random == 4 * graph.num_nodes
    monkeypatch.setattr(machine, "available_memory", lambda: need.memory + need.random)
    assert "of memory" in check_resources(graph, tiled, 1, tmp_path, local=True)


def test_drawing_and_a_search_allocate_no_more_than_is_estimated(graph):
    ids, config = np.arange(100_000), CONFIG.model_copy(update={"beyond": 10})
    names = pa.array(ids)

    def draw():
        order_draws(seeding.exponentials_of(np.uint64(1), names), None, np.int32)

    draw()  # compiles
    drawing = allocated(draw)
    assert 0.5 * 26 < drawing / ids.size < 26

    def search():
        with shared_search(graph.indptr, graph.indices, ids[:64], config.hops, np.int32):
            pass

    search()  # compiles
    free_buffers()
    assert 0.5 * 60 < allocated(search) / graph.num_nodes < 60


def allocated(work):
    """The most bytes that work has allocated at a time."""
    tracemalloc.start()
    work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


class Elsewhere:
    """A runner of another machine; it notes what it is told to have room for, and has none."""

    workers = 2

    def check_shared(self, folder, need):
        self.need = need
        raise RunError("no room")


def test_other_machines_are_asked_for_what_they_map_and_what_each_task_takes(graph, tmp_path):
    elsewhere, need = Elsewhere(), estimate_need(graph, plan_of(graph, tmp_path), workers=1)
    with pytest.raises(RunError, match="no room"):
        precompute(graph.folder, tmp_path / "samples", CONFIG, 1, elsewhere, Console(quiet=True))
    assert elsewhere.need == MemoryNeed(shared=need.random, each=need.task)
    assert need.task - 60 * 20_000 > 260 << 20


def test_where_nothing_is_missing_no_machine_is_asked_for_memory(graph, tmp_path):
    make_samples(graph.folder, tmp_path / "samples", CONFIG)
    elsewhere = Elsewhere()
    with pytest.raises(RunError, match="no room"):
        precompute(graph.folder, tmp_path / "samples", CONFIG, 1, elsewhere, Console(quiet=True))
    assert elsewhere.need == NOTHING


def test_only_disk_for_what_is_missing_is_asked_for(graph, tmp_path, monkeypatch):
    config = CONFIG.model_copy(update={"rounds": 3, "part_anchors": 5_000, "engine": "exact"})
    make_samples(graph.folder, tmp_path / "samples", config)
    part = part_path(tmp_path / "samples", 0, 1)
    part_bytes = part.stat().st_size
    with monkeypatch.context() as patch:
        patch.setattr(machine, "free_disk", lambda _: 0)
        make_samples(graph.folder, tmp_path / "samples", config)
        part.unlink()
        with pytest.raises(ConfigError, match=r"the rest of a round takes about .* of disk and .* are free"):
            make_samples(graph.folder, tmp_path / "samples", config)
    monkeypatch.setattr(machine, "free_disk", lambda _: 2 * part_bytes)
    make_samples(graph.folder, tmp_path / "samples", config)
    part_path(tmp_path / "samples", 2, 0).unlink()
    make_samples(graph.folder, tmp_path / "samples", config)
    assert part_path(tmp_path / "samples", 2, 0).exists()
    with pytest.raises(RunError, match=r"4 rounds need .* more and .* are free"):
        make_samples(graph.folder, tmp_path / "samples", config.model_copy(update={"rounds": 4}))


def test_what_passes_have_written_is_not_asked_for_again(graph, tmp_path, monkeypatch):
    plan = plan_of(graph, tmp_path)
    need = estimate_need(graph, plan, workers=1)
    monkeypatch.setattr(machine, "free_disk", lambda _: need.samples + need.scratch // 2)
    with pytest.raises(ConfigError, match=r"of disk and"):
        check_resources(graph, plan, 1, tmp_path, local=False)
    written = levels_folder(tmp_path, 0) / "radius-1" / "heads.raw"
    written.parent.mkdir(parents=True)
    written.write_bytes(b"1" * (need.scratch // 2 + 1))
    check_resources(graph, plan, 1, tmp_path, local=False)


def test_more_than_the_disk_is_refused_and_nothing_is_begun(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "free_disk", lambda _: 1 << 20)
    with pytest.raises(ConfigError, match=r"of disk and 1 MiB are free in .*; lower rings\.width or rings\.beyond"):
        make_samples(graph.folder, tmp_path / "samples", CONFIG)
    assert not (tmp_path / "samples").exists()
    monkeypatch.undo()
    make_samples(graph.folder, tmp_path / "samples", CONFIG)
    assert Samples.open(tmp_path / "samples").num_rounds == 1
    assert Graph.open(graph.folder).num_nodes == 20_000
