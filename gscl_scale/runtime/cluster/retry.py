"""The decision about a failed task: its own error is raised, and lost work is repeated, within bounds."""

from dataclasses import dataclass
from typing import Any

from ray.exceptions import (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayError,
    RayTaskError,
    WorkerCrashedError,
)

from gscl_scale.errors import GsclError, TaskError
from gscl_scale.runtime.cluster.connect import error_line

_LOST = (WorkerCrashedError, NodeDiedError, LocalRayletDiedError, OutOfMemoryError, ObjectLostError)
_KEPT = "finished work is kept"


@dataclass(frozen=True)
class Attempt:
    """A running task, and how often it was lost before."""

    task: Any
    lost: int = 0


def next_attempt(attempt: Attempt, error: RayError, retries: int) -> Attempt | BaseException:
    """The task again if it was lost through no fault of its own, otherwise the error to raise."""
    if isinstance(error, RayTaskError):
        return _own_error(error)
    if not isinstance(error, _LOST):
        return TaskError(f"the Ray cluster could not run a task: {error_line(error)}; {_KEPT}: fix this, and run again")
    if attempt.lost < retries:
        return Attempt(attempt.task, attempt.lost + 1)
    return _lost_for_good(attempt.lost + 1, error)


def _own_error(error: RayTaskError) -> BaseException:
    """The error of the task: as it is if it explains itself, otherwise with the traceback of the other machine."""
    cause: BaseException = error.cause
    if not isinstance(cause, GsclError):
        cause.__cause__ = error
    return cause


def _lost_for_good(times: int, error: RayError) -> TaskError:
    if isinstance(error, OutOfMemoryError):
        return TaskError(
            f"a task ran out of memory on the Ray cluster, {times} times; {_KEPT}: set runtime.task_memory_gb to what "
            "a task needs, so that fewer run on a machine, and run again"
        )
    return TaskError(
        f"a task was lost with its process or machine, {times} times; {_KEPT}: look for the reason in the logs of the "
        "Ray cluster, raise runtime.task_retries if machines come and go, and run again"
    )
