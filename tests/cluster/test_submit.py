"""The line that `cluster/submit` makes, the ids of its jobs, and its sentences; real clusters are in tests/ray."""

import importlib.machinery
import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from ray.scripts.scripts import cli

from tests.cluster.kube import ROOT

SUBMIT = ROOT / "cluster" / "submit"
ADDRESS = ("--address", "http://head:8265")


def loaded():
    loader = importlib.machinery.SourceFileLoader("submit", str(SUBMIT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("submit", loader))
    sys.modules["submit"] = module  # dataclasses look it up there
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = written
    return module


submit = loaded()


@pytest.fixture
def work(tmp_path):
    (tmp_path / "config.yaml").write_text("graph: {source: digits}\n")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "best.yaml").write_text("graph: {source: digits}\n")
    return tmp_path


def call(work, *words, **env):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.run(
        [sys.executable, SUBMIT, *words], cwd=work, env=kept | env, capture_output=True, text=True, check=False
    )


def line(work, *words, before=()):
    shown = call(work, *ADDRESS, "--print", *before, "--", *words)
    assert (shown.returncode, shown.stderr) == (0, "")
    return shlex.split(shown.stdout)


def job(work, *words):
    parts = line(work, *words)
    return parts[parts.index("--submission-id") + 1]


RUN = ("run", "--config", "config.yaml", "--run", "/shared/runs/today")


def test_the_line_is_one_that_ray_takes(work):
    parts = line(work, *RUN, "--set", "runtime.engine=ray", before=("--cpus", "2", "--memory-gb", "1.5"))
    assert parts[:3] == ["ray", "job", "submit"]
    context = cli.commands["job"].commands["submit"].make_context("submit", parts[3:])
    assert context.params["address"] == "http://head:8265"
    assert context.params["working_dir"] == "."
    assert context.params["entrypoint"] == ("gscl-scale", *RUN, "--set", "runtime.engine=ray")
    assert (context.params["entrypoint_num_cpus"], context.params["entrypoint_memory"]) == (2.0, 1610612736)
    assert context.params["no_wait"] is True


def test_what_a_job_does_not_read_is_not_sent(work):
    parts = line(work, *RUN, before=("--exclude", "pictures/"))
    excludes = json.loads(parts[parts.index("--runtime-env-json") + 1])["excludes"]
    assert {"/.git", "/.venv", "/runs", "/data"} <= set(excludes)
    assert excludes[-1] == "/pictures"


def test_the_id_depends_on_the_command_its_folder_and_the_content_of_the_config(work):
    first = job(work, *RUN)
    assert first.startswith("gscl-scale-run-today-")
    assert first.endswith("-1")
    assert job(work, "run", "--run=/shared/runs/today", "-c", "config.yaml") == first
    (work / "copy.yaml").write_bytes((work / "config.yaml").read_bytes())
    assert job(work, "run", "--config", "copy.yaml", "--run", "/shared/runs/today") == first
    others = {
        job(work, "train", *RUN[1:]),
        job(work, *RUN[:-1], "/shared/runs/tomorrow"),
        job(work, *RUN[:-1], "/other/today"),
        job(work, *RUN, "--set", "train.epochs=2"),
    }
    (work / "config.yaml").write_text("graph: {source: digits, neighbours: 5}\n")
    others.add(job(work, *RUN))
    assert len(others | {first}) == 6
    nightly = job(work, "retrain", "--config", "config.yaml", "--registry", "s3://bucket/embeddings")
    assert "retrain-embeddings-" in nightly


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--", *RUN), "--address: expected http://HEAD:8265"),
        (("--address", "head:6379", "--", *RUN), "got head:6379"),
        (ADDRESS, "no command; expected"),
        ((*ADDRESS, "--", "run", "--run", "/shared/a"), "expected --config FILE, got none"),
        ((*ADDRESS, "--", "run", "--config", "none.yaml", "--run", "/shared/a"), "got none.yaml, which is not there"),
        ((*ADDRESS, "--", "run", "--config", "../config.yaml", "--run", "/a"), "expected a path inside the working"),
        ((*ADDRESS, "--", "run", "--config", "runs/best.yaml", "--run", "/a"), "lies in /runs, which is not sent"),
        ((*ADDRESS, "--", "run", "--config", "config.yaml", "--run", "runs/a"), "expected an absolute path"),
        ((*ADDRESS, "--", "run", "--config", "config.yaml"), "--run: expected an absolute path"),
        ((*ADDRESS, "--", "retrain", "--config", "config.yaml", "--run", "/a"), "--registry: expected an absolute"),
        ((*ADDRESS, "--working-dir", "nowhere", "--", *RUN), "--working-dir: expected a folder, got nowhere"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(work, words, sentence):
    assert_refused(call(work, *words), sentence)


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({"RAY_AUTH_MODE": "token"}, "RAY_AUTH_MODE is token, and HOME/.ray/auth_token has none; set RAY_AUTH_TOKEN"),
        ({"RAY_AUTH_TOKEN_PATH": "/nowhere"}, "RAY_AUTH_MODE is token, and /nowhere has none"),
        ({"RAY_AUTH_MODE": "password"}, "RAY_AUTH_MODE: expected token or disabled, got password"),
    ],
)
def test_a_missing_token_is_one_sentence_and_exit_code_2(work, env, sentence):
    assert_refused(call(work, *ADDRESS, "--", *RUN, HOME=str(work), **env), sentence.replace("HOME", str(work)))


def assert_refused(refused, sentence):
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert sentence in refused.stderr


def test_a_token_is_looked_for_where_ray_does(tmp_path):
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("home\n")
    (tmp_path / "file").write_text("file")
    home, file = {"HOME": str(tmp_path)}, {"RAY_AUTH_TOKEN_PATH": str(tmp_path / "file")}
    assert submit.read_token(home) == ""  # whoever asks for no token sends none
    assert submit.read_token(home | {"RAY_AUTH_MODE": "token"}) == "home"
    assert submit.read_token(home | file) == "file"
    assert submit.read_token(home | file | {"RAY_AUTH_TOKEN": "said"}) == "said"
    assert submit.read_token(home | file | {"RAY_AUTH_MODE": "disabled"}) == ""


def test_the_token_is_not_in_the_line(work):
    shown = call(work, *ADDRESS, "--print", "--", *RUN, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="secret")
    assert "secret" not in shown.stdout + shown.stderr


def test_attempts_are_in_order_and_those_of_other_jobs_are_not_among_them():
    jobs = {name: {"status": "FAILED"} for name in ("a-10", "a-2", "ab-3", "a-1-4", "a-x")}
    assert [number for number, _ in submit.attempts(jobs, "a")] == [2, 10]


def test_no_cluster_is_exit_code_1_with_its_address(work):
    refused = call(work, "--address", "http://127.0.0.1:9", "--", *RUN, PATH=f"{Path(sys.executable).parent}")
    assert refused.returncode == 1
    assert "http://127.0.0.1:9 does not answer" in refused.stderr


def test_only_the_standard_library_is_imported():
    source = SUBMIT.read_text()
    imported = {
        text.split()[1].partition(".")[0] for text in source.splitlines() if text.startswith(("import ", "from "))
    }
    assert imported <= sys.stdlib_module_names
    assert os.access(SUBMIT, os.X_OK)
