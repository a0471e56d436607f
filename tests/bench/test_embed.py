import pytest

from gscl_scale.bench.embed import bench_embed
from tests.bench.conftest import figures_of, quiet_bench, written_by
from tests.graphs import make_graph, random_edges


def test_every_graph_has_its_figures(tmp_path, in_this_process, monkeypatch):
    monkeypatch.setattr("torch.set_num_threads", lambda _: None)  # later tests of this process keep their number
    make_graph(tmp_path / "own", random_edges(5000, 20_000, seed=0), 5000)
    own = {"graph": [tmp_path / "own"], "layers": 2, "width": 16, "memory_gb": 0.5}
    bench = quiet_bench("embed", tmp_path / "out", keep=tmp_path / "keep", edges=[20_000], **own)
    page = bench_embed(bench)
    rows = written_by(bench, page)["rows"]
    assert "| 5,000 |" in page
    assert {row["nodes"] for row in rows} == {2000, 5000}
    own = figures_of(rows, nodes=5000)
    assert own.keys() == {
        "seconds", "file_seconds", "nodes_per_second", "edges_per_second", "peak_memory", "allocated", "memory_bound",
        "scratch", "file", "seconds of layer-0", "seconds of layer-1",
    }  # fmt: skip
    assert own["nodes_per_second"] == pytest.approx(5000 / own["seconds"])
    assert own["scratch"] == 2 * 5000 * 16 * 4
    assert own["memory_bound"] < 0.5 * 2**30
