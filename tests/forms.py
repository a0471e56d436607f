"""One graph of 300 nodes in every form that `gscl_scale.fit` takes."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import scipy.sparse as sp
import torch
from torch_geometric.data import Data, HeteroData

from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.graph.draft import GraphDraft, write_graph

NODES, EDGES, WIDTH = 300, 900, 3


def arrays(seed=0):
    """Edges without repeats [2, E], weights [E], features [N, F] and labels [N]; the weights are no fractions of 10."""
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(np.transpose(np.triu_indices(NODES, 1)))[:EDGES]
    weights = rng.integers(1, 64, EDGES) / 16
    features = rng.normal(size=(NODES, WIDTH)).astype(np.float32)
    return pairs.T.copy(), weights, features, np.arange(NODES) % 3


def columns():
    """The same as columns of an edge and a node table."""
    edges, weights, features, labels = arrays()
    x = {f"x{number}": features[:, number] for number in range(WIDTH)}
    return {"source": edges[0], "target": edges[1], "weight": weights}, {"id": np.arange(NODES), "label": labels, **x}


def networkx_graph():
    import networkx as nx

    edges, weights, features, labels = arrays()
    graph = nx.Graph()
    graph.add_nodes_from((node, {"x": features[node], "y": int(labels[node])}) for node in range(NODES))
    graph.add_weighted_edges_from(zip(*edges.tolist(), weights.tolist(), strict=True))
    return graph, {}


def networkx_digraph():
    graph, beside = networkx_graph()
    return graph.to_directed(), beside


def igraph_graph():
    import igraph

    edges, weights, features, labels = arrays()
    graph = igraph.Graph(NODES, edges.T.tolist())
    graph.es["weight"] = weights
    graph.vs["x"], graph.vs["y"] = list(features), labels.tolist()
    return graph, {}


def _rows():
    _, _, features, labels = arrays()
    return {"features": features, "labels": labels}


def sparse_triangle():
    edges, weights, _, _ = arrays()
    return sp.csr_array((weights, tuple(edges)), shape=(NODES, NODES)), _rows()


def sparse_symmetric():
    triangle, beside = sparse_triangle()
    return sp.csc_matrix(triangle + triangle.T), beside


def edge_index_numpy():
    edges, weights, _, _ = arrays()
    return edges, {**_rows(), "weights": weights}


def edge_index_torch():
    edges, weights, features, labels = arrays()
    given = {"features": torch.from_numpy(features), "labels": torch.from_numpy(labels)}
    return torch.from_numpy(edges), {**given, "weights": torch.from_numpy(weights)}


def pandas_tables():
    import pandas as pd

    edges, nodes = columns()
    return pd.DataFrame(edges)[lambda table: table.weight > 0], {"nodes": pd.DataFrame(nodes).set_index("id")}


def polars_tables():
    import polars as pl

    edges, nodes = columns()
    return pl.DataFrame(edges), {"nodes": pl.DataFrame(nodes)}


def pyarrow_tables():
    edges, nodes = columns()
    return pa.table(edges), {"nodes": pa.table(nodes)}


def tables_with_rows():
    edges, _ = columns()
    return pa.table(edges), {"nodes": pa.table({"id": np.arange(NODES)}), **_rows()}


def data():
    edges, weights, features, labels = arrays()
    made = Data(x=torch.from_numpy(features), edge_index=torch.from_numpy(edges), y=torch.from_numpy(labels))
    made.edge_weight = torch.from_numpy(weights)
    return made, {}


def hetero_data():
    plain, _ = data()
    made = HeteroData()
    made["paper"].x, made["paper"].y = plain.x, plain.y
    made["paper", "cites", "paper"].edge_index = plain.edge_index
    made["paper", "cites", "paper"].edge_weight = plain.edge_weight
    return made, {}


def dgl_graph():
    import dgl

    edges, weights, features, labels = arrays()
    made = dgl.graph(tuple(torch.from_numpy(edges)), num_nodes=NODES)
    made.ndata["feat"], made.ndata["label"] = torch.from_numpy(features), torch.from_numpy(labels)
    made.edata["weight"] = torch.from_numpy(weights)
    return made, {}


def draft():
    edges, weights, features, labels = arrays()
    return GraphDraft("made", "a test", NODES, [(*edges, weights)], features=features, labels=labels), {}


IN_MEMORY = (
    networkx_graph, networkx_digraph, igraph_graph, sparse_triangle, sparse_symmetric, edge_index_numpy,
    edge_index_torch, pandas_tables, polars_tables, pyarrow_tables, tables_with_rows, data, hetero_data, dgl_graph,
    draft,
)  # fmt: skip


def csv_files(folder):
    edges, nodes = columns()
    pa.csv.write_csv(pa.table(edges), folder / "edges.csv")
    pa.csv.write_csv(pa.table(nodes), folder / "nodes.csv")
    return folder / "edges.csv", {"nodes": folder / "nodes.csv"}


def parquet_file_and_table(folder):
    edges, nodes = columns()
    pq.write_table(pa.table(edges), folder / "edges.parquet")
    return str(folder / "edges.parquet"), {"nodes": pa.table(nodes)}


def npz_file(folder):
    edges, weights, features, labels = arrays()
    np.savez(folder / "graph.npz", edge_index=edges, edge_weight=weights, x=features, y=labels)
    return folder / "graph.npz", {}


def graph_folder(folder):
    write_graph(draft()[0], MemoryGraph(structure="none"), folder / "graph")
    return folder / "graph", {}


def run_folder(folder):
    graph_folder(folder)
    return str(folder), {}


IN_FOLDER = (csv_files, parquet_file_and_table, npz_file, graph_folder, run_folder)
