"""Tasks on the machines of a Ray cluster, with a bounded number in flight and results of a few bytes."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray.exceptions import RayError

from gscl_scale.errors import TaskError
from gscl_scale.runtime.cluster.connect import join_cluster
from gscl_scale.runtime.cluster.nodes import (
    THREADS,
    Machine,
    alive_machines,
    is_possible,
    refuse_impossible,
    resources_text,
    task_capacity,
)
from gscl_scale.runtime.cluster.preflight import SharedFolder
from gscl_scale.runtime.cluster.retry import Attempt, next_attempt
from gscl_scale.runtime.local import LocalRunner
from gscl_scale.runtime.settings import NOTHING, MemoryNeed, RunnerSettings

Task = TypeVar("Task")
Result = TypeVar("Result")

_LOOK_S = 2.0
_NO_ROOM_S = 600.0  # an autoscaler starts a machine within minutes
_MOMENT_S = 0.5
_CANCEL_S = 10.0
_ONE_THREAD = dict.fromkeys(THREADS, "1")


@contextlib.contextmanager
def start_cluster_runner(settings: RunnerSettings, own_cpus: float = 0.0) -> Iterator["ClusterRunner | LocalRunner"]:
    """Yield the runner of a cluster: the named one, one that runs here, or one that lives as long as the runner.

    If the cluster has no room apart from the cores that this process has for itself, these do the tasks.
    """
    with join_cluster(settings.address), contextlib.ExitStack() as local:
        if own_cpus and not is_possible(settings.resources, alive_machines(own_cpus)):
            yield local.enter_context(LocalRunner(max(1, int(own_cpus))))
        else:
            yield ClusterRunner(settings, own_cpus)


class ClusterRunner:
    """Runs tasks on the cluster that this process has joined; machines may come and go."""

    def __init__(self, settings: RunnerSettings, own_cpus: float = 0.0) -> None:
        self._settings, self._own_cpus = settings, own_cpus
        self._need = settings.resources
        self._machines = alive_machines(own_cpus)
        self._looked = self._had_room = time.monotonic()
        self._folders: list[SharedFolder] = []
        refuse_impossible(self._need, self._machines, settings.keys)

    @property
    def workers(self) -> int:
        """Tasks that run at once: as many as asked for, or as the machines have room for now."""
        return self._settings.workers or max(1, task_capacity(self._need, self._machines))

    @property
    def task_threads(self) -> int:
        """A thread for each core of a task."""
        return max(1, int(self._settings.task_cpus))

    def run(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """Results as they finish; after an error, what runs is stopped."""
        remote = self._remote(function)
        waiting = iter(tasks)
        running: dict[Any, Attempt] = {}
        try:
            while True:
                self._look()
                for task in itertools.islice(waiting, max(0, self._in_flight() - len(running))):
                    running[remote.remote(task)] = Attempt(task)
                if not running:
                    return
                yield from self._finished(remote, running)
        finally:
            _stop(running)

    def check_shared(self, folder: Path, need: MemoryNeed = NOTHING) -> None:
        """FolderError if a machine does not see or cannot write the folder, RunError if one has other versions.

        ConfigError if one has too little memory for the tasks that it may run at once.
        Machines that join later are checked when they do.
        """
        self._folders.append(SharedFolder(folder, need, self._at_once, "task_memory_gb"))
        self._check_folders()

    def _remote(self, function: Callable[[Task], Result]) -> Any:
        return ray.remote(function).options(
            num_cpus=self._settings.task_cpus,
            num_gpus=self._settings.task_gpus or None,
            memory=self._need.get("memory"),
            resources=dict(self._settings.task_resources) or None,
            max_retries=0,  # `next_attempt` counts: Ray would repeat a task that runs out of memory for ever
            runtime_env={"env_vars": _ONE_THREAD},
        )

    def _at_once(self, machine: Machine) -> int:
        """Tasks that a machine may run at once."""
        return min(machine.room(self._need), self._settings.workers or machine.room(self._need))

    def _in_flight(self) -> int:
        """Tasks that Ray has at once: if the number of workers is not set, as many again wait for their turn."""
        return self._settings.workers or 2 * self.workers

    def _finished(self, remote: Any, running: dict[Any, Attempt]) -> Iterator[Any]:
        """Take finished tasks out of `running`, and start lost ones again."""
        failures: list[BaseException] = []
        for reference in _wait(running):
            attempt = running.pop(reference)
            try:
                result = ray.get(reference)
            except RayError as error:
                following = next_attempt(attempt, error, self._settings.task_retries)
                if isinstance(following, Attempt):
                    running[remote.remote(following.task)] = following
                else:
                    failures.append(following)
            else:
                yield result
        if failures:
            raise failures[0]

    def _look(self) -> None:
        """Look from time to time which machines run."""
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        self._machines, self._looked = alive_machines(self._own_cpus), now
        self._check_folders()
        if task_capacity(self._need, self._machines):
            self._had_room = now
        elif now - self._had_room > _NO_ROOM_S:
            raise TaskError(
                f"for {_NO_ROOM_S:.0f} s no machine of the Ray cluster has had {resources_text(self._need)}; "
                "finished work is kept: add machines, or ask for less per task (runtime.task_*), and run again"
            )

    def _check_folders(self) -> None:
        """Check the machines that have room for a task; others never get any."""
        for folder in self._folders:
            folder.check(machine for machine in self._machines if machine.room(self._need))


def _wait(running: dict[Any, Attempt]) -> list[Any]:
    """All finished tasks; none if none finishes for a while."""
    if not ray.wait(list(running), timeout=_LOOK_S, fetch_local=False)[0]:
        return []
    finished: list[Any] = ray.wait(list(running), num_returns=len(running), timeout=0, fetch_local=False)[0]
    return finished


def _stop(running: dict[Any, Attempt]) -> None:
    """Cancel tasks that do not end by themselves in a moment: every task publishes complete files or none.

    Ray ends our whole process if a task's reply meets its cancellation (Ray's pull request 54798 mends a part of it),
    and short tasks are likely to reply just then.
    """
    if not running or not ray.is_initialized():
        return
    _, left = ray.wait(list(running), num_returns=len(running), timeout=_MOMENT_S, fetch_local=False)
    for reference in left:
        ray.cancel(reference, force=True)
    if left:
        ray.wait(left, num_returns=len(left), timeout=_CANCEL_S, fetch_local=False)
