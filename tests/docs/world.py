"""A folder as a reader may have it: tables, config files and finished runs, and the commands on the path."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from gscl_scale import pipeline
from gscl_scale.config.config import Config
from gscl_scale.run.folder import Run
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.stages.ingest import ingest
from tests.docs.pages import ROOT

BIN = Path(sys.executable).parent
QUIET = Console(quiet=True)
_OF_MAKE = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}  # make within make also prints its folders
OTHERS = ", ".join(f"{name}: [train.epochs=5]" for name in ("supervised", "dgi", "grace", "bgrl", "cca-ssg"))
SHORT = f"--set train.epochs=1 --set 'compare.settings={{{OTHERS}}}'"
MINE = """
graph: {source: tables, edges: EDGES, nodes: nodes.csv}
rings: {hops: 2, per_ring: 4, width: 16, beyond: 8, rounds: 1}
model: {width: 8, projection: 8}
train: {epochs: 2, batch_size: 90}
evaluate: {train_fractions: [0.2], random_splits: 1, initialisations: 2, probe_epochs: 10, probe_weight_decay: [0.0]}
runtime: {workers: 1, device: cpu}
"""


def write_inputs(folder, nodes=90):
    """Two communities, labels and features; new.yaml has some edges more; and the commands in .venv/bin."""
    rng = np.random.default_rng(0)
    names = np.array([f"user-{number}" for number in range(nodes)])
    edges = rng.integers(0, nodes, (500, 2))
    edges = edges[edges[:, 0] % 2 == edges[:, 1] % 2]
    for name, some in (("edges.parquet", edges[:-5]), ("new.parquet", edges)):
        pq.write_table(pa.table({"source": names[some[:, 0]], "target": names[some[:, 1]]}), folder / name)
    features = {f"f{column}": rng.normal(size=nodes) + np.arange(nodes) % 2 for column in range(3)}
    label = np.where(np.arange(nodes) % 2, "odd", "even")
    pa.csv.write_csv(pa.table({"id": names, "label": label, **features}), folder / "nodes.csv")
    (folder / "some.csv").write_text("id\nuser-12\nuser-3\n")
    (folder / "mine.yaml").write_text(MINE.replace("EDGES", "edges.parquet"))
    (folder / "new.yaml").write_text(MINE.replace("EDGES", "new.parquet"))
    (folder / ".venv").mkdir()
    (folder / ".venv/bin").mkdir()
    command = folder / ".venv/bin/gscl-scale"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m gscl_scale "$@"\n')
    command.chmod(0o755)
    return folder


def finish_runs(folder):
    """runs/mine is finished, runs/yesterday has samples, runs/tomorrow a graph."""
    with contextlib.chdir(folder):
        config = Config.load(Path("mine.yaml"))
        pipeline.run(config, Path("runs/mine"), QUIET)
        for name in ("graph", "samples", "run.json"):
            copy = shutil.copytree if (folder / "runs/mine" / name).is_dir() else shutil.copy
            (folder / "runs/yesterday").mkdir(exist_ok=True)
            copy(folder / "runs/mine" / name, folder / "runs/yesterday" / name)
        ingest(Config.load(Path("new.yaml")), open_run(Config.load(Path("new.yaml")), Path("runs/tomorrow")), QUIET)
    assert Run.at(folder / "runs/mine").metrics.exists()


def bash(script, folder, **env):
    """Run a script as a reader would, and return what it prints; it ends at the first command that fails."""
    path = f"{folder / '.venv/bin'}:{BIN}:{os.environ['PATH']}"
    given = {"PYTHONPATH": str(ROOT), "PATH": path, "GSCL_SCALE_CACHE": str(folder / "cache"), "GSCL_DATA": str(folder)}
    ours = {name: value for name, value in os.environ.items() if name not in _OF_MAKE}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=folder, env={**ours, **given, **env},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout
