"""Random numbers of a step, keyed by node and column: a node has the same ones in every batch and process."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from gscl_scale import seeding
from gscl_scale.kernels.kernel import kernel
from gscl_scale.model.fused import availability
from gscl_scale.model.fused import noise as fused

_ODD = 0x9E3779B97F4A7C15
_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


@dataclass(frozen=True)
class DeviceKey:
    """A key that the device reads when it draws: a recorded kernel then draws anew for each value of `base`.

    base []   int64, the bits of a key
    offset    what is added to it
    """

    base: Tensor
    offset: int = 0

    def __add__(self, number: int) -> "DeviceKey":
        return replace(self, offset=self.offset + number)


StepKey = int | DeviceKey


def uniform(key: StepKey, nodes: Tensor | None, shape: tuple[int, int], device: torch.device) -> Tensor:
    """Numbers in [0, 1) for rows of `nodes` (None: all nodes, in order), the same bits on every device."""
    if device.type == "cpu":
        out = np.empty(shape, np.float32)
        _rows(_on_host(key), np.arange(shape[0]) if nodes is None else nodes.numpy(), out)
        return torch.from_numpy(out)
    rows_N = torch.arange(shape[0], device=device) if nodes is None else nodes
    return _numbers(key, rows_N[:, None], torch.arange(shape[1], device=device))


def uniform_entries(key: StepKey, nodes: Tensor, columns: Tensor) -> Tensor:
    """The same numbers for single entries of a matrix."""
    if nodes.device.type == "cpu":
        out = np.empty(nodes.shape[0], np.float32)
        _entries(_on_host(key), nodes.numpy(), columns.numpy(), out)
        return torch.from_numpy(out)
    if availability.has_kernels(nodes.device):
        drawn: Tensor = fused.uniform_entries(*parts(key), nodes, columns)
        return drawn
    return _numbers(key, nodes, columns)


@kernel(inline="always")
def node_state(key, node):
    """The state that the numbers of a node are drawn from."""
    return seeding.mix(key ^ seeding.mix(np.uint64(node) + np.uint64(1)))


@kernel(inline="always")
def _number(state, column):
    bits = seeding.mix(state + np.uint64(column) * np.uint64(_ODD))
    return np.float32(np.int64(bits >> np.uint64(40))) * np.float32(2.0**-24)


@kernel
def _rows(key, nodes, out):
    for i in range(nodes.size):
        state = node_state(key, nodes[i])
        for c in range(out.shape[1]):
            out[i, c] = _number(state, c)


@kernel
def _entries(key, nodes, columns, out):
    for i in range(nodes.size):
        out[i] = _number(node_state(key, nodes[i]), columns[i])


def _numbers(key: StepKey, nodes: Tensor, columns: Tensor) -> Tensor:
    """The kernels' numbers by torch, for devices other than the CPU."""
    bits = signed(key) if isinstance(key, int) else key.base + key.offset
    state = mix(bits ^ mix(nodes.long() + 1))
    return _shifted(mix(state + columns.long() * signed(_ODD)), 40).float() * 2.0**-24


def mix(value: Tensor) -> Tensor:
    """`seeding.mix` on signed integers, whose products wrap around alike."""
    for shift, factor in _STEPS:
        value = (value ^ _shifted(value, shift)) * signed(factor)
    return value ^ _shifted(value, 31)


def _shifted(value: Tensor, bits: int) -> Tensor:
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def _on_host(key: StepKey) -> np.uint64:
    return np.uint64(key if isinstance(key, int) else (int(key.base) + key.offset) % (1 << 64))


def parts(key: StepKey) -> tuple[Tensor | None, int]:
    """A key as the fused kernels read it: from the device, if it is there, and a signed number to add."""
    return (None, signed(key)) if isinstance(key, int) else (key.base, key.offset)


def signed(value: int) -> int:
    """The 64 bits of a number as a signed one."""
    return int(np.uint64(value).astype(np.int64))
