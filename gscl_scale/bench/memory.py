"""`bench memory`: what a training process holds after some steps, and after ten times as many anchors and rounds."""

import contextlib
import platform
import shutil
import statistics
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from gscl_scale.bench.processes import in_process, most_allocated
from gscl_scale.config.config import Config
from gscl_scale.errors import StoppedError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.atomic import write_text
from gscl_scale.io.json import write_json
from gscl_scale.machine import processor_name, usable_cores
from gscl_scale.run.folder import Run
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.shards.reader import Samples
from gscl_scale.stages import train as training
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.precompute import precompute
from gscl_scale.text import cores_of, table
from gscl_scale.version import __version__

TIMES = 10


@dataclass(frozen=True)
class MemoryBench:
    """What is asked for: steps of the shorter training, and a graph folder in place of the config's graph."""

    steps: int
    graph: Path | None
    command: str


@dataclass(frozen=True)
class Held:
    """A training of some steps in a process of its own.

    rounds       rounds of samples that it has read
    peak_bytes   largest resident memory, the program and the files that it maps included
    allocated    the most that was allocated at any time, without mapped files
    waiting      share of the time after the first step that it waited for batches
    """

    steps: int
    anchors: int
    rounds: int
    peak_bytes: int
    allocated: int
    anchors_per_s: float
    waiting: float
    loss: float


def bench_memory(config: Config, asked: MemoryBench, out: Path, keep: Path | None, console: Console) -> str:
    """Measure, write memory.json and memory.md into `out`, and return the Markdown."""
    out.mkdir(parents=True, exist_ok=True)
    with _workplace(out, keep) as folder:
        run = Run(folder, asked.graph or folder / "graph")
        if asked.graph is None:
            run = open_run(config, folder)
            ingest(config, run, console)
        graph = Graph.open(run.graph)
        per_epoch = -(-graph.num_nodes // config.train.batch_size)
        epochs = -(-TIMES * asked.steps // per_epoch)
        config = config.model_copy(update={"train": config.train.model_copy(update={"epochs": epochs})})
        precompute(config, run, console)
        rounds = Samples.open(run.samples).num_rounds
        trained = []
        for steps in (asked.steps, TIMES * asked.steps):
            console.say(f"bench memory: {steps:,} steps")
            trained.append(in_process(usable_cores(), _train, config.dump(), run.folder, run.graph, steps, rounds))
    setting = {
        "command": asked.command, "graph": graph.name, "nodes": graph.num_nodes, "entries": int(graph.indices.size),
        "features": graph.num_features, "cores": len(usable_cores()), "processor": processor_name(),
        "config": config.dump(),
        "versions": {"gscl_scale": __version__, "python": platform.python_version(), "torch": torch.__version__},
    }  # fmt: skip
    text = _page(setting, trained)
    write_json(out / "memory.json", {"setting": setting, "rows": [asdict(held) for held in trained]})
    write_text(out / "memory.md", text + "\n")
    return text


@contextlib.contextmanager
def _workplace(out: Path, keep: Path | None) -> Iterator[Path]:
    """A run folder: one that stays, or one for now."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(dir=out, prefix=".bench-") as place:
        yield Path(place) / "run"


def _train(values: dict[str, Any], folder: Path, graph: Path, steps: int, rounds: int) -> Held:
    """Train from the beginning, as the command does, and stop after so many steps."""
    config, told, stop = Config.parse(values), list[dict[str, float]](), threading.Event()

    def meter(figures: dict[str, float]) -> None:
        told.append(figures)
        if len(told) >= steps - 1:  # the request is heard in the step after
            stop.set()

    run = Run(folder, graph)
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    with most_allocated() as most, contextlib.suppress(StoppedError):
        training.train_here(config, run, Console(quiet=True), stop, meter)
    shutil.rmtree(run.checkpoints)
    nodes = Graph.open(graph).num_nodes
    per_epoch = -(-nodes // config.train.batch_size)
    epochs, rest = divmod(len(told), per_epoch)
    later = told[1:] or told
    return Held(
        steps=len(told),
        anchors=epochs * nodes + rest * config.train.batch_size,
        rounds=min(rounds, -(-len(told) // per_epoch)),
        peak_bytes=int(told[-1]["peak memory in bytes"]),
        allocated=max(most),
        anchors_per_s=statistics.median(figures["anchors per second"] for figures in later),
        waiting=statistics.mean(figures["share of time waiting"] for figures in later),
        loss=told[-1]["loss"],
    )


def _page(setting: dict[str, Any], trained: list[Held]) -> str:
    model, train, rings = (setting["config"][name] for name in ("model", "train", "rings"))
    fanout = f" of {model['fanout']} neighbours" if model["propagation"] == "sampled" else ""
    sentence = (
        f"One training process on `{setting['graph']}` ({setting['nodes']:,} nodes, {setting['entries']:,} directed "
        f"entries, {setting['features']} features): {model['layers']} {model['encoder']} layers of width "
        f"{model['width']}, propagation {model['propagation']}{fanout}, k = {rings['hops']}, {rings['per_ring']} per "
        f"ring, {rings['beyond']} beyond, {train['batch_size']:,} anchors a step. {cores_of(setting['cores'])} of "
        f"{setting['processor']}. Peak memory counts the program and what is in memory of the files that it maps; "
        f"allocated does not count the files. `{setting['command']}` makes this table:"
    )
    rows = [
        [
            f"{held.steps:,}", f"{held.anchors:,}", f"{held.rounds}", f"{held.peak_bytes / 1e9:.2f} GB",
            f"{held.allocated / 1e9:.2f} GB", f"{held.anchors_per_s:,.0f}", f"{held.waiting:.0%}", f"{held.loss:.3f}",
        ]
        for held in trained
    ]  # fmt: skip
    headers = ["steps", "anchors", "rounds", "peak memory", "allocated", "anchors/s", "waiting", "last loss"]
    return f"{sentence}\n\n{table(headers, rows)}"
