"""What one process of a training does alone while the others wait, and what each does that takes a while."""

import json
import os
import signal
import tempfile
import time
from pathlib import Path
from unittest import mock

import pytest
import torch

from gscl_scale.config.config import Config
from gscl_scale.embed.scratch import Scratch
from gscl_scale.errors import PeerError
from gscl_scale.io.json import read_json_lines
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.shards import reader
from gscl_scale.stages import train as stage
from gscl_scale.train.checkpoint import load_state
from gscl_scale.train.process_group import ALONE, join_world
from tests.forked import begin
from tests.ports import free_port
from tests.train import test_torchrun

TIMEOUT_S = 3.0
SAMPLED = {**test_torchrun.VALUES, "model": {**test_torchrun.VALUES["model"], "propagation": "sampled"}}


def in_world(size, function, folder, *arguments):
    """What each of some processes joined by gloo writes; None where it was killed."""
    world = {
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "CUDA_VISIBLE_DEVICES": "",
    }
    files, started = [folder / f"told-{rank}.json" for rank in range(size)], []
    for rank, file in enumerate(files):
        with mock.patch.dict(os.environ, {**world, "RANK": str(rank), "GLOO_SOCKET_IFNAME": "lo"}):
            started.append(begin(function, file, *arguments, errors=file.with_suffix(".txt")))
    for process, file in zip(started, files, strict=True):
        process.join(100)
        assert process.exitcode in (0, -signal.SIGKILL), file.with_suffix(".txt").read_text()
    return [json.loads(file.read_text()) if file.exists() else None for file in files]


def slow_training(file, folder):
    """Train with a check and a validation longer than the timeout; write who has done what."""
    run, made, figures, hashed = Run.at(Path(folder)), [], [], []
    quick, sha256_of = stage.quick_figure, reader.sha256_of

    def slow_sha256(path):
        if not hashed:
            time.sleep(1.5 * TIMEOUT_S)
        hashed.append(str(path))
        return sha256_of(path)

    class Counted(Scratch):
        def __init__(self, place, *rest):
            made.append(place.name)
            super().__init__(place, *rest)

    def slow(*arguments):
        figure = quick(*arguments)

        def measure(vectors):
            if not figures:
                time.sleep(1.5 * TIMEOUT_S)
            figures.append(figure(vectors))
            return figures[-1]

        return measure

    values = {**SAMPLED, "runtime": {"timeout_s": TIMEOUT_S}}
    with (
        mock.patch("gscl_scale.embed.layers.Scratch", Counted),
        mock.patch.object(stage, "quick_figure", slow),
        mock.patch.object(reader, "sha256_of", slow_sha256),
        join_world(TIMEOUT_S),
    ):
        stage.train_here(Config.parse(values), run, Console(run.log, quiet=True))
    file.write_text(json.dumps({"scratch": made, "figures": figures, "hashed": hashed}))


def trained(run):
    """The weights that were chosen, and the validations."""
    manifest = json.loads((run.checkpoints / "manifest.json").read_text())
    state = load_state(run.checkpoints / manifest["best"]["file"])["model"]
    weights = torch.cat([tensor.flatten() for tensor in state.values()])
    return weights, [event["accuracy"] for event in read_json_lines(run.log) if event["event"] == "validation"]


@pytest.mark.slow
def test_validations_and_checks_are_done_once_however_long_they_take(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "machine"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "machine"))
    (tmp_path / "machine").mkdir()
    for name in ("alone", "together"):
        test_torchrun.prepared(tmp_path / name)
    with mock.patch.object(time, "sleep"):
        slow_training(tmp_path / "alone.json", tmp_path / "alone")
    told = in_world(3, slow_training, tmp_path, str(tmp_path / "together"))
    assert [len(one["scratch"]) for one in told] == [2, 0, 0]  # as many as validations
    assert [len(one["figures"]) for one in told] == [2, 0, 0]
    (ours, accuracies), (theirs, expected) = trained(Run.at(tmp_path / "together")), trained(Run.at(tmp_path / "alone"))
    assert accuracies == told[0]["figures"]  # to the bit
    assert accuracies == pytest.approx(expected, abs=0.05)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    assert not list((tmp_path / "together").glob(".validation*"))
    hashed = [path for one in told for path in one["hashed"]]
    assert len(hashed) == len({*hashed}) == 4  # the part and the priorities of two rounds
    assert not list((tmp_path / "machine").glob("gscl-scale-*"))


def work_of_each(file, seconds):
    """Each process works so long; then all sum their ranks."""
    with join_world(1.0) as world:
        began = time.monotonic()
        own = world.together(lambda: time.sleep(seconds[world.rank]) or world.rank)
        took = time.monotonic() - began
        total = int(world.sum(torch.tensor([own])))
    file.write_text(json.dumps([took, own, total]))


def test_work_may_take_longer_than_the_timeout_and_all_go_on_when_the_last_is_done(tmp_path):
    told = in_world(4, work_of_each, tmp_path, [0.0, 3.0, 0.5, 0.0])
    assert all(took >= 2.5 for took, _, _ in told)
    assert [own for _, own, _ in told] == [0, 1, 2, 3]
    assert {total for _, _, total in told} == {6}


def lost_at_work(file, blow):
    """The second of two processes is killed or stopped at work; the first reports how it ended, and after how long."""
    with join_world(2.0) as world:

        def work():
            if world.rank == 1:
                os.kill(os.getpid(), blow)
            time.sleep(1.0)

        began = time.monotonic()
        with pytest.raises(PeerError, match="another process of the training has ended, or is silent"):
            world.together(work)
        file.write_text(json.dumps(time.monotonic() - began))


def test_a_process_that_is_killed_at_work_is_noticed(tmp_path):
    took, _ = in_world(2, lost_at_work, tmp_path, signal.SIGKILL)
    assert took < 5


def failed_at_work(file):
    """The first of two processes finds an error at work, which is what it ends with."""
    with join_world(2.0) as world:

        def work():
            if world.first:
                raise KeyError("mine")

        with pytest.raises(KeyError if world.first else PeerError) as error:
            world.together(work)
    file.write_text(json.dumps(type(error.value).__name__))


def test_an_error_at_work_is_that_of_its_process_and_the_others_learn_of_its_end(tmp_path):
    assert in_world(2, failed_at_work, tmp_path) == ["KeyError", "PeerError"]


def test_a_process_alone_works_without_signs_of_life(monkeypatch):
    monkeypatch.setattr("threading.Thread.start", lambda thread: pytest.fail("a thread for one process"))
    assert ALONE.together(lambda: 7) == 7
    assert ALONE.of_first(lambda: 0.25) == 0.25
