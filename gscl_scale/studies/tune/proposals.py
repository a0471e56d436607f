"""What is tried next and what is stopped: Optuna and ASHA, told of all trials that have ended before."""

from types import SimpleNamespace
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.optuna import OptunaSearch

from gscl_scale import seeding
from gscl_scale.config.config import Config
from gscl_scale.studies.tune.records import Book, Trial
from gscl_scale.studies.tune.space import Choice, Range, Space, Value, nearest, untried

_GRACE, _CUT = 12, 3  # per cent of the epochs: after 12 and 36 the best third goes on


class Proposer(OptunaSearch):  # type: ignore[misc]
    """Optuna's proposals with the numbers of the trials: those that go on, then new ones.

    `untried` are settings that no trial has had, where they can be counted: a new trial has one of these.
    """

    def __init__(self, going_on: list[int], first: int, untried: list[dict[str, Value]], **options: Any) -> None:
        super().__init__(**options)
        self._going_on, self._next, self._untried = going_on, first, untried

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """Settings to try; those of unfinished trials come first."""
        settings = super().suggest(trial_id)
        if self._going_on:
            return {"number": self._going_on.pop(0), "settings": settings}
        if self._untried:
            if settings not in self._untried:
                settings = self._another(trial_id)
            self._untried.remove(settings)
        self._next += 1
        return {"number": self._next - 1, "settings": settings}

    def _another(self, trial_id: str) -> dict[str, Any]:
        """The first of the untried settings in place of what was proposed again, of which Optuna learns nothing."""
        self._ot_study.tell(self._ot_trials.pop(trial_id), state=TrialState.FAIL)
        self._ot_study.enqueue_trial(self._untried[0])
        settings: dict[str, Any] = super().suggest(trial_id)
        return settings

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """A trial that was stopped is worse than finished ones, whatever its figure was."""
        ended = (result or {}).get("ended")
        super().on_trial_complete(trial_id, result if ended == "finished" else None, error or ended == "failed")


def propose(space: Space, config: Config, book: Book) -> Proposer:
    """Trials to make: unfinished ones before all others; the very first is as the configuration."""
    known, unfinished = book.ended(), book.unfinished()
    points = [trial.settings for trial in unfinished] or ([] if known else [nearest(space, config)])
    first = max((trial.number for trial in book.all()), default=0) + 1
    seed = seeding.integer("tune", config.train.seed, first) % 2**32  # not what was drawn before
    left = untried(space, [trial.settings for trial in book.all()])
    order = seeding.generator("tune untried", config.train.seed, first).permutation(len(left))
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    proposer = Proposer(
        going_on=[trial.number for trial in unfinished],
        first=first,
        untried=[left[place] for place in order],
        space={key: _distribution(domain) for key, domain in space.items()},
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


def _distribution(domain: Choice | Range) -> BaseDistribution:
    if isinstance(domain, Choice):
        return CategoricalDistribution(domain.values)
    if isinstance(domain.low, int) and isinstance(domain.high, int):
        return IntDistribution(domain.low, domain.high, log=domain.log)
    return FloatDistribution(domain.low, domain.high, log=domain.log)


class EarlyStopping(ASHAScheduler):  # type: ignore[misc]
    """ASHA over the share of epochs that is done, with what it has seen of trials that have ended or go on."""

    def __init__(self, ended: list[Trial], unfinished: list[Trial]) -> None:
        super().__init__(
            time_attr="progress",
            metric="accuracy",
            mode="max",
            max_t=100,
            grace_period=_GRACE,
            reduction_factor=_CUT,
            stop_last_trials=False,
        )
        self._going_on = {trial.number: trial for trial in unfinished}
        for trial in ended:
            past = SimpleNamespace(trial_id=f"ended-{trial.number}", config={"number": trial.number})
            self.on_trial_add(None, past)
            self._replay(None, past, trial)

    def on_trial_add(self, controller: Any, trial: Any) -> None:
        """One that goes on has passed its first rungs: its later figures would set marks that are out of reach."""
        super().on_trial_add(controller, trial)
        if earlier := self._going_on.get(trial.config["number"]):
            self._replay(controller, trial, earlier)

    def _replay(self, controller: Any, trial: Any, told: Trial) -> None:
        for progress, accuracy in told.validations:
            self.on_trial_result(controller, trial, {"progress": progress, "accuracy": accuracy})
