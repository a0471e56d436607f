"""A search on a cluster: it ends with a config file, whatever is killed on the way."""

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml

from gscl_scale.config.config import Config
from gscl_scale.errors import RunError, StoppedError
from gscl_scale.io.json import read_json, read_json_lines
from gscl_scale.runtime.console import Console
from gscl_scale.studies.budget import Budget
from gscl_scale.studies.compare import compare
from gscl_scale.studies.tune.leaderboard import best_of
from gscl_scale.studies.tune.tune import tune
from tests.ray.clusters import ROOT, wait_until

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]

VALUES = {
    "graph": {"source": "synthetic", "preset": "tiny"},
    "rings": {"hops": 1, "width": 16, "per_ring": 4, "beyond": 8, "rounds": 1},
    "model": {"width": 16, "projection": 16},
    "train": {"epochs": 10, "batch_size": 100, "negatives": 16, "checkpoint_every": 1},
    "evaluate": {"random_splits": 2, "initialisations": 2, "probe_epochs": 20, "probe_weight_decay": [0.0]},
}
SPACE = {"model.width": [8, 16], "rings.hops": [1, 2], "train.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}}


def on(cluster, max_failures=0, **train):
    runtime = {"address": cluster.address, "max_failures": max_failures}
    return Config.parse({**VALUES, "train": {**VALUES["train"], **train}, "runtime": runtime})


def space_file(folder, space=SPACE):
    (folder / "space.yaml").write_text(yaml.safe_dump(space))
    return folder / "space.yaml"


def search(config, run, trials, minutes=None, space=SPACE):
    return tune(config, space_file(run.parent, space), run, trials, minutes, Console(quiet=True)).ended()


def records(folder):
    return {path.parent.name: read_json(path) for path in (folder / "trials").glob("*/trial.json")}


def test_a_search_ends_with_a_leaderboard_and_a_config_file_and_ray_says_nothing(two, tmp_path, capfd):
    config, run = on(two), tmp_path / "run"
    ended = tune(config, space_file(tmp_path), run, 3, None, Console()).ended()
    told = capfd.readouterr()
    assert told.out == ""
    assert "tune: 3 trials to go, 2 at once with 1 core each" in told.err
    assert len([line for line in told.err.splitlines() if line.startswith("trial ")]) == 3
    assert not [line for line in told.err.splitlines() if "ray" in line.lower()]

    assert sorted(records(run)) == ["001", "002", "003"]
    assert read_json(run / "trials/001/trial.json")["settings"] == {
        "model.width": 16, "rings.hops": 1, "train.learning_rate": 1e-3,
    }  # fmt: skip
    best = best_of(ended)
    assert best.accuracy > 0.3  # of five classes
    loaded = Config.load(run / "best.yaml")
    assert (loaded.model.width, loaded.rings.hops) == (best.settings["model.width"], best.settings["rings.hops"])
    assert loaded.train.learning_rate == best.settings["train.learning_rate"]
    first = json.loads((run / "leaderboard.json").read_text())["trials"][0]
    assert (first["number"], first["accuracy"]) == (best.number, best.accuracy)

    used = {record["settings"]["rings.hops"] for record in records(run).values()}
    made = [read_json_lines(path) for path in (run / "rings").glob("*/log.jsonl")]
    assert [sum(event["event"] == "done" for event in log) for log in made] == [1] * len(used)
    assert not list(run.glob(".*")) + list(run.glob("trials/*/checkpoints"))


@pytest.mark.slow
def test_a_killed_search_goes_on_where_it_was(two, tmp_path):
    run, config = tmp_path / "run", on(two, epochs=30)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config.dump()))
    command = ["tune", "--config", "config.yaml", "--space", space_file(tmp_path), "--run", run, "--trials", "3"]
    driver = subprocess.Popen(
        [sys.executable, "-m", "gscl_scale", *command],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(
            lambda: (
                any(record["ended"] for record in records(run).values())
                and [name for name, each in records(run).items() if not each["ended"] and checkpointed(run, name)]
            ),
            120,
        )
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    before = {name: record for name, record in records(run).items() if record["ended"]}
    broken = [name for name, record in records(run).items() if not record["ended"] and checkpointed(run, name)]
    assert before
    assert broken

    ended = search(config, run, 3)
    assert [trial.number for trial in ended] == [1, 2, 3]
    after = records(run)
    assert {name: after[name] for name in before} == before
    for name in before:
        assert len(events(run, name, "started")) == 1
    for name in broken:
        assert len(events(run, name, "started")) == 2
        assert events(run, name, "resumed")

    assert search(config, run, 2) == ended


@pytest.mark.slow
def test_trials_that_fail_do_not_end_the_search_and_all_failed_is_a_failure(two, tmp_path):
    space = {"train.learning_rate": [1e30, 1e31]}
    with pytest.raises(RunError, match=r"all of 2 trials failed, the first because .*the loss is nan"):
        search(on(two), tmp_path / "run", 2, space=space)
    assert [record["ended"] for record in records(tmp_path / "run").values()] == ["failed"] * 2
    assert "| failed | " in (tmp_path / "run/leaderboard.md").read_text()


@pytest.mark.slow
def test_a_trial_whose_process_is_killed_goes_on_at_its_last_checkpoint(two, tmp_path):
    run, config = tmp_path / "run", on(two, epochs=30, max_failures=1)

    def kill():
        wait_until(lambda: [name for name in records(run) if checkpointed(run, name)])
        for machine in two.alive:
            for pid in machine.running("ImplicitFunc"):
                os.kill(pid, signal.SIGKILL)

    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill)
        (ended,) = search(config, run, 1)
        killed.result()
    assert ended.ended == "finished"
    assert events(run, "001", "resumed")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "raised", "words"),
    [
        (signal.SIGTERM, StoppedError, r"finished trials are kept, the same command resumes it"),
        (signal.SIGINT, KeyboardInterrupt, r"^$"),
    ],
)
def test_a_search_that_is_stopped_leaves_what_runs_for_another_time(two, tmp_path, capfd, told, raised, words):
    run = tmp_path / "run"

    def ask():
        wait_until(lambda: [name for name in records(run) if checkpointed(run, name)])
        os.kill(os.getpid(), told)

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        with pytest.raises(raised, match=words):
            search(on(two, epochs=100000), run, 2)
        asked.result()
    assert not [thread for thread in threading.enumerate() if thread.name == "fit"]
    assert capfd.readouterr() == ("", "")
    left = records(run)
    assert {record["ended"] for record in left.values()} == {""}
    assert [name for name in left if checkpointed(run, name)]
    assert not list(run.glob(".search-*"))
    wait_until(lambda: not any(machine.running("ImplicitFunc") for machine in two.alive))


@pytest.mark.slow
def test_a_search_ends_when_its_time_is_up(two, tmp_path):
    with pytest.raises(RunError, match=r"no trial has finished; run the same command again with more --minutes"):
        search(on(two, epochs=100000), tmp_path / "run", 2, 0.05)


def checkpointed(run, name):
    return (run / "trials" / name / "checkpoints" / "manifest.json").exists()


def events(run, name, event):
    log = read_json_lines(run / "trials" / name / "log.jsonl")
    return [line for line in log if line["stage"] == "train" and line["event"] == event]


def test_methods_are_compared_with_the_best_of_as_many_trials_each_and_not_searched_again(two, tmp_path):
    config, folder = on(two, epochs=2), tmp_path / "study"
    budget = Budget(2, space_file(tmp_path, {**SPACE, "loss.ranking": ["listwise", "pairwise"]}))
    names = ["dgi", "gscl-pairwise", "spectral"]
    result = compare(config, folder, names, Console(quiet=True), budget)
    rows = {row["method"]: row for row in result["methods"]}
    for name, searched in (("dgi", {"model.width", "train.learning_rate"}), ("gscl-pairwise", set(SPACE))):
        trials = records(folder / "searches" / name)
        assert sorted(trials) == ["001", "002"]
        assert all(set(trial["settings"]) == searched for trial in trials.values())
        winner = yaml.safe_load((folder / "searches" / name / "best.yaml").read_text())
        ran = read_json(next((folder / "compare" / name).glob("*/run.json")))["config"]
        assert {key: _of(ran, key) for key in searched} == {key: _of(winner, key) for key in searched}
        assert _of(ran, "evaluate.tuned_on") == result["config"]["evaluate"]["tuned_on"] != []
        assert rows[name]["settings"].get("model.width", 16) == winner["model"]["width"]
    assert not (folder / "searches/spectral").exists()
    assert result["trials"] == 2
    assert "the best of 2 trials" in (folder / "compare.md").read_text()

    files = [*(folder / "searches").rglob("trial.json"), *(folder / "compare").rglob("metrics.json")]
    written = {path: path.stat().st_mtime_ns for path in files}
    assert compare(config, folder, ["dgi"], Console(quiet=True), budget)["methods"] == result["methods"]
    assert {path: path.stat().st_mtime_ns for path in files} == written


def test_a_method_whose_trials_all_fail_has_the_reason_in_its_row(two, tmp_path):
    budget = Budget(1, space_file(tmp_path, {"train.learning_rate": [1e30]}))
    result = compare(on(two, epochs=2), tmp_path / "study", ["dgi", "spectral"], Console(quiet=True), budget)
    (failed,) = [row for row in result["methods"] if row["method"] == "dgi"]
    assert "all of 1 trials failed" in failed["error"]
    assert "test_mean" in next(row for row in result["methods"] if row["method"] == "spectral")


def _of(config, key):
    section, _, name = key.partition(".")
    return config[section][name]
