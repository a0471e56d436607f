"""The runner of a stage's tasks: results come out as they finish; threads and Ray are interchangeable."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from gscl_scale.errors import GraphError
from gscl_scale.machine import num_cores
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.extras import need_package
from gscl_scale.runtime.local import LocalRunner
from gscl_scale.runtime.settings import NOTHING, MemoryNeed, RunnerSettings, TrainingBody, TrainingSettings

Task = TypeVar("Task")
Result = TypeVar("Result")


class Runner(Protocol):
    """Runs the same top-level function over many tasks of plain values."""

    @property
    def workers(self) -> int:
        """Tasks that run at once."""
        ...

    @property
    def task_threads(self) -> int:
        """Threads that a task may use."""
        ...

    def run(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield results as they finish; tasks are drawn as they are needed, and the first error ends it."""
        ...

    def check_shared(self, folder: Path, need: MemoryNeed = NOTHING) -> None:
        """FolderError if a machine of the runner does not see this folder, ConfigError if one has too little memory."""
        ...


@contextlib.contextmanager
def start_runner(settings: RunnerSettings, own_cpus: float = 0.0) -> Iterator[Runner]:
    """Yield the runner of the settings and stop it at the end; Ray is imported only if it is the engine.

    `own_cpus`: cores of a Ray cluster that this process has for itself; they do the tasks if it has no others.

    >>> with start_runner(RunnerSettings(workers=2)) as runner:
    ...     sorted(runner.run(abs, [-1, 2, -3]))
    [1, 2, 3]
    """
    if settings.engine == "ray":
        need_package("ray", "ray", "runtime.engine=ray")
        from gscl_scale.runtime.cluster.runner import start_cluster_runner

        with start_cluster_runner(settings, own_cpus) as cluster:
            yield cluster
        return
    with LocalRunner(settings.workers or num_cores()) as runner:
        yield runner


@contextlib.contextmanager
def stay_joined(settings: RunnerSettings) -> Iterator[None]:
    """Be part of the cluster of the settings, if they name one, for several stages.

    Each of them would join it anew: that takes seconds, and processes of their own, which import everything again.
    """
    if settings.engine == "ray":
        need_package("ray", "ray", "runtime.engine=ray")
        from gscl_scale.runtime.cluster.connect import join_cluster

        with join_cluster(settings.address):
            yield
        return
    yield


@dataclass(frozen=True)
class _Numbered:
    """A task with its number, and the function that does it."""

    number: int
    function: Callable[[Any], Any]
    task: Any


def run_in_order(runner: Runner, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """Yield results in the order of the tasks.

    What is wrong with the input is raised in that order too, so that the first mistake of the input is named, whichever
    task is quicker.
    """
    numbered = (_Numbered(number, function, task) for number, task in enumerate(tasks))
    finished: dict[int, Any] = {}
    number = 0
    for done, result in runner.run(_run_numbered, numbered):
        finished[done] = result
        while number in finished:
            result = finished.pop(number)
            if isinstance(result, GraphError):
                raise result
            yield result
            number += 1


def _run_numbered(call: _Numbered) -> tuple[int, Any]:
    try:
        return call.number, call.function(call.task)
    except GraphError as error:
        return call.number, error


def train_together(
    function: TrainingBody,
    argument: Any,
    folder: Path,
    settings: TrainingSettings,
    console: Console,
    watch: Callable[[], None] = lambda: None,
    need: MemoryNeed = NOTHING,
) -> None:
    """Train by many processes of a Ray cluster, see `train_on_cluster`; Ray is imported only here."""
    need_package("ray", "ray", "runtime.engine=ray")
    from gscl_scale.runtime.cluster.training import train_on_cluster

    train_on_cluster(function, argument, folder, settings, console, watch, need)
