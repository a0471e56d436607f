"""From a CSV file of edges to the most similar nodes, by your own ids: `python csv_to_neighbors.py FILE ID`."""

import sys
from pathlib import Path

import numpy as np
import pyarrow.csv
import torch
from torch_geometric.data import Data

import gscl_scale

if len(sys.argv) > 1:
    file, wanted = Path(sys.argv[1]), sys.argv[2]
else:  # a ring road of 60 towns, and a motorway
    file, wanted = Path("roads.csv"), "town 7"
    roads = [f"town {a},town {b}" for a in range(60) for b in ((a + 1) % 60, (a + 2) % 60, (a * 11) % 60) if a != b]
    file.write_text("\n".join(["from,to", *roads]) + "\n")

table = pyarrow.csv.read_csv(file)
ends = [table.column(side).cast("string").to_numpy() for side in (0, 1)]  # the first two columns
names, edges = np.unique(ends, return_inverse=True)

data = Data(edge_index=torch.from_numpy(edges.reshape(2, -1)), num_nodes=names.size)
vectors = np.asarray(gscl_scale.fit(data, {"model": {"width": 32, "projection": 32}, "train": {"epochs": 20}}))

vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
cosines = vectors @ vectors[np.flatnonzero(names == wanted)[0]]
for row in np.argsort(-cosines)[1:6]:
    print(f"{cosines[row]:7.4f}  {names[row]}")
