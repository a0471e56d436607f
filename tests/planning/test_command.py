"""The verb `plan` as it is typed."""

import json

import pytest

from gscl_scale.planning.rates import REFERENCE
from tests.commands import cli
from tests.test_cli import write_tables

SIZES = ["--nodes", "1e9", "--edges", "1e10", "--features", "128"]
STAGES = ["graph", "precompute", "train", "embed", "evaluate", "report"]


@pytest.fixture
def quick_rates(monkeypatch):
    monkeypatch.setattr("gscl_scale.planning.measure.measure_rates", lambda: REFERENCE)


@pytest.mark.slow
def test_a_plan_of_tables_measures_this_machine_and_leaves_nothing(tmp_path):
    write_tables(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    told = cli("plan", "--config", "quick.yaml", "--json", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    values = json.loads(told.stdout)
    assert [stage["stage"] for stage in values["stages"]] == STAGES
    assert values["rates"]["origin"].startswith("measured on one core of ")
    assert all(0 < rate < 0.1 for name, rate in values["rates"].items() if name != "origin")
    assert values["misfit"] is None
    assert sorted(tmp_path.rglob("*")) == before


def test_a_graph_that_is_not_there_is_planned_by_its_size(tmp_path, quick_rates):
    told = cli("plan", *SIZES, "--machines", "8", "--memory", "32", "--cores", "16", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "1,000,000,000 nodes, 10,000,000,000 edges, 128 features on 8 machines of 32.0 GiB, 16 cores" in told.stdout
    for stage in STAGES:
        assert f"│ {stage} " in told.stdout
    assert "Does not fit: precompute needs" in told.stdout
    assert f"Rates: {REFERENCE.origin}." in told.stdout


def test_a_finished_graph_is_planned_by_its_folder(tmp_path, quick_rates):
    write_tables(tmp_path)
    assert cli("ingest", "--config", "quick.yaml", cwd=tmp_path).returncode == 0
    (tmp_path / "edges.csv").unlink()
    told = cli("plan", "--run", "runs/quick", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "All stages fit." in told.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--nodes 1e9", "--nodes needs --edges, such as --nodes 1e9 --edges 1e10"),
        ("--edges 1e9", "--edges and --features need --nodes"),
        ("edges.csv --features 8", "--edges and --features need --nodes"),
        ("edges.csv --nodes 10 --edges 10", "edges.csv has a size of its own"),
        ("--nodes nan --edges 10", "--nodes: expected a number from 1 to 1e+15, got nan"),
        ("--nodes 10 --edges inf", "expected a number, at least 1, got 'inf'"),
        ("--nodes 10 --edges 1e16", "--edges: expected a number from 1 to 1e+15, got 1e+16"),
        ("--nodes 10 --edges 10 --memory 0", "expected a number, at least 0.1, got '0'"),
        ("--nodes 10 --edges 10 --set rings.hops=99", "rings.hops"),
        ("gone.csv", "gone.csv does not exist"),
        ("--run runs/gone", "runs/gone holds no run"),
        ("", "no graph is named"),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_sentence(tmp_path, words, sentence):
    told = cli("plan", *words.split(), cwd=tmp_path)
    assert told.returncode == 2
    assert sentence in told.stderr
    assert len(told.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())
