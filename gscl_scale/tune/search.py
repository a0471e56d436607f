"""The search on Ray Tune: Optuna proposes, ASHA stops what falls behind, and every end is noted in a file."""

import contextlib
import functools
import logging
import math
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from ray import tune
from ray.exceptions import RayError
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.optuna import OptunaSearch

from gscl_scale import seeding
from gscl_scale.config import Config
from gscl_scale.errors import ConfigError, GsclError, StoppedError, TaskError
from gscl_scale.runtime import Console, asked_to_stop
from gscl_scale.runtime.cluster.joining import brief, environment, joined
from gscl_scale.runtime.cluster.machines import alive_machines, room, told
from gscl_scale.runtime.cluster.sharing import check_shared
from gscl_scale.tune.leaderboard import in_short, write_leaderboard
from gscl_scale.tune.records import Book, Trial, failed
from gscl_scale.tune.space import Choice, Space, nearest, with_settings
from gscl_scale.tune.trial import alone, run_trial

_LOOK_S = 0.5
_LEAVE_S = 10.0  # for Ray to end the trials, which wait for the end of a step
_GRACE, _CUT = 12, 3  # per cent of the epochs: after 12 and 36 the best third goes on
_QUIET = {"RAY_AIR_NEW_OUTPUT": "0", "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1", "TUNE_PRINT_ALL_TRIAL_ERRORS": "0"}


@dataclass(frozen=True)
class Search:
    """What is searched: `trials` in all, those of earlier attempts included, for at most `minutes` this time."""

    config: Config
    space: Space
    trials: int
    minutes: float | None = None


def search_on_ray(search: Search, book: Book, console: Console) -> None:
    """Run trials until there are as many as asked for, or time is up; as many at once as the cluster has room for."""
    missing = search.trials - len(book.ended())
    if missing <= 0:
        return
    until = math.inf if search.minutes is None else time.monotonic() + 60 * search.minutes
    with joined(search.config.runtime.address), _scratch(book.folder) as scratch, asked_to_stop() as asked:
        machines, need = alive_machines(), _need(search.config)
        if not room(need, machines) and not any(machine.managed for machine in machines):
            raise ConfigError(
                f"runtime.worker_cpus: a trial asks for {told(need)}, but no machine of the Ray cluster has so much; "
                "ask for less (runtime.worker_cpus, worker_gpus), or add a larger machine"
            )
        check_shared(book.folder, machines)
        at_once = min(missing, room(need, machines))
        console.say(f"tune: {missing} trials to go, {at_once} at once with {told(need)} each")
        done = threading.Event()
        with console.progress("tune", search.trials, "trials", search.trials - missing) as advance, _quiet_ray():
            fit = _Fit(_told(search, book, missing, scratch, _Recorder(search, book, console, advance, done)))
            fit.start()
            while fit.is_alive():
                fit.join(_LOOK_S)
                if asked.is_set() or time.monotonic() > until:
                    done.set()
                    fit.join(_LEAVE_S)
                    break
    if fit.error is not None and not done.is_set():
        if isinstance(fit.error, RayError):
            raise TaskError(
                f"the Ray cluster was lost during the search ({brief(fit.error)}); finished trials are kept: see with "
                "ray status whether it is well, and run again"
            )
        raise fit.error
    if asked.is_set():
        raise StoppedError(
            "the search was asked to stop; finished trials are kept, the same command goes on from there"
        )
    if len(book.ended()) < search.trials:
        console.say(f"tune: {search.minutes:g} minutes are over; the same command goes on from here")


class _Fit(threading.Thread):
    """Ray Tune beside the main thread, where it would take SIGINT."""

    def __init__(self, fit: Callable[[], Any]) -> None:
        super().__init__(name="fit", daemon=True)
        self._fit = fit
        self.error: BaseException | None = None

    def run(self) -> None:
        """Until all trials have ended."""
        try:
            self._fit()
        except BaseException as error:  # noqa: BLE001  (it is told by the main thread)
            self.error = error


def _told(search: Search, book: Book, missing: int, scratch: Path, recorder: "_Recorder") -> Callable[[], Any]:
    """Ray Tune, told what to do."""
    values = {"config": search.config.dump(), "folder": str(book.folder)}
    return functools.partial(
        tune.run,
        functools.partial(_work, common=values),
        name="search",
        resources_per_trial=_need(search.config),
        num_samples=missing,
        search_alg=_proposer(search, book),
        scheduler=_scheduler(book.ended()),
        stop=_Stop(recorder.done),
        callbacks=[recorder],
        max_failures=search.config.runtime.max_failures,
        raise_on_failed_trial=False,
        reuse_actors=True,  # the next trial finds everything imported
        storage_path=str(scratch),
        trial_dirname_creator=lambda trial: f"trial-{trial.config['number']}",
        verbose=0,
    )


def _work(told: dict[str, Any], common: dict[str, Any]) -> None:
    """A trial in a process of Ray: what it raises itself is an end, a lost process is tried again."""
    number, last = told["number"], (0.0, math.nan)

    def report(progress: float, accuracy: float) -> None:
        nonlocal last
        last = progress, accuracy
        if progress < 100:  # nothing is left to be saved by stopping it
            tune.report({"progress": progress, "accuracy": accuracy})

    try:
        config = with_settings(alone(Config.parse(common["config"])), told["settings"])
        accuracy, epoch = run_trial(config, Book(Path(common["folder"])).run(number), report)
        tune.report({"progress": 100.0, "accuracy": accuracy, "ended": "finished", "epoch": epoch})
    except (GsclError, RuntimeError, MemoryError) as error:
        tune.report({"progress": last[0], "accuracy": last[1], "ended": "failed", "reason": brief(error)})


def _need(config: Config) -> dict[str, float]:
    """What a trial reserves, in the words of Ray."""
    gpus = {"GPU": float(config.runtime.worker_gpus)} if config.runtime.worker_gpus else {}
    return {"CPU": config.runtime.worker_cpus, **gpus}


# --- what is tried ---------------------------------------------------------------------------------------------------


class _Proposer(OptunaSearch):  # type: ignore[misc]
    """Optuna's proposals with the numbers of the trials; only finished trials count by their accuracy."""

    def __init__(self, numbers: list[int], **options: Any) -> None:
        super().__init__(**options)
        self._numbers = numbers

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """Settings to try; those of unfinished trials come first."""
        return {"number": self._numbers.pop(0), "settings": super().suggest(trial_id)}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """A trial that was stopped is worse than finished ones, whatever its figure was."""
        ended = (result or {}).get("ended")
        super().on_trial_complete(trial_id, result if ended == "finished" else None, error or ended == "failed")


def _proposer(search: Search, book: Book) -> _Proposer:
    """Optuna, with what is known of ended trials, and unfinished ones before all others; the first is as the config."""
    known, unfinished = book.ended(), book.unfinished()
    points = [trial.settings for trial in unfinished] or ([] if known else [nearest(search.space, search.config)])
    first = max((trial.number for trial in book.all()), default=0) + 1
    seed = seeding.integer("tune", search.config.train.seed, len(known)) % 2**32
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    proposer = _Proposer(
        numbers=[*(trial.number for trial in unfinished), *range(first, first + search.trials)],
        space={key: _distribution(domain) for key, domain in search.space.items()},
        metric="accuracy",
        mode="max",
        points_to_evaluate=points,
        sampler=optuna.samplers.TPESampler(seed=seed),
    )
    for trial in known:
        proposer.add_evaluated_point(
            trial.settings,
            trial.accuracy,
            error=trial.ended == "failed",
            pruned=trial.ended == "stopped",
            intermediate_values=[accuracy for _, accuracy in trial.validations],
        )
    return proposer


def _distribution(domain: Any) -> BaseDistribution:
    if isinstance(domain, Choice):
        return CategoricalDistribution(domain.values)
    if isinstance(domain.low, int) and isinstance(domain.high, int):
        return IntDistribution(domain.low, domain.high, log=domain.log)
    return FloatDistribution(domain.low, domain.high, log=domain.log)


def _scheduler(known: list[Trial]) -> Any:
    """ASHA over the share of epochs that is done, with what it has seen of ended trials."""
    asha = ASHAScheduler(
        time_attr="progress",
        metric="accuracy",
        mode="max",
        max_t=100,
        grace_period=_GRACE,
        reduction_factor=_CUT,
        stop_last_trials=False,
    )
    for trial in known:
        past = SimpleNamespace(trial_id=f"ended-{trial.number}")
        asha.on_trial_add(None, past)
        for progress, accuracy in trial.validations:
            asha.on_trial_result(None, past, {"progress": progress, "accuracy": accuracy})
    return asha


# --- what is noted ---------------------------------------------------------------------------------------------------


class _Stop(tune.Stopper):  # type: ignore[misc]
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


class _Recorder(tune.Callback):  # type: ignore[misc]
    """Notes in the book how trials go, and tells of each that has ended."""

    def __init__(self, search: Search, book: Book, console: Console, advance: Any, done: threading.Event) -> None:
        self._search, self._book, self._console, self._advance, self.done = search, book, console, advance, done
        self._running: dict[int, Trial] = {}
        self._last: dict[int, dict[str, Any]] = {}

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """It begins, or begins again after its process was lost."""
        number = trial.config["number"]
        if number not in self._running:
            self._running[number] = Trial(number, trial.config["settings"])
            self._book.begin(self._running[number])

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        """It has validated, or come to its end."""
        number = trial.config["number"]
        self._last[number] = result
        if "ended" not in result:
            self._running[number].validations.append((result["progress"], result["accuracy"]))

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """It has returned, or the scheduler has stopped it."""
        if self.done.is_set():
            return
        began = self._running[trial.config["number"]]
        result = self._last[began.number]
        ended = result.get("ended", "stopped")
        if ended == "failed":
            self._end(failed(began, result["reason"]), result)
            return
        epochs = with_settings(self._search.config, began.settings).train.epochs
        epoch = result.get("epoch", round(result["progress"] * epochs / 100))
        self._end(replace(began, ended=ended, accuracy=result["accuracy"], epoch=epoch), result)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **_: Any) -> None:
        """Its process was lost too often, or raised what nobody expected."""
        began = self._running[trial.config["number"]]
        error = trial.get_pickled_error() or trial.get_error()
        self._end(failed(began, brief(error) if error else "no reason given"), self._last.get(began.number, {}))

    def _end(self, trial: Trial, result: dict[str, Any]) -> None:
        trial = replace(trial, seconds=round(result.get("time_total_s", 0.0), 3))
        self._book.end(trial)
        write_leaderboard(self._search.config, self._search.space, self._book)
        self._console.event("tune", trial.ended, trial=trial.number, accuracy=trial.accuracy, seconds=trial.seconds)
        self._console.say(in_short(trial))
        self._advance(1)


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder for what Ray Tune writes; those of killed drivers go as well."""
    for left in folder.glob(".search-*.tmp"):
        shutil.rmtree(left, ignore_errors=True)
    scratch = folder / f".search-{uuid.uuid4().hex}.tmp"
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def _quiet_ray() -> Iterator[None]:
    """Ray Tune tells nothing: the records do."""
    logger = logging.getLogger("ray.tune")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with environment(_QUIET):
            yield
    finally:
        logger.setLevel(before)
