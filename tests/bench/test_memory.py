import pytest

from gscl_scale.bench.memory import bench_memory
from gscl_scale.config.config import Config
from tests.bench.conftest import TINY, quiet_bench, written_by

pytestmark = pytest.mark.slow

MODEL = ["model.width=8", "model.projection=8", "model.propagation=sampled", "train.batch_size=100"]
SETTINGS = [*TINY, *MODEL, "train.negatives=16"]


def test_the_longer_training_has_ten_times_the_steps_and_fresh_rounds(tmp_path):
    bench = quiet_bench("memory", tmp_path, config=Config.load(None, SETTINGS), steps=2)
    page = bench_memory(bench)
    short, long = written_by(bench, page)["rows"]
    assert "| 20 | 2,000 | 7 |" in page
    assert (short["steps"], short["anchors"], short["rounds"]) == (2, 200, 1)
    assert (long["steps"], long["anchors"], long["rounds"]) == (20, 6 * 300 + 200, 7)  # 3 steps an epoch
    for row in (short, long):
        assert row["peak_bytes"] > row["allocated"] > 1 << 20
        assert row["anchors_per_s"] > 0
        assert 0 <= row["waiting"] <= 1


def test_a_folder_that_is_kept_is_used_again(tmp_path):
    stamps = set()
    for _ in range(2):
        config = Config.load(None, [*SETTINGS, "rings.rounds=1"])
        bench_memory(quiet_bench("memory", tmp_path / "out", keep=tmp_path / "kept", config=config, steps=2))
        stamps.add((tmp_path / "kept/samples/manifest.json").stat().st_mtime_ns)
    assert len(stamps) == 1
    assert not (tmp_path / "kept/checkpoints").exists()
