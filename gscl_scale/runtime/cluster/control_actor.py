"""Messages between the driver of a training and its processes: who has started, what failed, when to stop."""

import contextlib
import re
import string
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import ray
import ray.train
from ray.exceptions import RayError
from ray.util.metrics import Gauge

from gscl_scale.errors import GsclError, PeerError
from gscl_scale.runtime.settings import TrainingBody

_ASK_S = 0.5
_TRACE_LENGTH = 4000
_PREFIX = "gscl_scale_train_"  # Ray puts ray_ before it


@dataclass(frozen=True)
class Failure:
    """What ended a process of a training.

    error   its own error if it explains itself: another attempt would meet it again
    peer    only another process is to blame
    line    the last line of the error
    trace   where it was raised
    """

    rank: int
    error: GsclError | None
    peer: bool
    line: str
    trace: str


@dataclass(frozen=True)
class Reports:
    """The machine of each process that has started, and the failures."""

    machines: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()


class ControlActor:
    """An actor on the machine of the driver, for one attempt."""

    def __init__(self) -> None:
        self._reports = Reports()
        self._stop = False

    def begin(self, machine: str) -> None:
        """A process has started on a machine."""
        self._reports = replace(self._reports, machines=(*self._reports.machines, machine))

    def fail(self, failure: Failure) -> None:
        """A process has failed."""
        self._reports = replace(self._reports, failures=(*self._reports.failures, failure))

    def reports(self) -> Reports:
        """All reports so far."""
        return self._reports

    def stop(self) -> None:
        """Ask all processes to stop."""
        self._stop = True

    def is_stopping(self) -> bool:
        """Whether they are asked to stop."""
        return self._stop


def process_body(function: TrainingBody, argument: Any, name: str, control: Any) -> None:
    """The body of a process of a named training: call the function with its stop event and Ray's metrics."""
    rank = ray.train.get_context().get_world_rank()
    ray.get(control.begin.remote(ray.get_runtime_context().get_node_id()))
    with _stop_event(control) as stop:
        try:
            function(argument, stop, _Gauges(name, rank))
        except Exception as error:
            ray.get(control.fail.remote(_failure(rank, error)))
            raise


def _failure(rank: int, error: Exception) -> Failure:
    peer = isinstance(error, PeerError)
    own = error if isinstance(error, GsclError) and not peer else None
    line = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[-1]}"
    return Failure(rank, own, peer, line, "".join(traceback.format_exception(error))[-_TRACE_LENGTH:])


@contextlib.contextmanager
def _stop_event(control: Any) -> Iterator[threading.Event]:
    stop, ended = threading.Event(), threading.Event()

    def listen() -> None:
        with contextlib.suppress(RayError):  # without the actor there is no driver, and Ray ends this process
            while not (ended.is_set() or stop.is_set()):
                if ray.get(control.is_stopping.remote()):
                    stop.set()
                time.sleep(_ASK_S)

    threading.Thread(target=listen, name="listen", daemon=True).start()
    try:
        yield stop
    finally:
        ended.set()


class _Gauges:
    """A meter: every figure is a gauge with the name of the run and the number of the process.

    Ray takes ASCII alone: other letters of the name are written as in a URL.
    """

    def __init__(self, run: str, process: int) -> None:
        self._tags = {"run": quote(run, safe=string.printable), "process": str(process)}
        self._gauges: dict[str, Gauge] = {}

    def __call__(self, figures: dict[str, float]) -> None:
        for name, value in figures.items():
            if name not in self._gauges:
                self._gauges[name] = Gauge(_PREFIX + re.sub(r"\W+", "_", name), name, tuple(self._tags))
            self._gauges[name].set(value, self._tags)
