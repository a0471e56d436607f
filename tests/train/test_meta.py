"""Steps on a device without numbers: shapes, types and devices fit together, and nobody waits for the device.

What depends on numbers raises an error there: `.item()`, `.cpu()`, masks as indices, `masked_select`,
`repeat_interleave` without the size of its output.
"""

import contextlib
from itertools import product

import pytest
import torch

from gscl_scale.batches.sampled_subgraph import NeighbourSampler
from gscl_scale.batches.stream import BatchStream, DeviceRoom
from gscl_scale.config.config import Config
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.model import pairs
from gscl_scale.model.captured import CapturedEncoder
from gscl_scale.model.inputs import MappedFeatures, prepare_inputs
from gscl_scale.model.model import build_model
from gscl_scale.shards.reader import Samples
from gscl_scale.train.loop import Trainer
from gscl_scale.train.objectives.methods import OBJECTIVES, build_objective
from gscl_scale.train.objectives.trainer import ObjectiveTrainer
from gscl_scale.train.objectives.views import ViewStream
from gscl_scale.train.process_group import ALONE
from gscl_scale.train.step import batch_inputs, batch_loss
from tests.batches.test_device_collate import among_all
from tests.graphs import make_graph, make_samples, random_edges
from tests.meta_device import META, MetaDevice, meta_autocast, meta_kernels
from tests.model.graphs import random_features, random_sparse_features
from tests.slow import slow

NODES = 200
FEATURES = {"narrow": random_features(NODES, 6), "wide": random_features(NODES, 24),
            "sparse": random_sparse_features(NODES, 24)}  # fmt: skip
ENCODERS = ["gcn", "sage", "gat"]
RINGS = {"hops": 2, "width": 16, "per_ring": 4, "beyond": 8, "rounds": 1}
DROPOUT = {"feature_dropout": 0.2, "hidden_dropout": 0.2}
#: of a forward and a backward pass, counted on this device; docs/training_step.md has them.
#: (layers, settings, with the fused kernels and dense layers in bfloat16, that by CUDA graphs, in float32,
#: without the fused kernels)
LAUNCHES = [
    (1, {}, 65, 57, 51, 221),
    (3, {}, 93, 57, 69, 247),
    (3, {"activation": "rrelu"}, 87, 57, 66, 388),
    (3, {"activation": "rrelu", **DROPOUT}, 89, 57, 68, 531),
    (3, {"product": "torch"}, 101, 57, 69, 247),
    (1, {"encoder": "gat"}, 82, 59, 67, 276),
    (3, {"encoder": "gat"}, 140, 59, 113, 408),
]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("meta")
    for name, features in FEATURES.items():
        made = make_graph(folder / name, random_edges(NODES, 500, seed=1), NODES, features=features)
    config = Config.parse({"graph": {"source": "memory"}, "rings": RINGS})
    make_samples(folder / "narrow", folder / "samples", config.rings)
    assert made.num_nodes == NODES
    return folder


def configured(model=None, **sections):
    model = {"width": 16, "projection": 8, "layers": 2, **(model or {})}
    train = {"epochs": 1, "batch_size": 60, "negatives": 20, **sections.pop("train", {})}
    return Config.parse({"graph": {"source": "memory"}, "rings": RINGS, "model": model, "train": train, **sections})


@pytest.fixture(autouse=True)
def _autocast():
    with meta_autocast():
        yield


def stream_and_trainer(folders, features, config, whole):
    """(batches, what the encoder reads, trainer); batches encode the whole graph or what they depend on."""
    graph = Graph.open(folders / features)
    inputs = prepare_inputs(graph, config.model, META)
    messages, fanouts = NormalisedAdjacency.of(graph, *config.model.messages()), config.model.fanouts()
    sampler = None if whole else NeighbourSampler(messages, 2, fanouts, inputs.propagated is not None)
    read = MappedFeatures.of(graph, config.model).rows if inputs.features is None else None
    stream = BatchStream(
        Samples.open(folders / "samples"), NODES, config.rings, config.train, config.loss, sampler, read_features=read
    )
    return stream, inputs, Trainer(build_model(config.model, graph.num_features, 0).to(META), config.train)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("anchors", "waits"), [(60, 0), (10, 1)], ids=["of all nodes", "of some"])
def test_a_step_with_its_round_on_the_device_copies_once_and_waits_at_most_in_the_making_of_its_batch(
    folders, anchors, waits
):
    train = {"members": "random", "batch_size": anchors}
    config = configured({"layers": 3, "activation": "rrelu"}, loss={"weighting": "size"}, train=train)
    with MetaDevice():
        stream, inputs, trainer = stream_and_trainer(folders, "narrow", config, whole=True)
    expected = stream.batch(0)
    stream._device, stream._open = DeviceRoom(META, 1 << 40, lambda words: None), None
    with MetaDevice():
        stream._round(0)
    for step in range(3):
        with MetaDevice(distinct=expected.nodes.size) as making:
            batch = stream.batch(step)
        assert (making.waits, len(making.copied)) == (waits, 1)
        assert (batch.nodes is None) == (waits == 0)
        if step == 0:
            assert_same_kinds(among_all(expected, NODES), batch)
        with MetaDevice() as stepping:
            trainer.step(inputs, [batch], config, ALONE, stop=False)
        assert (stepping.waits, stepping.copied) == (0, [])


@pytest.mark.parametrize(
    ("anchors", "members", "loss", "expected"),
    [
        (10, "lowest", {}, 42),
        (60, "lowest", {}, 33),
        (10, "random", {"weighting": "size"}, 88),
        (60, "random", {"weighting": "size"}, 79),
    ],
)
def test_the_making_of_a_batch_launches_as_much_as_is_documented(folders, anchors, members, loss, expected):
    config = configured(loss=loss, train={"members": members, "batch_size": anchors})
    room = DeviceRoom(META, 1 << 40, lambda words: None)
    stream = BatchStream(Samples.open(folders / "samples"), NODES, config.rings, config.train, config.loss, device=room)
    with MetaDevice():
        stream._round(0)
    with MetaDevice(distinct=NODES) as making:
        stream.batch(0)
    assert sum(making.launches.values()) == expected


def assert_same_kinds(one, other):
    """Arrays of the same shapes and types, where they are on the device."""
    named = ("anchors", "candidates", "decided", "log_weight", *(() if one.nodes is None else ("nodes",)))
    for name in named:
        expected, found = torch.from_numpy(getattr(one, name)), getattr(other, name)
        assert (found.shape, found.dtype, found.device) == (expected.shape, expected.dtype, META), name
    for name in ("indptr", "indices", "back_indptr", "back_indices", "order"):
        assert getattr(other.pairs, name).shape == getattr(one.pairs, name).shape, name


@pytest.mark.parametrize(("layers", "model", "bfloat16", "by_graphs", "float32", "plain"), LAUNCHES)
def test_a_forward_and_a_backward_pass_launch_as_much_as_is_documented(
    folders, monkeypatch, layers, model, bfloat16, by_graphs, float32, plain
):
    model = {"layers": layers, **model}
    found = [launches_of(folders, model, "float32")]
    with meta_kernels():
        found += [launches_of(folders, model, each) for each in ("float32", "bfloat16")]
        monkeypatch.setattr(torch.cuda, "make_graphed_callables", replayed)
        found.append(launches_of(folders, model, "bfloat16", recorded=True) + 3)  # two graphs, a copy of the gradient
    assert found == [plain, float32, bfloat16, by_graphs]


def replayed(module, arguments):
    """The encoder of a model as graphs that start nothing: only the shapes of what they give."""
    weights = list(module.parameters())
    with MetaDevice() as recording:
        output = module(*arguments)
        torch.autograd.grad(output, weights, torch.empty_like(output))
    assert (recording.waits, recording.copied) == (0, [])

    class Replay(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *given):
            return torch.empty_like(output)

        @staticmethod
        def backward(ctx, gradient):
            return None, *(torch.empty_like(one) for one in weights)

    return lambda key: Replay.apply(key, *weights)


@pytest.mark.parametrize("loss", [{}, {"ranking": "pairwise", "positives": "each", "temperature_step": 0.1}])
def test_however_the_loss_is_set_a_pass_launches_at_most_150(folders, loss):
    with meta_kernels():
        model = {"layers": 3, "activation": "rrelu", **DROPOUT}
        assert launches_of(folders, model, "bfloat16", loss={"weighting": "size", **loss}) <= 150


def launches_of(folders, model, precision, recorded=False, **sections):
    config = configured(model, train={"negatives": 20, "precision": precision}, **sections)
    with MetaDevice():
        stream, inputs, trainer = stream_and_trainer(folders, "narrow", config, whole=True)
        if recorded:
            trainer.model.captured = CapturedEncoder(trainer.model.encoder, inputs, precision == "bfloat16")
            trainer.model.train()
    with MetaDevice() as device:
        batch = stream.batch(0)
        batch_loss(trainer.model, batch_inputs(inputs, batch), batch, config, key=5).loss.backward()
    return sum(device.launches.values())


def assert_step_fits(folders, features, config, whole=True):
    with MetaDevice():
        stream, inputs, trainer = stream_and_trainer(folders, features, config, whole)
    with MetaDevice() as device:
        launched = trainer.step(
            inputs, [stream.batch(0, n) for n in range(stream.num_micro_batches)], config, ALONE, False
        )
    levels = config.rings.hops + (config.loss.hop_zero > 0)
    assert device.waits == 0
    assert launched.figures.device == META
    assert launched.figures.shape == (3 + 2 * levels + 3,)
    for name, parameter in trainer.model.named_parameters():
        assert parameter.grad is not None, name
        assert (parameter.grad.shape, parameter.grad.dtype) == (parameter.shape, parameter.dtype), name
        assert parameter.grad.device == META, name


@pytest.fixture(params=[False, True], ids=["plain", "kernels"])
def kernels(request):
    """Whether the device has the fused kernels."""
    with meta_kernels() if request.param else contextlib.nullcontext():
        yield


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    "dropout",
    [{}, DROPOUT, {"message_dropout": 0.2}, {"product": "triton", **DROPOUT}],
    ids=["none", "values", "edges", "values, our product"],
)
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("activation", ["rrelu", *slow("prelu", "relu")])
def test_a_step_over_the_whole_graph_fits_together(folders, encoder, features, dropout, activation):
    if encoder == "gat" and ("message_dropout" in dropout or "product" in dropout):
        pytest.skip("gat drops no edges and has no product")
    assert_step_fits(folders, features, configured({"encoder": encoder, "activation": activation, **dropout}))


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("propagation", ["full", "sampled"])
@pytest.mark.parametrize("features", ["narrow", "wide"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_step_over_what_a_batch_depends_on_fits_together(folders, encoder, features, propagation):
    model = {"encoder": encoder, "propagation": propagation}
    model |= {"fanout": [3, 2]} if propagation == "sampled" else {}
    assert_step_fits(folders, features, configured({**model, **DROPOUT}), whole=False)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("ranking", "positives"), list(product(("listwise", "pairwise"), ("in", "each"))))
def test_every_loss_fits_together(folders, ranking, positives):
    loss = {"ranking": ranking, "positives": positives, "temperature_step": 0.1, "gate": 0.5}
    assert_step_fits(folders, "narrow", configured(loss=loss))
    loss |= {"weighting": "size", "hop_zero": 0.5}
    assert_step_fits(folders, "narrow", configured(loss=loss, model={"recompute": True}, train={"accumulate": 2}))


@pytest.mark.parametrize("way", ["dense", "pairs"])
def test_both_ways_of_the_pairs_fit_together(folders, monkeypatch, way):
    monkeypatch.setattr(pairs, "DENSE_PER_PAIR", 1e9 if way == "dense" else 0)
    monkeypatch.setattr(pairs, "_MOST_DENSE", 0)
    assert_step_fits(folders, "narrow", configured())


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("encoder", ["gcn", *slow("sage")])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_step_of_every_objective_fits_together(folders, name, encoder):
    config = configured({"encoder": encoder}, train={"objective": name})
    graph = Graph.open(folders / "narrow")
    with MetaDevice():
        inputs = prepare_inputs(graph, config.model, META)
        model = build_model(config.model, graph.num_features, 0).to(META)
        targets = torch.arange(NODES) % 4 - 1
        objective = build_objective(config, graph, 3, targets).to(META)
        views = ViewStream(graph, inputs, config, objective.views).views(0)
    with MetaDevice() as device:
        launched = ObjectiveTrainer(model, objective, config.train).step(inputs, [views], config, ALONE, False)
    assert (device.waits, launched.figures.shape) == (0, (6,))
    for name, parameter in model.encoder.named_parameters():
        assert parameter.grad.shape == parameter.shape, name
