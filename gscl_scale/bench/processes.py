"""Work in fresh processes, each on its own cores, all started at once; and the memory that they allocate."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from gscl_scale import machine
from gscl_scale.errors import RunError

Result = TypeVar("Result")

_SAMPLE_S = 0.02


def in_process(cores: Sequence[int], function: Callable[..., Result], *arguments: Any) -> Result:
    """Run a function alone in a fresh process that keeps to these cores."""
    with _pool(1) as pool:
        return pool.submit(_alone, list(cores), function, arguments).result()


def on_each_core(cores: Sequence[int], function: Callable[..., Result], *arguments: Any) -> list[Result]:
    """Run `function(number, barrier, *arguments)` in a fresh process per core; it must wait at the barrier once."""
    barrier = multiprocessing.get_context("spawn").Barrier(len(cores))
    with _pool(len(cores), barrier) as pool:
        futures = [pool.submit(_together, core, number, function, arguments) for number, core in enumerate(cores)]
        errors = [error for future in futures if (error := future.exception())]
        errors.sort(key=lambda error: isinstance(error, threading.BrokenBarrierError))  # only a consequence
        if errors:
            raise errors[0]
        return [future.result() for future in futures]


@dataclass
class Allocated:
    """Bytes that this process has allocated without mapped files: before, and the most so far."""

    before: int
    most: int

    @property
    def more(self) -> int:
        """The most beyond what was allocated before."""
        return self.most - self.before


@contextmanager
def most_allocated() -> Iterator[Allocated]:
    """Measure allocated memory again and again until the end of the block."""
    before = machine.allocated_memory()
    allocated, over = Allocated(before, before), threading.Event()

    def watch() -> None:
        while not over.wait(_SAMPLE_S):
            allocated.most = max(allocated.most, machine.allocated_memory())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield allocated
    finally:
        over.set()
        thread.join()


_barriers: list[threading.Barrier] = []  # of this process: a barrier can only be passed on when a process starts


@contextmanager
def _pool(size: int, *barriers: threading.Barrier) -> Iterator[ProcessPoolExecutor]:
    """Processes that are not waited for when this one is interrupted: what they measure may take long."""
    others = multiprocessing.active_children()
    try:
        with ProcessPoolExecutor(size, multiprocessing.get_context("spawn"), _begin, barriers) as pool:
            try:
                yield pool
            except BaseException:
                for process in multiprocessing.active_children():
                    if process not in others:
                        process.kill()
                raise
    except BrokenProcessPool:
        raise RunError("bench: a process was killed, perhaps out of memory; measure with fewer --cores") from None


def _begin(*barriers: threading.Barrier) -> None:
    """Keep the barrier, and end with the parent: a killed parent could not end this process itself."""
    _barriers.extend(barriers)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _alone(cores: list[int], function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    return function(*arguments)


def _together(core: int, number: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The function waits at the barrier, so that each process takes one task; a failed one releases the others."""
    barrier = _barriers[-1]
    try:
        return _alone([core], function, (number, barrier, *arguments))
    except BaseException:
        barrier.abort()
        raise
