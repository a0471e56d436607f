import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gscl_scale.bench import memory
from gscl_scale.cli.bench import bench
from gscl_scale.config.config import Config
from gscl_scale.runtime.console import Console

pytestmark = pytest.mark.slow

SETTINGS = [
    "graph.source=synthetic", "graph.preset=tiny", "rings.width=8", "rings.per_ring=4", "rings.beyond=8",
    "model.width=8", "model.projection=8", "model.propagation=sampled", "train.batch_size=100", "train.negatives=16",
]  # fmt: skip


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    asked = memory.MemoryBench(2, None, "the command")
    page = memory.bench_memory(Config.load(None, SETTINGS), asked, folder, None, Console(quiet=True))
    return folder, json.loads((folder / "memory.json").read_text()), page


def test_the_longer_training_has_ten_times_the_steps_and_fresh_rounds(measured):
    _, written, _ = measured
    short, long = written["rows"]
    assert (short["steps"], short["anchors"], short["rounds"]) == (2, 200, 1)
    assert (long["steps"], long["anchors"], long["rounds"]) == (20, 6 * 300 + 200, 7)  # 3 steps an epoch
    for held in (short, long):
        assert held["peak_bytes"] > held["allocated"] > 1 << 20
        assert held["anchors_per_s"] > 0
        assert 0 <= held["waiting"] <= 1


def test_the_page_is_written_and_scratch_is_gone(measured):
    folder, _, page = measured
    assert (folder / "memory.md").read_text().strip() == page
    assert "| 20 | 2,000 | 7 |" in page
    assert sorted(path.name for path in folder.iterdir()) == ["memory.json", "memory.md"]


def test_what_is_kept_is_used_again(tmp_path):
    for _ in range(2):
        asked = memory.MemoryBench(2, None, "the command")
        config = Config.load(None, [*SETTINGS, "rings.rounds=1"])
        memory.bench_memory(config, asked, tmp_path / "out", tmp_path / "kept", Console(quiet=True))
        stamp = (tmp_path / "kept/samples/manifest.json").stat().st_mtime_ns
    assert (tmp_path / "kept/samples/manifest.json").stat().st_mtime_ns == stamp
    assert not (tmp_path / "kept/checkpoints").exists()


def test_the_command_and_its_flags(monkeypatch):
    found = []
    monkeypatch.setattr(memory, "bench_memory", lambda *arguments: found.append(arguments) or "the page")
    call = ["memory", "--graph", "large/graph", "--set", "train.batch_size=64", "--steps", "4", "--keep", "kept"]
    result = CliRunner().invoke(bench, call, catch_exceptions=False)
    assert "the page" in result.output
    config, asked, _, keep, _ = found[0]
    assert config.train.batch_size == 64
    command = "gscl-scale bench memory --set train.batch_size=64 --graph large/graph --steps 4"
    assert asked == memory.MemoryBench(4, Path("large/graph"), command)
    assert keep == Path("kept")
    shown = CliRunner().invoke(bench, ["memory", "--help"], env={"COLUMNS": "200"}).output
    assert set(re.findall(r"--[a-z-]+", shown)) == {
        "--config", "--set", "--graph", "--steps", "--out", "--keep", "--help"
    }  # fmt: skip
