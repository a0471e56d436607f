"""`bench report` opens real pages and measures them."""

import pytest

from gscl_scale.bench.browser import CHROMIUM
from gscl_scale.bench.report import bench_report
from gscl_scale.errors import FolderError
from tests.bench.conftest import quiet_bench, written_by
from tests.report.made import clustered, graph_of, page_of
from tests.report.test_report import CURVE, metrics, statistics


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium, chromium-browser or google-chrome")
def test_a_page_is_opened_clicked_and_zoomed(tmp_path):
    vectors, _ = clustered(60, 3)
    graph = graph_of(tmp_path / "run/graph", [f"node-{number}" for number in range(60)], None)
    page_of(
        tmp_path / "run/report.html", graph, vectors,
        {"metrics": metrics(), "statistics": statistics(), "curve": CURVE},
    )  # fmt: skip
    bench = quiet_bench("report", tmp_path / "out", turns=2, runs=[tmp_path / "run"])
    (row,) = written_by(bench, bench_report(bench))["rows"]
    assert (row["run"], row["nodes"], row["dots"], row["complaints"]) == ("run", 60, 60, 0)
    assert row["bytes"] == (tmp_path / "run/report.html").stat().st_size
    assert 0 < row["open_seconds"] <= row["slowest_seconds"]
    assert min(row["click_seconds"], row["zoom_seconds"]) > 0


def test_a_run_without_a_page_is_refused(tmp_path):
    with pytest.raises(FolderError, match=r"report\.html does not exist; run gscl-scale report first"):
        bench_report(quiet_bench("report", tmp_path / "out", runs=[tmp_path]))
