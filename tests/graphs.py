"""Small graphs of all awkward kinds, and how tests write a graph folder."""

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import start_runner
from gscl_scale.runtime.settings import RunnerSettings
from gscl_scale.shards.precompute import precompute


@st.composite
def awkward_graphs(draw):
    """(edges, number of nodes): stars, paths, cliques, hubs, isolated nodes, self-loops, repeats, nothing at all."""
    num_nodes = draw(st.integers(1, 40))
    kind = draw(st.sampled_from(["random", "path", "star", "clique", "two parts", "leaves", "empty"]))
    if kind == "path":
        edges = [(v, v + 1) for v in range(num_nodes - 1)]
    elif kind == "star":
        edges = [(0, v) for v in range(1, num_nodes)]
    elif kind == "clique":
        size = min(num_nodes, 12)
        edges = [(u, v) for u in range(size) for v in range(u)]
    elif kind == "leaves":
        hub = st.integers(0, max(0, num_nodes // 8))
        edges = [(draw(hub), v) for v in range(1, num_nodes)]
    elif kind == "empty":
        edges = []
    else:
        node = st.integers(0, num_nodes - 1)
        edges = draw(st.lists(st.tuples(node, node), max_size=120))
        if kind == "two parts":
            edges = [(u, v) for u, v in edges if (u < num_nodes // 2) == (v < num_nodes // 2)]
    return edges, num_nodes


def random_edges(num_nodes, num_edges, seed, hubs=0):
    """Edges between random nodes, some of them hubs."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(0, num_nodes, (num_edges, 2))
    if hubs:
        edges[: num_edges // 3, 0] = rng.integers(0, hubs, num_edges // 3)
    return edges


def random_weights(num_edges, seed=0):
    """Edge weights of several magnitudes."""
    return np.exp(np.random.default_rng(seed).normal(size=num_edges))


def make_graph(
    folder,
    edges,
    num_nodes,
    *,
    weights=None,
    features=None,
    labels=None,
    splits=None,
    ids=None,
    columns=(),
    **options,
):
    """Write a graph folder and open it."""
    edges = np.asarray(edges, np.int64).reshape(-1, 2)
    if features is None:
        features = np.random.default_rng(0).normal(size=(num_nodes, 5)).astype(np.float32)
    draft = GraphDraft(
        name="made",
        origin="a test",
        num_nodes=num_nodes,
        edges=[(edges[:, 0], edges[:, 1], *([] if weights is None else [np.asarray(weights)]))],
        features=features,
        labels=labels,
        splits=splits or {},
        ids=pa.array(ids) if ids is not None else None,
        columns=list(columns),
    )
    return write_graph(draft, MemoryGraph(**{"structure": "none", **options}), folder)


def make_samples(graph_folder, folder, config, epochs=1, workers=1, console=None, since=None, memory=0):
    """Run precompute on threads of this process."""
    with start_runner(RunnerSettings(workers=workers)) as runner:
        precompute(graph_folder, folder, config, epochs, runner, console or Console(quiet=True), since, memory)
