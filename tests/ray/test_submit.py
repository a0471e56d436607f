"""Jobs on a cluster with a token: the documented lines, and the helper that submits once and passes exit codes on."""

import json
import os
import re
import secrets
import shlex
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from gscl_scale.io.json import read_json_lines
from gscl_scale.run.folder import Run
from tests.ports import free_port
from tests.ray.clusters import RAY, ROOT, cluster, wait_until
from tests.ray.jobs import assert_bytes_of_one_machine, verbs_of, write_config

pytestmark = pytest.mark.ray

SUBMIT = ROOT / "cluster" / "submit"
SMALL = {
    "graph": {"source": "digits"},
    "rings": {"hops": 1, "per_ring": 4, "beyond": 8, "rounds": 1, "part_anchors": 30},
    "model": {"layers": 1, "width": 16, "projection": 16},
    "train": {"epochs": 1, "batch_size": 600},
    "evaluate": {"random_splits": 1, "initialisations": 2, "probe_weight_decay": [0.001], "probe_epochs": 5},
    "runtime": {"engine": "ray", "timeout_s": 60},
}


class Guarded:
    """A cluster that wants a token, and what a user on another machine needs to know of it."""

    def __init__(self, started, port):
        self.cluster = started
        self.url = f"http://127.0.0.1:{port}"
        self.token = (started.folder / ".ray" / "auth_token").read_text()
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {
            "PATH": started.env["PATH"],
            "HOME": str(started.folder / "home"),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token,
        }

    def ask(self, path, method="GET"):
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(f"{self.url}{path}", headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def jobs(self, prefix=""):
        named = {job["submission_id"]: job for job in self.ask("/api/jobs/") if job["submission_id"]}
        return {name: job for name, job in named.items() if name.startswith(prefix)}

    def submit(self, work, *words, **env):
        return subprocess.run(
            [SUBMIT, "--address", self.url, "--working-dir", work, *words],
            env=self.env | env, capture_output=True, text=True, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def guarded():
    port = free_port()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with cluster(
        1, 1, port, secrets.token_hex(32), PATH=path, RAY_AUTH_MODE="token", GLOO_SOCKET_IFNAME="lo"
    ) as started:
        yield Guarded(started, port)


@pytest.fixture
def work(tmp_path):
    (tmp_path / "work").mkdir()
    write_config(tmp_path / "work", SMALL)
    return tmp_path / "work"


def test_a_submitted_job_writes_the_bytes_of_one_machine(guarded, work, tmp_path):
    run = Run.at(tmp_path / "run")
    write_config(work)
    (work / "runs").mkdir()
    (work / "runs" / "large").write_text("not to be sent")
    submitted = subprocess.run(
        [
            RAY, "job", "submit", "--address", guarded.url, "--working-dir", work, "--runtime-env-json",
            '{"excludes": ["/runs"]}', "--", "sh", "-c", f"test ! -e runs/large && {verbs_of(run)}",
        ],
        env=guarded.env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    assert [line["event"] for line in read_json_lines(run.log) if line["stage"] == "precompute"] == ["started", "done"]
    assert_bytes_of_one_machine(run, tmp_path / "samples")


STAGES = ("run_part", "compute_block")  # the functions of the tasks of precompute, and of embed

JOIN = """
import sys
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.runtime.runner import start_runner
with start_runner(RunnerSettings(engine="ray", address=sys.argv[1])) as runner:
    print(runner.workers)
"""


@pytest.mark.parametrize(
    ("env", "out", "says"),
    [
        ({"RAY_AUTH_MODE": "token"}, "1\n", ""),
        ({}, "", "wants a token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN"),
        ({"RAY_AUTH_MODE": "token", "HOME": "/nowhere"}, "", "wants a token; set RAY_AUTH_MODE=token"),
    ],
)
def test_with_the_token_only_the_cluster_is_joined(guarded, env, out, says):
    began = time.monotonic()
    outside = {name: value for name, value in guarded.cluster.env.items() if not name.startswith("RAY_")} | env
    joined = subprocess.run(
        [sys.executable, "-c", JOIN, guarded.cluster.address], env=outside, capture_output=True, text=True, check=False
    )
    assert joined.stdout == out, joined.stderr
    assert says in joined.stderr
    assert out or time.monotonic() - began < 15


def documented(verb):
    """The line of `ray job submit` in the documentation, as words."""
    text = (ROOT / "docs" / "cluster.md").read_text().replace("\\\n", " ")
    [line] = [
        line for line in re.findall(r"^ +(ray job submit .*)$", text, re.MULTILINE) if f"gscl-scale {verb}" in line
    ]
    return shlex.split(line)


def test_the_documented_line_shows_progress_while_the_job_runs_and_exits_with_0(guarded, tmp_path):
    words = [word.replace("/shared/runs/digits", str(tmp_path / "run")) for word in documented("run")]
    words[words.index("--address") + 1] = guarded.url
    smaller = ["train.repeats=1", "train.epochs=3", "rings.rounds=1", "evaluate.initialisations=2"]
    words += [part for setting in smaller for part in ("--set", setting)]
    lines, states = [], []
    with subprocess.Popen(
        words, env=guarded.env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout:
            lines.append(line)
            if "precompute" in line and not states:
                states = [job["status"] for job in guarded.jobs().values()]
    assert process.returncode == 0, "".join(lines)
    assert "RUNNING" in states
    assert f"report      {tmp_path / 'run' / 'report.html'}\n" in lines


def test_bad_input_ends_the_job_with_its_sentence_and_its_exit_code(guarded, work, tmp_path):
    write_config(work, SMALL | {"train": {"epochs": -1}})
    sent = guarded.submit(work, "--", "run", "--config", "config.yaml", "--run", tmp_path / "run")
    assert sent.returncode == 2
    assert re.search(r"^gscl-scale: train\.epochs: .*-1", sent.stdout, re.MULTILINE)
    assert "Traceback" not in sent.stdout
    again = guarded.submit(work, "--", "run", "--config", "config.yaml", "--run", tmp_path / "run")
    assert again.returncode == 2
    assert sorted(name[-2:] for name in guarded.jobs("gscl-scale-run-run-")) == ["-1", "-2"]


@pytest.mark.slow
def test_three_machines_share_the_tasks_and_two_processes_train(guarded, work, tmp_path):
    guarded.cluster.resize(3)
    words = ["--set", "runtime.train_workers=2", "--set", "rings.part_anchors=2"]  # tasks last until all have begun
    sent = guarded.submit(work, "--", "run", "--config", "config.yaml", "--run", tmp_path / "three", *words)
    assert sent.returncode == 0, sent.stdout + sent.stderr
    tasks = guarded.ask("/api/v0/tasks?detail=true&limit=10000")["data"]["result"]["result"]
    ran = {
        task["node_id"] for task in tasks if task["func_or_class_name"] == "run_part" and task["state"] == "FINISHED"
    }
    assert len(ran) == 3
    drivers = {name: {task["job_id"] for task in tasks if task["func_or_class_name"] == name} for name in STAGES}
    assert drivers["compute_block"] <= drivers["run_part"], "the run has joined the cluster anew for a stage"
    log = read_json_lines(Run.at(tmp_path / "three").log)
    assert [line["processes"] for line in log if line["stage"] == "train" and "processes" in line] == [2]


@pytest.mark.slow
def test_the_same_line_starts_a_job_once_whoever_gives_it(guarded, work, tmp_path):
    words = ["--", "ingest", "--config", "config.yaml", "--run", tmp_path / "once"]
    sent = []
    both = [threading.Thread(target=lambda: sent.append(guarded.submit(work, *words))) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert [one.returncode for one in sent] == [0, 0], [one.stderr for one in sent]
    assert all("graph digits is in" in one.stdout for one in sent)
    began = time.monotonic()
    third = guarded.submit(work, *words)
    assert third.returncode == 0
    assert "has succeeded; nothing is done" in third.stderr
    assert time.monotonic() - began < 30
    assert len(guarded.jobs("gscl-scale-ingest-once-")) == 1
    assert guarded.submit(work, "--again", *words).returncode == 0
    write_config(work, SMALL | {"model": {"layers": 2}})
    assert guarded.submit(work, *words).returncode == 0
    assert sorted(name[-2:] for name in guarded.jobs("gscl-scale-ingest-once-")) == ["-1", "-1", "-2"]


def test_a_job_that_somebody_stops_is_no_success(guarded, work, tmp_path):
    sent = []
    words = ["--", "run", "--config", "config.yaml", "--run", tmp_path / "long", "--set", "train.epochs=100000"]
    words += ["--set", "runtime.engine=local"]
    thread = threading.Thread(target=lambda: sent.append(guarded.submit(work, *words)))
    thread.start()
    name = wait_until(lambda: next(iter(guarded.jobs("gscl-scale-run-long-")), None))
    wait_until(lambda: guarded.jobs()[name]["status"] == "RUNNING")
    guarded.ask(f"/api/jobs/{name}/stop", "POST")
    thread.join(60)
    assert sent[0].returncode != 0
    assert f"{name} was stopped" in sent[0].stderr


def test_a_missing_or_wrong_token_is_named_before_anything_is_sent(guarded, work, tmp_path):
    for told, sentence in (
        ({"RAY_AUTH_MODE": "disabled"}, "wants a token; set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN"),
        ({"RAY_AUTH_TOKEN": ""}, "RAY_AUTH_MODE is token, and"),
        ({"RAY_AUTH_TOKEN": "0" * 64}, "refuses the token"),
    ):
        refused = guarded.submit(work, "--", "run", "--config", "config.yaml", "--run", tmp_path / "run", **told)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert sentence in refused.stderr
        assert refused.stderr.count("\n") == 1
