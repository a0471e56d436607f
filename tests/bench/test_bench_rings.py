import json

import numpy as np

from gscl_scale.bench import rings
from gscl_scale.config import Config
from gscl_scale.graph import Graph
from gscl_scale.runtime import Console
from tests.graphs import make_graph, random_edges


def test_engines_are_measured_side_by_side_and_written_as_json_and_markdown(tmp_path, monkeypatch):
    monkeypatch.setattr(rings, "_TURNS", 1)
    config = Config.load(None, ["graph.source=synthetic", "graph.preset=tiny"])
    told = rings.bench_rings(config, [2], 0.1, tmp_path, Console(quiet=True))
    written = json.loads((tmp_path / "rings.json").read_text())
    rows = {row["competitor"]: row for row in written["rows"]}
    assert rows.keys() == {"exact", "igraph"}
    assert all(row["anchors_per_second"] > 0 and row["peak_mb"] > 10 for row in rows.values())
    assert rows["igraph"]["ratio_to_igraph"] == 1
    assert (tmp_path / "rings.md").read_text().strip() == told


def test_igraph_and_our_engine_find_the_same_rings(tmp_path):
    make_graph(tmp_path / "graph", random_edges(150, 300, seed=5), 150)
    graph = Graph.open(tmp_path / "graph")
    config = Config.load(None, ["rings.per_ring=all"]).rings
    anchors = np.arange(0, 150, 11)
    theirs = rings._igraph(graph, config)(anchors)
    ours = rings._exact(graph, config)(anchors)
    for hop, ring in enumerate(ours.rings):
        for row in range(anchors.size):
            mine = ring.members[ring.offsets[row] : ring.offsets[row + 1]]
            assert sorted(mine.tolist()) == sorted(theirs[hop][row])
