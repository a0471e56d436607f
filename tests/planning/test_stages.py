"""What a stage is said to need: from a source, a folder or numbers, and by which settings."""

import json

import numpy as np
import pytest

from gscl_scale.batches.sampled_subgraph import NeighbourSampler
from gscl_scale.batches.stream import BatchStream
from gscl_scale.config.config import Config
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources import archive
from gscl_scale.graph.sources.read import source_size
from gscl_scale.planning.graph_shape import GraphShape, counted_source, given_size
from gscl_scale.planning.ingest import ingest_need
from gscl_scale.planning.need import Machines
from gscl_scale.planning.rates import REFERENCE
from gscl_scale.planning.sampling import ring_sizes
from gscl_scale.planning.stages import stage_needs
from gscl_scale.planning.training import batch_shape, distinct
from gscl_scale.run.folder import Run
from gscl_scale.shards.reader import Samples
from gscl_scale.stages.dry_run import plan_run
from tests.commands import cli

GIB = 1 << 30
HERE = Machines(1, 16 * GIB, 4, here=True)
CLUSTER = Machines(8, 32 * GIB, 16)
DRAWN = ["graph.source=synthetic", "graph.preset=small", "rings.rounds=1", "model.propagation=sampled"]


def config_of(*settings):
    drawn = [] if {"graph.source=tables", "graph.source=npz"} & {*settings} else DRAWN
    return Config.load(None, [*drawn, *settings])


def needs(*settings, nodes=10**7, edges=10**8, features=64, machines=HERE):
    config = config_of(*settings)
    shape = GraphShape.of_size(given_size(config.graph, nodes, edges, features), config.graph)
    return {need.stage: need for need in stage_needs(config, shape, machines, REFERENCE)}


@pytest.mark.parametrize(
    ("setting", "stage"),
    [
        ("rings.width=32", "precompute"),
        ("runtime.precompute_memory_gb=0.5", "precompute"),
        ("runtime.workers=1", "precompute"),
        ("model.fanout=[3]", "train"),
        ("train.batch_size=128", "train"),
        ("train.accumulate=8", "train"),
        ("model.width=32", "train"),
        ("runtime.embed_memory_gb=0.6", "embed"),
        ("model.width=32", "embed"),
        ("model.width=32", "report"),
    ],
)
def test_a_setting_that_saves_memory_lowers_the_plan_of_its_stage(setting, stage):
    usual, lower = (needs("rings.engine=sketch", "rings.hops=3", *one)[stage] for one in ((), (setting,)))
    assert lower.process_bytes < usual.process_bytes


def test_anchors_that_are_held_out_take_no_steps():
    all_of_them, few = (needs(f"train.held_out={share}")["train"] for share in (0, 0.98))
    assert few.tasks == pytest.approx(all_of_them.tasks / 50, abs=1)
    assert few.core_s < all_of_them.core_s / 40


def test_samples_of_few_anchors_are_held_and_those_of_many_are_mapped():
    many, few = (needs(f"train.held_out={share}", nodes=10**6, edges=10**7) for share in (0.5, 0.95))
    samples = many["precompute"].disk
    assert many["train"].mapped - few["train"].mapped == samples - 12 * 10**6  # priorities: a node and its draw
    assert few["train"].allocated - many["train"].allocated == pytest.approx(0.05 * samples)


def test_less_memory_for_sorting_lowers_the_plan_of_the_graph():
    usual, lower = (needs(f"graph.memory_mb={size}", edges=10**10)["graph"] for size in (4096, 16))
    assert lower.allocated < usual.allocated
    assert lower.disk == usual.disk


def test_all_machines_read_tables_and_one_any_other_source():
    size = {"nodes": 10**9, "edges": 10**10, "machines": CLUSTER}
    drawn, tables = (
        needs(*given, **size)["graph"]
        for given in ((), ("graph.source=tables", "graph.edges=edges", "graph.nodes=nodes"))
    )
    assert (drawn.machines, drawn.processes) == (1, 1)
    assert (tables.machines, tables.processes) == (8, 16)
    assert tables.seconds < drawn.seconds / 4
    assert tables.allocated < drawn.allocated
    assert tables.network < drawn.network


def test_all_machines_read_edges_in_a_mapped_array(tmp_path, monkeypatch):
    np.savez(tmp_path / "g.npz", edge_index=np.zeros((2, 1000), np.int64), x=np.zeros((100, 4), np.float32))
    config = config_of("graph.source=npz", f"graph.path={tmp_path / 'g.npz'}")
    for least, machines in ((0, 8), (1 << 20, 1)):
        monkeypatch.setattr(archive, "LEAST_MAPPED", least)
        shape = GraphShape.of_size(source_size(config.graph), config.graph)
        assert ingest_need(config, shape, CLUSTER, REFERENCE).machines == machines


def test_memory_grows_with_nodes_edges_and_features():
    usual = needs()
    for more in ({"nodes": 2 * 10**7}, {"edges": 4 * 10**8}, {"features": 256}):
        changed = needs(**more)
        grown = {stage for stage in usual if changed[stage].process_bytes > usual[stage].process_bytes}
        assert {"graph", "train", "embed", "evaluate"} <= grown


def test_an_objective_without_samples_has_no_precompute():
    assert "precompute" not in needs("train.objective=dgi", "model.propagation=full")


def test_tasks_of_a_cluster_are_processes_that_share_mapped_files():
    alone, cluster = needs()["precompute"], needs(machines=CLUSTER)["precompute"]
    assert (alone.machines, alone.processes) == (1, 1)
    assert (cluster.machines, cluster.processes) == (8, 16)
    assert cluster.least_bytes == 16 * cluster.allocated + cluster.random
    assert alone.network == 0 < cluster.network


def test_tiles_save_memory_and_smaller_ones_cost_time():
    whole, larger, smaller = (
        needs("rings.engine=sketch", "rings.hops=3", f"runtime.precompute_memory_gb={size}")["precompute"]
        for size in (0, 2, 0.1)
    )
    assert larger.mapped == smaller.mapped < whole.mapped
    assert smaller.allocated < larger.allocated
    assert smaller.seconds > larger.seconds


def test_the_plan_of_a_source_is_that_of_its_folder(tmp_path):
    """Of the edges that are drawn some are repeated, so the folder has fewer."""
    words = [word for setting in DRAWN for word in ("--set", setting)]
    assert cli("ingest", *words, "--run", "run", cwd=tmp_path).returncode == 0
    config = config_of()
    there, before = (
        GraphShape.of_folder(tmp_path / "run/graph"), GraphShape.of_size(counted_source(config.graph), config.graph),
    )  # fmt: skip
    assert (there.num_nodes, there.blocks, there.classes) == (before.num_nodes, before.blocks, before.classes)
    assert 0.75 * before.entries < there.entries <= before.entries
    written = sum(path.stat().st_size for path in (tmp_path / "run/graph").glob("*.arrow"))
    assert there.folder_bytes == pytest.approx(written, rel=0.05)


def test_a_dry_run_reads_the_same_estimates(tmp_path):
    config = config_of()
    shape = GraphShape.of_size(counted_source(config.graph), config.graph)
    expected = {need.stage: need for need in stage_needs(config, shape, Machines.this(), REFERENCE)}
    for stage in plan_run(config, tmp_path / "run", overwrite=False).stages:
        need = expected[stage.stage]
        assert (stage.disk, stage.seconds, stage.memory) == (need.disk, need.seconds, need.process_bytes)


def test_rings_hold_no_more_nodes_than_there_are():
    config = config_of()
    shape = GraphShape.of_size(given_size(config.graph, 1000, 100_000, 8), config.graph)
    assert ring_sizes(shape, 5).sum() <= 1000
    assert ring_sizes(shape, 1).tolist() == pytest.approx([200], abs=30)


def test_different_nodes_among_draws():
    draws = np.random.Generator(np.random.PCG64(0)).integers(0, 1000, 1500)
    assert distinct(1000, 1500) == pytest.approx(np.unique(draws).size, rel=0.05)


@pytest.mark.parametrize("propagation", ["sampled", "full"])
def test_a_batch_has_about_the_nodes_and_messages_that_are_planned(tmp_path, propagation):
    settings = [
        "graph.num_nodes=60000", "graph.mean_degree=16", "rings.width=32", "rings.per_ring=8", "rings.beyond=32",
        f"model.propagation={propagation}", "train.batch_size=64", "train.negatives=64",
    ]  # fmt: skip
    words = [word for setting in (*DRAWN, *settings) for word in ("--set", setting)]
    assert cli("precompute", *words, "--run", "run", cwd=tmp_path).returncode == 0
    config, run = config_of(*settings), Run.at(tmp_path / "run")
    graph = Graph.open(run.graph)
    messages = NormalisedAdjacency.of(graph, *config.model.messages())
    sampler = NeighbourSampler(messages, config.model.layers, config.model.fanouts())
    stream = BatchStream(Samples.open(run.samples), graph.num_nodes, config.rings, config.train, config.loss, sampler)
    batch, planned = stream.batch(0), batch_shape(config, GraphShape.of_folder(run.graph), 64)
    assert batch.subgraph is not None
    (block,) = batch.subgraph.blocks
    assert 0.7 * batch.num_nodes < planned.compared < 1.4 * batch.num_nodes
    assert 0.6 * block.messages.indices.size < planned.messages[0] < 1.6 * block.messages.indices.size
    read = graph.num_nodes if batch.subgraph.inputs is None else batch.subgraph.inputs.size
    assert 0.6 * read < planned.nodes[0] < 1.6 * read


def test_a_manifest_of_an_object_store_is_enough(tmp_path):
    """Only manifests of a remote run are copied."""
    folder = tmp_path / "graph"
    folder.mkdir()
    entry = {"bytes": 800, "sha256": "0" * 64}
    manifest = {
        "num_nodes": 100, "num_entries": 400, "num_features": 70, "undirected": True, "classes": ["a", "b"],
        "files": {"feature_values.arrow": entry}, "structural_features": 0,
    }  # fmt: skip
    (folder / "manifest.json").write_text(json.dumps(manifest))
    shape = GraphShape.of_folder(folder)
    assert (shape.num_nodes, shape.entries, shape.values, shape.classes, shape.labelled) == (100, 400, 200, 2, 100)


@pytest.mark.parametrize(
    ("nodes", "settings", "labelled", "classes"),
    [
        (600, {"nodes": "n.csv", "label_column": "kind"}, 600, 6),
        (90, {"nodes": "n.csv", "label_column": "kind"}, 90, 2),
        (1_000_000, {"nodes": "n.csv", "label_column": "kind"}, 1_000_000, 50),
        (600, {"nodes": "n.csv", "label_column": None}, 0, 0),
        (600, {}, 0, 0),
    ],
)
def test_a_table_that_is_not_read_yet_has_labels_where_a_column_is_named(nodes, settings, labelled, classes):
    config = Config.parse({"graph": {"source": "tables", "edges": "e.csv", **settings}})
    shape = GraphShape.of_size(given_size(config.graph, nodes, 5000, 0), config.graph)
    assert (shape.labelled, shape.classes) == (labelled, classes)
