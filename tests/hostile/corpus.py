"""Valid inputs of every kind, made by the program itself, small enough to be copied for each mutation."""

import contextlib
import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import scipy.sparse as sp
import yaml

from gscl_scale import pipeline
from gscl_scale.config.config import Config
from gscl_scale.embed.rotation import write_rotation
from gscl_scale.embed.store import Embeddings
from gscl_scale.neighbors.index import open_index
from gscl_scale.report.node_map import load_map
from gscl_scale.retrain.night import retrain
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.studies.reproduce.cells import Cell
from gscl_scale.studies.tune.records import Book, Trial, claim_search
from tests.hostile.mutate.tables import parquet_bombs

NODES = 40
SETTINGS = {
    "rings": {"hops": 2, "per_ring": 4, "width": 16, "beyond": 8, "rounds": 2, "part_anchors": 16},
    "model": {"layers": 1, "width": 8, "projection": 0},
    "train": {"epochs": 2, "batch_size": 16, "negatives": 8},
    "evaluate": {
        "train_fractions": [0.5], "random_splits": 1, "initialisations": 1, "probe_epochs": 2,
        "probe_weight_decay": [0.0],
    },
    "runtime": {"workers": 1, "device": "cpu", "npy": True},
}  # fmt: skip
RUN = {"graph": {"source": "npz", "path": "graph.npz", "structure": "none"}, **SETTINGS}
TABLES = {"graph": {"source": "tables", "edges": "edges.parquet", "nodes": "nodes.parquet"}, **SETTINGS}
CSV = {"graph": {"source": "tables", "edges": "edges.csv", "nodes": "nodes.csv"}, **SETTINGS}


def make(folder: Path, bombs: bool = True) -> None:
    """Fill a folder, whose files name each other by relative paths."""
    with contextlib.chdir(folder):
        _fill(folder, bombs)


def _fill(folder: Path, bombs: bool) -> None:
    draw = np.random.Generator(np.random.Philox(3))
    edges = draw.integers(0, NODES, (2, 160))
    features = draw.normal(size=(NODES, 6)).astype(np.float32)
    labels = np.arange(NODES) % 3
    _arrays(folder, draw, edges, features, labels)
    _tables(folder, edges, features, labels)
    for name, values in (("run", RUN), ("tables", TABLES), ("csv", CSV)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(values, sort_keys=False, default_flow_style=None))
    config = Config.load(folder / "run.yaml")
    quiet = Console(quiet=True)
    run = Run.at(Path("run"))
    pipeline.run(config, run.folder, quiet)
    open_index(Embeddings(run.embeddings), run.embeddings / "index", quiet)
    load_map(Path("map"), np.eye(NODES, 4, dtype=np.float32), "made", 0)
    retrain(config, "registry", quiet)
    changed = config.model_copy(update={"train": config.train.model_copy(update={"seed": 5})})
    retrain(changed, "registry", quiet)
    write_rotation(run.rotation, np.eye(8, dtype=np.float32))
    shutil.copyfile(next(Path("registry/versions").glob("*/start.pt"), next(run.checkpoints.glob("*.pt"))), run.start)
    run.start.rename("start.pt")
    run.rotation.rename("rotation.npy")
    shutil.copytree("registry/work", "work") if Path("registry/work").exists() else None
    _journals(config)
    _search(config)
    _cell(config)
    _data_sets(draw)
    Path("bombs").mkdir()
    for number, bomb in enumerate(parquet_bombs() if bombs else ()):
        Path(f"bombs/{number}.parquet").write_bytes(bomb)
    Path("space.yaml").write_text("model.width: [8, 16]\ntrain.learning_rate: {low: 0.001, high: 0.1, log: true}\n")
    Path("night.prom").write_text("gscl_scale_retrain_last_success_timestamp_seconds 17.5\n")


def _arrays(
    folder: Path, draw: np.random.Generator, edges: np.ndarray, features: np.ndarray, labels: np.ndarray
) -> None:
    masks = {f"{part}_mask": np.arange(NODES) % 4 == place for place, part in enumerate(("train", "val", "test"))}
    names = np.array([f"n{v}" for v in range(NODES)])
    np.savez(folder / "graph.npz", edge_index=edges, x=features, y=labels, **masks, ids=names)
    sparse = sp.csr_array(np.where(draw.random((NODES, 9)) < 0.2, 1.0, 0.0).astype(np.float32))
    np.savez_compressed(
        folder / "sparse.npz", edge_index=edges, num_nodes=np.array(NODES), x_data=sparse.data,
        x_indices=sparse.indices, x_indptr=sparse.indptr, x_shape=np.array(sparse.shape),
        y=np.where(labels, labels, -1),
    )  # fmt: skip


def _tables(folder: Path, edges: np.ndarray, features: np.ndarray, labels: np.ndarray) -> None:
    ids = [f"user-{v}" for v in range(NODES)]
    nodes = {
        "id": ids, "label": [f"c{label}" for label in labels], "split": ["train", "val", "test", ""] * (NODES // 4),
        **{f"f{column}": features[:, column] for column in range(3)},
    }  # fmt: skip
    lists = pa.FixedSizeListArray.from_arrays(pa.array(features.reshape(-1)), features.shape[1])
    pq.write_table(pa.table({"source": edges[0], "target": edges[1]}), folder / "edges.parquet")
    pq.write_table(pa.table({"id": np.arange(NODES), "label": labels, "vector": lists}), folder / "nodes.parquet")
    ends = np.array(ids)[edges]
    pa.csv.write_csv(pa.table({"source": ends[0], "target": ends[1]}), folder / "edges.csv")
    pa.csv.write_csv(pa.table(nodes), folder / "nodes.csv")


def _data_sets(draw: np.random.Generator) -> None:
    """Raw files of a data set of OGB, and pickles of one of torch-geometric."""
    place = Path("data/ogbn_arxiv")
    tables = {
        "raw/edge": draw.integers(0, 6, (9, 2)), "raw/node-label": np.arange(6) % 3, "raw/num-node-list": [6],
        "raw/num-edge-list": [9], "raw/node-feat": np.arange(12).reshape(6, 2) / 4,
        "split/time/train": [0, 1], "split/time/valid": [2], "split/time/test": [4, 5],
    }  # fmt: skip
    for name, values in tables.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(values).to_csv(place / f"{name}.csv.gz", index=False, header=False, compression="gzip")
    (place / "RELEASE_v1.txt").touch()
    raw, classes = Path("data/Cora/raw"), np.eye(3, dtype=np.int32)[np.arange(540) % 3]
    raw.mkdir(parents=True)
    features = sp.csr_matrix(np.eye(540, 8, dtype=np.float32))
    order = [*range(531, 540), 530]
    pieces = {
        "x": features[:20], "tx": features[order], "allx": features[:530], "y": classes[:20], "ty": classes[order],
        "ally": classes[:530], "graph": {v: [(v + 1) % 540, (v - 1) % 540] for v in range(540)},
    }  # fmt: skip
    for name, piece in pieces.items():
        (raw / f"ind.cora.{name}").write_bytes(pickle.dumps(piece, protocol=2))
    (raw / "ind.cora.test.index").write_text("\n".join(map(str, order)) + "\n")


def _journals(config: Config) -> None:
    """A samples folder whose making was cut off, with the levels of its round, and scratch of embeddings."""
    shutil.copytree("run/samples", "cut/samples")
    shutil.copytree("run/graph", "cut/graph")
    manifest = json.loads(Path("cut/samples/manifest.json").read_text())
    Path("cut/samples/manifest.json").unlink()
    head = {name: manifest[name] for name in ("format", "graph_fingerprint", "rings")}
    parts = [{"part": part} for part in manifest["rounds"][0]["parts"][:2]]
    passes = [{"pass": {"round_number": 1, "radius": 1, "first": 0, "end": NODES, "checksum": 7}}]
    lines = "".join(json.dumps(line) + "\n" for line in (head, *parts, *passes))
    Path("cut/samples/progress.jsonl").write_text(lines)
    scratch = Path("scratch")
    scratch.mkdir()
    header = {"fingerprint": "f", "rows": NODES, "widths": {"layer": 4}}
    block = {"file": "layer", "first": 0, "end": NODES, "crc32": 0}
    (scratch / "journal.jsonl").write_text(json.dumps(header) + "\n" + json.dumps(block) + "\n")
    (scratch / "layer").write_bytes(bytes(NODES * 16))


def _search(config: Config) -> None:
    folder = Path("search")
    claim_search(folder, config, {"model.width": [8, 16]})
    book = Book(folder)
    for number in range(3):
        ended = ("finished", "stopped", "failed")[number]
        book.note(Trial(number, {"model.width": 8}, ended, 0.5, 2, 1.0, "", [(50.0, 0.4), (100.0, 0.5)]))


def _cell(config: Config) -> None:
    """A kept cell of the table `hops`, made by its own rules from the figures of the run."""
    metrics = json.loads(Path("run/metrics.json").read_text())
    values = {**SETTINGS, "graph": {"source": "npz", "path": "cora.npz"}}
    Path("papers").mkdir()
    Path("papers/cora.yaml").write_text(yaml.safe_dump(values))
    from gscl_scale.studies.reproduce.cells import cells_of
    from gscl_scale.studies.reproduce.tables import TABLES as PAPER

    for cells in cells_of(PAPER["main"], Path("papers"), ["cora"], [], 2).values():
        for cell in cells:
            record = {
                "graph": "cora", "figures": metrics, "config": cell.settings(), "seeds": [0, 1], "split": "random",
                "version": "0.1.0", "commit": None, "finished": "2026-01-01T00:00:00+00:00", "machine": "a machine",
                "python": "3.11", "seconds": 1.0,
            }  # fmt: skip
            path = Path("results/cells") / f"{cell.name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(record))


__all__ = ["NODES", "Cell", "make"]
