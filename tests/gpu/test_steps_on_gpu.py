"""Steps on a GPU are those of the CPU: batches to the bit, losses, gradients and embeddings within tolerances."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gscl_scale.batches.sampled_subgraph import NeighbourSampler
from gscl_scale.batches.stream import BatchStream, DeviceRoom
from gscl_scale.config.config import Config
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.model.captured import CapturedEncoder
from gscl_scale.model.device import gpu_arithmetic
from gscl_scale.model.fused import availability
from gscl_scale.model.fused.availability import has_kernels
from gscl_scale.model.inputs import prepare_inputs
from gscl_scale.model.model import build_model
from gscl_scale.shards.reader import Samples
from gscl_scale.train.checkpoint import load_optimizer
from gscl_scale.train.device_plan import batch_bytes, step_bytes
from gscl_scale.train.loop import Trainer, encode_all
from gscl_scale.train.process_group import ALONE
from gscl_scale.train.step import batch_inputs, batch_loss, fetch
from tests.batches.test_device_collate import CPU, among_all, assert_same_bits
from tests.gpu.conftest import DEVICE
from tests.graphs import make_graph, make_samples, random_edges
from tests.model.fused.cases import assert_close
from tests.model.graphs import random_features

pytestmark = pytest.mark.gpu

NODES, ROOM = 3000, DeviceRoom(DEVICE, 1 << 30, lambda words: None)
RINGS = {"hops": 2, "width": 64, "rounds": 2}
MODELS = [
    {"encoder": "gcn"},
    {"encoder": "gcn", "activation": "rrelu", "feature_dropout": 0.2, "hidden_dropout": 0.2},
    {"encoder": "sage", "message_dropout": 0.2},
    {"encoder": "gat"},
    {"encoder": "gcn", "product": "triton"},
]
LOSSES = [{}, {"ranking": "pairwise", "positives": "out", "temperature_step": 0.1, "gate": 0.5},
          {"weighting": "size", "hop_zero": 0.5}]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu")
    make_graph(folder / "graph", random_edges(NODES, 9000, seed=1), NODES, features=random_features(NODES, 24))
    make_samples(folder / "graph", folder / "samples", configured().rings)
    return folder


def configured(model=None, train=None, **sections):
    model = {"width": 64, "projection": 32, "layers": 3, **(model or {})}
    train = {"epochs": 2, "batch_size": 300, "negatives": 100, "precision": "float32", **(train or {})}
    return Config.parse({"graph": {"source": "memory"}, "rings": RINGS, "model": model, "train": train, **sections})


def stream_of(folder, config, room, whole=True):
    """Batches made by numba, or on the device where there is room; of the whole graph or of what they depend on."""
    graph, sampler = Graph.open(folder / "graph"), None
    if not whole:
        messages = NormalisedAdjacency.of(graph, *config.model.messages())
        sampler = NeighbourSampler(messages, config.model.layers, config.model.fanouts(), False)
    samples = Samples.open(folder / "samples")
    return BatchStream(samples, NODES, config.rings, config.train, config.loss, sampler, device=room)


def prepared(folder, config, device):
    graph = Graph.open(folder / "graph")
    return prepare_inputs(graph, config.model, device), build_model(config.model, graph.num_features, 0).to(device)


def loss_and_gradients(folder, config, device, whole=True):
    inputs, model = prepared(folder, config, device)
    batch = stream_of(folder, config, None if device == CPU else ROOM, whole).batch(0)
    result = batch_loss(model, batch_inputs(inputs, batch), batch, config, key=5)
    result.loss.backward()
    return result.flat().cpu(), [one.grad.cpu() for one in model.parameters()]


@pytest.mark.parametrize("members", ["lowest", "random", "stored"])
@pytest.mark.parametrize("weighting", ["raw", "size"])
def test_batches_have_the_bits_of_the_cpu(folder, members, weighting):
    config = configured(train={"members": members}, loss={"weighting": weighting})
    on_cpu, on_gpu = (stream_of(folder, config, room) for room in (None, ROOM))
    for step in (0, 1, on_cpu.schedule.steps_per_epoch + 2):
        assert_same_bits(among_all(on_cpu.batch(step), NODES), on_gpu.batch(step))


def test_batches_made_beside_long_work_have_the_bits_of_the_cpu_and_wait_for_none_of_it(folder):
    config = configured()
    on_cpu, on_gpu = (stream_of(folder, config, room) for room in (None, ROOM))
    rows, number = torch.randn(8192, 8192, device=DEVICE), 12
    list(on_gpu.batches(0, 2))  # compiles kernels
    torch.cuda.synchronize()
    began = torch.cuda.Event(), torch.cuda.Event()
    made = []
    for batch in on_gpu.batches(0, number):
        made.append(batch)
        if len(made) == 1:
            began[0].record()
            for _ in range(40):
                rows = rows @ rows  # hundreds of milliseconds
            began[1].record()
    assert not began[1].query()  # all batches are made, and the device is still at work
    assert began[0].query()
    for step, batch in enumerate(made):
        assert_same_bits(among_all(on_cpu.batch(step), NODES), batch)


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "plain"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("model", MODELS)
def test_loss_and_gradients_are_those_of_the_cpu_within_1e_4(folder, monkeypatch, model, loss, kernels):
    config = configured(model, loss=loss)
    expected = loss_and_gradients(folder, config, CPU)
    if not kernels:
        monkeypatch.setattr(availability, "has_kernels", lambda device: False)
    for whole in (True, False):
        found = loss_and_gradients(folder, config, DEVICE, whole)
        assert_close(found[0], expected[0], 1e-4)
        for one, other in zip(found[1], expected[1], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4 * float(other.abs().max()))


def test_in_bfloat16_the_loss_is_within_2_per_cent(folder):
    expected, _ = loss_and_gradients(folder, configured(), CPU)
    found, _ = loss_and_gradients(folder, configured(train={"precision": "bfloat16"}), DEVICE)
    assert float(found[0]) == pytest.approx(float(expected[0]), rel=0.02)


@pytest.mark.parametrize("model", MODELS)
def test_embeddings_are_those_of_the_cpu_within_1e_4(folder, model):
    config = configured(model)
    expected, found = (encode_all(*reversed(prepared(folder, config, device))) for device in (CPU, DEVICE))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def trained(folder, device, steps):
    """Losses of some steps, and the weights after them."""
    config = configured({"activation": "rrelu"}, train={"deterministic": True})
    inputs, model = prepared(folder, config, device)
    trainer = Trainer(model, config.train)
    batches = stream_of(folder, config, None if device == CPU else ROOM).batches(0, steps)
    with gpu_arithmetic(config.train, device):
        results = fetch([trainer.step(inputs, [batch], config, ALONE, False) for batch in batches])
    return [one.loss for one in results], [one.detach().cpu() for one in model.parameters()]


def test_ten_steps_have_the_losses_of_the_cpu_and_twice_the_same_bits(folder):
    expected, (once, weights), (again, others) = (trained(folder, device, 10) for device in (CPU, DEVICE, DEVICE))
    assert once == pytest.approx(expected[0], rel=1e-3)
    assert once == again
    assert all(torch.equal(one, other) for one, other in zip(weights, others, strict=True))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("model", MODELS)
def test_twenty_steps_by_a_cuda_graph_have_the_losses_and_weights_of_steps_without(folder, model, precision):
    config, found = configured(model, train={"precision": precision}), []
    for recorded in (False, True):
        inputs, network = prepared(folder, config, DEVICE)
        if recorded:
            network.captured = CapturedEncoder(network.encoder, inputs, precision == "bfloat16")
        trainer, steps = Trainer(network, config.train), []
        for step, batch in enumerate(stream_of(folder, config, ROOM).batches(0, 20)):
            trainer.position = replace(trainer.position, step=step)
            steps.append(trainer.step(inputs, [batch], config, ALONE, False))
        losses = [one.loss for one in fetch(steps)]
        found.append((losses, [one.detach().cpu() for one in network.parameters()], encode_all(network, inputs)))
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-3)
    for one, other in zip(found[1][1], found[0][1], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2 * float(other.abs().max()))
    np.testing.assert_allclose(found[1][2], found[0][2], rtol=1e-2, atol=1e-2 * np.abs(found[0][2]).max())


@pytest.mark.parametrize("kernels", [True, False], ids=["kernels", "plain"])
@pytest.mark.parametrize("model", MODELS[1:3])
def test_each_replay_of_a_cuda_graph_draws_the_noise_of_its_key(folder, monkeypatch, model, kernels):
    if not kernels:
        monkeypatch.setattr(availability, "has_kernels", lambda device: False)
    config = configured(model, train={"deterministic": True})
    with gpu_arithmetic(config.train, DEVICE):
        inputs, network = prepared(folder, config, DEVICE)
        network.train().captured = CapturedEncoder(network.encoder, inputs, bfloat16=False)
        for key in (7, 2**63 - 1, 7):
            found, expected = network.encode(inputs, key).detach().clone(), network.encoder(inputs, key).detach()
            assert torch.equal(found == 0, expected == 0)
            assert_close(found, expected, 1e-5)
        assert not torch.equal(network.encode(inputs, 8).detach(), found)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.parametrize("model", MODELS)
def test_no_step_waits_for_the_gpu_and_figures_are_one_wait(folder, model):
    config = configured(model)
    inputs, model = prepared(folder, config, DEVICE)
    trainer, stream = Trainer(model, config.train), stream_of(folder, config, ROOM)
    batches = [stream.batch(step) for step in range(4)]
    trainer.step(inputs, batches[:1], config, ALONE, False)  # compiles the kernels
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")  # an operation that waits raises
    try:
        launched = [trainer.step(inputs, [batch], config, ALONE, False) for batch in batches[1:]]
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(fetch(launched)) == 3


@pytest.mark.parametrize("model", MODELS)
def test_a_step_takes_no_more_memory_than_is_estimated(folder, model):
    config, graph = configured(model), Graph.open(folder / "graph")
    inputs, network = prepared(folder, config, DEVICE)
    batch = stream_of(folder, config, ROOM).batch(0)
    for _ in range(2):  # the first compiles the kernels
        network.zero_grad(set_to_none=True)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        batch_loss(network, batch_inputs(inputs, batch), batch, config, key=5).loss.backward()
    took = torch.cuda.max_memory_allocated() - before
    said = step_bytes(config.model, NODES, graph.features.size, graph.indices.size + NODES, has_kernels(DEVICE))
    assert took <= said + batch_bytes(config, NODES)


def test_a_training_of_the_cpu_goes_on_on_a_gpu_with_its_moments(folder):
    config, found = configured(), []
    for device in (CPU, DEVICE):
        inputs, model = prepared(folder, config, device)
        trainer = Trainer(model, config.train)
        if found:
            weights, state = found.pop()
            model.load_state_dict(weights)
            load_optimizer(trainer.optimizer, state, folder)
            assert trainer.optimizer.param_groups[0]["fused"]
        batch = stream_of(folder, config, None).batch(0)
        result = trainer.step(inputs, [batch], config, ALONE, False).result()
        found.append((model.state_dict(), trainer.optimizer.state_dict()))
    assert np.isfinite(result.loss)
    assert {int(moments["step"]) for moments in found[0][1]["state"].values()} == {2}
