"""`train.cuda_graphs` without a GPU: a stand-in records, which overwrites its results in each pass as CUDA does."""

from dataclasses import replace

import pytest
import torch

from gscl_scale.batches.stream import BatchStream
from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError
from gscl_scale.graph.graph import Graph
from gscl_scale.model import captured, encoder
from gscl_scale.model.captured import CapturedEncoder
from gscl_scale.model.inputs import prepare_inputs
from gscl_scale.model.model import build_model
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.shards.reader import Samples
from gscl_scale.stages import train as training
from gscl_scale.stages.precompute import precompute
from gscl_scale.train.device_plan import DevicePlan
from gscl_scale.train.loop import Trainer, encode_all
from gscl_scale.train.process_group import ALONE
from gscl_scale.train.step import fetch
from tests.graphs import make_graph, make_samples, random_edges
from tests.model.graphs import random_features, random_sparse_features
from tests.model.recorded import make_graphed_callables
from tests.train.test_train import losses

CPU, NODES = torch.device("cpu"), 200
RINGS = {"hops": 2, "width": 16, "per_ring": 4, "beyond": 8, "rounds": 1}
NOISE = {"feature_dropout": 0.2, "hidden_dropout": 0.2}
MODELS = [
    ("dense", {"activation": "rrelu", **NOISE}),
    ("sparse", {"activation": "rrelu", "encoder": "sage", **NOISE}),
    ("dense", {"message_dropout": 0.2}),
    ("dense", {"encoder": "gat", "activation": "rrelu"}),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    for name, features in (("dense", random_features(NODES, 6)), ("sparse", random_sparse_features(NODES, 24))):
        make_graph(folder / name, random_edges(NODES, 500, seed=1), NODES, features=features)
    make_samples(folder / "dense", folder / "samples", configured().rings)
    return folder


@pytest.fixture(autouse=True)
def _recorded(monkeypatch):
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", make_graphed_callables)


def configured(model=None, **sections):
    model = {"width": 16, "projection": 8, "layers": 2, **(model or {})}
    train = {"epochs": 2, "batch_size": 60, "negatives": 20, **sections.pop("train", {})}
    values = {"graph": {"source": "memory"}, "rings": RINGS, "model": model, "train": train, **sections}
    return Config.parse(values)


def prepared(folder, features, config, recorded):
    graph = Graph.open(folder / features)
    inputs, model = prepare_inputs(graph, config.model, CPU), build_model(config.model, graph.num_features, 0)
    if recorded:
        model.captured = CapturedEncoder(model.encoder, inputs, bfloat16=False)
    return inputs, Trainer(model, config.train)


@pytest.mark.parametrize(("features", "model"), MODELS)
def test_steps_by_a_graph_have_the_losses_and_weights_of_steps_without(folder, features, model):
    config, found = configured(model), []
    for recorded in (False, True):
        inputs, trainer = prepared(folder, features, config, recorded)
        samples = Samples.open(folder / "samples")
        stream = BatchStream(samples, NODES, config.rings, config.train, config.loss)
        steps = []
        for step, batch in enumerate(stream.batches(0, 8)):
            trainer.position = replace(trainer.position, step=step)
            steps.append(trainer.step(inputs, [batch], config, ALONE, stop=False))
        weights = [one.detach() for one in trainer.model.parameters()]
        found.append((fetch(steps), weights, encode_all(trainer.model, inputs)))
    assert found[0][0] == found[1][0]
    assert all(torch.equal(one, other) for one, other in zip(found[0][1], found[1][1], strict=True))
    assert (found[0][2] == found[1][2]).all()


def test_each_key_draws_what_the_encoder_draws_with_it(folder):
    config = configured({"activation": "rrelu", **NOISE})
    inputs, trainer = prepared(folder, "dense", config, recorded=True)
    model, rows = trainer.model.train(), torch.tensor([5, 0, 7])
    for key in (7, 8, 2**63 - 1, 7):
        assert torch.equal(model.encode(inputs, key), model.encoder(inputs, key))
        assert torch.equal(model.encode(replace(inputs, rows=rows), key), model.encoder(inputs, key)[rows])
    assert not torch.equal(model.encoder(inputs, 7), model.encoder(inputs, 8))


def test_products_compute_in_bfloat16_within_a_graph(folder, monkeypatch):
    kinds, config = [], configured()
    real = encoder._propagate
    monkeypatch.setattr(encoder, "_propagate", lambda *given: kinds.append(real(*given).dtype) or real(*given))
    inputs, trainer = prepared(folder, "dense", config, recorded=False)
    for bfloat16 in (True, False):
        CapturedEncoder(trainer.model.encoder, inputs, bfloat16)(inputs, 5)
    assert kinds == [torch.bfloat16] * 2 + [torch.float32] * 2


def test_what_cannot_be_recorded_ends_in_one_sentence(folder, monkeypatch):
    def refuse(*_):
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore lines")

    monkeypatch.setattr(captured.torch.cuda, "make_graphed_callables", refuse)
    with pytest.raises(ConfigError, match=r"^train\.cuda_graphs: .*\(CUDA error: .* is capturing\); set it to false$"):
        prepared(folder, "dense", configured(), recorded=True)


@pytest.mark.parametrize(
    ("sections", "cure"),
    [
        ({"model": {"propagation": "sampled"}}, r"set model\.propagation=full, or train\.cuda_graphs to false"),
        ({"model": {"recompute": True}}, r"set model\.recompute=false, or"),
        ({"loss": {"hop_zero": 0.5}, "train": {"accumulate": 2}}, r"set loss\.hop_zero=0, train\.accumulate=1, or"),
        ({"runtime": {"device": "cpu"}}, r"set runtime\.device=auto, or"),
    ],
)
def test_settings_with_more_or_less_than_one_pass_over_the_whole_graph_are_refused(sections, cure):
    configured(**sections)
    train = {**sections.get("train", {}), "cuda_graphs": True}
    with pytest.raises(ConfigError, match=rf"^train\.cuda_graphs: .* {cure}"):
        configured(**{**sections, "train": train})


def test_an_objective_that_has_no_graphs_ignores_them():
    assert configured(train={"objective": "dgi", "accumulate": 2, "cuda_graphs": True}).train.cuda_graphs


@pytest.fixture
def run(tmp_path):
    config = configured({"activation": "rrelu"}, train={"cuda_graphs": True})
    run = open_run(config, tmp_path / "run")
    make_graph(run.graph, random_edges(NODES, 500, seed=1), NODES, features=random_features(NODES, 6))
    precompute(config, run, Console(quiet=True))
    return config, run


def test_a_cpu_is_refused_before_anything_starts(run, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for refuse in (training.refuse_untrainable, lambda *given: training.train(*given, Console(quiet=True))):
        with pytest.raises(ConfigError, match=r"runs on a CPU, which has no CUDA graphs; set it to false"):
            refuse(*run)


def test_a_training_records_the_encoder_where_a_step_over_the_whole_graph_fits(run, monkeypatch):
    config, folder = run
    lacking = DevicePlan(False, 1 << 30, "Each step encodes what its batch depends on: too large.")
    for plan, reason in ((None, "this process has no GPU"), (lacking, lacking.reason[:-1])):
        monkeypatch.setattr(training, "device_plan", lambda *_, plan=plan: plan)
        with pytest.raises(ConfigError, match=rf"^train\.cuda_graphs: .*\({reason}\); set it to false$"):
            training.train_here(config, folder, Console(quiet=True))
    monkeypatch.setattr(training, "device_plan", lambda *_: DevicePlan(True, 1 << 30, "", graphs=True))
    keys = []
    real = CapturedEncoder.__call__
    monkeypatch.setattr(CapturedEncoder, "__call__", lambda self, *given: keys.append(given[1]) or real(self, *given))
    training.train_here(config, folder, Console(folder.log, quiet=True))
    assert len(losses(folder)) == len(set(keys)) == 8
