"""The quick start's graph."""

import numpy as np
import pytest

from gscl_scale.config.graphs import DigitsGraph, MemoryGraph
from gscl_scale.errors import ConfigError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources.digits import nearest_others
from gscl_scale.graph.sources.read import read


def test_every_image_has_its_neighbours_and_most_are_of_its_own_class(tmp_path):
    config = DigitsGraph()
    graph = write_graph(read(config), config, tmp_path / "graph")
    assert (graph.num_nodes, graph.num_features, graph.classes) == (1797, 64, [str(digit) for digit in range(10)])
    assert np.diff(graph.indptr).min() >= 10
    rows = np.repeat(np.arange(1797), np.diff(graph.indptr))
    assert (graph.labels[rows] == graph.labels[graph.indices]).mean() > 0.9


def test_of_images_equally_far_the_first_ones_are_neighbours():
    points = np.array([[0.0, 0], [2, 0], [0, 2], [2, 2], [2, 0]])
    assert nearest_others(points, 2).tolist() == [[1, 2], [4, 0], [0, 3], [1, 2], [1, 0]]


def test_a_graph_from_memory_cannot_be_read_from_a_file():
    with pytest.raises(ConfigError, match=r"graph.source"):
        read(MemoryGraph())
