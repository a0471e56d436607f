"""One training by many processes of a Ray cluster: attempts that resume where the last one was interrupted."""

import contextlib
import functools
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray._private import state as ray_state
from ray.exceptions import RayError
from ray.train import ControllerError, FailureConfig, LoggingConfig, RunConfig, ScalingConfig, TrainingFailedError
from ray.train.torch import TorchConfig, TorchTrainer
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gscl_scale.errors import ConfigError, StoppedError, TaskError
from gscl_scale.io.atomic import scratch_folder
from gscl_scale.runtime.cluster.background import BackgroundCall
from gscl_scale.runtime.cluster.connect import error_line, join_cluster, temporary_environment
from gscl_scale.runtime.cluster.control_actor import ControlActor, Reports, process_body
from gscl_scale.runtime.cluster.nodes import (
    THREADS,
    Machine,
    alive_machines,
    resources_text,
    task_capacity,
)
from gscl_scale.runtime.cluster.preflight import SharedFolder
from gscl_scale.runtime.cluster.room import (
    AttemptEnd,
    ask_for_room,
    attempt_size,
    await_room,
    give_up,
    release_lost_groups,
    start_s,
)
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.native_threads import waiting_variables
from gscl_scale.runtime.network import NCCL_VARIABLES, wrong_interface
from gscl_scale.runtime.settings import NOTHING, MemoryNeed, TrainingBody, TrainingSettings
from gscl_scale.runtime.stop import stop_event

_LOOK_S = 1.0
_JOIN_S = 60  # for processes to start where there is room, and to join
_KEPT = "checkpoints are kept"
_CHECK_CLUSTER = "check with ray status that the cluster is healthy, and run again"


def train_on_cluster(
    function: TrainingBody,
    argument: Any,
    folder: Path,
    settings: TrainingSettings,
    console: Console,
    watch: Callable[[], None] = lambda: None,
    need: MemoryNeed = NOTHING,
) -> None:
    """Call a top-level function with a plain argument in every process of a training, until all have returned.

    Its second argument is an event that is set when it should save and stop, its third takes figures for Ray's metrics.
    After a loss it is called again, in new processes, and resumes from what it finds in `folder`. `watch` is called
    here about once a second. `need` is what each process takes at least; machines with less memory are refused.
    """
    with (
        join_cluster(settings.address),
        stop_event() as stop,
        scratch_folder(folder, "training") as scratch,
        contextlib.ExitStack() as asking,
    ):
        breaks: list[AttemptEnd] = []
        shared = SharedFolder(
            folder, need, lambda machine: min(machine.room(settings.resources), settings.workers[1]), "worker_cpus"
        )
        asking.enter_context(ask_for_room(settings))
        while True:
            release_lost_groups()
            await_room(settings, stop.is_set, console)
            machines = _lasting_machines()
            shared.check(machine for machine in machines if machine.room(settings.resources))
            try:
                size = attempt_size(settings, machines, breaks)
                body = functools.partial(process_body, function, argument, folder.name)
                broken = _Attempt(body, settings, machines, size, shared, scratch).run(stop.is_set, watch, console)
            except RayError as error:
                raise TaskError(
                    f"the Ray cluster was lost during the training ({error_line(error)}); {_KEPT}: {_CHECK_CLUSTER}"
                ) from None
            if broken is None:
                return
            breaks.append(broken)
            give_up(breaks, settings)
            what = "has not started" if broken.kind == "not started" else "was interrupted"
            console.say(f"training {what} because {broken.reason}; it resumes from the newest checkpoint")


class _Attempt:
    """A group of processes that train until they are done, or one of them fails."""

    def __init__(
        self,
        body: Callable[[Any], None],
        settings: TrainingSettings,
        machines: list[Machine],
        size: int,
        shared: SharedFolder,
        scratch: Path,
    ) -> None:
        self._settings, self._size, self._shared = settings, size, shared
        self._known = {machine.id for machine in machines}
        self._asked: AttemptEnd | None = None
        self._began = time.monotonic()
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._control = ray.remote(ControlActor).options(num_cpus=0, scheduling_strategy=here).remote()
        self._fit = BackgroundCall(_trainer(functools.partial(body, self._control), settings, size, scratch).fit)

    def run(self, asked: Callable[[], bool], watch: Callable[[], None], console: Console) -> AttemptEnd | None:
        """Run until it ends; the reason, or None when the training is done."""
        with temporary_environment(_environment(self._settings, self._size)):
            self._fit.start()
            try:
                self._accompany(asked, watch)
            finally:
                if not self._fit.is_over:
                    self._control.stop.remote()
        watch()
        return self._ended(asked(), console)

    def _accompany(self, asked: Callable[[], bool], watch: Callable[[], None]) -> None:
        """Watch the processes; ask them to stop if there is a reason."""
        asked_at: float | None = None
        late_at, begun = time.monotonic() + start_s(self._settings, self._size) + _JOIN_S + self._settings.timeout_s, 0
        while not self._fit.is_over:
            self._fit.wait(_LOOK_S)
            watch()
            if begun < self._size:
                begun = len(self._reports().machines)
                if begun < self._size:
                    self._refuse_silence(begun, late_at)
                else:
                    self._check_late()
            if asked_at is not None:
                if asked() and time.monotonic() - asked_at > self._settings.timeout_s:
                    raise _stopped_late()
            elif asked() or self._better_elsewhere():
                if asked() and not self._reports().machines:
                    raise _stopped_late()
                self._control.stop.remote()
                asked_at = time.monotonic()

    def _refuse_silence(self, begun: int, late_at: float) -> None:
        """TaskError if processes have not started in time: until all have, Ray waits for ever for one that hangs."""
        if time.monotonic() > late_at:
            raise TaskError(
                f"training did not start: {begun} of {self._size} processes have reported, the others hang; "
                f"{_KEPT}: {_CHECK_CLUSTER}"
            )

    def _check_late(self) -> None:
        """Check machines that came while the attempt waited for room."""
        late = set(self._reports().machines) - self._known
        if late:
            self._shared.check(machine for machine in alive_machines() if machine.id in late)
            self._known |= late

    def _better_elsewhere(self) -> bool:
        """Whether a machine is about to go, or new ones have room for more processes."""
        used = set(self._reports().machines)
        if not used:
            return False
        if _draining() & used:
            self._asked = AttemptEnd("a machine is about to be taken away", "asked")
        machines = _lasting_machines()
        fit = min(task_capacity(self._settings.resources, machines), self._settings.workers[1])
        if fit > self._size and any(machine.id not in self._known for machine in machines):
            self._asked = AttemptEnd(f"there is room for {fit} processes now", "asked")
        return self._asked is not None

    def _reports(self) -> Reports:
        reports: Reports = ray.get(self._control.reports.remote())
        return reports

    def _ended(self, asked: bool, console: Console) -> AttemptEnd | None:
        error = self._fit.error
        if error is None:
            return None
        reports = self._reports()
        own = [failure.error for failure in reports.failures if failure.error is not None]
        if self._asked and not asked and all(isinstance(each, StoppedError) for each in own):
            return self._asked
        if own:
            self._check_late()  # a folder that is not shared may be the reason
            raise own[0]
        if not isinstance(error, (TrainingFailedError, RayError)):
            raise error
        if isinstance(error, ControllerError):
            _refuse_interface(error.controller_failure)
            reason = _not_started(error.controller_failure, self._size, self._settings)
            return AttemptEnd(reason, "not started", time.monotonic() - self._began)
        reason = _reason(error, reports, self._settings)
        traces = [failure.trace for failure in reports.failures if not failure.peer]
        console.event("train", "broken_off", reason=reason, traces=traces)
        return AttemptEnd(reason, "failed")


def _reason(error: BaseException, reports: Reports, settings: TrainingSettings) -> str:
    """What has happened, from what Ray and the processes themselves have noticed."""
    failures: dict[int, BaseException] = getattr(error, "worker_failures", {})
    silent = [rank for rank, failure in failures.items() if type(failure).__name__ == "WorkerHealthCheckTimeoutError"]
    lost = sorted(set(failures) - set(silent) - {failure.rank for failure in reports.failures})
    for ranks, what in ((silent, f"is silent for more than {settings.timeout_s:g} s"), (lost, "was lost")):
        if ranks:
            return f"process {', '.join(map(str, ranks))} of {len(reports.machines)} {what}"
    unexpected = [failure for failure in reports.failures if not failure.peer]
    if unexpected:
        return f"process {unexpected[0].rank} failed ({unexpected[0].line[:160]})"
    if reports.failures:
        return f"a process was lost, or is silent for more than {settings.timeout_s:g} s"
    return f"Ray ended it ({error_line(error)})"


def _not_started(error: BaseException, size: int, settings: TrainingSettings) -> str:
    if type(error).__name__ == "WorkerGroupStartupTimeoutError":
        return f"the Ray cluster has no room now for {size} processes with {resources_text(settings.resources)} each"
    return f"the Ray cluster could not start {size} processes ({error_line(error)})"


def _refuse_interface(error: BaseException) -> None:
    """ConfigError if a machine lacks the network interface that it is told to use: other attempts would lack it too."""
    if wrong := wrong_interface(str(error)):
        raise ConfigError(
            f"{wrong}: a machine of the Ray cluster has no network interface of this name with an address; {_KEPT}: "
            "set it on every machine to one that reaches the others, or unset it, start Ray there again, and run again"
        ) from None


def _draining() -> set[str]:
    """Machines that are about to be taken away, as a cloud or `ray drain-node` has announced."""
    return set(ray_state.state.get_draining_nodes())


def _lasting_machines() -> list[Machine]:
    going = _draining()
    return [machine for machine in alive_machines() if machine.id not in going]


def _stopped_late() -> StoppedError:
    return StoppedError("training was asked to stop; the same command resumes from the newest checkpoint")


# --- settings of Ray Train -------------------------------------------------------------------------------------------


class _Backend(TorchConfig().backend_cls):  # type: ignore[misc]  # mypy skips Ray
    """Ray's own backend, but it does not wait for processes that are stopped: all are ended right after."""

    def on_shutdown(self, *_: Any, **__: Any) -> None:
        """Do nothing."""


@dataclass
class _Processes(TorchConfig):  # type: ignore[misc]  # mypy skips Ray
    """The process group."""

    @property
    def backend_cls(self) -> Any:
        """The backend that starts and ends it."""
        return _Backend


def _trainer(body: Callable[[], None], settings: TrainingSettings, size: int, scratch: Path) -> Any:
    """A training of Ray Train with a fixed number of processes: its elastic groups lose what was not saved.

    Every attempt is a run of its own for Ray: attempts are counted here, and checkpoints are our own.
    """
    return TorchTrainer(
        body,
        torch_config=_Processes(
            backend="cpu:gloo,cuda:nccl" if settings.gpus else "gloo", timeout_s=max(1, round(settings.timeout_s))
        ),
        scaling_config=ScalingConfig(
            num_workers=size, use_gpu=settings.gpus > 0, resources_per_worker=settings.resources
        ),
        run_config=RunConfig(
            name=f"attempt-{uuid.uuid4().hex[:8]}",
            storage_path=str(scratch),
            failure_config=FailureConfig(max_failures=0, controller_failure_limit=0, max_preemption_failures=0),
            worker_runtime_env={"env_vars": {**_thread_variables(settings), **NCCL_VARIABLES}},
            logging_config=LoggingConfig(log_level="ERROR"),
        ),
    )


def _thread_variables(settings: TrainingSettings) -> dict[str, str]:
    """As many threads as cores are reserved, which wait as those of the command do."""
    return {**dict.fromkeys(THREADS, str(max(1, int(settings.cpus)))), **waiting_variables(os.environ)}


def _environment(settings: TrainingSettings, size: int) -> dict[str, str]:
    """Settings that Ray Train takes only from environment variables."""
    return {
        "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": str(settings.timeout_s),
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(start_s(settings, size)),
        "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # `_better_elsewhere` looks
    }
