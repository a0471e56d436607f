"""`bench report` opens pages for real, and tells what is in them."""

import json

import pytest

from gscl_scale.bench.browser import CHROMIUM
from gscl_scale.bench.report import ReportBench, bench_report
from gscl_scale.errors import FolderError
from gscl_scale.runtime.console import Console
from tests.report.made import clustered, graph_of, page_of
from tests.report.test_report import CURVE, metrics, statistics

QUIET = Console(quiet=True)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium, chromium-browser or google-chrome")
def test_a_page_is_opened_clicked_and_zoomed(tmp_path):
    vectors, _ = clustered(60, 3)
    graph = graph_of(tmp_path / "run/graph", [f"node-{number}" for number in range(60)], None)
    found = {"metrics": metrics(), "statistics": statistics(), "curve": CURVE}
    page_of(tmp_path / "run/report.html", graph, vectors, found)
    text = bench_report(ReportBench([tmp_path / "run"], 2, "the command"), tmp_path / "out", QUIET)
    (row,) = json.loads((tmp_path / "out/report.json").read_text())["rows"]
    assert (row["run"], row["nodes"], row["dots"], row["complaints"]) == ("run", 60, 60, 0)
    assert row["bytes"] == (tmp_path / "run/report.html").stat().st_size
    assert 0 < row["open_seconds"] <= row["slowest_seconds"]
    assert min(row["click_seconds"], row["zoom_seconds"]) > 0
    assert text == (tmp_path / "out/report.md").read_text().rstrip("\n")
    assert "`the command` makes this page" in text


def test_a_run_without_a_page_is_refused(tmp_path):
    with pytest.raises(FolderError, match=r"report\.html does not exist; run gscl-scale report first"):
        bench_report(ReportBench([tmp_path], 1), tmp_path / "out", QUIET)
