"""A process of a training ends, hangs, or cannot reach the others: one sentence, in bounded time."""

import os
import re
import signal
import time
from unittest import mock

import numpy as np
import pytest
import torch
import torch.distributed as dist
import yaml

from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError, PeerError
from gscl_scale.run.log import read_curve
from gscl_scale.runtime.console import Console
from gscl_scale.stages.train import train
from gscl_scale.train.process_group import World, join_world
from tests.train import test_torchrun
from tests.train.launcher import begin_torchrun, each_of, torchrun

EPOCHS = 60  # of 5 steps
LOST = "gscl-scale: another process of the training has ended, or is silent for longer than runtime.timeout_s ("


@pytest.fixture
def run(tmp_path):
    """A run with samples, whose training takes long enough to be disturbed."""
    _, run = test_torchrun.prepared(tmp_path / "run")
    values = {**test_torchrun.VALUES, "runtime": {"timeout_s": 5}}
    values["train"] = {**values["train"], "epochs": EPOCHS}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(values))
    return run


COMMAND = ("train", "--config", "config.yaml", "--run", "run")


def wait_for_steps(run, number=5):
    until = time.monotonic() + 60
    while not run.log.exists() or len(read_curve(run.log)) < number:
        assert time.monotonic() < until
        time.sleep(0.02)


def sentences(err):
    return [line for line in err.splitlines() if line.startswith("gscl-scale:")]


def assert_whole(run):
    """Nothing half-written is left, and the training resumes to its end."""
    assert not list(run.folder.rglob("*.tmp"))
    assert not list(run.folder.glob(".validation*"))
    values = {**test_torchrun.VALUES, "train": {**test_torchrun.VALUES["train"], "epochs": EPOCHS}}
    train(Config.parse(values), run, Console(run.log, quiet=True))
    curve = read_curve(run.log)
    assert [event["step"] for event in curve] == list(range(5 * EPOCHS))
    assert np.isfinite([event["loss"] for event in curve]).all()


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_torchrun_ends_with_one_sentence_when_a_process_is_killed(run, tmp_path, killed):
    started = begin_torchrun(tmp_path, *COMMAND)
    wait_for_steps(run)
    started.rank(killed).kill()
    began = time.monotonic()
    code, out, err = started.ended()
    assert time.monotonic() - began < 40
    assert (code, out) == (1, "")
    (sentence,) = sentences(err)
    assert sentence.startswith(LOST), err
    assert sentence.endswith("); checkpoints are kept: rerun the command")
    assert "/" not in sentence  # no place in a source of gloo
    assert_whole(run)


@pytest.mark.slow
def test_each_process_that_is_left_exits_with_1_and_the_first_alone_prints(run, tmp_path):
    with each_of(3, tmp_path, *COMMAND) as started:
        wait_for_steps(run)
        started[2].process.kill()
        (first, _, told), (other, _, silent) = (one.ended(40) for one in started[:2])
    assert (first, other) == (1, 1)
    assert [line.startswith(LOST) for line in sentences(told)] == [True]
    assert not sentences(silent)


def test_a_process_that_hangs_is_waited_for_no_longer_than_the_timeout(run, tmp_path):
    with each_of(2, tmp_path, *COMMAND) as started:
        wait_for_steps(run)
        started[1].process.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        code, _, err = started[0].ended(30)
        assert 3 < time.monotonic() - began < 20
        assert code == 1
        assert sentences(err)[0].startswith(f"{LOST}Timed out waiting 5000ms for recv operation to complete)")
        started[1].process.send_signal(signal.SIGCONT)
        assert started[1].ended(30)[0] == 1


@pytest.mark.slow
def test_an_error_of_the_first_process_is_the_only_one_that_is_printed(run, tmp_path):
    with each_of(2, tmp_path, *COMMAND, "--set", "rings.width=8") as started:
        (first, _, told), (other, _, silent) = (one.ended(60) for one in started)
    assert (first, other) == (2, 1)
    assert "rings.width" in sentences(told)[0]
    assert not sentences(silent)


@pytest.mark.slow
def test_a_damaged_round_ends_the_training_when_it_is_due(run, tmp_path):
    part = run.samples / "round-001" / "part-00000.arrow"
    part.write_bytes(part.read_bytes()[:-1])
    with each_of(2, tmp_path, *COMMAND) as started:
        (first, _, told), (other, _, _) = (one.ended(60) for one in started)
    assert first == 2
    assert other in (1, 2)  # it finds the damage, or the first process gone
    assert re.match(
        r"gscl-scale: .*round-001/part-00000\.arrow: expected \d+ bytes .*, got \d+ bytes; ", sentences(told)[0]
    )
    assert [event["epoch"] for event in read_curve(run.log)] == [0] * 5


@pytest.mark.slow
def test_processes_that_do_not_come_are_waited_for_no_longer_than_the_timeout(run, tmp_path):
    with each_of(2, tmp_path, *COMMAND) as started:
        started[1].process.kill()
        code, _, err = started[0].ended(60)
    assert code == 1
    says = r"gscl-scale: the 2 processes .* have not found each other at 127\.0\.0\.1:\d+ within 5 s \(.*\); start all "
    assert re.match(says, sentences(err)[0])


@pytest.mark.slow
def test_a_wrong_network_interface_is_refused(run, tmp_path):
    code, out, err = torchrun(tmp_path, *COMMAND, GLOO_SOCKET_IFNAME="nonesuch0")
    assert (code, out) == (1, "")
    says = "gscl-scale: GLOO_SOCKET_IFNAME: this machine has no network interface 'nonesuch0' with an address, it has "
    assert {line.partition("it has ")[0] + "it has " for line in sentences(err)} == {says}
    assert "exitcode  : 2" in err


class Work:
    """A sum on a GPU that NCCL has given up: it says so only where it is waited for with a limit."""

    def wait(self, timeout=None):
        if timeout is not None:
            raise dist.DistBackendError("[Rank 0] Work ALLREDUCE timed out in blocking wait.")


def test_a_sum_that_nccl_has_given_up_is_noticed_before_its_figures_are_read(monkeypatch):
    monkeypatch.setattr(dist, "all_reduce", lambda tensor, async_op: Work())
    world = World(0, 2, timeout_s=5)
    world.sum(torch.zeros(1, device="meta"))
    with pytest.raises(PeerError, match=r"\(Work ALLREDUCE timed out in blocking wait\)"):
        world.settle()
    world.sum(torch.zeros(1))  # of gloo: over when it returns
    world.settle()


def test_figures_of_steps_are_read_after_the_sums_on_the_gpu(run, monkeypatch):
    def given_up(world):
        raise PeerError("given up")

    monkeypatch.setattr(World, "settle", given_up)
    with pytest.raises(PeerError, match="given up"):
        train(Config.parse(test_torchrun.VALUES), run, Console(run.log, quiet=True))
    assert not read_curve(run.log)


def test_a_failure_of_nccl_is_reported_where_a_sum_begins(monkeypatch):
    def fail(*_, **__):
        raise dist.DistBackendError("NCCL communicator was aborted on rank 0. Original reason: timed out\nframe #0")

    monkeypatch.setattr(dist, "all_reduce", fail)
    with pytest.raises(PeerError, match=r"\(NCCL communicator was aborted on rank 0\); checkpoints are kept: rerun"):
        World(0, 2).sum(torch.zeros(1))


def test_processes_with_gpus_ask_nccl_to_report_failures_unless_you_have_chosen(monkeypatch):
    asked = []

    def join(*_, **__):
        asked.append(os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"])
        raise RuntimeError("NCCL error: Bootstrap : no socket interface found")

    monkeypatch.setattr(dist, "init_process_group", join)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: None)
    environment = {"WORLD_SIZE": "2", "NCCL_SOCKET_IFNAME": "ib7"}
    for given in ({}, {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1"}):
        with (
            mock.patch.dict(os.environ, {**environment, **given}),
            pytest.raises(ConfigError, match=r"^NCCL_SOCKET_IFNAME: this machine has no network interface 'ib7' with"),
            join_world(5),
        ):
            pass
    assert asked == ["2", "1"]
