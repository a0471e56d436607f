import pytest

from gscl_scale.bench import changes
from gscl_scale.config.config import Config
from gscl_scale.errors import RunError
from tests.bench.conftest import quiet_bench, written_by

CONFIG = Config.parse(
    {
        "graph": {"source": "synthetic", "preset": "small", "num_features": 1},
        "rings": {"hops": 2, "width": 16, "per_ring": 4, "beyond": 8, "part_anchors": 500},
    }
)


@pytest.mark.slow
def test_both_ways_are_timed_with_both_engines_and_end_with_the_same_bytes(tmp_path):
    bench = quiet_bench("changes", tmp_path, config=CONFIG, share=[0.01], turns=1)
    page = changes.bench_changes(bench)
    rows = written_by(bench, page)["rows"]
    assert "(1.000%) | sketch |" in page
    assert [row["engine"] for row in rows] == ["sketch", "exact"]
    for row in rows:
        assert 0 < row["anchors_again"] < row["anchors"] == 3000
        assert row["ratio"] == pytest.approx(row["from_nothing_s"] / row["since_s"])


def test_a_difference_ends_the_measurement(tmp_path):
    for name, text in (("one", "a"), ("other", "b")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(text)
    with pytest.raises(RunError, match="file differs from the one made from nothing"):
        changes._check_same_bytes(tmp_path / "one", tmp_path / "other")
