"""One training by several processes of a cluster: the losses of one process, whatever is killed on the way."""

import contextlib
import math
import os
import re
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
import ray
from ray._raylet import GcsClient
from ray.core.generated import autoscaler_pb2

from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError, FolderError, TaskError
from gscl_scale.io.json import read_json_lines
from gscl_scale.run.folder import Run
from gscl_scale.run.log import read_curve
from gscl_scale.run.record import open_run
from gscl_scale.runtime.cluster import preflight
from gscl_scale.runtime.cluster import training as cluster_training
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import start_runner
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.stages import train as training
from gscl_scale.stages.precompute import precompute
from gscl_scale.stages.train import train as train_stage
from tests.graphs import make_graph, random_edges
from tests.ray.clusters import PATIENCE_S, driver, of_size, wait_until
from tests.ray.toys import Toy, tell
from tests.ray.trainings import order, process, traced_process

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.data.context"),  # raised where Ray imports its own parts
]

NODES, STEPS = 2500, 52  # 13 steps an epoch
VALUES = {
    "graph": {"source": "memory"},
    "rings": {"hops": 2, "width": 16, "per_ring": 4, "beyond": 8, "rounds": 2, "engine": "sketch"},
    "model": {"width": 16, "projection": 16, "feature_dropout": 0.3, "activation": "rrelu"},
    "train": {"epochs": 4, "batch_size": 200, "negatives": 32, "checkpoint_steps": 10},
}
SAMPLED = VALUES["model"] | {"propagation": "sampled", "fanout": [3]}
SLOW = 0.3  # seconds to add to a step, until the blow has fallen


@pytest.fixture(autouse=True)
def traces(monkeypatch):
    monkeypatch.setattr(training, "train_process", traced_process)
    monkeypatch.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.5")  # Ray looks at its processes more often


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A run with graph and samples, and no training."""
    config = Config.parse(VALUES)
    run = open_run(config, tmp_path_factory.mktemp("prepared") / "run")
    make_graph(run.graph, random_edges(NODES, 6000, seed=0), NODES)
    precompute(config, run, Console(quiet=True))
    return run.folder


@pytest.fixture(scope="module")
def undisturbed(prepared, tmp_path_factory):
    """The run of one local process."""
    run = copied(prepared, tmp_path_factory.mktemp("undisturbed"))
    traced_process(training.training_call(Config.parse(VALUES), run))
    assert len(losses(run)) == STEPS
    return run


@pytest.fixture(scope="module")
def undisturbed_with_samples(prepared, tmp_path_factory):
    """The run of one local process whose steps read samples of the neighbours."""
    run = copied(prepared, tmp_path_factory.mktemp("undisturbed"))
    traced_process(training.training_call(Config.parse(VALUES | {"model": SAMPLED}), run))
    return run


def copied(folder: Path, where: Path, pace=0.0) -> Run:
    shutil.copytree(folder, where / "run")
    if pace:
        (where / "run" / "pace").write_text(str(pace))
    return Run.at(where / "run")


def hurry(run):
    (run.folder / "pace").unlink()


def on(cluster, workers, **settings):
    runtime = {"engine": "ray", "address": cluster.address, "train_workers": workers, "worker_cpus": 0.5, **settings}
    return Config.parse({**VALUES, "runtime": runtime})


def train(config, run, quiet=True):
    train_stage(config, run, Console(run.log, quiet=quiet))


def losses(run):
    return [event["loss"] for event in read_curve(run.log)]


def events(run, name):
    return [event for event in read_json_lines(run.log) if event["event"] == name]


def assert_same_losses(run, undisturbed):
    assert [event["step"] for event in read_curve(run.log)] == list(range(STEPS))
    np.testing.assert_allclose(losses(run), losses(undisturbed), rtol=1e-4)
    assert not list(run.folder.glob(".training-*"))


@contextlib.contextmanager
def disturbed(run, blow, after=15):
    """Call `blow` beside the work, when so many steps are done."""
    with ThreadPoolExecutor(1) as pool:
        fallen = pool.submit(lambda: wait_until(lambda: len(losses(run)) >= after) and blow())
        yield
        fallen.result()


def test_two_processes_use_the_anchors_of_one_and_have_the_same_losses(two, prepared, undisturbed, tmp_path, capfd):
    run = copied(prepared, tmp_path)
    train(on(two, 2), run)
    assert_same_losses(run, undisturbed)
    assert order(run.folder, 2) == order(undisturbed.folder, 1)
    assert len(order(run.folder, 2)) == 8 * NODES * 4
    assert capfd.readouterr() == ("", "")


def test_a_batch_may_be_given_for_each_process(two, prepared, undisturbed, tmp_path, capfd):
    run, config = copied(prepared, tmp_path), on(two, 2)
    batch = {"batch_size": 0, "batch_size_per_worker": 100, "learning_rate": config.train.learning_rate / math.sqrt(2)}
    train(config.model_copy(update={"train": config.train.model_copy(update=batch)}), run, quiet=False)
    assert_same_losses(run, undisturbed)  # those of the same batch and rate
    says = "2 processes with 100 anchors each: a step takes 200, at a learning rate of 0.001"
    assert capfd.readouterr().err.count(says) == 1


def test_a_training_whose_process_is_killed_goes_on(two, prepared, undisturbed, tmp_path, capfd):
    run = copied(prepared, tmp_path, SLOW)

    def blow():
        os.kill(process(run.folder, 1), signal.SIGKILL)
        hurry(run)

    with disturbed(run, blow):
        train(on(two, 2), run, quiet=False)
    assert_same_losses(run, undisturbed)
    assert [event["step"] for event in events(run, "resumed")] == [10]
    told = capfd.readouterr()
    assert not told.out
    assert "training was interrupted because process 1 of 2 was lost; it resumes from the newest" in told.err
    assert "Traceback" not in told.err


def test_a_training_whose_controller_is_killed_with_what_cleans_up_after_it_goes_on(
    two, prepared, undisturbed, tmp_path, capfd
):
    """Ray keeps the cores of such a group as long as the driver lives, and no other would have room."""
    run = copied(prepared, tmp_path, SLOW)

    def blow():
        for name in ("PlacementGroupCleaner", "TrainController"):
            (pid,) = (pid for machine in two.alive for pid in machine.running(name))
            os.kill(pid, signal.SIGKILL)
        hurry(run)

    with disturbed(run, blow):
        train(on(two, 2, worker_cpus=1, wait_minutes=3), run, quiet=False)
    assert_same_losses(run, undisturbed)
    assert "training was interrupted because" in capfd.readouterr().err


def test_processes_that_own_features_edges_and_samples_have_the_losses_of_one_also_when_one_is_killed(
    two, prepared, undisturbed_with_samples, tmp_path
):
    run, runtime = copied(prepared, tmp_path, SLOW), on(two, 2).runtime.model_dump()
    owned = {"model": SAMPLED, "runtime": runtime | {"features": "owned", "frequent_gb": 1e-6, "edges": "owned"}}

    def blow():
        os.kill(process(run.folder, 1), signal.SIGKILL)
        hurry(run)

    with disturbed(run, blow):
        train(Config.parse(VALUES | owned), run)
    assert_same_losses(run, undisturbed_with_samples)
    assert [event["step"] for event in events(run, "resumed")] == [10]
    assert min(events(run, "features")[-1][rows] for rows in ("frequent", "own", "fetched")) > 0


def loss_in_metrics(cluster, run, rank):
    """The loss that Ray gives Prometheus for a process; None before its first report."""
    line = rf'^ray_gscl_scale_train_loss{{[^}}]*process="{rank}"[^}}]*run="{run.folder.name}"[^}}]*}} ([\d.]+)$'
    found = [re.search(line, machine.metrics(), re.MULTILINE) for machine in cluster.machines]
    return next((float(each[1]) for each in found if each), None)


@pytest.mark.slow
def test_figures_are_among_the_metrics_of_ray_and_a_silent_process_is_noticed(two, prepared, undisturbed, tmp_path):
    run = copied(prepared, tmp_path, SLOW)
    figures, stopped = [], []

    def blow():
        figures.extend(wait_until(partial(loss_in_metrics, two, run, rank)) for rank in range(2))
        stopped.append(process(run.folder, 1))
        os.kill(stopped[0], signal.SIGSTOP)
        hurry(run)

    try:
        with disturbed(run, blow):
            train(on(two, 2, timeout_s=10), run)
        assert_same_losses(run, undisturbed)
        (broken,) = events(run, "broken_off")
        assert "silent for more than 10 s" in broken["reason"]
        last = max(event["time"] for event in events(run, "step") if event["time"] < broken["time"])
        noticed = datetime.fromisoformat(broken["time"]) - datetime.fromisoformat(last)
        assert noticed < timedelta(seconds=90)  # the peers themselves would wait for half an hour
        wait_until(lambda: not psutil.pid_exists(stopped[0]))  # it would go on as if nothing had happened
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    for loss in figures:
        assert loss == pytest.approx(min(losses(run), key=lambda one: abs(one - loss)), rel=1e-4)


DRIVER = """
import sys
from pathlib import Path
from gscl_scale.stages import train as training
from gscl_scale.config.config import Config
from gscl_scale.errors import StoppedError
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from tests.ray.trainings import traced_process
training.train_process = traced_process
run = Run.at(Path(sys.argv[2]))
try:
    training.train(Config.model_validate_json(sys.argv[1]), run, Console(run.log, quiet=True))
except StoppedError as error:
    print(error)
    sys.exit(3)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("blow", "then"), [(signal.SIGKILL, 4), (signal.SIGTERM, 1)])
def test_after_the_driver_has_ended_any_number_of_processes_goes_on(
    two, prepared, undisturbed, tmp_path, capfd, blow, then
):
    run = copied(prepared, tmp_path, SLOW)
    with driver(DRIVER, on(two, 2).model_dump_json(), run.folder, stdout=subprocess.PIPE) as first:
        wait_until(lambda: len(losses(run)) >= 22)
        first.send_signal(blow)
        out, _ = first.communicate(timeout=PATIENCE_S)
    wait_until(lambda: not any(psutil.pid_exists(process(run.folder, rank)) for rank in range(2)))
    hurry(run)
    done = len(losses(run))
    assert 22 <= done < STEPS
    if blow == signal.SIGTERM:
        assert first.returncode == 3
        assert f"training was asked to stop and has saved step {done}; rerun the command to resume" in out
        from_step = done
    else:
        newest = max(run.checkpoints.glob("step-*"))
        content = bytearray(newest.read_bytes())
        content[len(content) // 2] ^= 1
        newest.write_bytes(content)
        from_step = done // 10 * 10 - 10
    train(on(two, then), run, quiet=False)
    assert_same_losses(run, undisturbed)
    assert [event["step"] for event in events(run, "resumed")] == [from_step]
    assert ("is damaged" in capfd.readouterr().err) == (blow == signal.SIGKILL)
    assert order(undisturbed.folder, 1).endswith(order(run.folder, then))


@pytest.mark.slow
def test_processes_come_and_go_with_the_machines(machines, prepared, undisturbed, tmp_path, capfd):
    with of_size(machines, 1):
        run = copied(prepared, tmp_path, SLOW)
    added = []

    def come():
        added.append(machines.add())
        wait_until(lambda: any(len(losses(run)) > event["step"] for event in events(run, "resumed")))
        drain(machines, added[0])
        wait_until(lambda: len(events(run, "started")) == 3)
        hurry(run)

    try:
        with disturbed(run, come, 3):
            train(on(machines, "1-2", worker_cpus=1), run, quiet=False)
    finally:
        for machine in added:
            machine.kill()
    assert_same_losses(run, undisturbed)
    assert [event["processes"] for event in events(run, "started")] == [1, 2, 1]
    assert len(events(run, "step")) == STEPS  # it saved whenever it was stopped
    assert re.findall("because (.*);", capfd.readouterr().err) == [
        "there is room for 2 processes now",
        "a machine is about to be taken away",
    ]


def drain(cluster, machine):
    """Give notice that a machine will be taken away, as `ray drain-node` does."""
    (node,) = (node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeManagerAddress"] == machine.ip)
    reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    deadline_ms = int(1000 * (time.time() + 60))
    assert GcsClient(address=cluster.address).drain_node(node, reason, "spot", deadline_ms)[0]


# --- what is refused, and what is given up ---------------------------------------------------------------------------


def test_a_mistake_that_a_process_finds_is_told_as_it_is_and_not_repeated(two, prepared, tmp_path):
    run = copied(prepared, tmp_path)
    for part in run.samples.glob("round-000/part-*"):
        part.write_bytes(b"")
    with pytest.raises(FolderError, match=r"part-00000\.arrow"):
        train(on(two, 1), run)
    assert not events(run, "broken_off")


def test_a_wrong_network_interface_is_refused_and_not_tried_again(two, prepared, tmp_path, monkeypatch):
    run, variables = copied(prepared, tmp_path), cluster_training._thread_variables
    wrong = {"GLOO_SOCKET_IFNAME": "nonesuch0"}
    monkeypatch.setattr(cluster_training, "_thread_variables", lambda settings: {**variables(settings), **wrong})
    with pytest.raises(
        ConfigError, match=r"^GLOO_SOCKET_IFNAME=nonesuch0: a machine of the Ray cluster has no network"
    ):
        train(on(two, 2), run)
    assert not events(run, "started")


@pytest.mark.slow
def test_a_machine_that_comes_while_there_is_no_room_is_looked_at_as_well(machines, prepared, tmp_path, monkeypatch):
    run, looked, check = copied(prepared, tmp_path), [], preflight.check_shared

    def noted(folder, those):
        looked.append([machine.ip for machine in those])
        return check(folder, those)

    monkeypatch.setattr(preflight, "check_shared", noted)
    with of_size(machines, 2), ThreadPoolExecutor(1) as pool:
        busy = ray.remote(num_cpus=1)(lambda: time.sleep(100)).remote()
        wait_until(lambda: ray.available_resources().get("CPU", 0) < 2)
        coming = pool.submit(lambda: wait_until(lambda: looked) and machines.add())
        try:
            train(on(machines, 2, worker_cpus=1), run)
        finally:
            ray.cancel(busy, force=True)
            coming.result().kill()
    assert [len(those) for those in looked] == [2, 1]
    assert looked[1] == [coming.result().ip]
    assert len(events(run, "step")) == STEPS


def test_rounds_are_made_ahead_where_the_training_has_the_only_core(machines, prepared, undisturbed, tmp_path):
    machines.resize(1)
    run = copied(prepared, tmp_path)
    shutil.rmtree(run.samples / "round-001")
    config = on(machines, 1, worker_cpus=1)
    train(config.model_copy(update={"rings": config.rings.model_copy(update={"ahead": 1})}), run)
    assert_same_losses(run, undisturbed)


@pytest.mark.parametrize("size", [1, 2])
def test_tasks_are_done_where_there_is_room_beside_the_process_that_waits_for_them(machines, size):
    class Process:  # an actor, as those of a training: a task that waits for others gives its core away meanwhile
        def work(self):
            with start_runner(settings, 1.0) as runner:
                ips = {told.ip for told in runner.run(tell, [Toy(number) for number in range(3)])}
                return ips - {ray.util.get_node_ip_address()}, runner.workers

    settings = RunnerSettings(engine="ray", address=machines.address)
    with of_size(machines, size):
        process = ray.remote(num_cpus=1)(Process).remote()
        elsewhere, workers = ray.get(process.work.remote(), timeout=PATIENCE_S)
    assert (len(elsewhere), workers) == (size - 1, 1)


def test_room_that_does_not_come_is_told_at_once_and_ends_the_training_after_a_while(two, prepared, tmp_path, capfd):
    run = copied(prepared, tmp_path)
    what = r"runtime\.train_workers: 5 processes with 0\.5 cores each .* room for 4"
    with pytest.raises(TaskError, match=rf"{what} after 0\.05 minutes; checkpoints are kept: ask for fewer"):
        train(on(two, 5, wait_minutes=0.05), run, quiet=False)
    assert re.search(rf"{what}; waiting up to 0\.05 minutes for machines", capfd.readouterr().err)


def test_a_training_begins_when_machines_come_that_it_waits_for(two, prepared, undisturbed, tmp_path):
    run = copied(prepared, tmp_path)
    with ThreadPoolExecutor(1) as pool:
        came = pool.submit(lambda: (time.sleep(3), two.resize(3)))
        train(on(two, 5, wait_minutes=3), run)
        came.result()
    assert {event["processes"] for event in events(run, "started") if "processes" in event} == {5}
    assert_same_losses(run, undisturbed)
