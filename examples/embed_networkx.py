"""Embed a networkx graph: who plays a part like Fantine's in Les Miserables?"""

import networkx as nx
import numpy as np
from torch_geometric.utils import from_networkx

import gscl_scale

novel = nx.les_miserables_graph()  # characters who appear together, and how often
names = list(novel)

data = from_networkx(novel)
data.edge_weight = data.weight  # a larger weight is a stronger tie
config = {"rings": {"hops": 2}, "model": {"width": 32, "projection": 32}, "train": {"epochs": 20}}
vectors = np.asarray(gscl_scale.fit(data, config))  # a row per character, in the order of the graph

vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
cosines = vectors @ vectors[names.index("Fantine")]
for row in np.argsort(-cosines)[:6]:
    print(f"{cosines[row]:6.3f}  {names[row]}")
