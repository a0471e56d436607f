"""The real graphs: run with GSCL_DATA set to their folder."""

import os
from pathlib import Path

import numpy as np
import pytest

from gscl_scale.config.config import Config
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources.read import read
from gscl_scale.shards.reader import Samples
from tests.graphs import make_samples
from tests.oracles import distances

pytestmark = pytest.mark.data


@pytest.mark.parametrize("sampling", ["uniform", "pagerank"])
def test_every_stored_node_of_cora_is_as_far_as_its_column_says(tmp_path, sampling):
    path = Path(os.environ["GSCL_DATA"]) / "cora.npz"
    config = Config.load(None, ["graph.source=npz", f"graph.path={path}", "rings.hops=3", f"rings.sampling={sampling}"])
    graph = write_graph(read(config.graph), config.graph, tmp_path / "graph")
    make_samples(tmp_path / "graph", tmp_path / "samples", config.rings, 2)
    distance = distances(graph.indptr, graph.indices)
    for number in (0, 1):
        reader = Samples.open(tmp_path / "samples").round(number)
        for part in reader.parts:
            for hop, lists in enumerate((*part.rings, part.beyond), start=1):
                anchors = np.repeat(part.anchors, lists.lengths())
                found = distance[anchors, lists.members]
                assert (found == hop).all() if hop <= 3 else (found > 3).all()
            sizes = np.stack([(distance[part.anchors] == hop).sum(axis=1) for hop in (1, 2, 3)], axis=1)
            assert (part.ring_size == sizes).all()
