"""A graph that changes from night to night: communities, features, labels, and people who come."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gscl_scale.config.config import Config

NODES, COMMUNITIES, EDGES = 1200, 4, 3000


class Town:
    """Edge and node tables in a folder; every method changes them as the data of another night does."""

    def __init__(self, folder: Path, labelled: bool = True) -> None:
        self.folder, self._labelled = folder, labelled
        folder.mkdir(parents=True, exist_ok=True)
        self._draw = np.random.Generator(np.random.Philox(7))
        self.names = np.array([f"person-{number}" for number in self._draw.permutation(NODES)])
        self.community = np.arange(NODES) % COMMUNITIES
        self.features = self._features(self.community)
        self.labels = self.community.copy()
        self.edges = self._edges(EDGES)
        self.write()

    def grow(self, edges: int = EDGES // 200, people: int = 5) -> None:
        """Some new edges, and some new people with some edges each."""
        community = self._draw.integers(0, COMMUNITIES, people)
        self.names = np.concatenate([self.names, [f"newcomer-{self.names.size + number}" for number in range(people)]])
        self.features = np.concatenate([self.features, self._features(community)])
        self.labels = np.concatenate([self.labels, community])
        self.community = np.concatenate([self.community, community])
        known = [
            np.flatnonzero(self.community[:NODES] == one)[self._draw.integers(0, NODES // COMMUNITIES, 3)]
            for one in community
        ]
        theirs = [(NODES + number, other) for number, others in enumerate(known) for other in others]
        self.edges = np.concatenate([self.edges, self._edges(edges), theirs])
        self.write()

    def garble_features(self) -> None:
        """Everybody has somebody else's features."""
        self.features = self.features[self._draw.permutation(len(self.features))]
        self.write()

    def flatten_features(self) -> None:
        """Nearly nothing tells anybody's features from those of anybody else."""
        self.features = (0.001 * self.features + self.features.mean(axis=0)).astype(np.float32)
        self.write()

    def garble_labels(self) -> None:
        """Everybody has somebody else's label."""
        self.labels = self._draw.permutation(self.labels)
        self.write()

    def write(self) -> None:
        """The tables of tonight."""
        ends = self.names[self.edges]
        pq.write_table(pa.table({"source": ends[:, 0], "target": ends[:, 1]}), self.folder / "edges.parquet")
        features = {f"f{column}": self.features[:, column] for column in range(self.features.shape[1])}
        labels = {"label": np.char.add("c", self.labels.astype(str))} if self._labelled else {}
        table = pa.table({"id": self.names, **labels, **features})
        pq.write_table(table, self.folder / "nodes.parquet")

    def config(self, **changes: dict[str, object]) -> Config:
        """A night on this graph."""
        values: dict[str, dict[str, object]] = {
            "graph": {
                "source": "tables",
                "structure": "none",
                "edges": str(self.folder / "edges.parquet"),
                "nodes": str(self.folder / "nodes.parquet"),
            },
            "rings": {"hops": 2, "per_ring": 8, "width": 32, "beyond": 16, "rounds": 1, "part_anchors": 300},
            "model": {"layers": 1, "width": 32, "projection": 0},
            "train": {"epochs": 12, "batch_size": 400, "negatives": 100, "held_out": 0.1, "checkpoint_steps": 5},
            "evaluate": {"initialisations": 2, "probe_epochs": 60, "random_splits": 1, "probe_weight_decay": [0.0]},
            "runtime": {"workers": 1, "device": "cpu"},
            "retrain": {"lease_s": 2.0},
        }
        for section, keys in changes.items():
            values[section] = {**values.get(section, {}), **keys}
        return Config.parse(values)

    def _features(self, community: np.ndarray) -> np.ndarray:
        centres = np.random.Generator(np.random.Philox(11)).normal(size=(COMMUNITIES, 16))
        return (centres[community] + self._draw.normal(size=(community.size, 16))).astype(np.float32)

    def _edges(self, number: int) -> np.ndarray:
        left = self._draw.integers(0, NODES, number)
        own = (
            np.arange(NODES)
            .reshape(-1, COMMUNITIES)
            .T[self.community[left], self._draw.integers(0, NODES // COMMUNITIES, number)]
        )
        far = self._draw.integers(0, NODES, number)
        return np.stack([left, np.where(self._draw.random(number) < 0.8, own, far)], axis=1)
