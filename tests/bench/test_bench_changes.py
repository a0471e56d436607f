import json

import pytest

from gscl_scale.bench import changes
from gscl_scale.bench.changes import bench_changes
from gscl_scale.config.config import Config
from gscl_scale.errors import RunError
from gscl_scale.runtime.console import Console

CONFIG = Config.parse(
    {
        "graph": {"source": "synthetic", "preset": "small", "num_features": 1},
        "rings": {"hops": 2, "width": 16, "per_ring": 4, "beyond": 8, "part_anchors": 500},
    }
)


def test_both_ways_are_timed_with_both_engines_and_end_with_the_same_bytes(tmp_path):
    page = bench_changes(CONFIG, [0.01], 1, "gscl-scale bench changes", tmp_path, Console(quiet=True))
    assert "| 150 (1.000%) | sketch |" in page or "(1.000%) | sketch |" in page
    rows = json.loads((tmp_path / "changes.json").read_text())["rows"]
    assert [row["engine"] for row in rows] == ["sketch", "exact"]
    for row in rows:
        assert 0 < row["anchors_again"] < row["anchors"] == 3000
        assert row["ratio"] == pytest.approx(row["from_nothing_s"] / row["since_s"])
    assert (tmp_path / "changes.md").read_text().strip() == page


def test_a_difference_ends_the_measurement(tmp_path):
    for name, text in (("one", "a"), ("other", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(text)
    with pytest.raises(RunError, match="file differs from the one made from nothing"):
        changes._check_same_bytes(tmp_path / "one", tmp_path / "other")
