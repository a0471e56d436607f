import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from gscl_scale.batches.stream import BatchStream
from gscl_scale.config import sections
from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError, DivergedError, FolderError, StoppedError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.json import read_json, read_json_lines, write_json
from gscl_scale.model.inputs import prepare_inputs
from gscl_scale.model.model import build_model
from gscl_scale.run.log import read_curve
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.shards.reader import Samples
from gscl_scale.stages import train as training
from gscl_scale.stages.precompute import precompute
from gscl_scale.stages.train import train as train_stage
from gscl_scale.train import loop
from gscl_scale.train.checkpoint import Checkpoints, Position, write_state
from gscl_scale.train.loop import Trainer, Training
from gscl_scale.train.step import training_step
from tests.forked import begin_program
from tests.graphs import make_graph, random_edges

QUIET = Console(quiet=True)
VALUES = {
    "graph": {"source": "memory"},
    "rings": {"hops": 2, "width": 16, "per_ring": 4, "beyond": 8, "rounds": 3},
    "model": {"width": 8, "projection": 8, "feature_dropout": 0.3, "activation": "rrelu"},
    "train": {"epochs": 6, "batch_size": 40, "negatives": 16, "checkpoint_every": 2},
}
DISTURBED = """
import os, signal, sys, time
from pathlib import Path
from gscl_scale.stages.train import train
from gscl_scale.config.config import Config
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.train import loop

config = Config.parse({values})
taken = 0
def step_with_trouble(*arguments):
    global taken
    result = step(*arguments)
    taken += 1
    {trouble}
    return result
step, loop.training_step = loop.training_step, step_with_trouble
run = Run.at(Path(sys.argv[1]))
train(config, run, Console(run.log, quiet=True))
"""


def prepared(folder: Path, values=VALUES, hub=False):
    """A run with graph and samples; `hub`: node 0 is joined to all."""
    config = Config.parse(values)
    run = open_run(config, folder)
    edges = [*random_edges(120, 300, seed=3), *([(0, node) for node in range(1, 120)] if hub else [])]
    make_graph(run.graph, edges, 120, labels=np.arange(120) % 3)
    precompute(config, run, QUIET)
    return config, run


def disturbed(values, trouble, run, errors=None):
    """A training that has begun in a process of its own, with trouble after each step."""
    program = DISTURBED.replace("{values}", repr(values)).replace("{trouble}", trouble)
    return begin_program(program, run.folder, errors=errors)


def with_train(**settings):
    return {**VALUES, "train": {**VALUES["train"], **settings}}


def events(run, name):
    """The events of a log with this name; a line that is just being written is left out."""
    return [event for event in read_json_lines(run.log) if event["event"] == name]


def losses(run):
    return [(event["step"], event["loss"]) for event in read_curve(run.log)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    config, run = prepared(tmp_path_factory.mktemp("undisturbed") / "run")
    train_stage(config, run, Console(run.log, quiet=True))
    return config, run


def test_rounds_made_ahead_of_the_training_give_the_same_losses(undisturbed, tmp_path):
    values = {**VALUES, "rings": {**VALUES["rings"], "ahead": 1}}
    config, run = prepared(tmp_path / "run", values)
    assert len(list(run.samples.glob("round-*"))) == 1
    train_stage(config, run, Console(run.log, quiet=True))
    assert losses(run)[:6] == losses(undisturbed[1])[:6]
    assert losses(run) == losses(undisturbed[1])
    assert len(list(run.samples.glob("round-*"))) <= 3


def test_epochs_that_follow_from_the_size_are_told_and_the_same_number_goes_on(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sections, "_STEPS", 7)
    config, run = prepared(tmp_path / "run", with_train(epochs="auto", batch_size=40))
    train_stage(config, run, Console(run.log))
    assert "train.epochs is auto: 3 epochs of 3 steps for 120 nodes" in capsys.readouterr().err
    assert len(losses(run)) == 9
    for epochs in ("auto", 3):
        same = Config.parse(with_train(epochs=epochs, batch_size=40))
        train_stage(same, open_run(same, run.folder), QUIET)
        assert len(losses(run)) == 9
    with pytest.raises(FolderError, match=r"train\.epochs=3, but the config now says 4"):
        open_run(Config.parse(with_train(epochs=4, batch_size=40)), run.folder)


def test_a_device_that_no_process_would_have_is_refused_before_a_cluster_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(training, "train_together", lambda *_: pytest.fail("a cluster was looked for"))
    _, run = prepared(tmp_path / "run")
    config = Config.parse({**VALUES, "runtime": {"engine": "ray", "device": "cuda"}})
    for refuse in (lambda: training.refuse_untrainable(config, run), lambda: train_stage(config, run, QUIET)):
        with pytest.raises(ConfigError, match=r"runtime\.worker_gpus is 0.* set runtime\.worker_gpus to 1"):
            refuse()
    assert not events(run, "started")


def test_a_machine_without_a_gpu_lets_processes_of_a_cluster_have_theirs(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    asked = []
    monkeypatch.setattr(training, "train_together", lambda _, argument, *more: asked.append(argument["config"]))
    _, run = prepared(tmp_path / "run")
    config = Config.parse({**VALUES, "runtime": {"engine": "ray", "device": "cuda", "worker_gpus": 1}})
    training.refuse_untrainable(config, run)
    train_stage(config, run, QUIET)
    assert asked[0]["runtime"]["device"] == "cuda"


def test_a_process_on_a_cluster_takes_the_features_and_the_edges_unless_it_samples_neighbours(tmp_path, monkeypatch):
    needs = []
    monkeypatch.setattr(training, "train_together", lambda *arguments: needs.append(arguments[-1]))
    _, run = prepared(tmp_path / "run")
    graph = Graph.open(run.graph)
    for model in ({}, {"encoder": "sage", "propagation": "sampled", "fanout": [2]}):
        values = {**VALUES, "model": {**VALUES["model"], **model}, "runtime": {"engine": "ray"}}
        train_stage(Config.parse(values), run, QUIET)
    program = 300 << 20
    assert [need.shared for need in needs] == [0, 0]
    assert needs[0].each == program + graph.features.nbytes + 8 * graph.indices.size
    assert needs[1].each == program


def test_figures_that_are_fetched_together_are_those_of_single_steps(undisturbed, tmp_path, monkeypatch):
    fetched, real = [], loop.fetch
    monkeypatch.setattr(loop, "fetch", lambda launched: fetched.append(len(launched)) or real(launched))
    monkeypatch.setattr(loop, "_steps_at_once", lambda device: 2)
    config, run = prepared(tmp_path / "run")
    train_stage(config, run, Console(run.log, quiet=True))
    assert fetched == [2, 1, 1, 2] * 3
    assert losses(run) == losses(undisturbed[1])
    one, other = (training.checkpoints_of(*each).chosen()[0]["model"] for each in ((config, run), undisturbed))
    assert all(torch.equal(one[name], other[name]) for name in one)


def assert_resumed_as_undisturbed(config, run, undisturbed, *resumed):
    """Resumed from these steps and epochs, a training has the loss curve and the weights of the undisturbed one."""
    train_stage(config, run, Console(run.log, quiet=True))
    assert [(event["step"], event["epoch"]) for event in events(run, "resumed")] == list(resumed)
    assert losses(run) == losses(undisturbed[1])
    one, other = (training.checkpoints_of(*each).chosen()[0]["model"] for each in ((config, run), undisturbed))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("settings", "killed_at", "resumed"),
    [({}, 14, (12, 4)), ({"checkpoint_steps": 4}, 11, (8, 2))],
    ids=["at an epoch", "in mid-epoch"],
)
def test_a_killed_training_is_resumed_with_the_losses_and_weights_of_the_undisturbed_one(
    undisturbed, tmp_path, settings, killed_at, resumed
):
    values = with_train(**settings)
    config, run = prepared(tmp_path / "run", values)
    trouble = f"if taken == {killed_at}: os.kill(os.getpid(), signal.SIGKILL)"
    process = disturbed(values, trouble, run)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert len(losses(run)) == killed_at - 1
    assert_resumed_as_undisturbed(config, run, undisturbed, resumed)
    assert [event["step"] for event in events(run, "step")] == [*range(killed_at - 1), *range(resumed[0], 18)]


def test_a_training_that_is_asked_to_stop_saves_its_step_and_is_resumed_from_there(undisturbed, tmp_path):
    config, run = prepared(tmp_path / "run")
    process, deadline = disturbed(VALUES, "time.sleep(0.1)", run, tmp_path / "errors"), time.monotonic() + 60
    while len(events(run, "step")) < 4 and process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.terminate()
    process.join(60)
    (stopped,) = events(run, "stopped")
    errors = (tmp_path / "errors").read_text()
    assert process.exitcode == 1, errors
    assert f"StoppedError: training was asked to stop and has saved step {stopped['step']}" in errors
    assert 4 < stopped["step"] < 18
    assert len(losses(run)) == stopped["step"]
    assert (run.checkpoints / f"step-{stopped['step']:08d}.pt").exists()
    assert_resumed_as_undisturbed(config, run, undisturbed, (stopped["step"], stopped["step"] // 3))
    assert [event["step"] for event in events(run, "step")] == list(range(18))


def test_to_be_asked_to_stop_in_the_last_validation_ends_what_comes_after_the_training_too(tmp_path, monkeypatch):
    config, run = prepared(tmp_path / "run", with_train(validate_every=6))

    def asked(*_):
        signal.raise_signal(signal.SIGTERM)
        return 0.5

    monkeypatch.setattr("gscl_scale.stages.selection.validation_accuracy", asked)
    with pytest.raises(StoppedError, match="after its last step; rerun the command to resume"):
        train_stage(config, run, QUIET)
    assert training.checkpoints_of(config, run).is_finished()


def test_to_be_asked_to_stop_while_the_checkpoint_is_read_ends_after_one_step(tmp_path, monkeypatch):
    config, run = prepared(tmp_path / "run")
    restore = Trainer.restore

    def asked(*arguments):
        found = restore(*arguments)
        signal.raise_signal(signal.SIGTERM)
        return found

    monkeypatch.setattr(Trainer, "restore", asked)
    with pytest.raises(StoppedError, match="has saved step 1"):
        train_stage(config, run, QUIET)


def test_the_ways_of_saving_do_not_change_what_is_trained(undisturbed, tmp_path):
    config, run = prepared(tmp_path / "run", with_train(checkpoint_every=5, checkpoint_minutes=1e-9))
    train_stage(config, run, Console(run.log, quiet=True))
    assert losses(run) == losses(undisturbed[1])
    assert sorted(path.name for path in run.checkpoints.glob("*.pt")) == ["step-00000017.pt", "step-00000018.pt"]


@pytest.mark.parametrize("encoder", ["gcn", "sage", "gat"])
def test_training_on_sampled_neighbours_runs_and_its_loss_falls(tmp_path, encoder):
    model = {**VALUES["model"], "encoder": encoder, "layers": 2, "propagation": "sampled", "fanout": [3, 2]}
    train = with_train(epochs=10, learning_rate=0.01, validate_every=5)
    config, run = prepared(tmp_path / "run", {**train, "model": model})
    train_stage(config, run, Console(run.log, quiet=True))
    curve = [loss for _, loss in losses(run)]
    assert [event["epoch"] for event in events(run, "validation")] == [5, 10]
    assert not list(run.folder.glob("validation-*"))  # the scratch of its embeddings
    assert len(curve) == 30
    assert np.mean(curve[-6:]) < np.mean(curve[:6]) - 0.05


@pytest.mark.parametrize("propagation", ["full", "sampled"])
def test_a_validation_changes_nothing_of_the_training(tmp_path, propagation):
    model = {**VALUES["model"], "activation": "rrelu", "feature_dropout": 0.2, "propagation": propagation}
    curves = []
    for every in (0, 1):
        config, run = prepared(tmp_path / str(every), {**with_train(epochs=3, validate_every=every), "model": model})
        train_stage(config, run, Console(run.log, quiet=True))
        curves.append(losses(run))
    assert curves[0] == curves[1]


@pytest.mark.parametrize(("width", "number"), [(1, 64), (13, 100)])
def test_a_step_with_fewer_negatives_than_asked_for_is_logged_and_the_setting_named(tmp_path, capsys, width, number):
    rings = {**VALUES["rings"], "hops": 4, "width": width, "per_ring": 1, "rounds": 1}
    config, run = prepared(tmp_path / "run", {**with_train(negatives=100, epochs=1), "rings": rings})
    train_stage(config, run, Console(run.log))
    steps = events(run, "step")
    assert {step["negatives"] for step in steps} == {number}
    assert all(0 < step["negatives_per_anchor"] < number for step in steps)
    told = capsys.readouterr().err
    assert ("a step has 64 of the 100 negatives of train.negatives" in told) == (number < 100)
    assert ("rings.width of 13 or more" in told) == (number < 100)


def test_a_run_whose_anchors_have_nobody_beyond_says_so(tmp_path, capsys):
    config, run = prepared(
        tmp_path / "run", {**with_train(epochs=1), "rings": {**VALUES["rings"], "rounds": 1}}, hub=True
    )
    train_stage(config, run, Console(run.log))
    assert {step["negatives_per_anchor"] for step in events(run, "step")} == {0}
    told = capsys.readouterr().err
    assert "no negative of the first step is farther than 2 hops from its anchors" in told
    assert "lower rings.hops" in told


def test_the_loss_falls_and_a_finished_training_is_skipped(undisturbed):
    config, run = undisturbed
    curve = [loss for _, loss in losses(run)]
    assert np.mean(curve[-3:]) < np.mean(curve[:3]) - 0.01
    before = run.log.read_text()
    train_stage(config, run, Console(run.log, quiet=True))
    assert run.log.read_text() == before


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(undisturbed, tmp_path, capsys):
    config, run = prepared(tmp_path / "run")
    checkpoints = training.checkpoints_of(config, run)
    trainer = Trainer(build_model(config.model, 5, 0), config.train)
    for epoch in (2, 4):
        trainer.position = Position(step=3 * epoch, epoch=epoch)
        trainer.save(checkpoints, best=False)
    newest = run.checkpoints / "step-00000012.pt"
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    found = checkpoints.newest(Console())
    assert found[1] == Position(step=6, epoch=2)
    assert "step-00000012.pt is damaged" in capsys.readouterr().err


def test_a_kill_between_the_best_model_and_its_record_loses_nothing(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path, "made from")
    checkpoints.save({"model": {"weight": torch.zeros(2)}}, Position(step=1, epoch=1, best=0.5), best=True)
    with monkeypatch.context() as killing:
        killing.setattr("gscl_scale.train.checkpoint.write_json", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            checkpoints.save({"model": {"weight": torch.ones(2)}}, Position(step=2, epoch=2, best=0.6), best=True)
    state, position = checkpoints.chosen()
    assert state["model"]["weight"].tolist() == [0, 0]
    assert position.epoch == 1
    checkpoints.save({"model": {"weight": torch.ones(2)}}, Position(step=3, epoch=3, best=0.6), best=True)
    assert checkpoints.chosen()[0]["model"]["weight"].tolist() == [1, 1]
    assert [path.name for path in tmp_path.glob("best-*")] == ["best-00000003.pt"]


def test_checkpoints_of_another_configuration_are_refused(undisturbed):
    _, run = undisturbed
    with pytest.raises(FolderError, match="other samples or another configuration"):
        Checkpoints(run.checkpoints, "another").newest(QUIET)


def parts(config, run):
    """(model, what it reads, batches) of a training."""
    graph = Graph.open(run.graph)
    stream = BatchStream(Samples.open(run.samples), graph.num_nodes, config.rings, config.train, config.loss)
    inputs = prepare_inputs(graph, config.model, torch.device("cpu"))
    return build_model(config.model, graph.num_features, 0), inputs, stream


def stepped(undisturbed, rate=0.1, step=0, **settings):
    """(loss of a step of plain descent, how far it has moved the weights)."""
    config, run = undisturbed
    config = config.model_copy(update={"train": config.train.model_copy(update=settings)})
    model, inputs, stream = parts(config, run)
    before = torch.cat([p.detach().flatten().clone() for p in model.parameters()])
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    loss = training_step(model, optimizer, inputs, [stream.batch(0)], config, step).result().loss
    return loss, float((torch.cat([p.detach().flatten() for p in model.parameters()]) - before).norm())


def test_numbers_that_are_not_finite_stop_the_training_with_the_step_and_a_cure(undisturbed):
    config, run = undisturbed
    model, inputs, stream = parts(config, run)
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    optimizer = torch.optim.Adam(model.parameters())
    with pytest.raises(DivergedError, match=r"step 3: the loss is nan; lower train\.learning_rate"):
        training_step(model, optimizer, inputs, [stream.batch(3)], config, 3).result()


def test_what_is_dropped_depends_on_the_seed_and_the_step(undisturbed):
    assert stepped(undisturbed) == stepped(undisturbed)
    assert len({stepped(undisturbed)[0], stepped(undisturbed, step=1)[0], stepped(undisturbed, seed=1)[0]}) == 3


def test_clipping_bounds_the_step(undisturbed):
    (_, free), (_, clipped) = (stepped(undisturbed, rate=1.0, clip=clip) for clip in (0.0, 1e-4))
    assert clipped == pytest.approx(1e-4, rel=0.01)
    assert free > 10 * clipped


@pytest.mark.parametrize(("settings", "last_epoch"), [({}, 6), ({"patience": 2}, 4)])
def test_the_best_model_on_validation_is_chosen_and_training_ends_where_patience_does(tmp_path, settings, last_epoch):
    config, run = prepared(tmp_path / "run", with_train(validate_every=1, **settings))
    model, inputs, stream = parts(config, run)
    trainer, checkpoints = Trainer(model, config.train), training.checkpoints_of(config, run)
    figures = iter([0.3, 0.6, 0.5, 0.6, 0.2, 0.1])
    Training(trainer, inputs, stream, config, checkpoints, lambda _: next(figures), QUIET).run()
    assert (checkpoints.chosen()[1].epoch, trainer.position.epoch) == (2, last_epoch)


def test_a_checkpoint_has_the_same_bytes_whichever_process_writes_it(tmp_path, monkeypatch):
    state = {"weight": torch.arange(6.0)}
    for process in (1, 2):
        monkeypatch.setattr(os, "getpid", lambda process=process: process)
        write_state(tmp_path / f"of-{process}" / "one.pt", state)
    assert (tmp_path / "of-1/one.pt").read_bytes() == (tmp_path / "of-2/one.pt").read_bytes()


def test_a_checkpoint_of_an_earlier_version_resumes_in_the_middle_of_an_epoch(undisturbed, tmp_path):
    config, run = prepared(tmp_path / "run")
    process = disturbed(VALUES, "taken == 4 and os.kill(os.getpid(), signal.SIGTERM)", run, tmp_path / "errors")
    process.join(100)
    path = run.checkpoints / "manifest.json"
    manifest = read_json(path)
    assert [entry.pop("seen") for entry in manifest["checkpoints"]] == [80]  # of 120; 2 epochs are finished
    write_json(path, manifest)
    train_stage(config, run, Console(run.log, quiet=True))
    assert losses(run) == losses(undisturbed[1])
