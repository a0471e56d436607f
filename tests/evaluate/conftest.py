from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from gscl_scale import seeding
from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.graph.graph import Graph


@pytest.fixture
def make_graph(tmp_path: Path) -> Callable[..., Graph]:
    """Write a graph from a list of edges and columns of its nodes."""

    def make(num_nodes: int, edges: list[tuple[int, int]], undirected: bool = True, **columns: Any) -> Graph:
        pairs = np.array(edges, np.int64).reshape(-1, 2)
        columns.setdefault("features", np.eye(num_nodes, 4, dtype=np.float32) + 1)
        draft = GraphDraft("made", "a test", num_nodes, [(pairs[:, 0], pairs[:, 1])], **columns)
        return write_graph(draft, MemoryGraph(undirected=undirected, structure="none"), tmp_path / "graph")

    return make


@pytest.fixture(scope="session")
def random_graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    """60 nodes, 90 edges, three classes, a few nodes without label, dense features that tell the classes apart."""
    draw = seeding.generator("test graph", 1)
    edges = draw.integers(0, 60, (90, 2))
    labels = draw.integers(0, 3, 60)
    features = (draw.standard_normal((60, 8)) + 3 * np.eye(3, 8)[labels]).astype(np.float32)
    labels[:4] = -1
    draft = GraphDraft("made", "a test", 60, [(edges[:, 0], edges[:, 1])], features=features, labels=labels)
    return write_graph(draft, MemoryGraph(structure="none"), tmp_path_factory.mktemp("random") / "graph")


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Products this small are slower on several threads, above all where tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield
    torch.set_num_threads(before)
