"""So many anchors a step for each process: the batch, its rate, and where another number of processes resumes."""

import json
import math
import threading
from pathlib import Path

import numpy as np
import pytest

from gscl_scale.batches.stream import epoch_order
from gscl_scale.config.config import Config
from gscl_scale.config.graph_size import GraphSize
from gscl_scale.errors import ConfigError, StoppedError
from gscl_scale.io.json import read_json_lines
from gscl_scale.run.folder import Run
from gscl_scale.run.log import read_curve
from gscl_scale.runtime.console import Console
from gscl_scale.stages import train as stage
from gscl_scale.train import loop
from gscl_scale.train.follow_log import follow
from gscl_scale.train.process_group import join_world
from tests.train import test_torchrun
from tests.train.test_together import in_world

NODES, EPOCHS = 240, 4
SHARED = {**test_torchrun.VALUES["train"], "epochs": EPOCHS, "validate_every": 0}
OF_EACH = {name: value for name, value in SHARED.items() if name != "batch_size"} | {"batch_size_per_worker": 40}


def values(**train):
    return {**test_torchrun.VALUES, "train": train}


def part_of_training(file, folder, train, last=None):
    """Train until a step is taken, or to the end; write the anchors of each step."""
    run, taken, stop = Run.at(Path(folder)), [], threading.Event()
    step = loop.training_step

    def traced(model, optimizer, inputs, batches, config, number, *rest):
        micro_batches = list(batches)
        taken.append([number, np.concatenate([batch.nodes[batch.anchors] for batch in micro_batches]).tolist()])
        if number == last:
            rest = (rest[0], True)
        return step(model, optimizer, inputs, micro_batches, config, number, *rest)

    loop.training_step = traced
    try:
        with join_world(20):
            stage.train_here(Config.parse(values(**train)), run, Console(run.log, quiet=True), stop)
    except StoppedError:
        assert last is not None
    finally:
        loop.training_step = step
    Path(file).write_text(json.dumps(taken))


def steps_of(told):
    """The anchors of each step, of all processes."""
    return [(parts[0][0], [anchor for _, anchors in parts for anchor in anchors]) for parts in zip(*told, strict=True)]


def batches(run):
    return [event for event in read_json_lines(run.log) if event["event"] == "batch"]


def test_another_number_of_processes_goes_on_at_the_next_anchor(tmp_path, monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    _, run = test_torchrun.prepared(tmp_path / "run")
    part_of_training(tmp_path / "one.json", run.folder, OF_EACH, last=7)  # the second epoch has begun
    taken = steps_of([json.loads((tmp_path / "one.json").read_text())])
    taken += steps_of(in_world(2, part_of_training, tmp_path, str(run.folder), OF_EACH, 10))
    part_of_training(tmp_path / "one.json", run.folder, OF_EACH)
    taken += steps_of([json.loads((tmp_path / "one.json").read_text())])
    assert [number for number, _ in taken] == list(range(len(taken)))
    assert [len(anchors) for _, anchors in taken] == [40] * 8 + [80] * 3 + [40] * 10
    order = [anchor for epoch in range(EPOCHS) for anchor in epoch_order(NODES, 0, epoch)]
    assert [anchor for _, anchors in taken for anchor in anchors] == order
    told = [(event["processes"], event["anchors"], event["steps"]) for event in batches(run)]
    assert told == [(1, 40, 24), (2, 80, 16), (1, 40, 21)]
    assert [event["learning_rate"] for event in batches(run)] == pytest.approx([1e-3, math.sqrt(2) * 1e-3, 1e-3])
    assert [event["epoch"] for event in read_curve(run.log)] == [0] * 6 + [1] * 4 + [2] * 5 + [3] * 6


@pytest.mark.slow
def test_two_processes_take_the_batch_and_the_rate_that_one_would_be_given(tmp_path, monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    runs = [test_torchrun.prepared(tmp_path / name)[1] for name in ("alone", "together")]
    given = {**SHARED, "batch_size": 80, "learning_rate": math.sqrt(2) * 1e-3}
    part_of_training(tmp_path / "one.json", runs[0].folder, given)
    in_world(2, part_of_training, tmp_path, str(runs[1].folder), OF_EACH)
    losses = [[event["loss"] for event in read_curve(run.log)] for run in runs]
    assert len(losses[0]) == EPOCHS * 3
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)
    assert not batches(runs[0])


def test_the_terminal_says_how_large_a_batch_is(tmp_path, capsys):
    console, log = Console(quiet=False), tmp_path / "log.jsonl"
    with follow(log, 99, console) as watch:
        event = {
            "stage": "train",
            "event": "batch",
            "processes": 4,
            "anchors": 2048,
            "learning_rate": 0.002,
            "steps": 7,
        }
        log.write_text(json.dumps(event) + "\n")
        watch()
    says = "4 processes with 512 anchors each: a step takes 2,048, at a learning rate of 0.002"
    assert says in capsys.readouterr().err


def test_one_of_the_two_sizes_is_given():
    train = Config.parse({"train": {"batch_size_per_worker": 256}}).train
    assert (train.batch_size, train.among(1).batch_size, train.among(8).batch_size) == (0, 256, 2048)
    assert train.among(4).learning_rate == 2 * train.learning_rate
    assert Config.parse({"train": train.model_dump()}).train == train
    assert Config().train.among(8) == Config().train
    with pytest.raises(ConfigError, match=r"batch_size \(512\) counts .* \(256\) those of each; set one of them to 0"):
        Config.parse({"train": {"batch_size_per_worker": 256, "batch_size": 512}})
    with pytest.raises(ConfigError, match="set batch_size or batch_size_per_worker to 1 or more"):
        Config.parse({"train": {"batch_size": 0}})


def test_automatic_epochs_do_not_depend_on_the_number_of_processes():
    train = Config.parse({"train": {"batch_size_per_worker": 1000}}).train
    assert (
        train.epochs_for(GraphSize(10_000))
        == Config.parse({"train": {"batch_size": 1000}}).train.epochs_for(GraphSize(10_000))
        == 30
    )
