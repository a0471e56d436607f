import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gscl_scale.bench import embed
from gscl_scale.cli.bench import bench
from gscl_scale.runtime.console import Console
from tests.graphs import make_graph, random_edges


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embed")
    make_graph(folder / "own", random_edges(5000, 20_000, seed=0), 5000)
    asked = embed.EmbedBench([20_000], [folder / "own"], ["gcn"], layers=2, width=16, memory_gb=0.5)
    page = embed.bench_embed(asked, folder / "out", folder / "keep", Console(quiet=True))
    return folder, json.loads((folder / "out/embed.json").read_text()), page


def test_every_graph_has_its_figures(measured):
    _, written, _ = measured
    own = {row["figure"]: row["value"] for row in written["rows"] if row["nodes"] == 5000}
    assert own.keys() == {
        "seconds", "file_seconds", "nodes_per_second", "edges_per_second", "peak_memory", "allocated", "memory_bound",
        "scratch", "file", "seconds of layer-0", "seconds of layer-1",
    }  # fmt: skip
    assert own["nodes_per_second"] == pytest.approx(5000 / own["seconds"])
    assert own["scratch"] == 2 * 5000 * 16 * 4
    assert own["memory_bound"] < 0.5 * 2**30
    assert {row["nodes"] for row in written["rows"]} == {2000, 5000}


def test_the_page_is_written_and_scratch_is_gone(measured):
    folder, _, page = measured
    assert (folder / "out/embed.md").read_text().strip() == page
    assert "| 5,000 |" in page
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["embed.json", "embed.md"]


def test_the_command_and_its_flags(monkeypatch):
    found = []
    monkeypatch.setattr(embed, "bench_embed", lambda *arguments: found.append(arguments) or "the page")
    call = ["embed", "--graph", "large/graph", "--encoder", "gat", "--width", "64", "--keep", "kept"]
    result = CliRunner().invoke(bench, call, catch_exceptions=False)
    assert "the page" in result.output
    asked, _, keep, _ = found[0]
    command = "gscl-scale bench embed --graph large/graph --encoder gat --width 64"
    assert asked == embed.EmbedBench([], [Path("large/graph")], ["gat"], 2, 64, 4.0, 1, command)
    assert keep == Path("kept")
    shown = CliRunner().invoke(bench, ["embed", "--help"], env={"COLUMNS": "200"}).output
    assert set(re.findall(r"--[a-z-]+", shown)) == {
        "--edges", "--graph", "--encoder", "--layers", "--width", "--memory-gb", "--turns", "--out", "--keep", "--help"
    }  # fmt: skip
