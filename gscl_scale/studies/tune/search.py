"""The search on Ray Tune: Optuna proposes, ASHA stops what falls behind, and every end is noted in a file."""

import contextlib
import functools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ray import tune
from ray.exceptions import RayError

from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError, GsclError, StoppedError, TaskError
from gscl_scale.io.atomic import scratch_folder
from gscl_scale.runtime.cluster.background import BackgroundCall
from gscl_scale.runtime.cluster.connect import error_line, join_cluster, temporary_environment
from gscl_scale.runtime.cluster.nodes import Machine, alive_machines, resources_text, task_capacity
from gscl_scale.runtime.cluster.preflight import check_shared
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.stop import stop_event
from gscl_scale.studies.tune.proposals import EarlyStopping, propose
from gscl_scale.studies.tune.recorder import Recorder, Stop
from gscl_scale.studies.tune.records import Book, Result, Suggestion, trial_run
from gscl_scale.studies.tune.space import Space, with_settings
from gscl_scale.studies.tune.trial import run_trial, trial_config
from gscl_scale.text import counted

_LOOK_S = 0.5
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
    known = len(book.ended())
    if known >= search.trials:
        return
    until = math.inf if search.minutes is None else time.monotonic() + 60 * search.minutes
    with (
        join_cluster(search.config.runtime.address),
        scratch_folder(book.folder, "search") as scratch,
        stop_event() as asked,
    ):
        machines, need = alive_machines(), _need(search.config)
        _refuse_impossible(need, machines)
        check_shared(book.folder, machines)
        missing, at_once = search.trials - known, task_capacity(need, machines)
        to_go = counted(missing, "trial", "trials")
        console.say(f"tune: {to_go} to go, {min(missing, at_once)} at once with {resources_text(need)} each")
        with console.progress("tune", search.trials, "trials", known) as advance, _quiet_ray():
            done = threading.Event()
            recorder = Recorder(search.config, search.space, book, console, advance, done)
            fit = BackgroundCall(functools.partial(_run, search, book, missing, scratch, recorder))
            _accompany(fit, lambda: asked.is_set() or time.monotonic() > until, done)
    if asked.is_set():
        raise StoppedError("the search was asked to stop; finished trials are kept, the same command resumes it")
    if len(book.ended()) < search.trials:
        console.say(f"tune: {search.minutes} minutes are over; the same command resumes the search")


def _accompany(fit: BackgroundCall, over: Callable[[], bool], done: threading.Event) -> None:
    """Run Ray Tune until it ends or is over; `done` is set from when nothing more is to be noted.

    However long it takes to end its trials, and after an interrupt: to leave the cluster under it would be a crash.
    """
    fit.start()
    try:
        while not fit.is_over and not over():
            fit.wait(_LOOK_S)
    finally:
        done.set()
        fit.wait()
    if fit.error is None or over():
        return
    if isinstance(fit.error, RayError):
        raise TaskError(
            f"the Ray cluster was lost during the search ({error_line(fit.error)}); finished trials are kept: check "
            "the cluster with ray status, and run the same command again"
        )
    raise fit.error


def _run(search: Search, book: Book, missing: int, scratch: Path, recorder: Recorder) -> None:
    tune.run(
        functools.partial(_work, common=search.config, folder=book.folder),
        name="search",
        resources_per_trial=_need(search.config),
        num_samples=missing,
        search_alg=propose(search.space, search.config, book),
        scheduler=EarlyStopping(book.ended(), book.unfinished()),
        stop=Stop(recorder.done),
        callbacks=[recorder],
        max_failures=search.config.runtime.max_failures,
        raise_on_failed_trial=False,
        reuse_actors=True,  # the next trial finds everything imported
        storage_path=str(scratch),
        trial_dirname_creator=lambda trial: f"trial-{trial.config['number']}",
        verbose=0,
    )


def _work(suggestion: Suggestion, common: Config, folder: Path) -> None:
    """A trial in a process of Ray: what it raises itself is an end, a lost process is tried again."""
    last: Result = {"progress": 0.0, "epoch": 0, "accuracy": math.nan}

    def report(epoch: int, accuracy: float) -> None:
        progress = 100 * epoch / config.train.num_epochs
        last.update({"progress": progress, "epoch": epoch, "accuracy": accuracy})
        if progress < 100:  # nothing is left to be saved by stopping it
            tune.report({**last})

    try:
        config = with_settings(trial_config(common), suggestion["settings"])
        accuracy, epoch = run_trial(config, trial_run(folder, suggestion["number"]), report)
        tune.report({"progress": 100.0, "epoch": epoch, "accuracy": accuracy, "ended": "finished"})
    except (GsclError, RuntimeError, MemoryError) as error:
        tune.report({**last, "ended": "failed", "reason": error_line(error)})


def _need(config: Config) -> dict[str, float]:
    """What a trial reserves, in the words of Ray."""
    gpus = {"GPU": float(config.runtime.worker_gpus)} if config.runtime.worker_gpus else {}
    return {"CPU": config.runtime.worker_cpus, **gpus}


def _refuse_impossible(need: dict[str, float], machines: Sequence[Machine]) -> None:
    """A trial that fits on no machine would wait for ever, unless others may be added."""
    if not task_capacity(need, machines) and not any(machine.managed for machine in machines):
        raise ConfigError(
            f"runtime.worker_cpus: a trial asks for {resources_text(need)}, but no machine of the Ray cluster has so "
            "much; ask for less (runtime.worker_cpus, worker_gpus), or add a larger machine"
        )


@contextlib.contextmanager
def _quiet_ray() -> Iterator[None]:
    """Nothing of Ray Tune is printed: the records have it."""
    logger = logging.getLogger("ray.tune")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with temporary_environment(_QUIET):
            yield
    finally:
        logger.setLevel(before)
