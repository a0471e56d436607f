import pytest

from gscl_scale.bench.plan import CASES, PlannedStage, bench_plan, scaled
from tests.bench.conftest import quiet_bench, written_by


def stage_of(planned, peak):
    return PlannedStage("graph", "train", planned=planned, peak=peak, allocated=peak, planned_s=1.0, core_s=1.0)


def test_a_plan_holds_within_a_quarter_above_and_a_tenth_below():
    assert [stage_of(planned, 100).holds for planned in (89, 90, 100, 125, 126)] == [False, True, True, True, False]


@pytest.mark.parametrize("case", CASES)
def test_the_cases_are_configurations_of_graphs_that_can_be_larger_or_smaller(case):
    usual, small = scaled(CASES[case], 1.0), scaled(CASES[case], 0.01)
    assert small.graph.num_nodes == usual.graph.num_nodes // 100
    assert small.rings == usual.rings


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_stage_of_every_graph_is_measured(tmp_path):
    page = bench_plan(bench := quiet_bench("plan", tmp_path, scale=0.003))
    rows = written_by(bench, page)["rows"]
    assert [row["graph"] for row in rows[::6]] == list(CASES)
    assert {row["stage"] for row in rows} == {"graph", "precompute", "train", "embed", "evaluate", "report"}
    for row in rows:
        assert row["peak"] > row["allocated"] > 1 << 26
        assert row["core_s"] > 0
