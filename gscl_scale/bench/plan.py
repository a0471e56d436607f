"""`bench plan`: peak memory and core time of each stage of three graphs, beside what `gscl-scale plan` says."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gscl_scale.bench.harness import Columns, Line, table_of
from gscl_scale.bench.options import Plan
from gscl_scale.config.config import Config
from gscl_scale.errors import RunError
from gscl_scale.io.atomic import write_text
from gscl_scale.machine import memory_of
from gscl_scale.planning.graph_shape import GraphShape, counted_source
from gscl_scale.planning.measure import measure_rates
from gscl_scale.planning.need import Machines
from gscl_scale.planning.rates import Rates
from gscl_scale.planning.stages import stage_needs
from gscl_scale.text import shortened

_LOOK_S = 0.02
_MOST_ABOVE, _MOST_BELOW = 0.25, 0.10  # of what is measured: what a plan may say too much, or too little

Settings = Mapping[str, Mapping[str, object]]

_EVALUATE = {"train_fractions": [0.02], "random_splits": 1, "initialisations": 2, "probe_epochs": 30}
_RINGS = {"rounds": 1, "engine": "sketch", "width": 32, "per_ring": 8, "beyond": 32}
CASES: dict[str, Settings] = {
    "deep": {
        "graph": {"source": "synthetic", "num_nodes": 1_000_000, "mean_degree": 20, "num_features": 32},
        "rings": {**_RINGS, "hops": 2},
        "model": {"layers": 2, "width": 64, "projection": 64, "propagation": "sampled", "fanout": [10]},
        "train": {"epochs": 1, "batch_size": 1024, "held_out": 0.9},
        "evaluate": _EVALUATE,
    },
    "bounded": {
        "graph": {"source": "synthetic", "num_nodes": 2_000_000, "mean_degree": 8, "num_features": 64},
        "rings": {**_RINGS, "hops": 3},
        "model": {"layers": 1, "width": 128, "projection": 64, "propagation": "sampled", "fanout": [10]},
        "train": {"epochs": 1, "batch_size": 4096, "held_out": 0.9},
        "evaluate": _EVALUATE,
        "runtime": {"precompute_memory_gb": 0.2, "embed_memory_gb": 0.6},
    },
    "wide": {
        "graph": {"source": "synthetic", "num_nodes": 300_000, "mean_degree": 60, "num_features": 300},
        "rings": {**_RINGS, "hops": 2, "rounds": 2, "width": 64, "per_ring": 16, "beyond": 64},
        "model": {"layers": 1, "width": 128, "projection": 128, "encoder": "sage"},
        "train": {"epochs": 2, "batch_size": 2048, "held_out": 0.9},
        "evaluate": _EVALUATE,
    },
}


@dataclass(frozen=True)
class PlannedStage(Line):
    """A stage of a graph as a process of its own: bytes and seconds of processor, planned and measured.

    peak        largest resident memory, the files included that it maps
    allocated   the most without these
    """

    graph: str
    stage: str
    planned: int
    peak: int
    allocated: int
    planned_s: float
    core_s: float

    @property
    def off(self) -> float:
        """How much more is planned than is taken, as a share of what is taken."""
        return self.planned / self.peak - 1

    @property
    def holds(self) -> bool:
        """Whether the plan is as near as it has to be."""
        return -_MOST_BELOW <= self.off <= _MOST_ABOVE


_COLUMNS: Columns[PlannedStage] = {
    "graph": lambda row: row.graph,
    "stage": lambda row: row.stage,
    "planned": lambda row: f"{row.planned / 2**30:.2f} GiB",
    "peak": lambda row: f"{row.peak / 2**30:.2f} GiB",
    "of it allocated": lambda row: f"{row.allocated / 2**30:.2f} GiB",
    "planned - peak": lambda row: f"{row.off:+.0%}",
    "": lambda row: "" if row.holds else "outside",
    "core time planned": lambda row: f"{row.planned_s:,.0f} s",
    "taken": lambda row: f"{row.core_s:,.0f} s",
}


def bench_plan(bench: Plan) -> str:
    """Measure, write plan.json and plan.md, and return the page."""
    rows, rates = list[PlannedStage](), measure_rates()
    configs = {name: scaled(values, bench.scale) for name, values in CASES.items()}
    with bench.scratch() as scratch:
        bench.say("kernels are compiled")
        _run(["doctor", "--warm"], scratch)
        for name, config in configs.items():
            rows += _measure(bench, name, config, scratch / name, rates)
    page = _page(bench, configs, rows)
    return bench.write(page, rows, {"cases": {name: config.dump() for name, config in configs.items()}}, ["torch"])


def _page(bench: Plan, configs: Mapping[str, Config], rows: Sequence[PlannedStage]) -> str:
    outside = [f"{row.stage} of {row.graph} ({row.off:+.0%})" for row in rows if not row.holds]
    shapes = "; ".join(f"{name}: {_words(config)}" for name, config in configs.items())
    return (
        "Each stage of three synthetic graphs is run by its command, in a process of its own, and what "
        "`gscl-scale plan` says before there is a graph stands beside the peak of its resident memory (what it "
        f"allocates and the files that it maps, kernels compiled before). {shapes}. {bench.machine}. A plan holds "
        f"within {_MOST_BELOW:.0%} below and {_MOST_ABOVE:.0%} above the peak: "
        f"{'all do' if not outside else 'outside are ' + ', '.join(outside)}. `{bench.command}` makes this table:"
        f"\n\n{table_of(rows, _COLUMNS, left=[0, 1])}"
    )


def scaled(values: Settings, scale: float) -> Config:
    """The configuration of a case with so many times its nodes."""
    config = Config.parse({section: dict(keys) for section, keys in values.items()})
    nodes = max(1000, round(getattr(config.graph, "num_nodes", 0) * scale))
    return config.model_copy(update={"graph": config.graph.model_copy(update={"num_nodes": nodes})})


def _words(config: Config) -> str:
    shape = GraphShape.of_size(counted_source(config.graph), config.graph)
    return f"{shape.num_nodes:,} nodes, {shape.entries // 2:,} edges, {shape.num_features} features"


def _measure(bench: Plan, name: str, config: Config, folder: Path, rates: Rates) -> list[PlannedStage]:
    folder.mkdir()
    write_text(folder / "config.yaml", json.dumps(config.dump()))  # JSON is YAML
    shape = GraphShape.of_size(counted_source(config.graph), config.graph)
    rows = []
    for need in stage_needs(config, shape, Machines.this(), rates):
        verb = "ingest" if need.stage == "graph" else need.stage
        spent = _run([verb, "--config", "config.yaml", "--run", "run"], folder)
        row = PlannedStage(name, need.stage, need.process_bytes, spent.peak, spent.allocated, need.core_s, spent.core_s)
        bench.say(f"{name}, {need.stage}: planned {row.off:+.0%}")
        rows.append(row)
    return rows


@dataclass(frozen=True)
class _Spent:
    peak: int
    allocated: int
    core_s: float


def _run(words: Sequence[str], folder: Path) -> _Spent:
    """Run a command in a folder, and look at its memory until it ends."""
    command = [sys.executable, "-m", "gscl_scale", *words]
    output, peak, allocated = folder / "output", 0, 0
    with output.open("wb") as file:
        process = subprocess.Popen(command, cwd=folder, stdout=file, stderr=subprocess.STDOUT)
        try:
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                now = memory_of(process.pid)
                peak, allocated = max(peak, now[0]), max(allocated, now[1])
                time.sleep(_LOOK_S)
        except BaseException:
            process.kill()
            process.wait()
            raise
    process.returncode = code = os.waitstatus_to_exitcode(ended[1])
    if code:
        told = shortened(output.read_text(encoding="utf-8", errors="replace").strip()[-400:], 400)
        raise RunError(f"bench plan: {' '.join(command)} ended with exit code {code}: {told}")
    return _Spent(peak, allocated, ended[2].ru_utime + ended[2].ru_stime)
