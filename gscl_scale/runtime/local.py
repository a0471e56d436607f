"""Tasks on processes of this machine."""

import itertools
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from gscl_scale.errors import TaskError

Task = TypeVar("Task")
Result = TypeVar("Result")

INLINE_S = 1.0


def num_workers(setting: int) -> int:
    """The setting, or one per core that this process may use."""
    return (
        setting or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else setting or os.cpu_count() or 1
    )


def run_tasks(function: Callable[[Task], Result], tasks: Iterable[Task], workers: int) -> Iterator[Result]:
    """Results as they come, with at most two tasks per worker in flight.

    The first task runs in this process, so that compiled kernels are cached once before several processes want them,
    and so do those of the first second: small jobs never pay for starting processes.
    """
    remaining = iter(tasks)
    yield from map(function, itertools.islice(remaining, 1))
    began = time.monotonic()
    for task in remaining:
        if workers > 1 and time.monotonic() - began > INLINE_S:
            yield from _in_processes(function, itertools.chain([task], remaining), workers)
            return
        yield function(task)


def _in_processes(function: Callable[[Task], Result], tasks: Iterable[Task], workers: int) -> Iterator[Result]:
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        running: set[Future[Result]] = set()
        try:
            for task in tasks:
                running.add(pool.submit(function, task))
                if len(running) >= 2 * workers:
                    finished, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (future.result() for future in finished)
            while running:
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in finished)
        except BrokenProcessPool:
            raise TaskError(
                "a worker process died (killed, or out of memory); finished parts are kept: "
                "run the same command again, with fewer runtime.workers if memory was short"
            ) from None
        finally:
            for future in running:
                future.cancel()
