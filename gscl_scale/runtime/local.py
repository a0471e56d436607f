"""Tasks on processes of this machine."""

import itertools
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from gscl_scale.errors import TaskError

Task = TypeVar("Task")
Result = TypeVar("Result")


def num_workers(setting: int) -> int:
    """The setting, or one per core that this process may use."""
    return (
        setting or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else setting or os.cpu_count() or 1
    )


def run_tasks(
    function: Callable[[Task], Result], tasks: Iterable[Task], workers: int, warm: bool = True
) -> Iterator[Result]:
    """Results as they come, with at most two tasks per worker in flight.

    `warm` runs the first task in this process: compiled kernels are cached once, before several processes want them.
    """
    remaining = iter(tasks)
    if warm:
        yield from map(function, itertools.islice(remaining, 1))
    if workers == 1:
        yield from map(function, remaining)
        return
    head = list(itertools.islice(remaining, 1))
    if not head:
        return
    remaining = itertools.chain(head, remaining)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        running: set[Future[Result]] = set()
        try:
            for task in remaining:
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
