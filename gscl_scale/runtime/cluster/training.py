"""One training by many processes of a Ray cluster: attempts that go on where the last one was broken off."""

import functools
import itertools
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ray
from ray._private import state as ray_state
from ray.exceptions import RayError
from ray.train import ControllerError, FailureConfig, LoggingConfig, RunConfig, ScalingConfig, TrainingFailedError
from ray.train.torch import TorchConfig, TorchTrainer
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from gscl_scale.errors import ConfigError, StoppedError, TaskError
from gscl_scale.io.atomic import scratch_folder
from gscl_scale.runtime.cluster.background import Beside
from gscl_scale.runtime.cluster.connect import brief, environment, joined
from gscl_scale.runtime.cluster.control_actor import Board, Notes, work
from gscl_scale.runtime.cluster.nodes import THREADS, Machine, alive_machines, room, told
from gscl_scale.runtime.cluster.preflight import check_shared
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.settings import TrainingBody, TrainingSettings
from gscl_scale.runtime.stop import asked_to_stop

_LOOK_S = 1.0
_START_S, _SOON_S = 60, 10  # to wait for room: an autoscaler needs minutes, and of a range one may take fewer
_JOIN_S = 60  # for processes to start where there is room, and to join
_STARTS = 10


@dataclass(frozen=True)
class Break:
    """Why an attempt has ended before the training: it failed, was asked to end, or could not even start."""

    reason: str
    kind: Literal["failed", "asked", "not started"]


def train_on_cluster(
    function: TrainingBody,
    argument: Any,
    folder: Path,
    settings: TrainingSettings,
    console: Console,
    watch: Callable[[], None] = lambda: None,
) -> None:
    """Call a top-level function with a plain argument in every process of a training, until all have returned.

    Its second argument is an event that is set when it should save and stop, its third takes figures for Ray's metrics.
    After a loss it is called again, in new processes, and goes on from what it finds in `folder`. `watch` is called
    here about once a second.
    """
    with joined(settings.address), asked_to_stop() as stop, scratch_folder(folder, "training") as scratch:
        known: set[str] = set()
        breaks: list[Break] = []
        _refuse_impossible(settings, alive_machines())
        while True:
            machines = _lasting_machines()
            new = [each for each in machines if each.id not in known and each.room(_need(settings))]
            check_shared(folder, new)
            known |= {machine.id for machine in new}
            try:
                size = size_of(settings, machines, breaks)
                attempt = _Attempt(
                    functools.partial(work, function, argument, folder.name),
                    scratch, settings, machines, size, stop, watch, functools.partial(check_shared, folder),
                )  # fmt: skip
                broken = attempt.run(console)
            except RayError as error:
                raise TaskError(
                    f"the Ray cluster was lost during the training ({brief(error)}); checkpoints are kept: see with "
                    "ray status whether it is well, and run again"
                ) from None
            if broken is None:
                return
            breaks.append(broken)
            give_up(breaks, settings)
            console.say(f"training was broken off because {broken.reason}; it goes on from the newest checkpoint")


def size_of(settings: TrainingSettings, machines: list[Machine], breaks: list[Break]) -> int:
    """Of a range as many processes as fit, if nobody else is there; ever fewer where that many could not be started."""
    tried = list(itertools.takewhile(lambda broken: broken.kind == "not started", reversed(breaks)))
    low, high = settings.workers
    return max(low, min(high, room(_need(settings), machines)) - (1 << len(tried)) + 1)


def give_up(breaks: list[Break], settings: TrainingSettings) -> None:
    """TaskError where another attempt has no prospects."""
    failures = sum(broken.kind == "failed" for broken in breaks)
    if failures > settings.max_failures:
        raise TaskError(
            f"training was broken off {failures} times, the last time because {breaks[-1].reason}; checkpoints are "
            "kept: look for the reason in log.jsonl and in the logs of the Ray cluster, raise runtime.max_failures "
            "if machines come and go, and run again"
        )
    if [broken.kind for broken in breaks[-_STARTS:]] == ["not started"] * _STARTS:
        raise TaskError(
            f"training was not started {_STARTS} times, the last time because {breaks[-1].reason}; checkpoints are "
            "kept: see with ray status what is in use, and run again"
        )


class _Attempt:
    """A group of processes that train until they are done, or one of them fails."""

    def __init__(
        self,
        body: Callable[[Any], None],
        scratch: Path,
        settings: TrainingSettings,
        machines: list[Machine],
        size: int,
        stop: threading.Event,
        watch: Callable[[], None],
        check: Callable[[list[Machine]], None],
    ) -> None:
        self._settings, self._machines, self._size = settings, list(machines), size
        self._stop, self._watch, self._check = stop, watch, check
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self._board = ray.remote(Board).options(num_cpus=0, scheduling_strategy=here).remote()
        trainer = TorchTrainer(
            functools.partial(body, self._board),
            torch_config=_Processes(
                backend="cpu:gloo,cuda:nccl" if settings.gpus else "gloo", timeout_s=_whole(settings)
            ),
            scaling_config=_scaling(settings, size),
            run_config=_run_config(settings, scratch),
        )
        self._fit = Beside(trainer.fit)
        self._asked: Break | None = None

    def run(self, console: Console) -> Break | None:
        """Why it has ended; None when the training is done."""
        with environment(_environment(self._settings, self._size)):
            self._fit.start()
            try:
                self._accompany()
            finally:
                if not self._fit.is_over:
                    self._board.stop.remote()
        self._watch()
        return self._ended(console)

    def _accompany(self) -> None:
        """Watch until the attempt ends; ask the processes to stop where there is a reason."""
        asked_at: float | None = None
        late_at, begun = time.monotonic() + _start_s(self._settings, self._size) + _JOIN_S + self._settings.timeout_s, 0
        while not self._fit.is_over:
            self._fit.wait(_LOOK_S)
            self._watch()
            if begun < self._size:
                begun = len(self._notes().machines)
                if begun < self._size:
                    self._refuse_silence(begun, late_at)
                else:
                    self._check_late()
            if asked_at is not None:
                if self._stop.is_set() and time.monotonic() - asked_at > self._settings.timeout_s:
                    raise _stopped_late()
            elif self._stop.is_set() or self._better_elsewhere():
                if self._stop.is_set() and not self._notes().machines:
                    raise _stopped_late()
                self._board.stop.remote()
                asked_at = time.monotonic()

    def _refuse_silence(self, begun: int, late_at: float) -> None:
        """TaskError if processes have not begun for too long: until all have, Ray waits for ever for one that hangs."""
        if time.monotonic() > late_at:
            raise TaskError(
                f"training did not begin: {begun} of {self._size} processes were heard of, the others hang; "
                "checkpoints are kept: see with ray status whether all machines are well, and run again"
            )

    def _check_late(self) -> None:
        """Look at machines that came while the attempt waited for room, as at those that were there."""
        known = {machine.id for machine in self._machines}
        used = set(self._notes().machines) - known
        late = [machine for machine in alive_machines() if machine.id in used] if used else []
        if late:
            self._check(late)
            self._machines += late

    def _better_elsewhere(self) -> bool:
        """Whether a machine is about to go, or new ones have room for more processes."""
        used = self._notes().machines
        if not used:
            return False
        if _draining() & set(used):
            self._asked = Break("a machine is about to be taken away", "asked")
        known = {machine.id for machine in self._machines}
        machines = _lasting_machines()
        fit = min(room(_need(self._settings), machines), self._settings.workers[1])
        if fit > self._size and any(machine.id not in known for machine in machines):
            self._asked = Break(f"there is room for {fit} processes now", "asked")
        return self._asked is not None

    def _notes(self) -> Notes:
        notes: Notes = ray.get(self._board.notes.remote())
        return notes

    def _ended(self, console: Console) -> Break | None:
        if self._fit.error is None:
            return None
        notes = self._notes()
        own = [trouble.error for trouble in notes.troubles if trouble.error is not None]
        if self._asked and not self._stop.is_set() and all(isinstance(error, StoppedError) for error in own):
            return self._asked
        if own:
            self._check_late()  # what it lacks may be the reason
            raise own[0]
        if not isinstance(self._fit.error, (TrainingFailedError, RayError)):
            raise self._fit.error
        if isinstance(self._fit.error, ControllerError):
            return Break(_not_started(self._fit.error.controller_failure, self._size, self._settings), "not started")
        reason = _reason(self._fit.error, notes, self._settings)
        traces = [trouble.trace for trouble in notes.troubles if not trouble.peer]
        console.event("train", "broken_off", reason=reason, traces=traces)
        return Break(reason, "failed")


def _reason(error: BaseException, notes: Notes, settings: TrainingSettings) -> str:
    """What has happened, in words, from what Ray and the processes themselves have noticed."""
    failures: dict[int, BaseException] = getattr(error, "worker_failures", {})
    silent = [rank for rank, failure in failures.items() if type(failure).__name__ == "WorkerHealthCheckTimeoutError"]
    lost = sorted(set(failures) - set(silent) - {trouble.rank for trouble in notes.troubles})
    for ranks, what in ((silent, f"is silent for more than {settings.timeout_s:g} s"), (lost, "was lost")):
        if ranks:
            return f"process {', '.join(map(str, ranks))} of {len(notes.machines)} {what}"
    unexpected = [trouble for trouble in notes.troubles if not trouble.peer]
    if unexpected:
        return f"process {unexpected[0].rank} failed ({unexpected[0].says[:160]})"
    if notes.troubles:
        return f"a process was lost, or is silent for more than {settings.timeout_s:g} s"
    return f"Ray ended it ({brief(error)})"


def _not_started(error: BaseException, size: int, settings: TrainingSettings) -> str:
    if type(error).__name__ == "WorkerGroupStartupTimeoutError":
        return f"the Ray cluster has no room now for {size} processes with {told(_need(settings))} each"
    return f"the Ray cluster could not start {size} processes ({brief(error)})"


def _draining() -> set[str]:
    """Machines that are about to be taken away, as a cloud or `ray drain-node` has told."""
    return set(ray_state.state.get_draining_nodes())


def _lasting_machines() -> list[Machine]:
    going = _draining()
    return [machine for machine in alive_machines() if machine.id not in going]


def _stopped_late() -> StoppedError:
    return StoppedError("training was asked to stop; the same command goes on from the newest checkpoint")


# --- what Ray Train is told ------------------------------------------------------------------------------------------


class _Backend(TorchConfig().backend_cls):  # type: ignore[misc]
    """As of Ray, but does not wait for processes that are stopped: all are ended right after."""

    def on_shutdown(self, *_: Any, **__: Any) -> None:
        """Nothing."""


@dataclass
class _Processes(TorchConfig):  # type: ignore[misc]
    """The process group."""

    @property
    def backend_cls(self) -> Any:
        """What starts and ends it."""
        return _Backend


def _whole(settings: TrainingSettings) -> int:
    return max(1, round(settings.timeout_s))


def _need(settings: TrainingSettings) -> dict[str, float]:
    """What a process reserves, in the words of Ray."""
    return {"CPU": settings.cpus, **({"GPU": float(settings.gpus)} if settings.gpus else {})}


def _scaling(settings: TrainingSettings, size: int) -> Any:
    """A fixed number: Ray's own elastic groups see new machines late, and lose what was not saved."""
    return ScalingConfig(num_workers=size, use_gpu=settings.gpus > 0, resources_per_worker=_need(settings))


def _run_config(settings: TrainingSettings, scratch: Path) -> Any:
    """Every attempt is a run of its own for Ray: attempts are counted here, and checkpoints are our own."""
    threads = dict.fromkeys(THREADS, str(max(1, int(settings.cpus))))
    return RunConfig(
        name=f"attempt-{uuid.uuid4().hex[:8]}",
        storage_path=str(scratch),
        failure_config=FailureConfig(max_failures=0, controller_failure_limit=0, max_preemption_failures=0),
        worker_runtime_env={"env_vars": threads},
        logging_config=LoggingConfig(log_level="ERROR"),
    )


def _start_s(settings: TrainingSettings, size: int) -> int:
    """How long an attempt waits for room."""
    return _START_S if size == settings.workers[0] else _SOON_S


def _environment(settings: TrainingSettings, size: int) -> dict[str, str]:
    """What Ray Train is told by variables."""
    return {
        "RAY_TRAIN_WORKER_HEALTH_CHECK_TIMEOUT_S": str(settings.timeout_s),
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(_start_s(settings, size)),
        "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # `_better_elsewhere` looks
    }


def _refuse_impossible(settings: TrainingSettings, machines: list[Machine]) -> None:
    """Processes that do not fit would wait for ever, unless other machines may be added."""
    need, least = _need(settings), settings.workers[0]
    fit = room(need, machines)
    if fit < least and not any(machine.managed for machine in machines):
        raise ConfigError(
            f"runtime.train_workers: {least} processes with {told(need)} each are asked for, but the machines of the "
            f"Ray cluster have room for {fit}; ask for fewer, for less each (runtime.worker_cpus, worker_gpus), or "
            "add machines"
        )
