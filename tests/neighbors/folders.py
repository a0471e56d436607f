"""Folders with embeddings as a run leaves them, made without a run."""

import json

import numpy as np
import pyarrow as pa

from gscl_scale.embed.store import Embeddings
from gscl_scale.embed.vector_file import write_parquet
from gscl_scale.graph.label_sets import LabelSets
from gscl_scale.io.arrow import write_arrow

CLUSTERS = 12


def drawn(rows, width=8, seed=0):
    """Vectors around some centres, of all lengths."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(CLUSTERS, width))
    away = rng.normal(size=(rows, width)) * 0.4
    return ((centres[rng.integers(0, CLUSTERS, rows)] + away) * rng.uniform(0.5, 2, (rows, 1))).astype(np.float32)


def write_folder(folder, vectors, ids=None, group=64, fingerprint="made", parts=False):
    """An embeddings folder with small row groups, in one file or each in a part of its own."""
    ids = pa.array(ids if ids is not None else [f"node-{row}" for row in range(len(vectors))])
    blocks = [(ids[low : low + group], vectors[low : low + group]) for low in range(0, len(vectors), group)]
    rows = folder / "embeddings.parquet"
    for number, block in enumerate(blocks) if parts else ():
        write_parquet(rows / f"part-{number:05}.parquet", ids.type, vectors.shape[1], [block])
    if not parts:
        write_parquet(rows, ids.type, vectors.shape[1], blocks)
    values = {"fingerprint": fingerprint, "rows": len(vectors), "width": vectors.shape[1]}
    (folder / "manifest.json").write_text(json.dumps(values))
    return Embeddings(folder)


def write_run(folder, vectors, ids=None, labels=None, repeats=1, parts=False):
    """A run folder with nothing but what neighbors reads; of one with repeats each has vectors of its own."""
    (folder / "graph").mkdir(parents=True)
    train = {"repeats": repeats, "seed": 3}
    (folder / "run.json").write_text(json.dumps({"config": {"train": train}}))
    (folder / "graph/manifest.json").write_text(json.dumps({"classes": ["even", "odd"]}))
    if isinstance(labels, LabelSets):
        write_arrow(folder / "graph/label_indptr.arrow", {"indptr": pa.array(labels.indptr)})
        write_arrow(folder / "graph/label_indices.arrow", {"label": pa.array(labels.indices)})
    elif labels is not None:
        write_arrow(folder / "graph/labels.arrow", {"label": pa.array(labels)})
    for number in range(repeats):
        part = folder / f"seed-{3 + number}" if repeats > 1 else folder
        part.mkdir(exist_ok=True)
        (part / "run.json").write_text(json.dumps({"config": {"train": train if part == folder else {"repeats": 1}}}))
        write_folder(part / "embeddings", vectors * (-1) ** number, ids, parts=parts)
    return folder


def slow_nearest(vectors, node, count):
    """(rows, cosines), one pair after the other."""
    length = np.linalg.norm(vectors.astype(np.float64), axis=1)
    pairs = []
    for row in range(len(vectors)):
        if row != node:
            product = float(vectors[node].astype(np.float64) @ vectors[row].astype(np.float64))
            pairs.append((-product / (length[node] * length[row]) if length[node] * length[row] else 0.0, row))
    return [row for _, row in sorted(pairs)[:count]], [-cosine for cosine, _ in sorted(pairs)[:count]]
