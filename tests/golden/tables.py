"""A graph in CSV files as users have them: string ids that are not ASCII, odd column names, gaps, repeated edges."""

import csv
from pathlib import Path

import numpy as np

NODES, CLASSES, FEATURES = 240, 3, 6
EDGES, NODE_TABLE = "who knows whom.csv", "people.csv"
UNDIRECTED = [
    "graph.source=tables", f"graph.edges={EDGES}", f"graph.nodes={NODE_TABLE}",
    "graph.source_column=from node", "graph.target_column=to, node", "graph.id_column=Näme",
    "graph.label_column=kind of person", "graph.split_column=part",
]  # fmt: skip
DIRECTED = [
    "graph.source=tables", f"graph.edges={EDGES}", "graph.source_column=from node", "graph.target_column=to, node",
    "graph.undirected=false", "graph.structural_features=16",
]  # fmt: skip


def write_tables(folder: Path) -> None:
    """Write both tables; equal bytes every time."""
    names, kinds, edges = _people()
    rng = np.random.Generator(np.random.Philox(5))
    features = rng.integers(-999, 999, (NODES, FEATURES)) / 100 + np.eye(FEATURES)[kinds] * 10
    parts = np.array(["train", "val", "test", ""])[rng.choice(4, NODES, p=[0.3, 0.2, 0.4, 0.1])]
    head = ["Näme", "kind of person", "part", *(f"x {column}, y" for column in range(FEATURES))]
    rows = zip(names, [f"kind {kind}" for kind in kinds], parts, *features.T.tolist(), strict=True)
    _write(folder / NODE_TABLE, [head, *rows])
    _write_edges(folder, edges)


def change_edges(folder: Path) -> None:
    """Write the edge table of the next day: two edges are gone, two have come, and the lines are in another order."""
    names, _, edges = _people()
    new = [(names[3], names[200]), (names[90], names[14])]
    _write_edges(folder, [*new, *edges[2:][::-1]])


def _people():
    rng = np.random.Generator(np.random.Philox(4))
    kinds = np.arange(NODES) % CLASSES
    names = [f"Person №{number}" if number % 5 else f"a, {number}" for number in rng.permutation(NODES)]
    source, target = rng.integers(0, NODES, (2, 700))
    kept = (kinds[source] == kinds[target]) | (rng.random(700) < 0.2)
    edges = [(names[a], names[b]) for a, b in zip(source[kept], target[kept], strict=True)]
    return names, kinds, [*edges, *edges[:5], (names[0], names[0])]


def _write_edges(folder: Path, edges) -> None:
    _write(folder / EDGES, [["from node", "to, node"], *edges])


def _write(path: Path, rows) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
