"""Predict edges without any labels or features: hide a tenth, embed the rest, and rank pairs by their cosine."""

import networkx as nx
import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch_geometric.data import Data

import gscl_scale

graph = nx.powerlaw_cluster_graph(400, 4, 0.9, seed=0)  # many triangles, as among friends
rng = np.random.default_rng(0)
edges = rng.permutation(np.array(graph.edges))
hidden, seen = edges[: len(edges) // 10], edges[len(edges) // 10 :]

data = Data(edge_index=torch.from_numpy(seen.T.copy()), num_nodes=len(graph))
vectors = np.asarray(gscl_scale.fit(data, {"model": {"width": 64}, "train": {"epochs": 20}}))
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)

pairs = rng.integers(0, len(graph), (20 * len(hidden), 2))
others = pairs[[a != b and not graph.has_edge(a, b) for a, b in pairs]]  # pairs without an edge
scores = [(vectors[ends[:, 0]] * vectors[ends[:, 1]]).sum(axis=1) for ends in (hidden, others)]
truth = np.repeat([1, 0], [len(hidden), len(others)])
auc = roc_auc_score(truth, np.hstack(scores))
print(f"AUC of {len(hidden)} hidden edges against {len(others)} other pairs: {auc:.3f}")
