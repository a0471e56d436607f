"""How trials go, from Ray Tune into the records."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ray import tune

from gscl_scale.config.config import Config
from gscl_scale.runtime.cluster.connect import brief
from gscl_scale.runtime.console import Console
from gscl_scale.studies.tune.leaderboard import in_short, write_leaderboard
from gscl_scale.studies.tune.records import Book, Trial, failed
from gscl_scale.studies.tune.space import Space


class Stop(tune.Stopper):  # type: ignore[misc]
    """Ends the search when it is told to; trials that run then are unfinished."""

    def __init__(self, done: threading.Event) -> None:
        self._done = done

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Single trials are ended by the scheduler."""
        return False

    def __getstate__(self) -> None:
        """Ray Tune saves it beside its own state, which nobody reads."""

    def stop_all(self) -> bool:
        """Whether it is over."""
        return self._done.is_set()


class Recorder(tune.Callback):  # type: ignore[misc]
    """Notes in the book how trials go, and tells of each that has ended."""

    def __init__(
        self,
        config: Config,
        space: Space,
        book: Book,
        console: Console,
        advance: Callable[..., None],
        done: threading.Event,
    ) -> None:
        self._config, self._space, self._book, self._console = config, space, book, console
        self._advance, self._done = advance, done
        self._running: dict[int, Trial] = {}
        self._last: dict[int, dict[str, Any]] = {}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """It begins, or begins again after its process was lost."""
        number = trial.config["number"]
        if number not in self._running:
            earlier = {trial.number: trial for trial in self._book.unfinished()}
            self._running[number] = earlier.get(number) or Trial(number, trial.config["settings"])
            self._book.note(self._running[number])

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        """It has validated, or come to its end."""
        number = trial.config["number"]
        self._last[number] = result
        if "ended" not in result:
            running, now = self._running[number], (result["progress"], result["accuracy"])
            running.validations[:] = [*(one for one in running.validations if one[0] < now[0]), now]
            self._book.note(running)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """It has returned, or the scheduler has stopped it."""
        began = self._running[trial.config["number"]]
        result = self._last[began.number]
        ended = result.get("ended", "stopped")
        if ended == "failed":
            self._end(failed(began, result["reason"]), result)
        else:
            self._end(replace(began, ended=ended, accuracy=result["accuracy"], epoch=result["epoch"]), result)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """Its process was lost too often, or raised what nobody expected."""
        began = self._running[trial.config["number"]]
        error = trial.get_pickled_error() or trial.get_error()
        self._end(failed(began, brief(error) if error else "no reason given"), self._last.get(began.number, {}))

    def _end(self, trial: Trial, result: dict[str, Any]) -> None:
        if self._done.is_set():
            return
        trial = replace(trial, seconds=round(result.get("time_total_s", 0.0), 3))
        self._book.end(trial)
        write_leaderboard(self._config, self._space, self._book)
        self._console.event("tune", trial.ended, trial=trial.number, accuracy=trial.accuracy, seconds=trial.seconds)
        self._console.say(in_short(trial))
        self._advance(1)
