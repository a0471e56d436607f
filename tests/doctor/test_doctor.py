"""The examination of this machine, and of one where something is missing."""

import json
import os
import resource
import subprocess
import sys
from collections import namedtuple

import pytest
from packaging.requirements import Requirement

from gscl_scale.cli.doctor import hardware
from gscl_scale.cli.doctor.check import Finding
from gscl_scale.cli.doctor.command import _examine
from gscl_scale.cli.doctor.folders import examine_places
from gscl_scale.cli.doctor.software import examine_ray, unmet
from gscl_scale.config.config import Config
from gscl_scale.config.runtime import RuntimeConfig
from tests.commands import cli

RAY = Config.parse({"runtime": {"engine": "ray"}})
Usage = namedtuple("Usage", "total used free")


def found(findings):
    return {finding.about: finding for finding in findings}


def test_on_this_machine_nothing_is_missing_and_nothing_is_left_behind(tmp_path):
    result = cli("doctor", "--ray", "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    states = {finding["about"]: finding["state"] for finding in json.loads(result.stdout)}
    assert {"python", "packages", "kernels", "cores", "memory", "shared memory", "run folder", "Ray"} <= states.keys()
    assert "trouble" not in states.values()
    assert not list(tmp_path.iterdir())


def test_ray_is_started_only_where_the_config_or_the_user_asks_for_it(monkeypatch, tmp_path):
    asked = []
    examine = "gscl_scale.cli.doctor.software.examine_ray"
    monkeypatch.setattr(examine, lambda *_: asked.append(1) or Finding("Ray", "ok", ""))
    for config, ray, times in ((Config(), False, 0), (Config(), True, 1), (RAY, False, 1)):
        findings = found(_examine(config, str(tmp_path), ray, warm=False))
        assert (len(asked), "Ray" in findings) == (times, bool(times))
        asked.clear()


def test_what_is_missing_is_told_with_its_cure_and_ends_with_exit_code_1(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "graph: {source: tables, edges: edges.csv}\nruntime: {engine: ray, address: 'no:1'}"
    )
    result = cli("doctor", "--config", "mine.yaml", "--set", "runtime.device=cuda", cwd=tmp_path)
    assert result.returncode == 1
    for told in (
        "FAIL  GPU ",
        "or set runtime.device to cpu",
        "FAIL  graph.edges        edges.csv does not exist",
        "FAIL  Ray                cannot run tasks",
        "no Ray cluster answers at no:1",
        "3 checks failed; fix them first",
    ):
        assert told in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert [path.name for path in tmp_path.iterdir()] == ["mine.yaml"]


@pytest.mark.parametrize(
    ("runtime", "state"),
    [
        ({"device": "cuda"}, "trouble"),
        ({"engine": "ray", "worker_gpus": 1}, "note"),  # a head needs none
        ({"engine": "ray", "worker_gpus": 1, "device": "cuda"}, "trouble"),
        ({}, "ok"),
    ],
)
def test_a_gpu_is_missing_only_where_one_is_needed(monkeypatch, runtime, state):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert found(hardware.examine_hardware(RuntimeConfig(**runtime)))["GPU"].state == state


def test_a_data_set_that_will_be_downloaded_is_no_trouble(tmp_path):
    config = Config.parse({"graph": {"source": "ogb", "dataset": "ogbn-arxiv", "path": str(tmp_path / "data")}})
    assert found(examine_places(config, str(tmp_path)))["graph.path"].state == "note"


def test_a_folder_that_cannot_be_written_is_trouble():
    assert found(examine_places(Config(), "/proc/nothing"))["run folder"].state == "trouble"


def test_a_folder_without_hard_links_or_locks_is_trouble(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refuse)
        finding = found(examine_places(Config(), str(tmp_path)))["run folder"]
        assert (finding.state, "Operation not permitted" in finding.found) == ("trouble", True)
    assert found(examine_places(Config(), str(tmp_path)))["run folder"].state == "ok"
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_nearly_full_is_noted(tmp_path, monkeypatch):
    monkeypatch.setattr("gscl_scale.machine.shutil.disk_usage", lambda _: Usage(9 << 30, 9 << 30, 5 << 20))
    finding = found(examine_places(Config(), str(tmp_path)))["run folder"]
    assert (finding.state, "5 MiB free" in finding.found) == ("note", True)


def test_little_shared_memory_is_noted_where_ray_is_to_run(monkeypatch):
    monkeypatch.setattr(hardware.shutil, "disk_usage", lambda _: Usage(64 << 20, 0, 64 << 20))
    local, on_ray = (Config.parse({"runtime": {"engine": engine}}).runtime for engine in ("local", "ray"))
    assert found(hardware.examine_hardware(local))["shared memory"].state == "ok"
    finding = found(hardware.examine_hardware(on_ray))["shared memory"]
    assert (finding.state, "64 MiB" in finding.found, "--shm-size" in finding.cure) == ("note", True, True)


def test_few_open_files_are_noted():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        finding = found(hardware.examine_hardware(Config().runtime))["open files"]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert (finding.state, finding.found) == ("note", "at most 512")


def test_a_package_that_is_missing_or_too_old_is_named():
    assert unmet(Requirement("no-such-package>=1")) == "no-such-package is not installed"
    assert unmet(Requirement("numpy>=99")).startswith("numpy is 2.")
    assert not unmet(Requirement("numpy>=1"))


def test_numba_without_a_place_for_compiled_code_is_trouble():
    program = (
        "from numba.core.caching import CacheImpl; CacheImpl._locator_classes = []; "  # as for a user without a home
        "from gscl_scale.cli.doctor.software import _kernels; finding = _kernels(); print(finding.state, finding.cure)"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert told.startswith("trouble set NUMBA_CACHE_DIR to a folder with write access")


@pytest.mark.parametrize(("engine", "state"), [("local", "note"), ("ray", "trouble")])
def test_ray_that_does_not_answer_is_trouble_only_where_it_is_needed(tmp_path, engine, state):
    config = Config.parse({"runtime": {"engine": engine, "address": "127.0.0.1:1"}}).runtime
    assert examine_ray(config, tmp_path).state == state
