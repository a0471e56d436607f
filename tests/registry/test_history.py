"""Figures of the last versions: what is kept of them, and the page that shows them."""

import pytest

from gscl_scale.registry.history import MOST_ROWS, add_row, figures_in, history_row
from gscl_scale.registry.versions import Check
from gscl_scale.report.run_data import RunData
from gscl_scale.report.versions_section import versions


def made(number, probe=None, **changes):
    figures = {"probe": probe, "ranking": 0.7 + number / 100, "norm": 1.0}
    checks = [
        Check(name="effective rank", figure=1.0, limit=2.0, holds=number % 2 == 0, sentence=""),
        Check(name="alignment", figure=1.0, limit=0.5, holds=True, sentence=""),
    ]
    return history_row(f"v{number:06d}", 1200, figures, checks, {}, {"sampled_again": 0.25} | changes)


def test_a_row_has_the_figures_that_were_measured_and_the_conditions_that_did_not_hold():
    even, odd = made(2, probe=0.5), made(3)
    assert (even["refused_by"], odd["refused_by"]) == ([], ["effective rank"])
    assert figures_in(even) == {"probe": 0.5, "ranking": 0.72, "norm": 1.0, "sampled_again": 0.25}
    assert "probe" not in figures_in(odd)


def test_of_many_versions_the_last_are_kept():
    rows = []
    for number in range(MOST_ROWS + 5):
        rows = add_row(rows, made(number))
    assert [row["version"] for row in rows] == [f"v{number:06d}" for number in range(5, MOST_ROWS + 5)]


def page(rows):
    event = {"stage": "retrain", "event": "versions", "time": "2026-11-27T01:00:00+00:00", "rows": rows}
    return versions(RunData(metrics={}, statistics={}, events=[event]))


def test_the_page_shows_curves_and_a_row_for_each_version():
    shown = page([made(number, probe=0.5) for number in (1, 2, 4)])
    assert shown.count("<svg") == 3  # scores, length, change: no rank was measured
    assert "probe from 0.5 to 0.5; ranking from 0.71 to 0.74" in shown
    assert shown.count("<tr>") == 4
    assert "refused by effective rank" in shown
    assert "<svg" not in page([made(1)])  # one version is no curve


@pytest.mark.parametrize("rows", [[], "text", [{"version": "v000001"}], [{**made(1), "version": "last"}]])
def test_a_run_without_versions_and_a_log_that_was_written_by_others_have_no_such_section(rows):
    assert page(rows) == ""
    assert versions(RunData(metrics={}, statistics={})) == ""
