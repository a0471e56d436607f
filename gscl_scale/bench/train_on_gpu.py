"""`bench train --device cuda`: a step on a GPU, its kernels and waits, and its share of what the device can do."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch

from gscl_scale.bench.device_step import WAYS, OnDevice, Way, measure_on_device
from gscl_scale.bench.engines import sample
from gscl_scale.bench.graphs import config_graph, describe, graph_setting
from gscl_scale.bench.harness import Columns, Line, table_of
from gscl_scale.bench.host_work import HostWork, measure_host_work
from gscl_scale.bench.options import Train
from gscl_scale.errors import UserError
from gscl_scale.graph.types import SparseFeatures

_PACKAGES = ("torch", "numba")


@dataclass(frozen=True)
class GpuRow(Line):
    """The medians of one way to take a step over the turns."""

    name: str
    step_s: float
    anchors_per_s: float
    waiting: float
    busy: float
    roofline: float
    kernels: float
    copies: float
    waits: float
    loss: float
    peak_bytes: int


def bench_train_on_gpu(bench: Train, device: str = "cuda") -> str:
    """Measure, write train.json and train.md, and return the page."""
    if device == "cuda" and not torch.cuda.is_available():
        raise UserError("bench train: --device is cuda, and torch sees no GPU here; run gscl-scale doctor to see why")
    config, steps = bench.config, bench.steps
    with bench.scratch() as folder:
        graph = config_graph(bench, config, folder)
        if config.model.encoder != "gcn" or isinstance(graph.features, SparseFeatures):
            raise UserError("bench train: expected model.encoder gcn and dense features with --device cuda")
        sample(folder / "graph", folder / "samples", config.rings, len(bench.core_ids))
        ways = {way.name: partial(bench.alone, measure_on_device, folder, config, way, device, steps) for way in WAYS}
        measured = bench.in_turns(ways, lambda name, result: f"{name}: {1000 * result.step_s:.2f} ms a step")
        host = bench.alone(measure_host_work, folder, config)
    rows = [_row(way, measured[way.name], config.train.batch_size) for way in WAYS]
    gpu = torch.cuda.get_device_name() if device == "cuda" else "no GPU"
    setting = {**graph_setting(graph), "steps": steps, "gpu": gpu, "config": config.dump()}
    page = "\n\n".join([
        f"A step of training on {describe(graph, f'{graph.num_features} features')}, {gpu}, {steps} steps after as "
        f"many that do not count, {bench.machine}. `{bench.command}` makes this table:",
        _table(rows), host_sentence(host), _named(measured[WAYS[0].name][0]),
    ])  # fmt: skip
    named = {way.name: measured[way.name][0].seen.named for way in WAYS}
    return bench.write(page, rows, setting, _PACKAGES, named=named, host_work=vars(host))


def _row(way: Way, turns: Sequence[OnDevice], batch_size: int) -> GpuRow:
    def median(name: str) -> float:
        return statistics.median(getattr(turn, name) for turn in turns)

    def seen(name: str) -> float:
        return statistics.median(getattr(turn.seen, name) for turn in turns)

    step_s = median("step_s")
    return GpuRow(
        name=way.name, step_s=step_s, anchors_per_s=batch_size / step_s, waiting=median("waiting"),
        busy=seen("busy_s") / step_s, roofline=median("least_s") / step_s, kernels=seen("kernels"),
        copies=seen("copies"), waits=seen("waits"), loss=median("loss"),
        peak_bytes=max(turn.peak_bytes for turn in turns),
    )  # fmt: skip


def _table(rows: Sequence[GpuRow]) -> str:
    columns: Columns[GpuRow] = {
        "step": lambda row: row.name,
        "time": lambda row: f"{1000 * row.step_s:.2f} ms",
        "anchors/s": lambda row: f"{row.anchors_per_s:,.0f}",
        "waits for batches": lambda row: f"{row.waiting:.0%}",
        "GPU busy": lambda row: f"{row.busy:.0%}",
        "of the roofline": lambda row: f"{row.roofline:.0%}",
        "kernels": lambda row: f"{row.kernels:.0f}",
        "copies to the GPU": lambda row: f"{row.copies:.1f}",
        "waits for the GPU": lambda row: f"{row.waits:.1f}",
        "loss": lambda row: f"{row.loss:.3f}",
        "peak memory": lambda row: f"{row.peak_bytes / 1e9:.1f} GB",
    }
    return table_of(rows, columns, left=[0])


def host_sentence(host: HostWork) -> str:
    """The work of the host, for a page."""
    return (
        "Host work of a step on a GPU's path, with kernels that do nothing, in milliseconds of a core: "
        f"{host.step:.2f} in the thread that takes steps; in the one that makes batches {host.start:.2f} to start its "
        f"operations and {host.draw:.2f} for candidates and lengths of lists. The start of a kernel is not in it."
    )


def _named(measured: OnDevice) -> str:
    columns: Columns[tuple[str, float, float]] = {
        "kernel": lambda one: f"`{one[0][:100]}`",
        "ms per step": lambda one: f"{1000 * one[1]:.3f}",
        "times": lambda one: f"{one[2]:.0f}",
    }
    return table_of(measured.seen.named, columns, left=[0])
