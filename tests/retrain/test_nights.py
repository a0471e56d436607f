"""Nights on a graph that changes, one after the other."""

import json
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from gscl_scale.embed.store import read_embeddings
from gscl_scale.errors import RunError, StoppedError
from gscl_scale.io.json import read_json_lines
from gscl_scale.registry.promote import promote, rollback
from gscl_scale.registry.versions import Registry
from gscl_scale.retrain.night import retrain
from gscl_scale.retrain.notify import nightly
from gscl_scale.runtime.console import Console
from tests.retrain.town import Town

QUIET = Console(quiet=True)


@pytest.fixture
def town(tmp_path):
    return Town(tmp_path / "town")


def embeddings_of(registry):
    return (registry.current() / "embeddings/embeddings.parquet").read_bytes()


def test_five_nights(town, place):
    registry, config = Registry(place), town.config()
    first = retrain(config, place, QUIET)
    assert (first.result, first.current) == ("promoted", first.version)
    before = embeddings_of(registry)

    second = retrain(config, place, QUIET)
    assert (second.result, second.version, second.changes) == ("unchanged", first.version, {})
    assert embeddings_of(registry) == before

    town.grow()
    third = retrain(config, place, QUIET)
    assert (third.result, third.current) == ("promoted", third.version), third.reason
    assert third.changes["nodes_come"] == 5
    assert 0 < third.changes["sampled_again"] < 0.5
    assert len(read_embeddings(registry.current() / "embeddings")[0]) == len(town.names)
    assert [check["name"] for check in third.checks].count("ring-ranking accuracy") == 2

    kept = embeddings_of(registry)
    town.garble_labels()
    fourth = retrain(config, place, QUIET)
    assert (fourth.result, fourth.current) == ("refused", third.version)
    assert "validation accuracy of the probe is" in fourth.reason
    assert embeddings_of(registry) == kept

    again = retrain(config, place, QUIET)
    assert (again.result, again.version, again.reason) == ("refused", fourth.version, fourth.reason)

    town.labels = town.community.copy()
    town.garble_features()
    fifth = retrain(config, place, QUIET)
    assert (fifth.result, fifth.current) == ("refused", third.version)
    assert "ring-ranking accuracy is" in fifth.reason
    assert embeddings_of(registry) == kept

    assert rollback(registry, 2.0, QUIET).current == first.version
    assert embeddings_of(registry) == before
    assert promote(registry, third.version, 2.0, QUIET).current == third.version
    assert embeddings_of(registry) == kept
    assert not list((registry.place / "work").iterdir())


def test_a_night_from_fresh_weights_is_turned_into_the_space_of_the_current_version(town, tmp_path):
    registry, tolerant = Registry(tmp_path / "registry"), {"probe_fall": 0.1}
    config = town.config(retrain={"start": "fresh"}, train={"seed": 5}, gate=tolerant)
    retrain(town.config(), tmp_path / "registry", QUIET)
    before = read_embeddings(registry.current() / "embeddings")
    outcome = retrain(config, tmp_path / "registry", QUIET)
    assert outcome.result == "promoted", outcome.reason
    after = read_embeddings(registry.current() / "embeddings")
    assert before[0].equals(after[0])
    assert mean_cosine(before[1], after[1]) > 0.9
    plain = town.config(retrain={"start": "fresh", "rotate": False}, train={"seed": 6}, gate=tolerant)
    assert retrain(plain, tmp_path / "registry", QUIET).result == "promoted"
    assert abs(mean_cosine(before[1], read_embeddings(registry.current() / "embeddings")[1])) < 0.5


def mean_cosine(one, other):
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return float(((one * other).sum(axis=1) / norms).mean())


@pytest.mark.slow
def test_warm_and_fresh_starts_follow_the_policy(town, tmp_path):
    registry = Registry(tmp_path / "registry")
    config = town.config(retrain={"fresh_every": 2, "epochs": 3})
    warm = []
    for _ in range(4):
        outcome = retrain(config, tmp_path / "registry", QUIET)
        index = registry.version(outcome.version).index
        run = registry.folder(outcome.version)
        epochs = {line["epoch"] for line in read_json_lines(run / "log.jsonl") if line["event"] == "step"}
        warm.append((index["warm"], len(epochs), (run / "start.pt").exists()))
        town.grow()
    assert warm == [(0, 12, False), (1, 3, True), (2, 3, True), (0, 12, False)]


@pytest.mark.parametrize("other", ["more", "moved"])
def test_a_graph_with_other_features_starts_from_fresh_weights(town, tmp_path, other):
    registry, config = Registry(tmp_path / "registry"), town.config(retrain={"epochs": 3})
    retrain(config, tmp_path / "registry", QUIET)
    if other == "more":
        town.features = np.concatenate([town.features, town.features[:, :2]], axis=1)
    town.write()
    if other == "moved":
        table = pq.read_table(town.folder / "nodes.parquet")
        pq.write_table(table.select(table.column_names[::-1]), town.folder / "nodes.parquet")
    outcome = retrain(config, tmp_path / "registry", QUIET)
    assert outcome.result == "promoted", outcome.reason
    assert registry.version(outcome.version).index["warm"] == 0


def test_a_graph_that_went_back_makes_its_version_current_again(town, tmp_path):
    registry, config = Registry(tmp_path / "registry"), town.config()
    first = retrain(config, tmp_path / "registry", QUIET)
    saved = {path: path.read_bytes() for path in town.folder.iterdir()}
    town.grow()
    assert retrain(config, tmp_path / "registry", QUIET).current != first.version
    for path, content in saved.items():
        path.write_bytes(content)
    outcome = retrain(config, tmp_path / "registry", QUIET)
    assert (outcome.result, outcome.current, outcome.changes) == ("promoted", first.version, {})
    assert registry.ledger.newest().promoted[-1] == first.version


def test_what_was_rolled_back_is_not_promoted_again_by_the_next_night(town, tmp_path):
    registry, config = Registry(tmp_path / "registry"), town.config()
    first = retrain(config, tmp_path / "registry", QUIET)
    town.grow()
    left = retrain(config, tmp_path / "registry", QUIET).version
    rollback(registry, 2.0, QUIET)
    outcome = retrain(config, tmp_path / "registry", QUIET)
    assert (outcome.result, outcome.version, outcome.current) == ("refused", left, first.version)
    assert "rolled back by hand" in outcome.reason


@pytest.mark.slow
def test_only_so_many_versions_are_kept(town, tmp_path):
    registry, config = Registry(tmp_path / "registry"), town.config(retrain={"keep": 2, "epochs": 2})
    made = []
    for _ in range(4):
        made.append(retrain(config, tmp_path / "registry", QUIET).current)
        town.grow()
    state = registry.ledger.newest()
    assert state.promoted == tuple(made[-2:])
    assert sorted(path.name for path in (tmp_path / "registry/versions").iterdir()) == made[-2:]


def test_a_registry_that_takes_too_much_disk_is_refused_before_the_work(town, tmp_path):
    retrain(town.config(), tmp_path / "registry", QUIET)
    town.grow()
    with pytest.raises(RunError, match=r"takes .* GB, retrain\.disk_gb allows 0\.0001; allow more"):
        retrain(town.config(retrain={"disk_gb": 0.0001}), tmp_path / "registry", QUIET)
    assert Registry(tmp_path / "registry").ledger.newest().token == 1


# --- who is told -----------------------------------------------------------------------------------------------------


def test_prometheus_and_a_command_are_told_how_a_night_ended(town, tmp_path, monkeypatch):
    told = tmp_path / "told.json"
    command = [sys.executable, "-c", f"import sys; open({str(told)!r}, 'w').write(sys.stdin.read())"]
    config = town.config(retrain={"metrics": str(tmp_path / "retrain.prom"), "notify": command})
    nightly(config, str(tmp_path / "registry"), QUIET)
    assert json.loads(told.read_text())["result"] == "promoted"
    figures = metrics_in(tmp_path / "retrain.prom")
    assert figures["result", "promoted"] == figures["version", ""] == 1
    success = figures["last_success_timestamp_seconds", ""]

    town.garble_labels()
    nightly(config, str(tmp_path / "registry"), QUIET)
    assert json.loads(told.read_text())["result"] == "refused"
    figures = metrics_in(tmp_path / "retrain.prom")
    assert figures["result", "refused"] == 1
    assert figures["holds", "validation accuracy of the probe"] == 0
    assert figures["last_success_timestamp_seconds", ""] == success
    assert figures["last_run_timestamp_seconds", ""] > success

    with pytest.raises(RunError):
        nightly(
            town.config(retrain={**config.retrain.model_dump(), "disk_gb": 1e-6}), str(tmp_path / "registry"), QUIET
        )
    assert json.loads(told.read_text())["result"] == "failed"
    assert metrics_in(tmp_path / "retrain.prom")["result", "failed"] == 1

    told.unlink()
    monkeypatch.setattr("gscl_scale.retrain.notify.retrain", lambda *_: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(MemoryError):
        nightly(config, str(tmp_path / "registry"), QUIET)
    assert json.loads(told.read_text())["reason"] == "MemoryError"


def metrics_in(path):
    figures = {}
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            name, _, rest = line.removeprefix("gscl_scale_retrain_").partition("{")
            labels, _, value = rest.rpartition("} ")
            label = json.loads(labels.rpartition("=")[2]) if "," in labels else ""
            figures[name, label] = float(value)
    return figures


def test_a_command_that_fails_changes_nothing(town, tmp_path, capfd):
    script = "import sys; sys.stdout.buffer.write(bytes([255])); sys.exit('nobody listens')"
    config = town.config(retrain={"notify": [sys.executable, "-c", script]})
    assert nightly(config, str(tmp_path / "registry"), Console()).result == "promoted"
    told = capfd.readouterr().err
    assert f"retrain.notify: {sys.executable} failed, it ended with 1: nobody listens" in told


def test_a_night_whose_time_is_over_gives_the_lease_back_and_is_gone_on_with(town, tmp_path):
    long = town.config(train={"epochs": 100_000}, retrain={"minutes": 0.05})
    with pytest.raises(StoppedError, match="has saved step"):
        retrain(long, tmp_path / "registry", QUIET)
    registry = Registry(tmp_path / "registry")
    assert registry.ledger.newest().holder == ""
    with pytest.raises(StoppedError):
        retrain(long, tmp_path / "registry", QUIET)
    (work,) = (tmp_path / "registry/work").iterdir()
    log = read_json_lines(work / "log.jsonl")
    assert [line["event"] for line in log if line["stage"] == "ingest"] == ["started", "done"]
    assert [line for line in log if line["event"] == "resumed" and line["stage"] == "train"]
