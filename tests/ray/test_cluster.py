"""What holds on clusters of several machines, with small tasks."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import psutil
import pytest
import ray
from ray.exceptions import LocalRayletDiedError, WorkerCrashedError

from gscl_scale.errors import ConfigError, FolderError, RunError, TaskError
from gscl_scale.runtime.cluster import runner as runner_module
from gscl_scale.runtime.cluster.control_actor import _Gauges
from gscl_scale.runtime.cluster.retry import Attempt, next_attempt
from gscl_scale.runtime.runner import start_runner
from gscl_scale.runtime.settings import RunnerSettings
from tests.ports import free_port
from tests.ray import toys
from tests.ray.clusters import PATIENCE_S, ROOT, alive_ips, cluster, driver, of_size, wait_until
from tests.ray.toys import Toy

pytestmark = pytest.mark.ray


def on(cluster, **settings):
    return on_address(cluster.address, **settings)


def on_address(address, **settings):
    return start_runner(RunnerSettings(engine="ray", address=address, **settings))


@contextlib.contextmanager
def another_machine(cluster, **options):
    """A machine that comes for one test, which is part of the cluster meanwhile."""
    machine = cluster.add(**options)
    try:
        with on(cluster):
            wait_until(lambda: machine.ip in alive_ips())
            yield machine
    finally:
        machine.kill()
        with on(cluster):
            wait_until(lambda: machine.ip not in alive_ips())


def busiest(results):
    """Most tasks that ran at one time."""
    return max(sum(other.began <= one.began < other.ended for other in results) for one in results)


# --- doing the work --------------------------------------------------------------------------------------------------


def test_every_task_is_done_once_and_every_machine_works(three):
    with of_size(three, 3), on(three) as runner:
        assert runner.workers == 3
        results = list(runner.run(toys.tell, toys.toys(18, 0.5)))
    assert sorted(told.number for told in results) == list(range(18))
    assert len({told.ip for told in results}) == busiest(results) == 3


def test_the_work_of_a_killed_machine_is_done_elsewhere(three, tmp_path, capfd):
    with of_size(three, 3), on(three) as runner:
        results = runner.run(toys.leave_trace, toys.toys(18, 1, tmp_path))
        seen = [next(results) for _ in range(4)]
        lost = three.alive[-1]
        before = toys.begun_on(tmp_path, lost.ip)
        while toys.begun_on(tmp_path, lost.ip) == before:  # where no results are taken, no more tasks begin
            seen.append(next(results))
        lost.kill()
        seen += results
    assert sorted(seen) == list(range(18))
    attempts = [toys.traces(tmp_path, number) for number in range(18)]
    again = [lines for lines in attempts if len(lines) > 1]
    assert again
    assert all(lines[0].endswith(lost.ip) and not lines[-1].endswith(lost.ip) for lines in again)
    told = capfd.readouterr()
    assert not told.out
    assert all(line.startswith("ray: ") and len(line) < 200 for line in told.err.splitlines())


def test_no_more_tasks_run_at_once_than_asked_for_each_on_one_thread_and_without_torch(two):
    with on(two, workers=1) as runner:
        assert runner.workers == 1
        seen = list(runner.run(toys.tell, toys.toys(5, 0.1)))
    assert busiest(seen) == 1
    assert {one.threads for one in seen} == {"1"}
    assert not any("torch" in one.modules for one in seen)


def test_tasks_get_what_they_reserve_and_are_given_up_where_no_machine_has_it_any_more(machines, tmp_path, monkeypatch):
    monkeypatch.setattr(runner_module, "_NO_ROOM_S", 3.0)
    needs = {"task_cpus": 2, "task_memory_gb": 0.1, "task_resources": {"fast": 1}}
    fails_once = ("sh", "-c", f'mkdir {tmp_path}/tried && exit 1; exec "$@"', "sh")
    before = list(machines.machines)
    with another_machine(machines, cpus=2, resources={"fast": 2}, wrapper=fails_once) as machine:
        assert (tmp_path / "tried").exists()
        assert machine.has_raylet()
        assert machines.machines == [*before, machine]  # without the one that did not come up
        with on(machines, **needs) as runner:
            assert runner.workers == 1
            results = list(runner.run(toys.tell, toys.toys(4, 0.1)))
            assert {told.ip for told in results} == {machine.ip}
            assert busiest(results) == 1
            results = runner.run(toys.leave_trace, toys.toys(50, 0.2, tmp_path))
            next(results)
            machine.kill()
            with pytest.raises(TaskError, match=r"no machine of the Ray cluster has had 2 cores, .* 1 of fast"):
                list(results)
    with pytest.raises(AssertionError):
        machines.add(wrapper=("false",))


def test_tasks_are_drawn_only_as_they_are_needed(two):
    drawn = []

    def tasks():
        for number in range(100):
            drawn.append(number)
            yield Toy(number)

    with on(two) as runner:
        for taken, _ in enumerate(runner.run(toys.tell, tasks()), start=1):
            assert len(drawn) <= taken + 2 * runner.workers
    assert len(drawn) == 100


def test_a_program_that_uses_ray_keeps_what_it_has_joined(two):
    before = signal.getsignal(signal.SIGTERM)
    with on(two), on(two) as runner:
        assert list(runner.run(toys.tell, [])) == []
        assert len(list(runner.run(toys.tell, toys.toys(2)))) == 2
        assert signal.getsignal(signal.SIGTERM) is before
    assert not ray.is_initialized()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_machine_that_joins_takes_part(machines, tmp_path):
    with of_size(machines, 1), on(machines) as runner:
        assert runner.workers == 1
        runner.check_shared(tmp_path)
        results = runner.run(toys.tell, toys.toys(150, 0.1))
        seen = [next(results)]
        machines.resize(2)
        seen += results
        assert runner.workers == 2
    assert sorted(told.number for told in seen) == list(range(150))
    assert len({told.ip for told in seen}) == 2


# --- tasks that fail -------------------------------------------------------------------------------------------------


def test_the_error_of_a_task_arrives_as_itself_and_the_task_is_not_repeated(two, tmp_path):
    with on(two) as runner, pytest.raises(FolderError) as raised:
        list(runner.run(toys.refuse_three, toys.toys(20, folder=tmp_path)))
    assert type(raised.value) is FolderError
    assert str(raised.value) == "task 3: this folder was made from another graph"
    assert len(toys.traces(tmp_path, 3)) == 1


ERRORS = """
import sys
from pathlib import Path
from gscl_scale.errors import FolderError
from tests.ray import toys
from tests.ray.test_cluster import on_address

with on_address(sys.argv[1]) as runner:
    for number in range(80):
        folder = Path(sys.argv[2]) / str(number)
        folder.mkdir()
        try:
            list(runner.run(toys.refuse_three, toys.toys(20, folder=folder)))
        except FolderError:
            print("refused")
"""


def test_the_process_outlives_tasks_that_reply_while_they_are_stopped(two, tmp_path):
    told = subprocess.run(
        [sys.executable, "-c", ERRORS, two.address, tmp_path], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr[-2000:]  # Ray ended it with 1
    assert told.stdout.count("refused") == 80


def test_an_unexpected_error_brings_the_traceback_of_the_other_machine(two, tmp_path):
    with on(two) as runner, pytest.raises(KeyError) as raised:
        list(runner.run(toys.stumble_at_three, toys.toys(20, folder=tmp_path)))
    assert type(raised.value) is KeyError
    assert "stumble_at_three" in str(raised.value.__cause__)
    assert len(toys.traces(tmp_path, 3)) == 1


def test_a_task_whose_process_was_killed_is_done_again_but_not_for_ever(two, tmp_path):
    with on(two, task_retries=1) as runner:
        results = list(runner.run(toys.die_the_first_time, toys.toys(10, folder=tmp_path)))
        assert sorted(results) == list(range(10))
        assert [len(toys.traces(tmp_path, number)) for number in range(10)] == [1, 1, 1, 2, 1, 1, 1, 1, 1, 1]
        with pytest.raises(TaskError, match=r"lost .* 2 times; finished work is kept"):
            list(runner.run(toys.die_always, [Toy(10, folder=tmp_path)]))
    assert len(toys.traces(tmp_path, 10)) == 2


def test_a_task_that_runs_out_of_memory_is_given_up_with_the_setting_to_change(machines, tmp_path):
    tight = {"RAY_memory_usage_threshold": "0.01", "RAY_memory_monitor_refresh_ms": "100"}
    with (
        another_machine(machines, resources={"tight": 1}, **tight),
        on(machines, task_retries=1, task_resources={"tight": 1}) as runner,
        pytest.raises(TaskError, match=r"2 times; .* runtime\.task_memory_gb"),
    ):
        list(runner.run(toys.leave_trace, toys.toys(1, 30, tmp_path)))


# --- stopping --------------------------------------------------------------------------------------------------------


def test_nothing_runs_on_after_the_consumer_has_stopped(two, tmp_path):
    with on(two) as runner:
        results = runner.run(toys.leave_trace, [Toy(0, 0, tmp_path), *(Toy(n, 60, tmp_path) for n in range(1, 9))])
        next(results)
        wait_until(lambda: toys.traces(tmp_path, 1))
        results.close()
        wait_until(lambda: not running_tasks(two))
    assert not toys.traces(tmp_path, 8)


DRIVER = """
import signal, sys
from pathlib import Path
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.runtime.runner import start_runner
from tests.ray import toys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background would ignore it
with start_runner(RunnerSettings(engine="ray", address=sys.argv[1])) as runner:
    list(runner.run(toys.leave_trace, toys.toys(8, 60.0, Path(sys.argv[2]))))
"""


def running_tasks(cluster):
    return [pid for machine in cluster.alive for pid in machine.running("leave_trace")]


LATE = """
import sys
import ray
from gscl_scale.errors import RunError
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.runtime.runner import start_runner
from tests.ray import toys
try:
    with start_runner(RunnerSettings(engine="ray", address=sys.argv[1])) as runner:
        kept = ray.put(bytes(1 << 20))
        list(runner.run(toys.tell, toys.toys(2)))
        print("joined", flush=True)
        sys.stdin.readline()
        if sys.argv[2] == "fails":
            raise RunError("told why")
except RunError as error:  # as the command line does; a traceback goes through a hook of Ray
    sys.exit(str(error))
print("done")
"""


@pytest.mark.slow
def test_drivers_whose_cluster_is_lost_end_with_their_own_reason_or_with_that(tmp_path):
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    impatient = {**os.environ, "RAY_gcs_rpc_server_reconnect_timeout_s": "16"}
    with (
        cluster(1) as alone,
        driver(LATE, alone.address, "fails", **pipes) as failing,
        driver(LATE, alone.address, "ends", **pipes) as ending,
    ):
        assert [late.stdout.readline() for late in (failing, ending)] == ["joined\n"] * 2
        with driver(DRIVER, alone.address, tmp_path, env=impatient, **pipes) as working:
            wait_until(lambda: toys.traces(tmp_path, 0))
            alone.stop()
            ended = [each.communicate("go on\n", timeout=PATIENCE_S) for each in (failing, ending, working)]
    assert [each.returncode for each in (failing, ending, working)] == [1, 1, 1]
    assert [said for said, _ in ended] == [""] * 3
    assert "told why" in ended[0][1]
    assert "the Ray cluster was lost;" in ended[1][1]
    sentences = [line for line in ended[2][1].splitlines() if line.startswith("gscl-scale: ")]
    assert len(sentences) == 1
    assert "was lost, its head is silent for 12 s; finished work is kept" in sentences[0]


@pytest.mark.parametrize(
    "blow", [signal.SIGKILL, *(pytest.param(s, marks=pytest.mark.slow) for s in (signal.SIGTERM, signal.SIGINT))]
)
def test_a_killed_driver_leaves_no_tasks_on_the_cluster(two, tmp_path, blow):
    with driver(DRIVER, two.address, tmp_path, stderr=subprocess.DEVNULL) as killed:
        wait_until(lambda: toys.traces(tmp_path, 0) and toys.traces(tmp_path, 1))
        os.kill(killed.pid, blow)
        assert killed.wait(30) != 0
        wait_until(lambda: not running_tasks(two))
    with on(two) as runner:
        assert len(list(runner.run(toys.tell, toys.toys(4)))) == 4


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"task_cpus": 64}, r"runtime\.task_cpus: a task asks for 64 cores, but no machine .* more than 1 core"),
        ({"task_memory_gb": 9999}, r"runtime\.task_memory_gb: a task asks for 9999 GB, but no machine"),
        ({"task_resources": {"tape": 1}}, r"runtime\.task_resources\.tape: a task asks for 1 of tape, but no machine"),
    ],
)
def test_what_no_machine_has_is_refused_at_once(two, settings, says):
    began = time.monotonic()
    with pytest.raises(ConfigError, match=says), on(two, **settings):
        pass
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("named_by", "address", "says"),
    [
        ("runtime.address", "127.0.0.1:PORT", r"no Ray cluster answers at 127\.0\.0\.1:\d+; expected HOST:PORT"),
        ("runtime.address", "nonsense", "no Ray cluster answers at nonsense; expected HOST:PORT"),
        ("RAY_ADDRESS", "http://127.0.0.1:8265", "expected HOST:PORT of the head .* use ray job submit"),
    ],
)
def test_a_cluster_that_does_not_answer_is_named_soon(named_by, address, says, monkeypatch):
    address = address.replace("PORT", str(free_port()))
    if named_by == "RAY_ADDRESS":
        monkeypatch.setenv("RAY_ADDRESS", address)
    settings = RunnerSettings(engine="ray", address=address if named_by == "runtime.address" else "")
    began = time.monotonic()
    with pytest.raises(ConfigError, match=f"{named_by}: .*{says}"), start_runner(settings):
        pass
    assert time.monotonic() - began < 15


def test_a_shared_folder_is_left_as_it_was(two, tmp_path):
    (tmp_path / "mine").write_text("")
    with on(two) as runner:
        runner.check_shared(tmp_path)
        runner.check_shared(tmp_path / "new")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["mine", "new"]


def can_mount():
    return shutil.which("unshare") and not subprocess.run(["unshare", "--mount", "true"], check=False).returncode


def test_a_machine_with_other_versions_or_without_the_folder_is_named(machines, tmp_path):
    for name in ("shared", "elsewhere", "read-only", "packages/numba-0.1.dist-info"):
        (tmp_path / name).mkdir(parents=True)
    metadata = tmp_path / "packages" / "numba-0.1.dist-info" / "METADATA"
    metadata.write_text("Metadata-Version: 2.1\nName: numba\nVersion: 0.1\n")
    fixed = tmp_path / "read-only"
    mounts = f"mount -t tmpfs none {tmp_path}/elsewhere && mount --bind {fixed} {fixed}"
    mounts += f" && mount -o remount,bind,ro {fixed}"
    wrapper = ("unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh") if can_mount() else ()
    path = f"{tmp_path}/packages:{ROOT}"
    with another_machine(machines, wrapper=wrapper, PYTHONPATH=path) as machine:
        says = rf"{machine.ip} of the Ray cluster has numba 0\.1, this process .*: results could differ"
        with on(machines) as runner, pytest.raises(RunError, match=says):
            runner.check_shared(tmp_path / "shared")
        if not wrapper:
            pytest.skip("mounting needs more rights than this process has")
        for name, trouble in (("elsewhere", "does not see it"), ("read-only", "cannot write in it")):
            with on(machines) as runner, pytest.raises(FolderError) as raised:
                runner.check_shared(tmp_path / name)
            told = f"{tmp_path / name} is not shared by all machines of the Ray cluster: {machine.ip} {trouble}"
            assert told in str(raised.value)
            assert "choose a --run folder" in str(raised.value)
            assert "on a filesystem that all of them mount" in str(raised.value)
            assert list((tmp_path / name).iterdir()) == []


def test_a_machine_that_cannot_run_it_is_named(machines, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['gscl_scale'] = None")
    says = "cannot run gscl-scale: .*gscl_scale.*; install the same version on all machines"
    with (
        another_machine(machines, PYTHONPATH=f"{tmp_path}:{ROOT}") as machine,
        on(machines) as runner,
        pytest.raises(RunError, match=rf"{machine.ip} of the Ray cluster {says}") as raised,
    ):
        runner.check_shared(tmp_path)
    assert "\n" not in str(raised.value)


# --- a cluster of its own --------------------------------------------------------------------------------------------

LAPTOP = """
import sys
from gscl_scale.errors import TaskError
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.runtime.runner import start_runner
from tests.ray import toys
with start_runner(RunnerSettings(engine="ray")) as runner:
    results = list(runner.run(toys.tell, toys.toys(8)))
    print(len(results), runner.workers)
    if sys.argv[1] == "fail":
        raise TaskError("the work failed")
"""


def run_laptop(folder, how, temporary, program=LAPTOP):
    env = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    env |= {"HOME": str(folder), "RAY_TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-c", program, how]
    process = subprocess.Popen(
        command, cwd=folder, env=env, text=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = process.communicate(timeout=PATIENCE_S)
    return process, out, err


def session_of(pid):
    left = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getsid(process.pid) == pid and process.status() != psutil.STATUS_ZOMBIE:
                left.append(process)
    return left


@pytest.mark.parametrize("how", ["work", pytest.param("fail", marks=pytest.mark.slow)])
def test_without_a_cluster_one_is_started_and_stopped_again(machines, how):
    folder = machines.folder / how
    folder.mkdir()
    (folder / "ray").mkdir()
    (folder / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{free_port()}")  # left by one that crashed
    process, out, err = run_laptop(folder, how, folder)
    assert out.split()[:1] == ["8"], err
    assert process.returncode == (how == "fail")
    assert err.count("\n") == 0 if how == "work" else err.strip().endswith("TaskError: the work failed")
    wait_until(lambda: not session_of(process.pid))


BUSY = """
import time
from types import SimpleNamespace
from ray._private import node, services

def unknown(*_):
    raise RuntimeError("no such node yet")

# a machine so busy that the head does not know of it within 30 s, which are over in two here
node.time = SimpleNamespace(**vars(time) | {"monotonic": lambda: 15 * time.monotonic()})
services.get_node = unknown
"""


def test_a_machine_too_busy_to_start_ray_is_told_with_the_way_without_it(machines):
    folder = machines.folder / "busy"
    folder.mkdir()
    process, out, err = run_laptop(folder, "work", folder, BUSY + LAPTOP)
    assert not out
    says = "Ray could not be started on this machine: The current node timed out during startup"
    assert re.search(rf"RunError: {says}.*; fix this, or set runtime.engine to local$", err, re.MULTILINE)
    for left in session_of(process.pid):  # Ray's agents, which notice the end of the rest after a minute
        left.kill()


def test_a_cluster_of_this_machine_is_found_and_left_running(two):
    process, out, err = run_laptop(two.folder, "work", two.folder)
    assert process.returncode == 0, err
    assert out.split() == ["8", "2"]
    assert two.machines[0].process.poll() is None


@pytest.mark.parametrize("error", [LocalRayletDiedError, WorkerCrashedError])
def test_a_task_whose_machine_or_process_ended_is_tried_again_so_many_times(error):
    again = next_attempt(Attempt("task"), error(), 1)
    assert again == Attempt("task", 1)
    assert isinstance(next_attempt(again, error(), 1), TaskError)


@pytest.mark.parametrize("run", ["plain 1", "läufe 1"])
def test_figures_of_a_run_whose_name_has_other_letters_reach_ray(two, run):
    with on(two):
        _Gauges(run, 0)({"loss": 1.5})
