"""Room for the processes of a training on a cluster whose machines come and go: asked for, awaited, given up."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import ray
from ray._private import state as ray_state
from ray.autoscaler.sdk import request_resources
from ray.core.generated import gcs_pb2
from ray.exceptions import RayError
from ray.util.placement_group import PlacementGroup, remove_placement_group

from gscl_scale.errors import StoppedError, TaskError
from gscl_scale.runtime.cluster.nodes import Machine, alive_machines, is_possible, resources_text, task_capacity
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.settings import TrainingSettings

_LOOK_S = 1.0
_START_S, _SOON_S = 60.0, 10.0  # of an attempt, to wait for room: of a range one may take fewer
_STARTS = 10  # attempts that end at once
_KEPT = "checkpoints are kept"


@dataclass(frozen=True)
class AttemptEnd:
    """Why an attempt has ended before the training: it failed, was asked to end, or could not even start.

    waited_s   not started: how long it has waited for room
    """

    reason: str
    kind: Literal["failed", "asked", "not started"]
    waited_s: float = 0.0


@contextlib.contextmanager
def ask_for_room(settings: TrainingSettings) -> Iterator[None]:
    """Ask the autoscaler, if the cluster has one, for the most processes of the range as long as the training lasts.

    The processes that run are only as many as the machines that are there have room for, so without this it would not
    see that more are wanted.
    """
    if not any(machine.managed for machine in alive_machines()):
        yield
        return
    request_resources(bundles=[dict(settings.resources)] * settings.workers[1])
    try:
        yield
    finally:
        with contextlib.suppress(RayError):  # the cluster may be lost
            request_resources(bundles=[])


def release_lost_groups() -> None:
    """Remove the placement groups of attempts whose controller was killed, of this driver's alone.

    Ray does so by an actor of its own. Where that was killed too, it keeps their cores as long as the driver lives.
    """
    own = bytes.fromhex(ray.get_runtime_context().get_job_id())
    for row in ray_state.state._connect_and_get_accessor().get_placement_group_table():
        group = gcs_pb2.PlacementGroupTableData.FromString(row)
        lost = group.creator_job_id == own and group.creator_actor_dead
        if lost and group.state != gcs_pb2.PlacementGroupTableData.REMOVED:
            remove_placement_group(PlacementGroup(ray.PlacementGroupID(group.placement_group_id)))


def await_room(settings: TrainingSettings, asked: Callable[[], bool], console: Console) -> None:
    """Wait until machines have room for the fewest processes, or an autoscaler may add some; TaskError if none come."""
    began, told = time.monotonic(), False
    while not is_possible(settings.resources, machines := alive_machines(), settings.workers[0]):
        what = (
            f"runtime.train_workers: {settings.workers[0]} processes with {resources_text(settings.resources)} each "
            f"are asked for, but the machines of the Ray cluster have room for "
            f"{task_capacity(settings.resources, machines)}"
        )
        if time.monotonic() - began >= settings.wait_s:
            raise TaskError(
                f"{what} after {_minutes(settings)}; {_KEPT}: ask for fewer, for less each (runtime.worker_cpus, "
                "worker_gpus), add machines, or wait longer (runtime.wait_minutes), and run again"
            )
        if not told:
            console.say(f"{what}; waiting up to {_minutes(settings)} for machines (runtime.wait_minutes)")
        told = True
        if asked():
            raise StoppedError("training was asked to stop; the same command resumes from the newest checkpoint")
        time.sleep(min(_LOOK_S, settings.wait_s))


def attempt_size(settings: TrainingSettings, machines: list[Machine], breaks: list[AttemptEnd]) -> int:
    """Processes of the next attempt: of a range as many as fit, and ever fewer after attempts that did not start."""
    tried = list(itertools.takewhile(lambda broken: broken.kind == "not started", reversed(breaks)))
    low, high = settings.workers
    return max(low, min(high, task_capacity(settings.resources, machines)) - (1 << len(tried)) + 1)


def give_up(breaks: list[AttemptEnd], settings: TrainingSettings) -> None:
    """TaskError if another attempt has no prospects."""
    failures = sum(broken.kind == "failed" for broken in breaks)
    if failures > settings.max_failures:
        raise TaskError(
            f"training was interrupted {failures} times, the last time because {breaks[-1].reason}; {_KEPT}: "
            "look for the reason in log.jsonl and in the logs of the Ray cluster, raise runtime.max_failures "
            "if machines come and go, and run again"
        )
    vain = list(itertools.takewhile(lambda broken: broken.kind == "not started", reversed(breaks)))
    at_once = sum(broken.waited_s < _SOON_S / 2 for broken in vain)
    if at_once >= _STARTS or (vain and sum(broken.waited_s for broken in vain) >= settings.wait_s):
        raise TaskError(
            f"training was not started {f'{at_once} times' if at_once >= _STARTS else f'within {_minutes(settings)}'}, "
            f"the last time because {breaks[-1].reason}; {_KEPT}: check with ray status what is in use, or wait longer "
            "(runtime.wait_minutes), and run again"
        )


def start_s(settings: TrainingSettings, size: int) -> int:
    """How long an attempt waits for room."""
    return int(min(_START_S if size == settings.workers[0] else _SOON_S, max(_SOON_S, settings.wait_s)))


def _minutes(settings: TrainingSettings) -> str:
    return f"{settings.wait_s / 60:g} minutes"
