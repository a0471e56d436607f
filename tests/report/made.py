"""Runs without a training: graphs and vectors that tests make up, and the page of them."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale.config.config import Config
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.report.node_map import draw_map
from gscl_scale.report.page import write_report
from gscl_scale.report.run_data import RunData

HOSTILE_IDS = [
    "</script><script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "two\nlines",
    "عقدة ‮ rtl",
    "\U0001f980 crab & 'quotes'",
    "<!-- comment",
]


def graph_of(folder: Path, ids: list[Any], classes: list[str | None] | None) -> Graph:
    """A ring of nodes with these ids and classes."""
    nodes = np.arange(len(ids))
    draft = GraphDraft(
        name="made up", origin="memory", num_nodes=len(ids), edges=[(nodes, np.roll(nodes, 1))],
        features=np.ones((len(ids), 2), np.float32), ids=pa.array(ids),
        labels=None if classes is None else np.array(classes, object),
    )  # fmt: skip
    return write_graph(draft, Config.parse({"graph": {"source": "memory"}}).graph, folder)


def clustered(num_nodes: int, num_classes: int, width: int = 16) -> tuple[Any, npt.NDArray[np.int64]]:
    """Vectors around a centre for each class, and the classes."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, num_classes, num_nodes)
    return (rng.normal(size=(num_classes, width))[labels] + 0.3 * rng.normal(size=(num_nodes, width))).astype(
        np.float32
    ), labels


def page_of(path: Path, graph: Graph, vectors: Any, found: dict[str, Any]) -> Any:
    """Write a page with a map of the vectors; returns what the map shows."""
    drawn = draw_map(vectors, seed=0)
    write_report(path, RunData(**{**found, "graph": graph, "nodes": drawn}))
    return drawn
