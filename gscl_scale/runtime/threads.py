"""Work on several threads whose results come in the order of the tasks, with few of them waiting in memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import TypeVar

from gscl_scale.machine import num_cores

Task = TypeVar("Task")
Result = TypeVar("Result")


def num_threads() -> int:
    """One thread per core that this process may use; no result depends on it."""
    return num_cores()


def map_in_order(function: Callable[[Task], Result], tasks: Iterable[Task], threads: int) -> Iterator[Result]:
    """`map` on threads: at most `threads + 1` tasks are running or waiting to be taken. One task needs no thread."""
    if threads < 2:
        yield from map(function, tasks)
        return
    tasks = iter(tasks)
    first = list(islice(tasks, 2))
    if len(first) < 2:
        yield from map(function, first)
        return
    tasks = chain(first, tasks)
    with ThreadPoolExecutor(threads) as pool:
        running: deque[Future[Result]] = deque()
        try:
            for task in tasks:
                running.append(pool.submit(function, task))
                if len(running) > threads:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()


def one_ahead(source: Iterable[Result]) -> Iterator[Result]:
    """The same items, each computed on another thread while the one before is used."""
    items, end = iter(source), object()
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, end)
        try:
            while (item := coming.result()) is not end:
                coming = pool.submit(next, items, end)
                yield item  # type: ignore[misc]  # it is not the end
        finally:
            del coming  # it holds an error, whose traceback holds this frame and all that callers still use
