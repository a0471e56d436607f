import contextlib
import itertools

import pytest
import torch

from gscl_scale.batches.stream import BatchStream
from gscl_scale.config.config import Config
from gscl_scale.graph.graph import Graph
from gscl_scale.model.inputs import prepare_inputs
from gscl_scale.model.model import build_model
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.shards.reader import Samples
from gscl_scale.stages import batches
from gscl_scale.stages import train as training
from gscl_scale.stages.precompute import precompute
from gscl_scale.train.device_plan import DevicePlan, batch_bytes, plan_device, step_bytes
from gscl_scale.train.step import batch_inputs, batch_loss
from tests.graphs import make_graph, make_samples, random_edges
from tests.meta_device import META, MetaDevice, meta_autocast, meta_kernels
from tests.model.graphs import random_features
from tests.slow import slow
from tests.train.test_train import events, losses

NODES, WIDTH, GIB = 1500, 32, 1 << 30
RINGS = {"hops": 1, "width": 4, "per_ring": 1, "beyond": 1, "rounds": 1}
DROPOUTS = [{}, {"hidden_dropout": 0.2}, {"feature_dropout": 0.2}, {"message_dropout": 0.2}, {"recompute": True}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    for columns in (8, 128):
        features = random_features(NODES, columns)
        make_graph(folder / f"{columns}", random_edges(NODES, 5000, seed=1), NODES, features=features)
    make_samples(folder / "8", folder / "samples", configured().rings)
    return folder


def configured(train=None, **model):
    model, train = (
        {"width": WIDTH, "projection": 0, **model},
        {"epochs": 1, "batch_size": 8, "negatives": 2, **(train or {})},
    )
    return Config.parse({"graph": {"source": "memory"}, "rings": RINGS, "model": model, "train": train})


def peak_of(folder, graph, config):
    """Bytes that a forward and a backward pass over the whole graph takes at its peak, beside the graph."""
    with meta_autocast():
        with MetaDevice():
            inputs = prepare_inputs(graph, config.model, META)
            model = build_model(config.model, graph.num_features, 0).to(META)
        batch = BatchStream(Samples.open(folder / "samples"), NODES, config.rings, config.train, config.loss).batch(0)
        with MetaDevice() as device:
            batch_loss(model, batch_inputs(inputs, batch), batch, config, key=5).loss.backward()
    return device.peak


@pytest.mark.parametrize("kernels", [True, *slow(False)])
@pytest.mark.parametrize(("encoder", "columns"), [("gcn", 8), ("sage", 128), *slow(("gat", 8))])
def test_the_estimate_of_a_step_is_above_what_its_tensors_take_and_not_far(folder, encoder, columns, kernels):
    graph = Graph.open(folder / f"{columns}")
    for layers, activation, dropout in itertools.product((1, 3), ("prelu", "rrelu"), DROPOUTS):
        if encoder == "gat" and "message_dropout" in dropout:
            continue
        config = configured(encoder=encoder, layers=layers, activation=activation, **dropout)
        said = step_bytes(config.model, NODES, graph.features.size, graph.indices.size + NODES, kernels)
        with meta_kernels() if kernels else contextlib.nullcontext():
            ratio = said / peak_of(folder, graph, config)
        assert 1.1 <= ratio <= 2.6, (layers, activation, dropout, ratio)


def test_the_whole_graph_is_encoded_where_a_step_over_it_fits_and_rounds_get_what_is_left():
    config = configured({"cuda_graphs": False}, layers=3)
    need = step_bytes(config.model, 10**6, 10**8, 10**7) + batch_bytes(config, 10**6)
    least = int(need / 0.8) + 2
    fits, lacks = (plan_device(config, 10**6, 10**8, 10**7, free) for free in (least, least - 8))
    assert (fits.whole, lacks.whole) == (True, False)
    assert 0 <= fits.room < 8
    assert plan_device(config, 10**6, 10**8, 10**7, least + 10 * GIB).room == pytest.approx(8 * GIB, abs=8)
    assert lacks.room == pytest.approx(0.2 * least, rel=1e-6)
    assert fits.reason.startswith("Each step encodes the whole graph: a step over all nodes takes about ")
    assert lacks.reason.startswith("Each step encodes what its batch depends on: ")


def test_cuda_graphs_are_recorded_where_there_is_room_for_two_passes():
    step, batch = (step_bytes(configured().model, 10**6, 10**8, 10**7), batch_bytes(configured(), 10**6))
    two, one = (int((passes * step + batch) / 0.8) + 2 for passes in (2, 1))
    free, taken = (two, two - 8, one, one - 8), []
    for given in ("auto", True, False):
        plans = [plan_device(configured({"cuda_graphs": given}), 10**6, 10**8, 10**7, each) for each in free]
        taken.append([(plan.whole, plan.graphs) for plan in plans])
    one_by_one, recorded, lacks = (True, False), (True, True), (False, False)
    assert taken[0] == [recorded, one_by_one, one_by_one, lacks]
    assert taken[1] == [recorded, lacks, lacks, lacks]
    assert taken[2] == [one_by_one, one_by_one, one_by_one, lacks]
    assert not plan_device(configured({"accumulate": 2}), 10**6, 10**8, 10**7, 10 * two).graphs


def test_a_cuda_graph_keeps_the_memory_of_a_step_beside_that_of_a_validation():
    rooms = [plan_device(configured({"cuda_graphs": on}), 10**5, 10**6, 10**6, 100 * GIB).room for on in (False, True)]
    assert rooms[0] - rooms[1] == step_bytes(configured().model, 10**5, 10**6, 10**6)


def test_sampled_neighbours_stay_sampled_however_much_memory_there_is():
    plan = plan_device(configured(propagation="sampled", fanout=[3]), 100, 100, 100, 1 << 50)
    assert not plan.whole
    assert plan.room > 0


def test_micro_batches_take_less():
    one, four = (batch_bytes(configured(train={"batch_size": 4096, "accumulate": n}), 10**4) for n in (1, 4))
    assert 3.9 < one / four <= 4


def test_a_cpu_has_no_plan(folder):
    assert training.device_plan(configured(), Graph.open(folder / "8"), torch.device("cpu")) is None


@pytest.mark.parametrize("whole", [False, True])
def test_a_training_by_a_plan_tells_it_and_is_the_one_without(folder, tmp_path, monkeypatch, capsys, whole):
    curves, made, computed = [], [], []
    real, arithmetic = batches.NeighbourSampler, training.gpu_arithmetic
    monkeypatch.setattr(training, "gpu_arithmetic", lambda *given: computed.append(given) or arithmetic(*given))
    monkeypatch.setattr(batches, "NeighbourSampler", lambda *arguments: made.append(arguments) or real(*arguments))
    for plan in (None, DevicePlan(whole, GIB, "Each step encodes what fits.")):
        monkeypatch.setattr(training, "device_plan", lambda *_, plan=plan: plan)
        config = configured(train={"batch_size": 400, "epochs": 2, "negatives": 20}, layers=2, feature_dropout=0.2)
        run = open_run(config, tmp_path / f"run-{plan is None}")
        make_graph(run.graph, random_edges(NODES, 1500, seed=3), NODES)
        precompute(config, run, Console(quiet=True))
        training.train(config, run, Console(run.log))
        curves.append(losses(run))
    told = capsys.readouterr().err
    assert "Each step encodes what fits.\nBatches are made on the GPU: a round takes " in told
    assert [(event["whole_graph"], event["room_for_rounds"]) for event in events(run, "device plan")] == [(whole, GIB)]
    assert len(curves[0]) == 8
    assert len(made) == (1 if whole else 2)
    assert computed == [(config.train, torch.device("cpu"))] * 2
    if whole:  # sums are over other rows, in another order
        curves = [[loss for _, loss in curve] for curve in curves]
        assert curves[1] == pytest.approx(curves[0], rel=1e-4)
    else:
        assert curves[1] == curves[0]
