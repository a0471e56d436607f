"""Edge and node tables in files, and the graphs that they become."""

import gzip
import pickle

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources.read import read

SOURCES, TARGETS = ["c", "a", "b", "d"], ["a", "b", "d", "d"]
NODES = {"id": ["d", "b", "a", "c"], "label": ["x", None, "y", "x"], "split": ["train", "valid", None, "test"]}
PAIR, AB = {"source": ["a"], "target": ["b"]}, {"id": ["a", "b"]}
NUMBERS = {"a": 30, "b": -7, "c": 1000, "d": 5}


def save(path, columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(columns, str | bytes):
        data = columns if isinstance(columns, bytes) else columns.encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    elif ".csv" in path.name:
        pd.DataFrame(columns).to_csv(path, index=False)
    else:
        pq.write_table(pa.table(columns), path, row_group_size=2)
    return path


def tables(tmp_path, edges=None, nodes=None, kind=".parquet", **options):
    edges = {"source": SOURCES, "target": TARGETS} if edges is None else edges
    options["edges"] = save(tmp_path / f"edges{kind}", edges)
    if nodes is not None:
        options["nodes"] = save(tmp_path / f"nodes{kind}", nodes)
    return TablesGraph(source="tables", **options)


def ingest(tmp_path, *args, **options):
    config = tables(tmp_path, *args, **options)
    return write_graph(read(config), config, tmp_path / "graph")


def named_rows(graph):
    ids = graph.ids.to_pylist()
    return {ids[v]: {ids[u] for u in graph.indices[graph.indptr[v] : graph.indptr[v + 1]]} for v in range(len(ids))}


class Machines:
    """A runner of processes: each task leaves the files of a lost attempt, and results come last first."""

    def __init__(self, workers):
        self.workers = workers

    def run(self, function, tasks):
        tasks = [pickle.dumps(task) for task in tasks]
        for task in tasks:
            function(pickle.loads(task))
        return (pickle.loads(pickle.dumps(function(pickle.loads(task)))) for task in reversed(tasks))

    def check_shared(self, folder, need):
        pass
