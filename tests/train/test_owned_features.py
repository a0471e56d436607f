"""Features that the processes of a training keep among them: the rows, the training, and its ends."""

import contextlib
import json
import os
import signal
import threading

import numpy as np
import pytest
import scipy.sparse
import torch

from gscl_scale import seeding
from gscl_scale.batches.sampled_subgraph import NeighbourSampler
from gscl_scale.batches.stream import BatchStream, Share
from gscl_scale.config.config import Config
from gscl_scale.config.sections import ModelConfig
from gscl_scale.errors import ConfigError, PeerError, StoppedError
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.io.json import read_json_lines
from gscl_scale.model.inputs import MappedFeatures
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.shards.reader import Samples
from gscl_scale.stages import batches as batches_stage
from gscl_scale.stages import train as stage
from gscl_scale.train import loop
from gscl_scale.train.exchange import Exchange
from gscl_scale.train.owned_features import OwnedFeatures, frequent_nodes, owned_bytes
from gscl_scale.train.process_group import World, join_world
from tests.graphs import make_graph, random_edges
from tests.model.graphs import random_features
from tests.slow import slow
from tests.train import test_torchrun
from tests.train.test_together import in_world, trained

NODES, FEATURES = 101, 9
OWNED = {
    **test_torchrun.VALUES,
    "model": {**test_torchrun.VALUES["model"], "propagation": "sampled"},
    "runtime": {"features": "owned", "frequent_gb": 1e-6, "timeout_s": 20},  # rows of some nodes, not of all
}


def sparse_features():
    dense = random_features(NODES, FEATURES)
    dense[seeding.generator("zeros").random(dense.shape) < 0.7] = 0
    return scipy.sparse.csr_array(dense)


def bytes_of(rows):
    """Rows as plain values, to the bit."""
    if isinstance(rows, SparseFeatures):
        return [rows.indptr.tolist(), rows.indices.tolist(), rows.values.tobytes().hex()]
    return [list(rows.shape), rows.dtype.name, rows.tobytes().hex()]


def rows_of_each(file, folder, kind, kept):
    """What one of three processes is given, beside what the graph folder has; no file is read after the start."""
    with join_world(20.0) as world:
        graph = Graph.open(folder)
        mapped = MappedFeatures.of(graph, ModelConfig(feature_scaling=kind))
        owned = OwnedFeatures(graph, kind, Exchange(world))
        bound = owned.nbytes
        owned.keep(frequent_nodes(graph, kept))
        del graph
        draw, told = seeding.generator("asked", world.rank), []
        for size in (40, NODES, 0 if world.rank else 7, 1, 0):
            nodes = draw.permutation(NODES)[:size].astype(np.int64)
            told.append([bytes_of(owned.rows(nodes)), bytes_of(mapped.rows(nodes))])
    file.write_text(json.dumps([told, bound, owned.nbytes, vars(owned.counts)]))


@pytest.mark.parametrize(
    ("kept", "kind", "stored"),
    [
        (0, "standard", "dense"), (800, "row", "sparse"), (10**9, "none", "dense"),
        *slow((800, "standard", "dense"), (10**9, "standard", "dense"), (0, "row", "sparse"), (10**9, "row", "sparse"),
              (0, "none", "dense"), (800, "none", "dense")),
    ],
)  # fmt: skip
def test_rows_have_the_bytes_of_the_graph_folder_wherever_they_are_kept(tmp_path, kind, stored, kept):
    features = sparse_features() if stored == "sparse" else random_features(NODES, FEATURES)
    graph = make_graph(tmp_path / "graph", random_edges(NODES, 300, seed=1, hubs=4), NODES, features=features)
    assert isinstance(graph.features, SparseFeatures) == (stored == "sparse")
    told = in_world(3, rows_of_each, tmp_path, tmp_path / "graph", kind, kept)
    asked = 40 + NODES + 1
    for rank, (rows, share, whole, counts) in enumerate(told):
        assert all(found == expected for found, expected in rows)
        assert sum(counts.values()) == asked + 7 * (rank == 0)
        assert (counts["frequent"] == 0) == (kept == 0)
        assert (counts["fetched"] == 0) == (kept == 10**9)
        assert share <= whole <= owned_bytes(graph, kept, 3) + 1000  # places of sparse rows are not counted there
    if stored == "dense":
        assert sum(share for _, share, _, _ in told) == graph.features.nbytes


def test_the_frequent_nodes_are_those_with_the_most_edges(tmp_path):
    graph = make_graph(
        tmp_path / "graph", random_edges(NODES, 300, seed=1, hubs=4), NODES, features=random_features(NODES, 4)
    )
    degrees = np.diff(graph.indptr)
    found = frequent_nodes(graph, 10 * 4 * 4)
    assert found.size == 10
    assert (np.diff(found) > 0).all()
    assert degrees[found].min() >= np.delete(degrees, found).max()
    assert frequent_nodes(graph, 15).size == 0
    assert frequent_nodes(graph, 10**9).size == NODES


def train_together(file, folder, values):
    run = Run.at(folder)
    stage.train(Config.parse(values), run, Console(run.log, quiet=True))
    file.write_text("{}")


def losses(run):
    return [event["loss"] for event in read_json_lines(run.log) if event["event"] == "step"]


def test_a_training_has_the_bits_of_one_that_reads_the_graph_folder(tmp_path):
    mapped = {**OWNED, "runtime": {}}
    for name, values in (("owned", OWNED), ("mapped", mapped)):
        test_torchrun.prepared(tmp_path / name)
        in_world(3, train_together, tmp_path, tmp_path / name, values)
    ours, theirs = Run.at(tmp_path / "owned"), Run.at(tmp_path / "mapped")
    assert losses(ours) == losses(theirs)
    assert torch.equal(trained(ours)[0], trained(theirs)[0])
    (counted,) = [event for event in read_json_lines(ours.log) if event["event"] == "features"]
    assert min(counted[part] for part in ("frequent", "own", "fetched")) > 0


def disturbed_training(file, folder, values, blow):
    """Train until step 10, in which the second process is killed or asked to stop; write how this one ended."""
    run, stop, step = Run.at(folder), threading.Event(), loop.training_step
    with join_world(20.0) as world:

        def disturbed(model, optimizer, inputs, batches, config, number, *rest):
            if number == 10 and world.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL) if blow == "kill" else stop.set()
            return step(model, optimizer, inputs, batches, config, number, *rest)

        loop.training_step = disturbed
        with pytest.raises(PeerError if blow == "kill" else StoppedError) as error:
            stage.train_here(Config.parse(values), run, Console(run.log, quiet=True), stop)
    file.write_text(json.dumps(str(error.value)))


@pytest.mark.parametrize(
    ("blow", "words"),
    [
        ("kill", "another process of the training has ended"),
        *slow(("stop", "training was asked to stop and has saved step 12")),
    ],
)
def test_all_end_when_one_is_killed_or_asked_to_stop_and_the_training_resumes(tmp_path, blow, words):
    _, run = test_torchrun.prepared(tmp_path / "run")
    told = in_world(2, disturbed_training, tmp_path, run.folder, OWNED, blow)
    assert told[0].startswith(words)
    assert (told[1] is None) == (blow == "kill")
    assert len(losses(run)) == 10 + 2 * (blow == "stop")
    stage.train(Config.parse(OWNED), run, Console(run.log, quiet=True))
    assert len({event["step"] for event in read_json_lines(run.log) if event["event"] == "step"}) == 20


@pytest.mark.slow
@pytest.mark.parametrize(("size", "reads"), [(2, 3), (1, 2)])
def test_a_process_that_stops_makes_as_many_batches_as_the_others_have_begun(tmp_path, size, reads):
    config, run = test_torchrun.prepared(tmp_path / "run")
    graph, read, held = Graph.open(run.graph), [], threading.Event()

    def slow(nodes):
        read.append(nodes.size)
        if len(read) == 2:
            held.wait(20)  # the third is not begun when the caller stops
        return graph.features[nodes]

    sampler = NeighbourSampler(NormalisedAdjacency.of(graph, "gcn"), 2, [3, 3])
    stream = BatchStream(
        Samples.open(run.samples),
        graph.num_nodes,
        config.rings,
        config.train,
        config.loss,
        sampler,
        Share(0, size),
        slow,
    )
    batches = stream.batches(0, 10)
    next(batches)
    threading.Timer(0.2, held.set).start()
    batches.close()
    assert len(read) == reads


def test_owned_features_need_sampled_steps_and_memory(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"runtime\.features: owned needs model\.propagation: sampled"):
        Config.parse({**OWNED, "model": {}})
    graph = make_graph(
        tmp_path / "graph", random_edges(NODES, 300, seed=1), NODES, features=random_features(NODES, FEATURES)
    )
    monkeypatch.setattr(batches_stage, "available_memory", lambda: 1000)
    words = "owned keeps .* of features in each of 2 processes, and .* are available here; start more processes"
    with contextlib.ExitStack() as stack, pytest.raises(ConfigError, match=words):
        batches_stage._Owners(Config.parse(OWNED), graph, World(0, 2), Console(quiet=True), stack).read_features()
