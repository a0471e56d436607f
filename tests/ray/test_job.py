"""A job that is submitted to a cluster with a token."""

import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from gscl_scale.config.config import Config
from gscl_scale.io.json import read_json_lines
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import start_runner
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.shards.precompute import precompute
from tests.ray.clusters import RAY, cluster, free_port
from tests.shards.test_precompute import assert_same_bytes

pytestmark = pytest.mark.ray

CONFIG = {
    "graph": {"source": "synthetic", "preset": "small"},
    "rings": {"rounds": 1, "part_anchors": 500},
    "runtime": {"engine": "ray"},
}


@pytest.fixture(scope="module")
def dashboard_port():
    return free_port()


@pytest.fixture(scope="module")
def guarded(dashboard_port):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with cluster(1, cpus=2, dashboard_port=dashboard_port, token=secrets.token_hex(32), PATH=path) as started:
        yield started


def outside(guarded, **env):
    """The environment of a user on another machine."""
    return {name: value for name, value in guarded.env.items() if not name.startswith("RAY_")} | env


def test_a_submitted_job_writes_the_bytes_of_one_machine(guarded, dashboard_port, tmp_path):
    work, run = tmp_path / "work", Run.at(tmp_path / "run")
    (work / "runs").mkdir(parents=True)
    (work / "runs" / "large").write_text("not to be sent")
    (work / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    verbs = " && ".join(
        f"gscl-scale {verb} --config config.yaml --run {run.folder}" for verb in ("ingest", "precompute")
    )
    submitted = subprocess.run(
        [
            RAY, "job", "submit", "--address", f"http://127.0.0.1:{dashboard_port}", "--working-dir", work,
            "--runtime-env-json", '{"excludes": ["/runs"]}', "--", "sh", "-c", f"test ! -e runs/large && {verbs}",
        ],
        env=outside(guarded, RAY_AUTH_MODE="token"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    assert [line["event"] for line in read_json_lines(run.log) if line["stage"] == "precompute"] == ["started", "done"]
    with start_runner(RunnerSettings(workers=1)) as runner:
        precompute(run.graph, tmp_path / "samples", Config.parse(CONFIG).rings, 1, runner, Console(quiet=True))
    assert_same_bytes(tmp_path / "samples", run.samples)


JOIN = """
import sys
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.runtime.runner import start_runner
with start_runner(RunnerSettings(engine="ray", address=sys.argv[1])) as runner:
    print(runner.workers)
"""


@pytest.mark.parametrize("told", [{}, {"RAY_AUTH_MODE": "token", "HOME": "/nowhere"}])
def test_a_missing_token_is_named_soon(guarded, told):
    began = time.monotonic()
    joined = subprocess.run(
        [sys.executable, "-c", JOIN, guarded.address],
        env=outside(guarded, **told),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "wants a token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN" in joined.stderr
    assert time.monotonic() - began < 15


def test_with_the_token_the_cluster_is_joined(guarded):
    joined = subprocess.run(
        [sys.executable, "-c", JOIN, guarded.address],
        env=outside(guarded, RAY_AUTH_MODE="token"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert joined.stdout == "2\n"
