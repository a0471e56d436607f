import pytest

from gscl_scale.bench.graphs import graph_folders
from gscl_scale.bench.scale import Growth, bench_scale
from gscl_scale.errors import UserError
from tests.bench.conftest import figures_of, quiet_bench, written_by
from tests.graphs import make_graph, random_edges


def test_a_power_law_and_a_line_are_found_again():
    sizes = [1e6, 3e6, 1e7, 1e8]
    power = Growth.fit(sizes, [2e-7 * size**1.3 for size in sizes])
    assert power.exponent == pytest.approx(1.3)
    assert power.by_power(1e9) == pytest.approx(2e-7 * 1e9**1.3)
    line = Growth.fit(sizes, [4 + 3e-6 * size for size in sizes])
    assert (line.fixed, line.slope) == (pytest.approx(4), pytest.approx(3e-6))
    assert line.by_line(1e9) == pytest.approx(3004)


def test_small_sizes_count_as_much_as_large_ones_in_the_line():
    """One time ten per cent too long, once the smallest and once the largest: both move the line's own end."""
    growth = Growth.fit([1, 10, 100], [1.1, 10, 100])
    assert growth.by_line(100) == pytest.approx(100, rel=0.03)
    assert growth.by_line(1) == pytest.approx(1.1, rel=0.03)


@pytest.fixture(scope="module")
def measured(tmp_path_factory, in_this_process):
    folder = tmp_path_factory.mktemp("scale")
    make_graph(folder / "own", random_edges(5000, 50_000, seed=0), 5000)
    graphs = {"edges": [40_000, 20_000], "graph": [folder / "own"]}
    bench = quiet_bench("scale", folder / "out", keep=folder / "keep", workers=[1], **graphs)
    page = bench_scale(bench)
    return bench, written_by(bench, page), page


def test_every_graph_has_its_figures_in_the_order_of_size(measured):
    _, written, _ = measured
    seconds = [row for row in written["rows"] if row["figure"] == "seconds"]
    assert [row["nodes"] for row in seconds] == [2000, 4000, 5000]
    assert 10_000 < seconds[0]["edges"] <= 20_000
    assert seconds[2]["edges"] > 49_800
    own = figures_of(written["rows"], nodes=5000)
    assert own.keys() == {
        "seconds", "verify_seconds", "anchors_per_second", "peak_memory", "bytes_written", "short_share", "cores_used"
    }  # fmt: skip
    assert own["anchors_per_second"] == pytest.approx(5000 / own["seconds"])


def test_papers100m_is_extrapolated_and_called_so(measured):
    _, written, page = measured
    papers, fit = written["papers100m"], written["fit"]
    assert (papers["nodes"], papers["edges"]) == (111_059_956, 1_615_685_872)
    assert papers["core_minutes_by_line"] == pytest.approx((fit["fixed"] + fit["slope"] * papers["edges"]) / 60)
    assert papers["core_minutes_by_power"] == pytest.approx(fit["factor"] * papers["edges"] ** fit["exponent"] / 60)
    assert "An extrapolation, not a measurement: papers100M (111,059,956 nodes, 1,615,685,872 edges)" in page


def test_graphs_that_are_kept_are_used_again(measured):
    bench, _, _ = measured
    drawn = [bench.keep / "edges-20000", bench.keep / "edges-40000"]
    before = [(folder / "manifest.json").stat().st_mtime_ns for folder in drawn]
    assert list(graph_folders(bench, bench.out)) == [*drawn, *bench.graph]
    assert [(folder / "manifest.json").stat().st_mtime_ns for folder in drawn] == before


def test_more_workers_than_cores_are_refused(tmp_path):
    with pytest.raises(UserError, match="--workers 4096: expected 1 to"):
        bench_scale(quiet_bench("scale", tmp_path, edges=[1000], workers=[4096]))
