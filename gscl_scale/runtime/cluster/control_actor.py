"""What the driver of a training and its processes tell each other: who has begun, what went wrong, when to stop."""

import contextlib
import re
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import ray
import ray.train
from ray.exceptions import RayError
from ray.util.metrics import Gauge

from gscl_scale.errors import GsclError, PeerError
from gscl_scale.runtime.settings import TrainingBody

_ASK_S = 0.5
_LINES = 4000  # characters of a traceback


@dataclass(frozen=True)
class Trouble:
    """What ended a process of a training.

    error   its own error where it explains itself, of which another attempt would not get rid
    peer    only another process is to blame
    says    the last line of the error
    trace   where it was raised
    """

    rank: int
    error: GsclError | None
    peer: bool
    says: str
    trace: str


@dataclass(frozen=True)
class Notes:
    """What is on the board: the machine of each process that has begun, and what ended some."""

    machines: tuple[str, ...] = ()
    troubles: tuple[Trouble, ...] = ()


class Board:
    """Runs as an actor beside the driver, for one attempt."""

    def __init__(self) -> None:
        self._notes = Notes()
        self._stop = False

    def begin(self, machine: str) -> None:
        """A process has begun on a machine."""
        self._notes = replace(self._notes, machines=(*self._notes.machines, machine))

    def fail(self, trouble: Trouble) -> None:
        """A process has failed."""
        self._notes = replace(self._notes, troubles=(*self._notes.troubles, trouble))

    def notes(self) -> Notes:
        """All of it."""
        return self._notes

    def stop(self) -> None:
        """Ask all processes to stop."""
        self._stop = True

    def asked(self) -> bool:
        """Whether they are asked to."""
        return self._stop


def work(function: TrainingBody, argument: Any, name: str, board: Any) -> None:
    """The body of a process of a named training: the function, with what stops it and what tells Ray its figures."""
    ray.get(board.begin.remote(ray.get_runtime_context().get_node_id()))
    with _listening(board) as stop:
        try:
            function(argument, stop, Gauges(name, ray.train.get_context().get_world_rank()))
        except Exception as error:
            ray.get(board.fail.remote(_trouble(error)))
            raise


def _trouble(error: Exception) -> Trouble:
    peer = isinstance(error, PeerError)
    own = error if isinstance(error, GsclError) and not peer else None
    says = (str(error).strip().splitlines() or [""])[-1]
    trace = "".join(traceback.format_exception(error))[-_LINES:]
    return Trouble(ray.train.get_context().get_world_rank(), own, peer, f"{type(error).__name__}: {says}", trace)


@contextlib.contextmanager
def _listening(board: Any) -> Iterator[threading.Event]:
    stop, ended = threading.Event(), threading.Event()

    def listen() -> None:
        with contextlib.suppress(RayError):  # without a board there is no driver, and Ray ends this process
            while not (ended.is_set() or stop.is_set()):
                if ray.get(board.asked.remote()):
                    stop.set()
                time.sleep(_ASK_S)

    threading.Thread(target=listen, name="listen", daemon=True).start()
    try:
        yield stop
    finally:
        ended.set()


_PREFIX = "gscl_scale_train_"  # Ray puts ray_ before it


class Gauges:
    """A meter: every figure is a gauge with the name of the run and the number of the process."""

    def __init__(self, run: str, process: int) -> None:
        self._tags = {"run": run, "process": str(process)}
        self._gauges: dict[str, Gauge] = {}

    def __call__(self, figures: dict[str, float]) -> None:
        """Set the figures to what they are now."""
        for name, value in figures.items():
            if name not in self._gauges:
                self._gauges[name] = Gauge(_PREFIX + re.sub(r"\W+", "_", name), name, tuple(self._tags))
            self._gauges[name].set(value, self._tags)
