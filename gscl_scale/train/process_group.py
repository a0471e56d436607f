"""The processes that train together: this one's place among them, and sums over all of them."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gscl_scale.errors import ConfigError, PeerError

_LONGEST_CALL = timedelta(days=30)  # others wait for what the first process does alone, such as sampling


@dataclass(frozen=True)
class World:
    """One of `size` processes that train one model, each with its share of every batch."""

    rank: int = 0
    size: int = 1
    _calls_group: Any = None

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place; PeerError if one has ended or is silent for too long."""
        if self.size > 1:
            with _peers():
                dist.all_reduce(tensor)
        return tensor

    def wait(self) -> None:
        """Return when all processes have called this."""
        self.sum(torch.zeros(1))

    def check_same(self, number: int, what: str) -> None:
        """PeerError if the processes have different numbers."""
        if int(self.sum(torch.tensor([number]))) != number * self.size:
            raise PeerError(
                f"training processes have different {what} (this one: {number}); check that all see the same run folder"
            )

    def call(self, argument: Any) -> None:
        """Send plain values from the first process to those that wait in `calls`; None ends these."""
        if self._calls_group is not None:
            self._broadcast([argument])

    def calls(self) -> Iterator[Any]:
        """What the first process sends, one after the other, however long it takes in between."""
        while (argument := self._broadcast([None])) is not None:
            yield argument

    def _broadcast(self, argument: list[Any]) -> Any:
        with _peers():
            dist.broadcast_object_list(argument, group=self._calls_group)
        return argument[0]


ALONE = World()
_calls_group: list[Any] = []  # module state, as torch's default group is: a nested join_world finds both again


@contextlib.contextmanager
def join_world(timeout_s: float, device: str = "auto") -> Iterator[World]:
    """The world that this process has joined already (Ray Train), that torchrun has started it in, or it alone.

    device   `runtime.device`: unless it is cpu, each process of a machine takes a GPU of its own where there are any
    """
    if dist.is_available() and dist.is_initialized():
        yield World(dist.get_rank(), dist.get_world_size(), *_calls_group)
        return
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    gpus = 0 if device == "cpu" else torch.cuda.device_count()
    if gpus:
        torch.cuda.set_device(gpu_of(int(os.environ.get("LOCAL_RANK", "0")), _sharing(), gpus))
    with _peers():
        dist.init_process_group(backend(gpus > 0), timeout=timedelta(seconds=timeout_s))
        _calls_group.append(dist.new_group(backend="gloo", timeout=_LONGEST_CALL))
    try:
        yield World(dist.get_rank(), dist.get_world_size(), *_calls_group)
    finally:
        _calls_group.clear()
        dist.destroy_process_group()


def gpu_of(local_rank: int, sharing: int, gpus: int) -> int:
    """The GPU of a process, by its number on its machine; ConfigError where two would have the same.

    sharing   processes of this machine that see the same GPUs
    gpus      how many these are
    """
    if sharing > gpus:
        raise ConfigError(
            f"runtime.device: torchrun has started {sharing} processes on this machine, where torch sees {gpus} "
            f"GPU{'s' * (gpus > 1)}, and each needs its own; start at most {gpus} here (--nproc-per-node {gpus}), or "
            "add --set runtime.device=cpu"
        )
    return local_rank if local_rank < gpus else 0


def _sharing() -> int:
    """Processes that torchrun has started on this machine; whoever else starts some may give each a GPU to see."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def backend(gpu: bool) -> str:
    """The backends of sums, by the device that a tensor is on."""
    return "cpu:gloo,cuda:nccl" if gpu else "gloo"


@contextlib.contextmanager
def _peers() -> Iterator[None]:
    """Report the failure of another process in one sentence."""
    try:
        yield
    except RuntimeError as error:
        reason = (str(error).strip().splitlines() or ["no reason given"])[0][:160]
        raise PeerError(
            "another process of the training has ended, or is silent for longer than runtime.timeout_s "
            f"({reason}); checkpoints are kept: rerun the command"
        ) from error
