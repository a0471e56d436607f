"""What is tried next and what is stopped: Optuna and ASHA, with all that is known of earlier trials."""

from types import SimpleNamespace
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search import Searcher

from gscl_scale import seeding
from gscl_scale.config.config import Config
from gscl_scale.studies.tune.records import Book, Result, Suggestion, Trial
from gscl_scale.studies.tune.space import Choice, Range, Space, Value, nearest, untried

_GRACE, _CUT = 12, 3  # per cent of the epochs: after 12 and 36 the best third goes on
_STATES = {"finished": TrialState.COMPLETE, "stopped": TrialState.PRUNED, "failed": TrialState.FAIL}


class Proposer(Searcher):  # type: ignore[misc]  # mypy skips Ray
    """Optuna's proposals with the numbers of the trials: first those of `resumed` trials, then new ones.

    `untried` are settings that no trial has had, where they can be counted: a new trial has one of these. Ray's own
    OptunaSearch cannot replace a proposal, therefore this class asks Optuna itself.
    """

    def __init__(
        self, study: optuna.Study, space: Space, resumed: list[int], first: int, untried: list[dict[str, Value]]
    ) -> None:
        super().__init__(metric="accuracy", mode="max")
        self.study = study
        self._distributions = _distributions(space)
        self._resumed, self._next, self._untried = resumed, first, untried
        self._running: dict[str, optuna.Trial] = {}
        self._validated: dict[str, int] = {}  # the last epoch of each

    def suggest(self, trial_id: str) -> Suggestion:
        """Settings to try; those of unfinished trials come first."""
        trial = self.study.ask(self._distributions)
        if self._resumed:
            number = self._resumed.pop(0)
        else:
            number, self._next = self._next, self._next + 1
            if self._untried and trial.params not in self._untried:
                self.study.tell(trial, state=TrialState.FAIL)  # proposed again: nothing is to be learnt from it
                self.study.enqueue_trial(self._untried[0])
                trial = self.study.ask(self._distributions)
            if self._untried:
                self._untried.remove(trial.params)
        self._running[trial_id] = trial
        return {"number": number, "settings": trial.params}

    def on_trial_result(self, trial_id: str, result: Result) -> None:
        """It has validated: Optuna orders trials that are stopped by their last figures.

        A trial that goes on at its last checkpoint repeats some validations.
        """
        trial, epoch = self._running.get(trial_id), result["epoch"]
        if trial and epoch > self._validated.get(trial_id, 0):
            self._validated[trial_id] = epoch
            trial.report(result["accuracy"], epoch)

    def on_trial_complete(self, trial_id: str, result: Result | None = None, error: bool = False) -> None:
        """A trial that was stopped is worse than finished ones, whatever its figure was."""
        if trial := self._running.pop(trial_id, None):
            ended = result.get("ended", "stopped") if result and not error else "failed" if error else "stopped"
            accuracy = result["accuracy"] if result and ended == "finished" else None
            self.study.tell(trial, accuracy, state=_STATES[ended])


def propose(space: Space, config: Config, book: Book) -> Proposer:
    """Trials to make: unfinished ones before all others; the very first is as the configuration."""
    ended, unfinished, tried = book.ended(), book.unfinished(), [trial.settings for trial in book.all()]
    first = max((trial.number for trial in book.all()), default=0) + 1
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    seed = seeding.integer("tune", config.train.seed, first) % 2**32  # not what was drawn before
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    for settings in [trial.settings for trial in unfinished] or ([] if ended else [nearest(space, config)]):
        study.enqueue_trial(settings)
    for trial in ended:
        study.add_trial(
            create_trial(
                state=_STATES[trial.ended],
                value=None if trial.ended == "failed" else trial.accuracy,
                params=trial.settings,
                distributions=_distributions(space),
                intermediate_values=dict(enumerate(accuracy for _, accuracy in trial.validations)),
            )
        )
    left = untried(space, tried)
    order = seeding.generator("tune untried", config.train.seed, first).permutation(len(left))
    return Proposer(study, space, [trial.number for trial in unfinished], first, [left[place] for place in order])


def _distributions(space: Space) -> dict[str, BaseDistribution]:
    return {key: _distribution(domain) for key, domain in space.items()}


def _distribution(domain: Choice | Range) -> BaseDistribution:
    if isinstance(domain, Choice):
        return CategoricalDistribution(domain.values)
    if isinstance(domain.low, int) and isinstance(domain.high, int):
        return IntDistribution(domain.low, domain.high, log=domain.log)
    return FloatDistribution(domain.low, domain.high, log=domain.log)


class EarlyStopping(ASHAScheduler):  # type: ignore[misc]  # mypy skips Ray
    """ASHA over the share of epochs that is done, with the figures of trials that have ended or are resumed."""

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
        self._known = {trial.number: trial for trial in (*ended, *unfinished)}
        for number in [trial.number for trial in ended]:
            self.on_trial_add(None, SimpleNamespace(trial_id=f"ended-{number}", config={"number": number}))

    def on_trial_add(self, controller: Any, trial: Any) -> None:
        """One that is resumed has passed its first rungs: its later figures would set marks that are out of reach."""
        super().on_trial_add(controller, trial)
        if earlier := self._known.get(trial.config["number"]):
            for progress, accuracy in earlier.validations:
                self.on_trial_result(controller, trial, {"progress": progress, "accuracy": accuracy})
