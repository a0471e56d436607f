"""Edges and samples that the processes of a training keep among them: the same messages, samples and losses."""

import contextlib
import json

import numpy as np
import pytest
import torch

from gscl_scale import seeding
from gscl_scale.batches.neighbours import Draw, NeighboursHere
from gscl_scale.config.config import Config
from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import ConfigError
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.rings.priorities import draw_priorities
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.shards.reader import Samples
from gscl_scale.stages import batches as stage
from gscl_scale.train.exchange import Exchange, owners
from gscl_scale.train.owned_neighbours import OwnedNeighbours, owned_rows_bytes
from gscl_scale.train.owned_samples import OwnedSamples
from gscl_scale.train.process_group import World, join_world
from tests.graphs import make_graph, make_samples, random_edges, random_weights
from tests.slow import slow
from tests.train import test_torchrun
from tests.train.test_owned_features import losses, train_together
from tests.train.test_together import in_world, trained

NODES, FANOUT = 101, 3
RINGS = RingsConfig(**test_torchrun.VALUES["rings"], part_anchors=16)
EDGES = {
    **test_torchrun.VALUES,
    "model": {**test_torchrun.VALUES["model"], "propagation": "sampled"},
    "runtime": {"features": "owned", "frequent_gb": 0, "edges": "owned", "timeout_s": 20},
}


def empty(folder, *but):
    """Truncate the arrays of a folder: whoever reads one that is mapped is ended by the system."""
    files = [path for path in folder.rglob("*") if path.suffix == ".arrow" and path.name not in but]
    assert files
    for path in files:
        path.write_bytes(b"")


def bytes_of(arrays):
    return [[array.dtype.name, array.tobytes().hex()] for array in arrays]


def draw_of(round_number, weighted):
    weights = np.exp(seeding.generator("weights").normal(size=NODES)) if weighted else None
    priorities = draw_priorities(np.arange(NODES, dtype=np.uint64), 0, round_number, weights, np.int32)
    return Draw(priorities, priorities.rank(), weights)


def messages_of_each(file, folder, encoder, weighted):
    """The messages that one of three processes is given, beside those of the graph folder, of two rounds in turn."""
    with join_world(20.0) as world:
        adjacency = NormalisedAdjacency.of(Graph.open(folder), encoder)
        draws, told = [draw_of(number, weighted) for number in (0, 1, 0)], []
        order = seeding.generator("asked", world.rank)
        asked = [order.permutation(NODES)[:size] for size in (40, NODES, 0 if world.rank else 7, 1, 0)]
        fanouts = (FANOUT, 2, FANOUT, FANOUT, 1)
        here = NeighboursHere(adjacency, FANOUT)
        expected = [
            [bytes_of(here.messages(nodes, fanout, draw)) for nodes, fanout in zip(asked, fanouts, strict=True)]
            for draw in draws
        ]
        there = OwnedNeighbours(adjacency, FANOUT, Exchange(world))
        world.check_same(0, "moment")  # all have read their rows
        if world.first:
            empty(folder)
        world.check_same(1, "moment")
        for draw in draws:
            told.append(
                [bytes_of(there.messages(nodes, fanout, draw)) for nodes, fanout in zip(asked, fanouts, strict=True)]
            )
    file.write_text(json.dumps([told, expected, there.nbytes]))


@pytest.mark.parametrize(
    ("encoder", "undirected", "weighted"), [("gcn", False, True), *slow(("gcn", True, False), ("sage", True, True))]
)
def test_messages_have_the_bytes_of_the_graph_folder_which_nobody_reads(tmp_path, encoder, undirected, weighted):
    edges = random_edges(NODES - 1, 400, seed=1, hubs=4)  # the last node has none
    weights = random_weights(400) if weighted else None
    graph = make_graph(tmp_path / "graph", edges, NODES, weights=weights, undirected=undirected)
    kept = []
    for told, expected, nbytes in in_world(3, messages_of_each, tmp_path, tmp_path / "graph", encoder, weighted):
        assert told == expected
        kept.append(nbytes)
    assert sum(kept) == owned_rows_bytes(graph, 1) + 2 * 8  # each has one place more than it has rows
    assert max(kept) < 1.3 * owned_rows_bytes(graph, 3)  # rows are not cut


def samples_of_each(file, folder, some):
    """What one of three processes is given of the samples of some anchors, beside those of the folder."""
    with join_world(20.0) as world:
        reader = Samples.open(folder).round(0)
        anchors = np.arange(0, NODES, some)
        order = seeding.generator("asked", world.rank)
        asked = [order.permutation(anchors)[:size] for size in (20, NODES, 0 if world.rank else 7, 1, 0)]
        expected = [as_values(reader, each) for each in asked]
        there = OwnedSamples(reader, anchors, Exchange(world))
        world.check_same(0, "moment")
        if world.first:
            empty(folder)
        world.check_same(1, "moment")
        told = [as_values(there, each) for each in asked]
    file.write_text(json.dumps([told, expected]))


def as_values(samples, anchors):
    taken = samples.take(anchors)
    lists = [*taken.lists, taken.near]
    columns = (taken.anchors, taken.decided, taken.ring_size, taken.ring_size_exact, samples.decided(anchors))
    return bytes_of([*columns, *(part for each in lists for part in (each.offsets, each.members))])


@pytest.mark.parametrize("some", [3, *slow(1, 60)])
def test_samples_have_the_bytes_of_their_folder_which_nobody_reads(tmp_path, some):
    make_graph(tmp_path / "graph", random_edges(NODES, 300, seed=1, hubs=4), NODES)
    make_samples(tmp_path / "graph", tmp_path / "samples", RINGS)
    assert Samples.open(tmp_path / "samples").num_parts > 1
    for told, expected in in_world(3, samples_of_each, tmp_path, tmp_path / "samples", some):
        assert told == expected


def readers_of_each(file, folder, graph, without):
    """Where one of two processes reads the samples of all anchors, if some processes have no memory for them."""
    with join_world(20.0) as world, pytest.MonkeyPatch.context() as patch:
        if world.rank in without:
            patch.setattr(stage, "available_memory", lambda: 1000)
        among = stage._Owners(
            Config.parse(EDGES), Graph.open(graph), world, Console(quiet=True), contextlib.ExitStack()
        )
        kept = among.keep_samples()(Samples.open(folder).round(0), None)
    file.write_text(json.dumps(type(kept).__name__))


@pytest.mark.slow
@pytest.mark.parametrize(("without", "reader"), [([], "OwnedSamples"), ([1], "RoundReader")])
def test_all_read_the_run_folder_where_the_samples_do_not_fit_in_one(tmp_path, without, reader):
    make_graph(tmp_path / "graph", random_edges(NODES, 300, seed=1, hubs=4), NODES)
    make_samples(tmp_path / "graph", tmp_path / "samples", RINGS)
    folders = tmp_path / "samples", tmp_path / "graph"
    assert in_world(2, readers_of_each, tmp_path, *folders, without) == [reader, reader]


def test_owners_of_empty_ranges_are_asked_for_nothing():
    assert owners(np.array([0, 0, 3, 3, 7]), np.array([0, 2, 3, 6])).tolist() == [1, 1, 3, 3]


@pytest.mark.slow
def test_a_training_has_the_bits_of_one_that_reads_the_run_folder(tmp_path):
    for name, values in (("owned", EDGES), ("mapped", {**EDGES, "runtime": {}})):
        test_torchrun.prepared(tmp_path / name)
        in_world(3, train_together, tmp_path, tmp_path / name, values)
    ours, theirs = Run.at(tmp_path / "owned"), Run.at(tmp_path / "mapped")
    assert losses(ours) == losses(theirs)
    assert len(losses(ours)) == 20
    assert torch.equal(trained(ours)[0], trained(theirs)[0])


def test_owned_edges_need_sampled_steps_and_memory(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"runtime\.edges: owned needs model\.propagation: sampled"):
        Config.parse({**EDGES, "model": {}, "runtime": {"edges": "owned"}})
    graph = make_graph(tmp_path / "graph", random_edges(NODES, 300, seed=1), NODES)
    monkeypatch.setattr(stage, "available_memory", lambda: 1000)
    words = "runtime.edges: owned keeps .* of edges in each of 2 processes, and 1 KiB are available here; start more"
    among = stage._Owners(Config.parse(EDGES), graph, World(0, 2), Console(quiet=True), contextlib.ExitStack())
    with pytest.raises(ConfigError, match=words):
        among.neighbours(NormalisedAdjacency.of(graph, "gcn"), FANOUT)
