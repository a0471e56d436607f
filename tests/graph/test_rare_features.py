"""Graphs whose features are mostly zero are known as such, and get settings of their own."""

import numpy as np
import pytest
import scipy.sparse as sp

from gscl_scale.config.config import Config
from gscl_scale.config.graph_size import FeatureBlocks, GraphSize
from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.io.json import read_json
from gscl_scale.run.record import Counts, size_in
from tests.graphs import random_edges

NODES = 50


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("width", "share", "structure", "rare"),
    [
        (100, 0.05, "none", True),
        (100, 0.2, "none", True),
        (100, 0.25, "none", False),
        (60, 0.05, "none", False),
        (100, 0.05, "only", False),
    ],
)
def test_a_graph_knows_whether_few_values_differ_from_zero(tmp_path, form, width, share, structure, rare):
    features = np.zeros((NODES, width), np.float32)
    features[:, : round(share * width)] = 2
    draft = GraphDraft("made", "a test", NODES, [tuple(random_edges(NODES, 99, seed=0).T)], form(features))
    graph = write_graph(draft, MemoryGraph(structure=structure, structural_features=8), tmp_path / "graph")
    assert graph.size == GraphSize(NODES, rare)
    assert size_in(read_json(tmp_path / "graph/manifest.json", Counts)) == graph.size


def test_of_an_earlier_graph_folder_this_is_unknown():
    assert GraphSize.of(9, FeatureBlocks(100), None) == GraphSize(9, False)


@pytest.mark.parametrize(("objective", "expected"), [("gscl", (30, 0.3)), ("dgi", (100, 0))])
def test_only_the_ring_loss_trains_shorter_and_with_dropout_there(objective, expected):
    config = Config.parse({"train": {"objective": objective, "batch_size": 1024}}).sized(GraphSize(3327, True))
    assert (config.train.num_epochs, config.model.feature_dropout) == expected
