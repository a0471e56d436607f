"""Work in fresh processes, each on cores of its own, begun together; what they allocate."""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
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


@contextmanager
def most_allocated() -> Iterator[list[int]]:
    """Yield a list of what this process has allocated, without mapped files, read again and again."""
    found, over = [machine.allocated_memory()], threading.Event()

    def watch() -> None:
        while not over.wait(_SAMPLE_S):
            found[:] = [max(*found, machine.allocated_memory())]

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


_barriers: list[threading.Barrier] = []  # of this process: a barrier can only be handed over when a process starts


@contextmanager
def _pool(size: int, *barriers: threading.Barrier) -> Iterator[ProcessPoolExecutor]:
    try:
        with ProcessPoolExecutor(size, multiprocessing.get_context("spawn"), _begin, barriers) as pool:
            yield pool
    except BrokenProcessPool:
        raise RunError("bench: a process was killed, perhaps for want of memory; measure with fewer --cores") from None


def _begin(*barriers: threading.Barrier) -> None:
    """Keep the barrier, and end with the parent: killed, it could not end this process itself."""
    _barriers.extend(barriers)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _pin(cores: list[int]) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def _alone(cores: list[int], function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    _pin(cores)
    return function(*arguments)


def _together(core: int, number: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The function waits at the barrier, so that each process takes one task; a failed one lets the others go."""
    _pin([core])
    barrier = _barriers[-1]
    try:
        return function(number, barrier, *arguments)
    except BaseException:
        barrier.abort()
        raise
