import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gscl_scale.bench import neighbors
from gscl_scale.cli.bench import bench
from gscl_scale.runtime.console import Console
from tests.neighbors.folders import drawn, write_folder


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("neighbors")
    write_folder(folder / "own", drawn(2500, 16), ids=np.arange(2500))
    asked = neighbors.NeighborsBench([3000], [folder / "own"], width=8)
    page = neighbors.bench_neighbors(asked, folder / "out", folder / "keep", Console(quiet=True))
    return folder, json.loads((folder / "out/neighbors.json").read_text()), page


def test_both_ways_to_search_have_their_figures(measured):
    _, written, _ = measured
    figures = {(row["nodes"], row["competitor"], row["figure"]): row["value"] for row in written["rows"]}
    for nodes in (2500, 3000):
        assert figures[nodes, "exact", "recall"] == 1
        assert 0.9 < figures[nodes, "index", "recall"] <= 1
        assert figures[nodes, "index", "lists searched"] <= figures[nodes, "index", "lists"]
        for way in ("exact", "index"):
            assert figures[nodes, way, "queries per second"] > 0
    assert figures[3000, "index", "index file"] > 3000 * 8 * 4


def test_the_page_is_written_and_scratch_is_gone(measured):
    folder, _, page = measured
    assert (folder / "out/neighbors.md").read_text().strip() == page
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["neighbors.json", "neighbors.md"]
    assert {path.name for path in (folder / "keep").iterdir()} == {"rows-3000-width-8"}


def test_what_is_drawn_lies_in_communities(tmp_path):
    neighbors.draw_embeddings(tmp_path, 4000, 64)
    vectors = neighbors.Embeddings(tmp_path).take(np.arange(4000))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = np.sort(unit[:200] @ unit.T, axis=1)
    assert nearest[:, -2].mean() > 0.6  # of vectors without communities it is 0.45
    assert abs(nearest.mean()) < 0.1


def test_the_command_and_its_flags(monkeypatch):
    found = []
    monkeypatch.setattr(neighbors, "bench_neighbors", lambda *arguments: found.append(arguments) or "the page")
    call = ["neighbors", "--embeddings", "run/embeddings", "--width", "64", "--keep", "kept"]
    assert "the page" in CliRunner().invoke(bench, call, catch_exceptions=False).output
    asked, _, keep, _ = found[0]
    command = "gscl-scale bench neighbors --embeddings run/embeddings --width 64"
    assert asked == neighbors.NeighborsBench([], [Path("run/embeddings")], 64, command)
    assert keep == Path("kept")
    shown = CliRunner().invoke(bench, ["neighbors", "--help"], env={"COLUMNS": "200"}).output
    assert set(re.findall(r"--[a-z-]+", shown)) == {"--rows", "--embeddings", "--width", "--out", "--keep", "--help"}
