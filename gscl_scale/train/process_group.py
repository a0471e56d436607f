"""The processes that train together: this one's place among them, and sums over all of them."""

import contextlib
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from gscl_scale.errors import ConfigError, PeerError
from gscl_scale.runtime.network import NCCL_VARIABLES, interface_names, wrong_interface
from gscl_scale.runtime.stop import outlive_stop
from gscl_scale.text import join_names

Value = TypeVar("Value")

_LONGEST_CALL = timedelta(days=30)  # others wait for what the first process does alone, such as sampling
_ENDED, _ENDED_S = "gscl_scale/first has ended", 5.0  # a mark in the store of the group, and how long to look for it
_BEAT_S = 1.0  # between two signs of life


@dataclass(frozen=True)
class World:
    """One of `size` processes that train one model, each with its share of every batch.

    timeout_s   for so long others may be silent
    """

    rank: int = 0
    size: int = 1
    timeout_s: float = 0.0
    _calls_group: Any = None
    _running: list[Any] = field(default_factory=list, compare=False)  # the newest sum on a GPU

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place; PeerError if one has ended or is silent for too long.

        On a GPU it may still run when this returns: see `settle`.
        """
        if self.size > 1:
            with peers():
                work = dist.all_reduce(tensor, async_op=True)
                work.wait()
            if tensor.device.type != "cpu":
                self._running[:] = [work]
        return tensor

    def settle(self) -> None:
        """Wait for the sums on the GPU, which end in order; PeerError if one was given up, for nothing else says so."""
        with peers():
            while self._running:
                self._running.pop().wait(timedelta(seconds=self.timeout_s))

    def wait(self) -> None:
        """Return when all processes have called this."""
        self.sum(torch.zeros(1))

    def together(self, work: Callable[[], Value]) -> Value:
        """Do work of any length, and return when all processes have done theirs; each has work of its own.

        PeerError if one ends, or shows no sign of life for longer than the timeout.
        """
        if self.size == 1:
            return work()
        with _Heartbeat(self):
            return work()

    def of_first(self, work: Callable[[], float]) -> float:
        """What the first process computes, for all of them; the others wait, however long it takes."""
        figure = self.together(work if self.first else lambda: 0.0)
        return float(self.sum(torch.tensor([figure], dtype=torch.float64)))

    def check_same(self, number: int, what: str) -> None:
        """PeerError if the processes have different numbers."""
        if int(self.sum(torch.tensor([number]))) != number * self.size:
            raise PeerError(
                f"training processes have different {what} (this one: {number}); check that all see the same run folder"
            )

    def draw(self) -> int:
        """A random number below 2^62 that all processes have alike, and no other training has."""
        return int(self.sum(torch.tensor([secrets.randbits(62) if self.first else 0])))

    def call(self, argument: Any) -> None:
        """Send plain values from the first process to those that wait in `calls`; None ends these."""
        if self._calls_group is not None:
            self._broadcast([argument])

    def calls(self) -> Iterator[Any]:
        """What the first process sends, one after the other, however long it takes in between."""
        while (argument := self._broadcast([None])) is not None:
            yield argument

    def mark_end(self) -> None:
        """Let the others know that the first process ends by itself, and prints its error if there is one."""
        if self.size > 1:
            with contextlib.suppress(RuntimeError):  # the store is on another machine, which may be lost
                dist.distributed_c10d._get_default_store().set(_ENDED, "1")

    def first_ended(self) -> bool:
        """Whether the first process has ended by itself; one that was killed cannot print what has happened."""
        try:
            dist.distributed_c10d._get_default_store().wait([_ENDED], timedelta(seconds=_ENDED_S))
        except RuntimeError:
            return False
        return True

    def _broadcast(self, argument: list[Any]) -> Any:
        with peers():
            dist.broadcast_object_list(argument, group=self._calls_group)
        return argument[0]


class _Heartbeat:
    """Sums of how many have done their work, on a thread of each process, until all have: also the signs of life.

    Inside the block the process takes part in no other sum.
    """

    def __init__(self, world: World) -> None:
        self._world, self._done, self._failed = world, threading.Event(), False
        self._beat_s = min(_BEAT_S, world.timeout_s / 4)
        self._error: PeerError | None = None
        self._thread = threading.Thread(target=self._work, name="heartbeat", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._failed = kind is not None
        self._done.set()
        self._thread.join(2 * self._beat_s if self._failed else None)
        if self._error is not None and not self._failed:
            raise self._error

    def _work(self) -> None:
        number = 0
        try:
            while number < self._world.size and not self._failed:
                done = self._done.wait(self._beat_s)
                number = int(self._world.sum(torch.tensor([int(done and not self._failed)])))
        except PeerError as error:
            self._error = error


ALONE = World()
_calls_group: list[Any] = []  # module state, as torch's default group is: a nested join_world finds both again
_lost = threading.Event()  # set when another process of the group has been lost


@contextlib.contextmanager
def join_world(timeout_s: float, device: str = "auto") -> Iterator[World]:
    """The world that this process has joined already (Ray Train), that torchrun has started it in, or it alone.

    device   `runtime.device`: unless it is cpu, each process of a machine takes a GPU of its own where there are any
    """
    if dist.is_available() and dist.is_initialized():
        yield World(dist.get_rank(), dist.get_world_size(), timeout_s, *_calls_group)
        return
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield ALONE
        return
    gpus = 0 if device == "cpu" else torch.cuda.device_count()
    if gpus:
        torch.cuda.set_device(gpu_of(int(os.environ.get("LOCAL_RANK", "0")), _sharing(), gpus))
        os.environ.update({**NCCL_VARIABLES, **os.environ})
    _lost.clear()
    with _joining(timeout_s):
        dist.init_process_group(backend(gpus > 0), timeout=timedelta(seconds=timeout_s))
        _calls_group.append(dist.new_group(backend="gloo", timeout=_LONGEST_CALL))
    try:
        with outlive_stop(_lost):  # torchrun stops the others when a process is lost
            yield World(dist.get_rank(), dist.get_world_size(), timeout_s, *_calls_group)
    finally:
        _calls_group.clear()
        with contextlib.suppress(RuntimeError):  # after the loss of a process, which has its sentence already
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
def _joining(timeout_s: float) -> Iterator[None]:
    """Report in one sentence why the processes do not find each other."""
    try:
        yield
    except RuntimeError as error:
        if wrong := wrong_interface(str(error)):
            variable, _, name = wrong.partition("=")
            raise ConfigError(
                f"{variable}: this machine has no network interface {name!r} with an address, it has "
                f"{join_names(interface_names())}; set it to one that reaches the other processes, or unset it"
            ) from error
        place = f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"
        raise PeerError(
            f"the {os.environ['WORLD_SIZE']} processes of the training have not found each other at {place} within "
            f"{timeout_s:g} s ({_reason(error)}); start all of them, set GLOO_SOCKET_IFNAME to the network interface "
            "that they reach each other by, or raise runtime.timeout_s, and rerun the command"
        ) from error


@contextlib.contextmanager
def peers() -> Iterator[None]:
    """Report the failure of another process in one sentence."""
    try:
        yield
    except RuntimeError as error:
        _lost.set()
        raise PeerError(
            "another process of the training has ended, or is silent for longer than runtime.timeout_s "
            f"({_reason(error)}); checkpoints are kept: rerun the command"
        ) from error


def _reason(error: RuntimeError) -> str:
    """The first sentence of an error of torch, without the place in its source."""
    line = (str(error).strip().splitlines() or ["no reason given"])[0]
    return re.sub(r"^\[[^\]]*\] *", "", line).partition(". ")[0].rstrip(".")[:160]
