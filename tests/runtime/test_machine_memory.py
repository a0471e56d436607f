"""A machine of a cluster with too little memory for its share of the work is refused when it is looked at."""

import pytest

from gscl_scale.errors import ConfigError
from gscl_scale.runtime.cluster import folder_check, preflight, runner
from gscl_scale.runtime.cluster.nodes import Machine
from gscl_scale.runtime.cluster.preflight import SharedFolder
from gscl_scale.runtime.cluster.runner import ClusterRunner
from gscl_scale.runtime.settings import NOTHING, MemoryNeed, RunnerSettings
from tests.runtime.test_folder_check import Asked

GIB = 1 << 30
PODS = [
    Machine(f"id-{number}", f"10.0.0.{number}", False, {"CPU": 16.0, "memory": 20e9, "cpu_pool": 16.0})
    for number in (1, 2)
]
NEED = MemoryNeed(shared=8 * GIB, each=2 * GIB)


@pytest.fixture(autouse=True)
def pods(monkeypatch):
    """Two machines of 16 cores with 32 GiB, which are this process."""
    monkeypatch.setattr(preflight, "_look_on", lambda machine: Asked())
    monkeypatch.setattr(preflight, "_answers", lambda asked: [(one, answer.report) for answer, one in asked.items()])
    monkeypatch.setattr(folder_check, "available_memory", lambda: 32 * GIB)


def folder_for(tmp_path, tasks, need=NEED, setting="task_memory_gb"):
    return SharedFolder(tmp_path, need, lambda machine: tasks, setting)


def test_as_many_tasks_as_fit_are_welcome(tmp_path):
    folder_for(tmp_path, 12).check(PODS)
    folder_for(tmp_path, 16, NOTHING).check(PODS)
    folder_for(tmp_path, 0, MemoryNeed(shared=64 * GIB)).check(PODS)  # nothing will run there


def test_more_tasks_than_fit_are_refused_with_what_to_reserve(tmp_path):
    says = (
        r"^runtime\.task_memory_gb: 13 tasks at once take about 34\.0 GiB of memory on 10\.0\.0\.1 of the Ray cluster, "
        r"where 32\.0 GiB are available; set runtime\.task_memory_gb to 1\.7, so that at most 12 run there, or use mach"
    )
    with pytest.raises(ConfigError, match=says):
        folder_for(tmp_path, 13).check(PODS)
    assert not list(tmp_path.iterdir())
    assert PODS[0].room({"CPU": 1.0, "memory": 1.7e9}) <= 12  # what was advised helps
    with pytest.raises(
        ConfigError, match=r"13 training processes at once .*; set runtime\.worker_cpus to 1\.4, so that"
    ):
        folder_for(tmp_path, 13, setting="worker_cpus").check(PODS)
    assert PODS[0].room({"CPU": 1.4}) <= 12


def test_where_not_one_task_fits_only_larger_machines_help(tmp_path):
    with pytest.raises(ConfigError, match=r"1 tasks at once take about 61\.0 GiB .* available; use machines with more"):
        folder_for(tmp_path, 1, MemoryNeed(shared=59 * GIB, each=2 * GIB)).check(PODS)


def test_a_machine_that_comes_later_is_checked_when_it_comes(tmp_path, monkeypatch):
    folder = folder_for(tmp_path, 12)
    folder.check(PODS[:1])
    monkeypatch.setattr(folder_check, "available_memory", lambda: 31 * GIB)
    folder.check(PODS[:1])
    with pytest.raises(ConfigError, match=r"on 10\.0\.0\.2 of the Ray cluster, where 31\.0 GiB are available"):
        folder.check(PODS)


@pytest.mark.parametrize(
    ("settings", "fits"),
    [
        ({}, False),
        ({"workers": 12}, True),
        ({"task_memory_gb": 1.7}, True),
        ({"task_resources": {"cpu_pool": 2}}, True),
    ],
)
def test_the_tasks_of_a_runner_are_those_that_its_settings_allow_on_a_machine(tmp_path, monkeypatch, settings, fits):
    monkeypatch.setattr(runner, "alive_machines", lambda own_cpus: PODS)
    cluster = ClusterRunner(RunnerSettings(engine="ray", **settings))
    if fits:
        cluster.check_shared(tmp_path, NEED)
        return
    with pytest.raises(ConfigError, match=r"16 tasks at once take about 40\.0 GiB"):
        cluster.check_shared(tmp_path, NEED)


@pytest.mark.parametrize(("cpus", "threads"), [(4, 4), (2.5, 2), (0.5, 1)])
def test_a_task_has_a_thread_for_each_of_its_whole_cores(monkeypatch, cpus, threads):
    monkeypatch.setattr(runner, "alive_machines", lambda own_cpus: PODS)
    assert ClusterRunner(RunnerSettings(engine="ray", task_cpus=cpus)).task_threads == threads
