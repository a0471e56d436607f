"""Notes how trials go, from Ray Tune into their records."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ray import tune

from gscl_scale.config.config import Config
from gscl_scale.runtime.cluster.connect import error_line
from gscl_scale.runtime.console import Console
from gscl_scale.studies.tune.leaderboard import trial_line, write_leaderboard
from gscl_scale.studies.tune.records import Book, Result, Trial
from gscl_scale.studies.tune.space import Space


@dataclass(eq=False)
class Stop(tune.Stopper):  # type: ignore[misc]  # mypy skips Ray
    """Ends the search once `done` is set; trials that run then are unfinished."""

    done: threading.Event

    def __call__(self, trial_id: str, result: Result) -> bool:
        """Single trials are ended by the scheduler."""
        return False

    def __getstate__(self) -> None:
        """Ray Tune saves it with its own state, which nobody reads."""

    def stop_all(self) -> bool:
        """Whether it is over."""
        return self.done.is_set()


@dataclass(eq=False)
class Recorder(tune.Callback):  # type: ignore[misc]  # mypy skips Ray
    """Notes in the book how trials go, and prints a line about each that has ended; nothing once `done` is set."""

    config: Config
    space: Space
    book: Book
    console: Console
    advance: Callable[..., None]
    done: threading.Event
    _running: dict[int, Trial] = field(default_factory=dict)
    _last: dict[int, Result] = field(default_factory=dict)

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """It begins, or begins again after its process was lost."""
        number = trial.config["number"]
        if number not in self._running:
            earlier = {trial.number: trial for trial in self.book.unfinished()}
            self._running[number] = earlier.get(number) or Trial(number, trial.config["settings"])
            self.book.note(self._running[number])

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: Result, **_: Any) -> None:
        """It has validated, or come to its end."""
        number = trial.config["number"]
        self._last[number] = result
        if "ended" not in result:
            running, now = self._running[number], (result["progress"], result["accuracy"])
            running.validations[:] = [*(one for one in running.validations if one[0] < now[0]), now]
            self.book.note(running)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """It has returned, or the scheduler has stopped it."""
        result = self._last[trial.config["number"]]
        if result.get("ended") == "failed":
            self._end(trial, ended="failed", reason=result["reason"])
        else:
            ended, accuracy, epoch = result.get("ended", "stopped"), result["accuracy"], result["epoch"]
            self._end(trial, ended=ended, accuracy=accuracy, epoch=epoch)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """Its process was lost too often, or raised what nobody expected."""
        error = trial.get_pickled_error() or trial.get_error()
        self._end(trial, ended="failed", reason=error_line(error) if error else "no reason given")

    def _end(self, trial: Any, **how: Any) -> None:
        if self.done.is_set():
            return
        number = trial.config["number"]
        seconds = self._last[number]["time_total_s"] if number in self._last else 0.0
        ended = replace(self._running[number], seconds=round(seconds, 3), **how)
        self.book.end(ended)
        write_leaderboard(self.config, self.space, self.book)
        self.console.event("tune", ended.ended, trial=number, accuracy=ended.accuracy, seconds=ended.seconds)
        self.console.say(trial_line(ended, self.book.measure))
        self.advance(1)
