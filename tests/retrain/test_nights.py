"""Nights on a graph that changes, one after the other."""

import json
import re
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from gscl_scale.config.config import Config
from gscl_scale.embed.store import read_embeddings
from gscl_scale.errors import RunError, StoppedError
from gscl_scale.io.json import read_json_lines
from gscl_scale.registry.promote import pin, promote, rollback, unpin
from gscl_scale.registry.versions import Registry
from gscl_scale.retrain.night import Outcome, retrain
from gscl_scale.retrain.notify import nightly
from gscl_scale.runtime.console import Console
from tests.commands import cli
from tests.retrain.test_columns import OPEN
from tests.retrain.town import Town
from tests.slow import slow

pytestmark = pytest.mark.usefixtures("blank_curves")

QUIET = Console(quiet=True)


@pytest.fixture
def town(tmp_path):
    return Town(tmp_path / "town")


@pytest.fixture
def where(tmp_path):
    return tmp_path / "registry"


def embeddings_of(registry):
    return (registry.current() / "embeddings/embeddings.parquet").read_bytes()


@pytest.mark.parametrize("place", ["s3"], indirect=True)
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
    assert "validation score of the probe is" in fourth.reason
    assert embeddings_of(registry) == kept

    again = retrain(config, place, QUIET)
    assert (again.result, again.version, again.reason) == ("refused", fourth.version, fourth.reason)

    town.labels = town.community.copy()
    town.garble_features()
    fifth = retrain(config, place, QUIET)
    assert (fifth.result, fifth.current) == ("refused", third.version)
    assert "ring-ranking accuracy is" in fifth.reason
    assert embeddings_of(registry) == kept

    assert rollback(registry).current == first.version
    assert embeddings_of(registry) == before
    assert promote(registry, third.version).current == third.version
    assert embeddings_of(registry) == kept
    assert not list((registry.place / "work").iterdir())


def test_a_night_from_fresh_weights_is_turned_into_the_space_of_the_current_version(town, where):
    registry, tolerant = Registry(where), {"probe_fall": 0.1}
    config = town.config(retrain={"start": "fresh"}, train={"seed": 5}, gate=tolerant)
    retrain(town.config(), where, QUIET)
    before = read_embeddings(registry.current() / "embeddings")
    outcome = retrain(config, where, QUIET)
    assert outcome.result == "promoted", outcome.reason
    after = read_embeddings(registry.current() / "embeddings")
    assert before[0].equals(after[0])
    assert mean_cosine(before[1], after[1]) > 0.9
    plain = town.config(retrain={"start": "fresh", "rotate": False}, train={"seed": 6}, gate=tolerant)
    assert retrain(plain, where, QUIET).result == "promoted"
    assert abs(mean_cosine(before[1], read_embeddings(registry.current() / "embeddings")[1])) < 0.5


def mean_cosine(one, other):
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return float(((one * other).sum(axis=1) / norms).mean())


@pytest.mark.slow
def test_warm_and_fresh_starts_follow_the_policy(town, where):
    registry = Registry(where)
    config = town.config(retrain={"fresh_every": 2, "epochs": 3})
    warm = []
    for _ in range(4):
        outcome = retrain(config, where, QUIET)
        index = registry.version(outcome.version).index
        run = registry.folder(outcome.version)
        epochs = {line["epoch"] for line in read_json_lines(run / "log.jsonl") if line["event"] == "step"}
        warm.append((index["warm"], len(epochs), (run / "start.pt").exists()))
        town.grow()
    assert warm == [(0, 12, False), (1, 3, True), (2, 3, True), (0, 12, False)]


@pytest.mark.parametrize("other", ["more", *slow("moved", "weighted")])
def test_a_graph_with_other_features_or_edges_with_weights_starts_from_fresh_weights(town, where, other):
    registry, config = Registry(where), town.config(retrain={"epochs": 3})
    retrain(config, where, QUIET)
    if other == "more":
        town.features = np.concatenate([town.features, town.features[:, :2]], axis=1)
    town.write()
    if other == "moved":
        table = pq.read_table(town.folder / "nodes.parquet")
        pq.write_table(table.select(table.column_names[::-1]), town.folder / "nodes.parquet")
    if other == "weighted":
        table = pq.read_table(town.folder / "edges.parquet")
        pq.write_table(table.append_column("kg", [[0.5] * len(table)]), town.folder / "edges.parquet")
        graph = config.graph.model_copy(update={"weight_column": "kg"})
        config = config.model_copy(update={"graph": graph})
    outcome = retrain(config, where, QUIET)
    assert outcome.result == "promoted", outcome.reason
    assert registry.version(outcome.version).index["warm"] == 0


def test_a_graph_that_went_back_makes_its_version_current_again_unless_that_was_rolled_back(town, where):
    registry, config = Registry(where), town.config()
    first = retrain(config, where, QUIET)
    saved = {path: path.read_bytes() for path in town.folder.iterdir()}
    town.grow()
    second = retrain(config, where, QUIET)
    assert second.current == second.version != first.version
    for path, content in saved.items():
        path.write_bytes(content)
    outcome = retrain(config, where, QUIET)
    assert (outcome.result, outcome.current, outcome.changes) == ("promoted", first.version, {})
    assert registry.ledger.newest().promoted[-1] == first.version
    rollback(registry)
    outcome = retrain(config, where, QUIET)
    assert (outcome.result, outcome.version, outcome.current) == ("refused", first.version, second.version)
    assert outcome.reason == "it was rolled back by hand"


def test_a_rollback_while_a_night_runs_is_not_undone_and_a_pin_makes_candidates(town, where, monkeypatch):
    registry, config = Registry(where), town.config(train={"epochs": 2}, gate=OPEN)
    monkeypatch.setattr("gscl_scale.retrain.night.report", lambda *_: None)  # the map takes most of such a night
    first = retrain(config, where, QUIET)
    town.grow()
    second = retrain(config, where, QUIET)
    town.grow()
    with monkeypatch.context() as patch:
        patch.setattr("gscl_scale.retrain.night.report", lambda *_: rollback(registry))
        third = retrain(config, where, QUIET)
    assert (third.result, third.current) == ("candidate", first.version)
    because = f"because {first.version} became current in place of {second.version} while this night ran"
    assert f"is stored as a candidate; {first.version} stays current, {because}. To promote it" in third.sentence()

    pin(registry, first.version)
    fourth = retrain(config, where, QUIET)  # the same graph: compared with the version that is current now
    assert (fourth.result, fourth.current) == ("candidate", first.version)
    assert registry.version(fourth.version).index["base"] == first.version
    again = retrain(config, where, QUIET)
    assert (again.result, again.version) == ("unchanged", fourth.version)
    assert again.sentence().endswith(f"{first.version} stays current, because {first.version} is pinned")

    unpin(registry)
    fifth = retrain(config, where, QUIET)
    assert (fifth.result, fifth.current) == ("promoted", fourth.version)
    assert registry.ledger.newest().candidates == (third.version,)


@pytest.mark.slow
def test_only_so_many_versions_are_kept(town, where):
    registry, config = Registry(where), town.config(retrain={"keep": 2, "epochs": 2})
    made = []
    for _ in range(4):
        made.append(retrain(config, where, QUIET).current)
        town.grow()
    state = registry.ledger.newest()
    assert state.promoted == tuple(made[-2:])
    assert sorted(path.name for path in (where / "versions").iterdir()) == made[-2:]


@pytest.mark.slow
def test_a_night_after_going_back_to_a_version_without_samples_and_checkpoints(town, where, capsys):
    registry, config = Registry(where), town.config(train={"epochs": 2}, gate=OPEN, retrain={"keep_complete": 1})
    first = retrain(config, where, QUIET)
    town.grow()
    second = retrain(config, where, QUIET)
    assert not (where / "versions" / first.version / "samples").exists()
    assert (where / "versions" / second.version / "samples").exists()
    rollback(registry)
    town.grow()
    third = retrain(config, where, Console())
    assert "has no samples and checkpoints any more (retrain.keep_complete)" in capsys.readouterr().err
    assert (third.result, third.changes["sampled_again"]) == ("promoted", 1.0)
    assert registry.version(third.version).index["warm"] == 0


# --- reports -------------------------------------------------------------------------------------------------------


def test_prometheus_and_a_command_are_told_how_a_night_ended(town, where, tmp_path, monkeypatch):
    told = tmp_path / "told.json"
    command = [sys.executable, "-c", f"import sys; open({str(told)!r}, 'w').write(sys.stdin.read())"]
    config = town.config(retrain={"metrics": str(tmp_path / "retrain.prom"), "notify": command})
    nightly(config, str(where), QUIET)
    assert json.loads(told.read_text())["result"] == "promoted"
    figures = metrics_in(tmp_path / "retrain.prom")
    assert figures["result", "promoted"] == figures["version", ""] == figures["version_passed", "v000001"] == 1
    success = figures["last_success_timestamp_seconds", ""]

    town.garble_labels()
    nightly(config, str(where), QUIET)
    assert json.loads(told.read_text())["result"] == "refused"
    figures = metrics_in(tmp_path / "retrain.prom")
    assert figures["result", "refused"] == 1
    assert figures["holds", "validation score of the probe"] == figures["version_passed", "v000002"] == 0
    rows = Registry(where).version("v000002").index["history"]
    assert (rows[0]["version"], rows[0]["refused_by"]) == ("v000001", [])
    assert "validation score of the probe" in rows[1]["refused_by"]
    for row in rows:
        shown = f'version="{row["version"]}",figure="probe"}} {row["figures"]["probe"]!r}'
        assert (
            f'gscl_scale_retrain_version_figure{{registry="{where}",{shown}\n'
            in (tmp_path / "retrain.prom").read_text()
        )
    page = (where / "versions/v000002/report.html").read_text()
    assert "How does it change from version to version?" in page
    assert "refused by validation score of the probe" in page
    assert figures["last_success_timestamp_seconds", ""] == success
    assert figures["last_run_timestamp_seconds", ""] > success

    with pytest.raises(RunError, match=r"takes .* GB, retrain\.disk_gb allows 1e-06; allow more"):
        nightly(town.config(retrain={**config.retrain.model_dump(), "disk_gb": 1e-6}), str(where), QUIET)
    assert Registry(where).ledger.newest().token == 2  # refused before the work
    assert json.loads(told.read_text())["result"] == "failed"
    assert metrics_in(tmp_path / "retrain.prom")["result", "failed"] == 1

    told.unlink()
    monkeypatch.setattr("gscl_scale.retrain.notify.retrain", lambda *_: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(MemoryError):
        nightly(config, str(where), QUIET)
    assert json.loads(told.read_text())["reason"] == "MemoryError"


def metrics_in(path):
    pattern = re.compile(r'gscl_scale_retrain_(\w+)\{registry="[^"]*"(?:,\w+="([^"]*)")?\} (.*)')
    found = (pattern.fullmatch(line) for line in path.read_text().splitlines() if not line.startswith("#"))
    return {(one[1], one[2] or ""): float(one[3]) for one in found if one}  # those of each version have two labels


def test_a_command_that_fails_changes_nothing(monkeypatch, capfd):
    script = "import sys; sys.stdout.buffer.write(bytes([255])); sys.exit('nobody listens')"
    config = Config.parse({"retrain": {"notify": [sys.executable, "-c", script]}})
    outcome = Outcome("registry", "promoted")
    monkeypatch.setattr("gscl_scale.retrain.notify.retrain", lambda *_: outcome)
    assert nightly(config, "registry", Console()) == outcome
    says = f"retrain.notify: {sys.executable} failed, it ended with 1: nobody listens"
    assert says in capfd.readouterr().err


@pytest.mark.slow
def test_a_night_whose_time_is_over_gives_the_lease_back_and_is_gone_on_with(town, where):
    long = town.config(train={"epochs": 100_000}, retrain={"minutes": 0.05})
    with pytest.raises(StoppedError, match="has saved step"):
        retrain(long, where, QUIET)
    registry = Registry(where)
    assert registry.ledger.newest().holder == ""
    with pytest.raises(StoppedError):
        retrain(long, where, QUIET)
    (work,) = (where / "work").iterdir()
    log = read_json_lines(work / "log.jsonl")
    assert [line["event"] for line in log if line["stage"] == "ingest"] == ["started", "done"]
    assert [line for line in log if line["event"] == "resumed" and line["stage"] == "train"]


@pytest.mark.parametrize("config", [None, "train: {epochs: 1}", "graph: {name: mine}"])
def test_a_night_without_a_graph_is_refused_and_never_takes_the_demo(tmp_path, config):
    if config:
        (tmp_path / "mine.yaml").write_text(config)
    done = cli("retrain", *(["--config", "mine.yaml"] if config else []), "--registry", "registry", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("gscl-scale: no graph is named: ")
    assert done.stderr.endswith("then type gscl-scale retrain --config mine.yaml --registry registry\n")
    assert not (tmp_path / "registry").exists()
