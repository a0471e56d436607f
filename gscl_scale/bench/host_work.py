"""What a step on a GPU costs the host: the same step with kernels that do nothing, and what a batch brings along."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gscl_scale.batches.device_collate import DeviceRound
from gscl_scale.batches.schedule import steps_per_epoch
from gscl_scale.batches.stream import BatchStream, DeviceRoom, epoch_order
from gscl_scale.bench.engines import sample
from gscl_scale.bench.graphs import draw
from gscl_scale.config.config import Config
from gscl_scale.graph.graph import Graph
from gscl_scale.model import propagation
from gscl_scale.model.fused import availability, noise, pairs, ranking, rows
from gscl_scale.model.inputs import prepare_inputs
from gscl_scale.model.model import build_model
from gscl_scale.shards.reader import Samples
from gscl_scale.train.step import training_step

_CPU = torch.device("cpu")
_EDGES, _WIDTH, _ANCHORS = 400, 8, 8  # so few that computing takes no time beside the start of an operation
_REPEATS = 200


@dataclass(frozen=True)
class HostWork:
    """Milliseconds of a core per step, medians.

    step    of the thread that takes steps: forward, backward, optimizer, with kernels that do nothing
    start   of the thread that makes batches: to start its operations
    draw    of the same thread: candidates, and the lengths of the lists of a whole batch
    """

    step: float
    start: float
    draw: float


def measure_host_work(folder: Path, config: Config) -> HostWork:
    """Measure in this process, whose kernels do nothing afterwards; the samples of a graph lie in `folder`."""
    torch.set_num_threads(1)
    drawn = _draw(folder / "samples", config)
    _leave_out_kernels()
    tiny = _tiny(config)
    draw(_EDGES, folder / "tiny-graph", _WIDTH)
    sample(folder / "tiny-graph", folder / "tiny-samples", tiny.rings, 1)
    graph, samples = Graph.open(folder / "tiny-graph"), Samples.open(folder / "tiny-samples")
    inputs, model = prepare_inputs(graph, tiny.model, _CPU), build_model(tiny.model, graph.feature_blocks, 0)
    stream = BatchStream(
        samples, graph.num_nodes, tiny.rings, tiny.train, tiny.loss, device=DeviceRoom(_CPU, 1 << 40, _tell_nobody)
    )
    optimizer = torch.optim.Adam(model.parameters(), fused=True)  # as on a GPU
    batch = stream.batch(0)
    return HostWork(
        step=_median(lambda number: training_step(model, optimizer, inputs, [batch], tiny, number)),
        start=_median(lambda number: stream.batch(number % stream.schedule.steps_per_epoch)),
        draw=drawn,
    )


def _draw(samples: Path, config: Config) -> float:
    """Milliseconds for what a batch brings to the device."""
    there, size = DeviceRound.of(Samples.open(samples).of_epoch(0), _CPU), config.train.batch_size
    num_nodes = there.decided.size
    order, steps = epoch_order(num_nodes, config.train.seed, 0), steps_per_epoch(num_nodes, size)

    def one(number: int) -> None:
        anchors = order[(number % steps) * size : (number % steps + 1) * size]
        there.host_part(anchors, there.decided[anchors], config.rings, config.train, config.loss, 0, number)

    return _median(one)


def _tiny(config: Config) -> Config:
    """The same settings with few numbers each."""
    model = config.model.model_copy(update={"width": _WIDTH, "projection": _WIDTH})
    train = {"batch_size": _ANCHORS, "negatives": _ANCHORS, "precision": "bfloat16", "accumulate": 1, "held_out": 0.0}
    return config.model_copy(update={"model": model, "train": config.train.model_copy(update=train)})


def _leave_out_kernels() -> None:
    """The path of a GPU with kernels that do nothing: ours, and the sparse product."""
    availability.has_kernels = lambda device: True
    for module in (noise, pairs, ranking, rows):
        module.start = _start_nothing  # type: ignore[attr-defined]  # imported there by name
    propagation._multiply = _multiply_nothing


def _start_nothing(module: str, kernel: str, grid: tuple[int, ...], *arguments: Any, **options: Any) -> None:
    pass


def _multiply_nothing(matrix: Tensor, dense: Tensor, product: str, dtype: torch.dtype, long: Any = None) -> Tensor:
    return torch.zeros(matrix.shape[0], dense.shape[1], dtype=dtype)


def _tell_nobody(text: str) -> None:
    pass


def _median(work: Callable[[int], object]) -> float:
    """Milliseconds of this thread, after a few that do not count."""
    took = list[float]()
    for number in range(_REPEATS):
        began = time.thread_time()
        work(number)
        took.append(1000 * (time.thread_time() - began))
    return statistics.median(took[_REPEATS // 10 :])
