"""The processes that train together: who we are among them, and how sums go round."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gscl_scale.errors import PeerError

_PATIENCE = timedelta(days=30)  # others wait for what the first process makes alone, such as the samples


@dataclass(frozen=True)
class World:
    """One of `size` processes that train one model, each with its share of every batch."""

    rank: int = 0
    size: int = 1
    _patient: Any = None

    @property
    def first(self) -> bool:
        """Whether it is this process that writes and tells."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place; PeerError if one has ended or is silent for too long."""
        if self.size > 1:
            with _peers():
                dist.all_reduce(tensor)
        return tensor

    def wait(self) -> None:
        """Go on when all processes are here."""
        self.sum(torch.zeros(1))

    def check_same(self, number: int, what: str) -> None:
        """PeerError if the processes have different numbers."""
        if int(self.sum(torch.tensor([number]))) != number * self.size:
            raise PeerError(f"the processes of the training see different {what}; this one sees {number}")

    def call(self, argument: Any) -> None:
        """From the first process to those that `calls` keeps waiting; plain values, and None at the end."""
        if self._patient is not None:
            with _peers():
                dist.broadcast_object_list([argument], group=self._patient)

    def calls(self) -> Iterator[Any]:
        """What the first process calls for, one after the other, however long it takes in between."""
        while True:
            called = [None]
            with _peers():
                dist.broadcast_object_list(called, group=self._patient)
            if called[0] is None:
                return
            yield called[0]


ALONE = World()
_patient: list[Any] = []  # beside the default group of this process, which torch keeps


@contextlib.contextmanager
def join_world(timeout_s: float) -> Iterator[World]:
    """The world that this process is in already (Ray Train), or its environment tells of (torchrun), or it alone."""
    if dist.is_available() and dist.is_initialized():
        yield World(dist.get_rank(), dist.get_world_size(), *_patient)
        return
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if local < torch.cuda.device_count():
        torch.cuda.set_device(local)
    with _peers():
        dist.init_process_group(backend(torch.cuda.is_available()), timeout=timedelta(seconds=timeout_s))
        _patient.append(dist.new_group(backend="gloo", timeout=_PATIENCE))
    try:
        yield World(dist.get_rank(), dist.get_world_size(), *_patient)
    finally:
        _patient.clear()
        dist.destroy_process_group()


def backend(gpu: bool) -> str:
    """What carries sums: by the device that a tensor is on."""
    return "cpu:gloo,cuda:nccl" if gpu else "gloo"


@contextlib.contextmanager
def _peers() -> Iterator[None]:
    """Tell what befell another process in one sentence."""
    try:
        yield
    except RuntimeError as error:
        reason = (str(error).strip().splitlines() or ["no reason given"])[0][:160]
        raise PeerError(
            "another process of the training has ended, or is silent for longer than runtime.timeout_s "
            f"({reason}); checkpoints are kept: run the same command again"
        ) from error
