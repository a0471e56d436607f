import itertools
import json
import os
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

from gscl_scale.batches.sampled_subgraph import NeighbourSampler
from gscl_scale.batches.stream import BatchStream, Share
from gscl_scale.config.config import Config
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.model.inputs import MappedFeatures, prepare_inputs
from gscl_scale.model.loss import ring_loss
from gscl_scale.model.model import build_model
from gscl_scale.shards.reader import Samples
from gscl_scale.train import comparison
from gscl_scale.train.process_group import join_world
from gscl_scale.train.step import batch_inputs, batch_loss, training_step
from tests.forked import begin
from tests.graphs import make_graph, make_samples, random_edges
from tests.ports import free_port

NODES = 122  # three batches of 40 anchors and one of 2
RINGS = {"hops": 2, "width": 16, "per_ring": 4, "beyond": 8, "rounds": 2, "part_anchors": 50}
MODEL = {"width": 8, "projection": 8, "layers": 2, "activation": "rrelu", "feature_dropout": 0.3}
TRAIN = {"batch_size": 40, "negatives": 16, "epochs": 2}
LOSSES = {
    "as it is": {},
    "size": {"weighting": "size"},
    "pairwise": {"ranking": "pairwise"},
    "out": {"positives": "out"},
    "gate": {"gate": 0.5},
    "hop zero": {"hop_zero": 0.7},
    "all": {
        "weighting": "size", "ranking": "pairwise", "positives": "out", "gate": 0.3, "temperature_step": 0.1,
        "hop_zero": 0.7,
    },
}  # fmt: skip
MODELS = {
    "gcn": {},
    "gcn known": {"feature_dropout": 0.0},
    "sage sampled": {"encoder": "sage", "propagation": "sampled", "fanout": [2, 3]},
    "gat": {"encoder": "gat", "activation": "prelu"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shares")
    make_graph(folder / "graph", random_edges(NODES, 260, seed=3, hubs=3), NODES)
    make_samples(folder / "graph", folder / "samples", configured().rings, 2)
    return folder


def configured(model=None, loss=None, train=None):
    values = {"model": {**MODEL, **(model or {})}, "loss": loss or {}, "train": {**TRAIN, **(train or {})}}
    return Config.parse({"graph": {"source": "memory"}, "rings": RINGS, **values})


class Worker:
    """What one of `size` processes has."""

    def __init__(self, folder, config, rank=0, size=1):
        self.config, graph = config, Graph.open(folder / "graph")
        self.model = build_model(config.model, graph.num_features, 0).train()
        self.inputs = prepare_inputs(graph, config.model, torch.device("cpu"))
        known, messages = self.inputs.propagated is not None, NormalisedAdjacency.of(graph, *config.model.messages())
        sampler = NeighbourSampler(messages, config.model.layers, config.model.fanouts(), known)
        read = MappedFeatures.of(graph, config.model).rows if self.inputs.features is None else None
        self.stream = BatchStream(
            Samples.open(folder / "samples"), NODES, config.rings, config.train, config.loss,
            sampler, Share(rank, size), read,
        )  # fmt: skip

    def part(self, step):
        """(loss and all figures, gradients) of our share of a step."""
        batch = self.stream.batch(step)
        result = batch_loss(self.model, batch_inputs(self.inputs, batch), batch, self.config, key=100 + step)
        self.model.zero_grad()
        result.loss.backward()
        figures = (result.loss.detach(), result.level_sum, result.level_anchors, result.stopped, result.terms)
        gradients = [parameter.grad.clone() for parameter in self.model.parameters()]
        return [*(figure.float() for figure in figures), *gradients]


def workers(folder, config, size):
    return [Worker(folder, config, rank, size) for rank in range(size)]


def assert_shares_add_up(folder, config, size, steps):
    alone, together = Worker(folder, config), workers(folder, config, size)
    for step in steps:
        parts = [worker.part(step) for worker in together]
        whole = alone.part(step)
        assert whole[0] > 0
        assert all((gradient != 0).any() for gradient in whole[5:])
        sums = [sum(figures) for figures in zip(*parts, strict=True)]
        torch.testing.assert_close(sums, whole, rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize(
    ("size", "settings"),
    [
        *((size, {"loss": loss}) for size in (1, 2, 3, 4) for loss in LOSSES.values()),
        *((3, {"model": model, "loss": LOSSES["all"]}) for model in MODELS.values()),
        *((3, {"train": train}) for train in ({"members": "random"}, {"members": "stored"}, {"negatives": 0})),
    ],
)
def test_losses_figures_and_gradients_of_the_shares_add_up_to_those_of_the_batch(folder, size, settings):
    assert_shares_add_up(folder, configured(**settings), size, [0, 3, 4])


def test_hop_zero_compares_each_anchor_with_itself_seen_otherwise(folder, monkeypatch):
    given = []
    monkeypatch.setattr(comparison, "ring_loss", lambda *values: given.append(values) or ring_loss(*values))
    for loss in ({"hop_zero": 0.7}, {}):
        worker = Worker(folder, configured(MODELS["gcn"], loss))
        worker.part(0)
    own, anchors = given[0][-1], worker.stream.batch(0).anchors.size
    assert own.shape == (anchors,)
    assert ((own < 0.9999) & (own > -1)).all()
    assert own.mean() > 0.5  # of other nodes it is near 0
    assert given[1][-1] is None


@pytest.mark.parametrize("model", list(MODELS))
def test_a_share_may_be_empty(folder, model):
    config = configured(MODELS[model], train={"negatives": 0})
    batch = Worker(folder, config, 0, 4).stream.batch(3)
    assert batch.anchors.size == batch.nodes.size == 0
    assert_shares_add_up(folder, config, 4, [3])


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("batch_size", [40, 3])
def test_the_shares_are_the_batch_cut_in_parts_of_equal_size(folder, size, batch_size):
    config = configured(loss=LOSSES["all"], train={"batch_size": batch_size})
    alone, together = Worker(folder, config), workers(folder, config, size)
    for step in (0, 3, alone.stream.schedule.steps_per_epoch - 1, alone.stream.schedule.steps_per_epoch):
        whole, parts = alone.stream.batch(step), [worker.stream.batch(step) for worker in together]
        anchors = [part.nodes[part.anchors].tolist() for part in parts]
        assert [anchor for share in anchors for anchor in share] == whole.nodes[whole.anchors].tolist()
        assert max(map(len, anchors)) - min(map(len, anchors)) <= 1
        for part in parts:
            assert part.whole_size == whole.anchors.size
            assert part.nodes[part.candidates].tolist() == whole.nodes[whole.candidates].tolist()
        assert (np.concatenate([part.decided for part in parts]) == whole.decided).all()
        assert (np.concatenate([part.log_weight for part in parts]) == whole.log_weight).all()
        members = [part.nodes[part.pairs.indices] for part in parts]
        assert np.concatenate(members).tolist() == whole.nodes[whole.pairs.indices].tolist()


def test_a_share_reads_less_than_the_batch(folder):
    config = configured(train={"negatives": 2, "batch_size": 20})
    whole = Worker(folder, config).stream.batch(0)
    assert all(worker.stream.batch(0).nodes.size < 0.7 * whole.nodes.size for worker in workers(folder, config, 4))


@pytest.mark.parametrize("micro_batches", [2, 3, 7])
def test_a_batch_in_micro_batches_gives_the_gradients_and_figures_of_the_whole(folder, micro_batches):
    results = []
    for number in (1, micro_batches):
        config = configured(loss=LOSSES["all"], train={"accumulate": number, "clip": 0.1})
        worker = Worker(folder, config)
        made = list(worker.stream.batches(3, 5))
        assert len(made) == 2 * number
        optimizer = torch.optim.SGD(worker.model.parameters(), lr=1.0)
        for step in (3, 4):
            of_step, made = made[:number], made[number:]
            assert sum(batch.anchors.size for batch in of_step) == of_step[0].whole_size == (2 if step == 3 else 40)
            result = training_step(worker.model, optimizer, worker.inputs, of_step, config, step).result()
        gradients = torch.cat([parameter.grad.flatten() for parameter in worker.model.parameters()])
        figures = [result.loss, result.hop_zero, *result.per_level, result.gated, result.gradient_norm]
        results.append((gradients, figures, result.anchors))
    torch.testing.assert_close(results[1][0], results[0][0], rtol=2e-4, atol=2e-6)
    assert results[1][1] == pytest.approx(results[0][1], rel=1e-5)
    assert results[1][2] == results[0][2] == 40


def five_steps(folder, out):
    """Train five steps in the world of the environment, of many processes with two micro-batches for each.

    The last process asks to stop in the fourth step.
    """
    with join_world(60) as world:
        train = {"clip": 0.5, "learning_rate": 0.01, "accumulate": 1 if world.size == 1 else 2}
        config = configured(MODELS["sage sampled"], LOSSES["all"], train)
        worker = Worker(Path(folder), config, world.rank, world.size)
        optimizer = torch.optim.Adam(worker.model.parameters(), lr=config.train.learning_rate)
        steps = []
        batches = worker.stream.batches(0, 5)
        for step in range(5):
            stop = step == 3 and world.rank == world.size - 1
            micro_batches = itertools.islice(batches, worker.stream.num_micro_batches)
            of_step = (micro_batches, config, step, world, stop)
            result = training_step(worker.model, optimizer, worker.inputs, *of_step).result()
            steps.append(
                [result.loss, result.gradient_norm, result.gated, result.hop_zero, *result.per_level, result.stop]
            )
        weights = torch.cat([parameter.detach().flatten() for parameter in worker.model.parameters()]).tolist()
        Path(out).write_text(json.dumps({"size": world.size, "steps": steps, "weights": weights}))


def in_processes(folder, out, size):
    """The five steps of each of some processes, joined by gloo."""
    files = [out / f"{rank}.json" for rank in range(size)]
    world = {
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "CUDA_VISIBLE_DEVICES": "",
    }
    started = []
    for rank, file in enumerate(files):
        with mock.patch.dict(os.environ, {**world, "RANK": str(rank)}):
            started.append(begin(five_steps, folder, file, errors=file.with_suffix(".txt")))
    for process, file in zip(started, files, strict=True):
        process.join(100)
        assert process.exitcode == 0, file.with_suffix(".txt").read_text()
    return [json.loads(file.read_text()) for file in files]


@pytest.mark.slow
def test_two_processes_train_the_model_of_one(folder, tmp_path, monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    five_steps(folder, tmp_path / "alone.json")
    alone = json.loads((tmp_path / "alone.json").read_text())
    one, other = in_processes(folder, tmp_path, 2)
    assert (alone["size"], one["size"], other["size"]) == (1, 2, 2)
    assert one == other
    assert [step[-1] for step in one["steps"]] == [step[-1] for step in alone["steps"]] == [False] * 3 + [True, False]
    for ours, theirs in zip(one["steps"], alone["steps"], strict=True):
        assert ours[:-1] == pytest.approx(theirs[:-1], rel=1e-4)
    assert one["weights"] == pytest.approx(alone["weights"], rel=1e-3, abs=1e-4)
    assert len({step[0] for step in alone["steps"]}) == 5
