"""Benches of tests."""

import json
import pickle
import re

import pytest
from typer.testing import CliRunner

from gscl_scale.bench import options
from gscl_scale.cli.bench import bench
from gscl_scale.runtime.console import Console

TINY = ["graph.source=synthetic", "graph.preset=tiny", "rings.width=16", "rings.per_ring=4", "rings.beyond=8"]


def quiet_bench(name, folder, **settings):
    kind = getattr(options, name.capitalize())
    return kind(command=f"gscl-scale bench {name}", out=folder, console=Console(quiet=True), **settings)


@pytest.fixture(scope="module")
def in_this_process():
    """What a bench runs alone runs here: a process of its own takes seconds to import and to load the kernels.

    Function, arguments and result go through pickle, as they do between processes.
    """

    def run(cores, function, *arguments):
        assert cores
        function, arguments = pickle.loads(pickle.dumps((function, arguments)))
        return pickle.loads(pickle.dumps(function(*arguments)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gscl_scale.bench.harness.in_process", run)
        yield


def written_by(bench, page):
    """What NAME.json holds; NAME.md must hold the page, and nothing else may be left in the folder."""
    assert (bench.out / f"{bench.name}.md").read_text() == page + "\n"
    assert sorted(path.name for path in bench.out.iterdir()) == [f"{bench.name}.json", f"{bench.name}.md"]
    assert f"`{bench.command}` makes this " in page
    return json.loads((bench.out / f"{bench.name}.json").read_text())


def figures_of(rows, **what):
    """Figure -> value of the rows that are about this."""
    return {row["figure"]: row["value"] for row in rows if all(row[key] == value for key, value in what.items())}


@pytest.fixture
def asked(monkeypatch):
    """Call `bench NAME ...`: the bench that is asked for, in place of measuring it."""

    def call(name, *arguments):
        found = []
        with monkeypatch.context() as patch:
            patch.setattr(f"gscl_scale.bench.{name}.bench_{name}", lambda given: found.append(given) or "the page")
            assert "the page" in CliRunner().invoke(bench, [name, *arguments], catch_exceptions=False).output
        return found[0]

    return call


def flags_of(*command):
    shown = CliRunner().invoke(bench, [*command, "--help"], env={"COLUMNS": "200"}, catch_exceptions=False).output
    return set(re.findall(r"--[a-z-]+", shown)) - {"--help"}
