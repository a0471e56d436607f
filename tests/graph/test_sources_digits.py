"""The quick start's graph."""

import numpy as np
import pytest

from gscl_scale.config import DigitsGraph, MemoryGraph
from gscl_scale.errors import ConfigError
from gscl_scale.graph import write_graph
from gscl_scale.graph.sources import read


def test_every_image_has_its_neighbours_and_most_are_of_its_own_class(tmp_path):
    config = DigitsGraph()
    graph = write_graph(read(config), config, tmp_path / "graph")
    assert (graph.num_nodes, graph.num_features, graph.classes) == (1797, 64, [str(digit) for digit in range(10)])
    assert np.diff(graph.indptr).min() >= 10
    rows = np.repeat(np.arange(1797), np.diff(graph.indptr))
    assert (graph.labels[rows] == graph.labels[graph.indices]).mean() > 0.9


def test_two_reads_give_the_same_graph(tmp_path):
    config = DigitsGraph(neighbours=3)
    first, second = (write_graph(read(config), config, tmp_path / name) for name in ("a", "b"))
    assert first.fingerprint == second.fingerprint


def test_a_graph_from_memory_cannot_be_read_from_a_file():
    with pytest.raises(ConfigError, match=r"graph.source"):
        read(MemoryGraph())
