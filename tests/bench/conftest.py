"""Benches of tests."""

import json
import re

import pytest
from typer.testing import CliRunner

from gscl_scale.bench.harness import Bench
from gscl_scale.cli.bench import bench
from gscl_scale.runtime.console import Console

TINY = ["graph.source=synthetic", "graph.preset=tiny", "rings.width=16", "rings.per_ring=4", "rings.beyond=8"]


def quiet_bench(name, folder, **settings):
    return Bench(name, f"gscl-scale bench {name}", folder, console=Console(quiet=True), **settings)


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
    """Call `bench NAME ...`: what the function of the bench is asked for, in place of measuring it."""

    def call(name, *arguments):
        found = []
        with monkeypatch.context() as patch:
            patch.setattr(f"gscl_scale.bench.{name}.bench_{name}", lambda *given: found.append(given) or "the page")
            assert "the page" in CliRunner().invoke(bench, [name, *arguments], catch_exceptions=False).output
        return found[0]

    return call


def flags_of(*command):
    shown = CliRunner().invoke(bench, [*command, "--help"], env={"COLUMNS": "200"}, catch_exceptions=False).output
    return set(re.findall(r"--[a-z-]+", shown)) - {"--help"}
