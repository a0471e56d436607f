"""`bench memory`: memory of a training process after some steps, and after ten times as many anchors and rounds."""

import contextlib
import shutil
import statistics
import threading
from dataclasses import dataclass
from pathlib import Path

from gscl_scale.bench.graphs import describe, describe_lists, graph_setting
from gscl_scale.bench.harness import Columns, Line, table_of
from gscl_scale.bench.options import Memory
from gscl_scale.bench.processes import most_allocated
from gscl_scale.config.config import Config
from gscl_scale.errors import StoppedError
from gscl_scale.graph.graph import Graph
from gscl_scale.run.folder import Run
from gscl_scale.run.record import open_run
from gscl_scale.runtime.console import Console
from gscl_scale.shards.reader import Samples
from gscl_scale.stages import train as training
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.precompute import precompute

TIMES = 10


@dataclass(frozen=True)
class Training(Line):
    """A training of some steps in its own process.

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


_COLUMNS: Columns[Training] = {
    "steps": lambda row: f"{row.steps:,}",
    "anchors": lambda row: f"{row.anchors:,}",
    "rounds": lambda row: f"{row.rounds}",
    "peak memory": lambda row: f"{row.peak_bytes / 1e9:.2f} GB",
    "allocated": lambda row: f"{row.allocated / 1e9:.2f} GB",
    "anchors/s": lambda row: f"{row.anchors_per_s:,.0f}",
    "waiting": lambda row: f"{row.waiting:.0%}",
    "last loss": lambda row: f"{row.loss:.3f}",
}


def bench_memory(bench: Memory) -> str:
    """Measure, write memory.json and memory.md, and return the page."""
    rows: list[Training] = []
    config, steps = bench.config, bench.steps
    with bench.scratch() as scratch:
        place = bench.keep or scratch / "run"
        place.mkdir(parents=True, exist_ok=True)
        run = Run(place, bench.graph or place / "graph")
        if bench.graph is None:
            run = open_run(config, place)
            ingest(config, run, bench.console)
        graph = Graph.open(run.graph)
        epochs = -(-TIMES * steps // -(-graph.num_nodes // config.train.batch_size))
        config = config.model_copy(update={"train": config.train.model_copy(update={"epochs": epochs})})
        precompute(config, run, bench.console)
        rounds = Samples.open(run.samples).num_rounds
        for number in (steps, TIMES * steps):
            bench.say(f"{number:,} steps")
            rows.append(bench.alone(_train, config, run.folder, run.graph, number, rounds))
    model, train, rings = config.model, config.train, config.rings
    fanout = f" of {model.fanout} neighbours" if model.propagation == "sampled" else ""
    page = (
        f"One training process on {describe(graph, f'{graph.num_features} features')}: {model.layers} {model.encoder} "
        f"layers of width {model.width}, propagation {model.propagation}{fanout}, k = {rings.hops}, "
        f"{describe_lists(rings)}, {train.batch_size:,} anchors a step. {bench.machine}. Peak memory "
        "counts the program and the files that it maps; allocated does not count these files. "
        f"`{bench.command}` makes this table:\n\n{table_of(rows, _COLUMNS)}"
    )
    setting = {**graph_setting(graph), "config": config.dump()}
    return bench.write(page, rows, setting, ["torch"])


def _train(config: Config, folder: Path, graph: Path, steps: int, rounds: int) -> Training:
    """Train from the beginning, as the command does, and stop after so many steps."""
    metrics, stop = list[dict[str, float]](), threading.Event()

    def meter(figures: dict[str, float]) -> None:
        metrics.append(figures)
        if len(metrics) >= steps - 1:  # the training stops one step after the request
            stop.set()

    run = Run(folder, graph)
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    with most_allocated() as allocated, contextlib.suppress(StoppedError):
        training.train_here(config, run, Console(quiet=True), stop, meter)
    shutil.rmtree(run.checkpoints)
    nodes, size = Graph.open(graph).num_nodes, config.train.batch_size
    epochs, rest = divmod(len(metrics), -(-nodes // size))
    later = metrics[1:] or metrics
    return Training(
        steps=len(metrics), anchors=epochs * nodes + rest * size, rounds=min(rounds, epochs + (rest > 0)),
        peak_bytes=int(metrics[-1]["peak memory in bytes"]), allocated=allocated.most,
        anchors_per_s=statistics.median(figures["anchors per second"] for figures in later),
        waiting=statistics.mean(figures["share of time waiting"] for figures in later), loss=metrics[-1]["loss"],
    )  # fmt: skip
