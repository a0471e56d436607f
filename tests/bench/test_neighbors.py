import numpy as np

from gscl_scale.bench import neighbors
from tests.bench.conftest import figures_of, quiet_bench, written_by
from tests.neighbors.folders import drawn, write_folder


def test_both_ways_to_search_have_their_figures(tmp_path, in_this_process):
    write_folder(tmp_path / "own", drawn(2500, 16), ids=np.arange(2500))
    measured = {"rows": [3000], "embeddings": [tmp_path / "own"], "width": 8}
    bench = quiet_bench("neighbors", tmp_path / "out", keep=tmp_path / "keep", **measured)
    page = neighbors.bench_neighbors(bench)
    rows = written_by(bench, page)["rows"]
    for nodes in (2500, 3000):
        exact, index = (figures_of(rows, nodes=nodes, competitor=way) for way in ("exact", "index"))
        assert exact["recall"] == 1
        assert 0.9 < index["recall"] <= 1
        assert index["lists searched"] <= index["lists"]
        assert min(exact["queries per second"], index["queries per second"]) > 0
    assert figures_of(rows, nodes=3000)["index file"] > 3000 * 8 * 4
    assert {path.name for path in (tmp_path / "keep").iterdir()} == {"rows-3000-width-8"}


def test_drawn_embeddings_lie_in_communities(tmp_path):
    neighbors.draw_embeddings(tmp_path, 4000, 64)
    vectors = neighbors.Embeddings(tmp_path).take(np.arange(4000))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = np.sort(unit[:200] @ unit.T, axis=1)
    assert nearest[:, -2].mean() > 0.6  # of vectors without communities it is 0.45
    assert abs(nearest.mean()) < 0.1
