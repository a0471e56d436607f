"""One training step measured on a GPU: time, kernels, copies, waits, and its share of what the device can do."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile

from gscl_scale.batches.collate import Batch
from gscl_scale.batches.stream import BatchStream, DeviceRoom
from gscl_scale.bench.roofline import StepSizes, device_rates, least_work, wait_for
from gscl_scale.config.config import Config
from gscl_scale.graph.graph import Graph
from gscl_scale.model.captured import CapturedEncoder
from gscl_scale.model.fused import availability
from gscl_scale.model.inputs import prepare_inputs
from gscl_scale.model.model import build_model
from gscl_scale.model.propagation import SpmmBackend
from gscl_scale.shards.reader import Samples
from gscl_scale.train.loop import DataWait, Trainer
from gscl_scale.train.process_group import ALONE
from gscl_scale.train.step import LaunchedStep, fetch

_WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
_MOST_NAMED = 15  # kernels


@dataclass(frozen=True)
class Way:
    """A way to take a step on the device: the precision of the dense layers, by the fused kernels, by CUDA graphs."""

    name: str
    precision: str = "bfloat16"
    fused: bool = True
    graphs: bool = True
    product: SpmmBackend = "auto"


WAYS = (
    Way("gscl-scale"),
    Way("gscl-scale, float32", precision="float32"),
    Way("without CUDA graphs", graphs=False),
    Way("without the fused kernels", fused=False),
    Way("with torch's sparse product", product="torch"),
)


@dataclass(frozen=True)
class Seen:
    """What the profiler saw, per step.

    busy_s   seconds during which kernels ran or copies, those of batches included
    named    (kernel, seconds, how often), those that take most first
    """

    busy_s: float
    kernels: float
    copies: float
    waits: float
    named: list[tuple[str, float, float]]


@dataclass(frozen=True)
class OnDevice:
    """Figures per step, of one process.

    waiting   share of the time for which the step waited for its batch
    least_s   the least time of the step at the rates of the device
    """

    step_s: float
    waiting: float
    least_s: float
    loss: float
    peak_bytes: int
    seen: Seen


def measure_on_device(folder: Path, config: Config, way: Way, device_name: str, steps: int) -> OnDevice:
    """Take steps in this process: some that do not count, some that are timed, some that are profiled."""
    device = torch.device(device_name)
    if not way.fused:
        availability.has_kernels = lambda device: False
    train = config.train.model_copy(update={"precision": way.precision})
    model_config = config.model.model_copy(update={"product": way.product})
    config = config.model_copy(update={"train": train, "model": model_config})
    graph = Graph.open(folder / "graph")
    inputs = prepare_inputs(graph, config.model, device)
    trainer = Trainer(build_model(config.model, graph.feature_blocks, train.seed).to(device), train)
    if way.graphs and device.type == "cuda":
        model = trainer.model
        model.captured = CapturedEncoder(model.encoder, inputs, train.uses_bfloat16(device.type))
    room = DeviceRoom(device, 1 << 62, lambda words: None)
    samples = Samples.open(folder / "samples")
    stream = BatchStream(samples, graph.num_nodes, config.rings, train, config.loss, device=room)
    batches = DataWait(stream.batches(0, 3 * steps))

    def take() -> tuple[list[LaunchedStep], Batch]:
        launched = []
        for _ in range(steps):
            batch = next(batches)
            launched.append(trainer.step(inputs, [batch], config, ALONE, False))
        wait_for(device)
        return launched, batch

    take()  # compiles kernels and fills the allocator
    batches.seconds()
    began = time.perf_counter()
    launched, batch = take()
    took, waited = (time.perf_counter() - began) / steps, batches.seconds() / steps
    with profile(activities=_activities(device)) as profiled:
        take()
    least = least_work(config.model, _sizes(graph, batch)).seconds(device_rates(device))
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
    return OnDevice(
        took, waited / took, least, fetch(launched)[-1].loss, peak, _figures(profiled.events() or [], steps)
    )


def _activities(device: torch.device) -> list[ProfilerActivity]:
    gpu = [ProfilerActivity.CUDA] if device.type == "cuda" else []
    return [ProfilerActivity.CPU, *gpu]


def _sizes(graph: Graph, batch: Batch) -> StepSizes:
    return StepSizes(
        nodes=graph.num_nodes, messages=graph.indices.size + graph.num_nodes, features=graph.num_features,
        encoded=batch.num_nodes, anchors=batch.anchors.shape[0], pairs=batch.pairs.indices.shape[0],
        candidates=batch.candidates.shape[0],
    )  # fmt: skip


def _figures(events: Iterable[FunctionEvent], steps: int) -> Seen:
    """What the profiler saw, per step."""
    seconds, number = Counter[str](), Counter[str]()
    copies, waits = 0, 0
    for event in events:
        if event.device_type.name == "CUDA":
            seconds[event.name] += event.time_range.elapsed_us() / 1e6
            number[event.name] += 1
            copies += event.name.startswith("Memcpy HtoD")
        waits += event.name in _WAITS
    kernels = sum(count for name, count in number.items() if not name.startswith(("Memcpy", "Memset")))
    named = [(name, took / steps, number[name] / steps) for name, took in seconds.most_common(_MOST_NAMED)]
    return Seen(sum(seconds.values()) / steps, kernels / steps, copies / steps, waits / steps, named)
