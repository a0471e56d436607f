"""The least time of a step on a device: what it must compute and move, at the rates that the device reaches."""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from gscl_scale.config.sections import ModelConfig

_TURNS = 10  # of the products and copies that measure the rates


@dataclass(frozen=True)
class Rates:
    """What a device reaches: operations per second of dense products in bfloat16, bytes per second of copies."""

    operations: float
    bytes: float


@dataclass(frozen=True)
class LeastWork:
    """What a forward and a backward pass has to do: operations of dense products, and bytes to read and write."""

    operations: float
    bytes: float

    def seconds(self, rates: Rates) -> float:
        """The least time, with computing and moving at once."""
        return max(self.operations / rates.operations, self.bytes / rates.bytes)


def least_work(model: ModelConfig, sizes: "StepSizes") -> LeastWork:
    """Two bytes per value: a product per layer and its two gradients, each message and pair read once per direction.

    The first layer's sums are known where it has no dropout and narrow features; its input has no gradient.
    """
    widths = [sizes.features, *[model.width] * model.layers]
    operations, moved = 0.0, 0.0
    for layer, (width_in, width_out) in enumerate(itertools.pairwise(widths)):
        operations += 2.0 * sizes.nodes * width_in * width_out * (3 if layer else 2)
        narrow = min(width_in, width_out)
        moved += 2.0 * narrow * sizes.messages * (2 if layer else 0)
        moved += 2.0 * sizes.nodes * (2 * width_in + 4 * width_out)  # in and out of product and activation, both ways
    columns = model.projection or model.width
    if model.projection:
        operations += 6.0 * sizes.encoded * columns * (model.width + columns)
        moved += 2.0 * sizes.encoded * (2 * model.width + 6 * columns)
    operations += 6.0 * sizes.anchors * sizes.candidates * columns
    moved += 4.0 * columns * 3 * sizes.pairs + 4.0 * 4 * sizes.anchors * sizes.candidates
    return LeastWork(operations, moved)


@dataclass(frozen=True)
class StepSizes:
    """How large a step is; `encoded` nodes of all are projected, `messages` are those of one layer."""

    nodes: int
    messages: int
    features: int
    encoded: int
    anchors: int
    pairs: int
    candidates: int


def device_rates(device: torch.device) -> Rates:
    """Measure what the device reaches, with small products on a CPU: it may have no fast ones in bfloat16."""
    side, size = (4096, 1 << 28) if device.type == "cuda" else (256, 1 << 22)
    square = torch.ones(side, side, dtype=torch.bfloat16, device=device)
    one, other = (torch.empty(size, dtype=torch.uint8, device=device) for _ in range(2))
    return Rates(
        operations=2.0 * side**3 / _seconds(device, lambda: square @ square),
        bytes=2.0 * size / _seconds(device, lambda: one.copy_(other)),
    )


def _seconds(device: torch.device, work: Callable[[], object]) -> float:
    """The time of one turn, after a first one."""
    work()
    wait_for(device)
    began = time.perf_counter()
    for _ in range(_TURNS):
        work()
    wait_for(device)
    return (time.perf_counter() - began) / _TURNS


def wait_for(device: torch.device) -> None:
    """Wait until a GPU has done all that was started; the CPU has done it already."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
