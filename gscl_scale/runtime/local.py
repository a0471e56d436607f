"""Tasks on threads of this machine: kernels release the interpreter lock, and all memory is shared."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from gscl_scale.runtime.settings import NOTHING, MemoryNeed

Task = TypeVar("Task")
Result = TypeVar("Result")

_IN_FLIGHT = 2  # tasks per worker that run or wait: a worker never waits for the consumer of results


class LocalRunner:
    """Runs tasks on threads; a single worker is the caller's own thread."""

    task_threads = 1  # a task is a thread

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._pool = ThreadPoolExecutor(workers, "task") if workers > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def run(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield results as they finish; after an error nothing new starts, and running tasks end first."""
        if self._pool is None:
            return map(function, tasks)
        return self._on_threads(self._pool, function, tasks)

    def check_shared(self, folder: Path, need: MemoryNeed = NOTHING) -> None:
        """Do nothing: all threads see the same files, and whoever starts them knows the memory of this machine."""

    def _on_threads(
        self, pool: ThreadPoolExecutor, function: Callable[[Task], Result], tasks: Iterable[Task]
    ) -> Iterator[Result]:
        running: set[Future[Result]] = set()
        try:
            for task in tasks:
                running.add(pool.submit(function, task))
                if len(running) >= _IN_FLIGHT * self.workers:
                    yield from _finished(running)
            while running:
                yield from _finished(running)
        finally:
            _stop(running)


def _finished(running: set[Future[Result]]) -> Iterator[Result]:
    """Take at least one finished task out of `running`."""
    finished = wait(running, return_when=FIRST_COMPLETED).done
    running -= finished
    failures = [error for future in finished if (error := future.exception())]
    if failures:
        finished |= _stop(running)
    yield from (future.result() for future in finished if not future.exception())
    if failures:
        raise failures[0]


def _stop(running: set[Future[Result]]) -> set[Future[Result]]:
    """Cancel tasks that have not started and wait for the others."""
    return wait([future for future in running if not future.cancel()]).done
