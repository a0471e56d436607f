"""Runs tasks on the machines of a Ray cluster: bounded work in flight, and results of a few bytes."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import ray
from ray.exceptions import RayError

from gscl_scale.errors import TaskError
from gscl_scale.runtime.cluster.connect import joined
from gscl_scale.runtime.cluster.nodes import (
    THREADS,
    alive_machines,
    is_possible,
    need_of,
    refuse_impossible,
    room,
    told,
)
from gscl_scale.runtime.cluster.preflight import check_shared
from gscl_scale.runtime.cluster.retry import Attempt, next_attempt
from gscl_scale.runtime.local import LocalRunner
from gscl_scale.runtime.settings import RunnerSettings

Task = TypeVar("Task")
Result = TypeVar("Result")

_LOOK_S = 2.0  # between two looks at the machines
_NO_ROOM_S = 600.0  # an autoscaler starts a machine within minutes
_MOMENT_S = 0.5
_CANCEL_S = 10.0
_ONE_THREAD = dict.fromkeys(THREADS, "1")


@contextlib.contextmanager
def start_cluster_runner(settings: RunnerSettings, own_cpus: float = 0.0) -> Iterator["ClusterRunner | LocalRunner"]:
    """The runner of a cluster: the one that is named or found, else one that lives as long as the runner.

    Where there is no room beside the cores that this process has for itself, these do the tasks.
    """
    with joined(settings.address), contextlib.ExitStack() as local:
        if own_cpus and not is_possible(need_of(settings), alive_machines(own_cpus)):
            yield local.enter_context(LocalRunner(max(1, int(own_cpus))))
        else:
            yield ClusterRunner(settings, own_cpus)


class ClusterRunner:
    """Runs tasks on the cluster that this process has joined; machines may come and go."""

    def __init__(self, settings: RunnerSettings, own_cpus: float = 0.0) -> None:
        self._settings, self._own_cpus = settings, own_cpus
        self._need = need_of(settings)
        self._machines = alive_machines(own_cpus)
        self._looked = self._had_room = time.monotonic()
        self._folders: list[Path] = []
        refuse_impossible(self._need, self._machines)

    @property
    def workers(self) -> int:
        """Tasks that run at once: as many as asked for, or as the machines have room for now."""
        return self._settings.workers or max(1, room(self._need, self._machines))

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

    def check_shared(self, folder: Path) -> None:
        """FolderError if a machine does not see or cannot write the folder, RunError if one has other versions.

        Machines that join later are checked when they do.
        """
        self._folders.append(folder)
        self._check(folder, set())

    def _remote(self, function: Callable[[Task], Result]) -> Any:
        return ray.remote(function).options(
            num_cpus=self._settings.task_cpus,
            memory=self._need.get("memory"),
            resources=dict(self._settings.task_resources) or None,
            max_retries=0,  # counted in `next_attempt`: Ray would repeat a task that runs out of memory for ever
            runtime_env={"env_vars": _ONE_THREAD},
        )

    def _in_flight(self) -> int:
        """Where the number of workers is set nothing more may run; otherwise Ray holds as much again ready."""
        return self._settings.workers or 2 * self.workers

    def _finished(self, remote: Any, running: dict[Any, Attempt]) -> Iterator[Any]:
        """Take what has finished out of `running`, and start again what was lost."""
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
        """See now and then which machines there are."""
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        known = {machine.id for machine in self._machines}
        self._machines, self._looked = alive_machines(self._own_cpus), now
        for folder in self._folders:
            self._check(folder, known)
        if room(self._need, self._machines):
            self._had_room = now
        elif now - self._had_room > _NO_ROOM_S:
            raise TaskError(
                f"for {_NO_ROOM_S:.0f} s no machine of the Ray cluster has had {told(self._need)}; "
                "finished work is kept: add machines, or ask for less per task (runtime.task_*), and run again"
            )

    def _check(self, folder: Path, known: set[str]) -> None:
        """Check the machines that are not known yet; one without room for a task never gets any."""
        new = [machine for machine in self._machines if machine.id not in known and machine.room(self._need)]
        if new:
            check_shared(folder, new)


def _wait(running: dict[Any, Attempt]) -> list[Any]:
    """All tasks that have finished, none if none does for a while."""
    if not ray.wait(list(running), timeout=_LOOK_S, fetch_local=False)[0]:
        return []
    finished: list[Any] = ray.wait(list(running), num_returns=len(running), timeout=0, fetch_local=False)[0]
    return finished


def _stop(running: dict[Any, Attempt]) -> None:
    """Stop what does not end by itself in a moment: every task publishes whole files or none.

    Ray ends our whole process where a task's reply meets its cancellation (Ray's pull request 54798 mends a part of
    it), and short tasks are likely to reply just then.
    """
    if not running or not ray.is_initialized():
        return
    _, left = ray.wait(list(running), num_returns=len(running), timeout=_MOMENT_S, fetch_local=False)
    for reference in left:
        ray.cancel(reference, force=True)
    if left:
        ray.wait(left, num_returns=len(left), timeout=_CANCEL_S, fetch_local=False)
