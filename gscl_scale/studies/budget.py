"""One tuning budget for all trained methods of a comparison: as many trials for each, chosen on validation nodes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from gscl_scale.config.config import Config
from gscl_scale.config.graph_size import GraphSize
from gscl_scale.errors import RunError
from gscl_scale.runtime.console import Console
from gscl_scale.studies.tune.leaderboard import best_of, tuned_on_its_splits
from gscl_scale.studies.tune.space import Settings
from gscl_scale.studies.tune.trial import base_config
from gscl_scale.studies.tune.tune import tune
from gscl_scale.train.objectives.methods import configured, method_of


class Budget(NamedTuple):
    """How many trials each method has, and the file of the space that they are drawn from; None: that of `tune`."""

    trials: int
    space: Path | None = None


class Searched(NamedTuple):
    """The configuration with the best settings of each method, and why the search of a method gave none."""

    config: Config
    failed: dict[str, str]


def search_methods(
    config: Config, names: Sequence[str], size: GraphSize, folder: Path, budget: Budget, console: Console
) -> Searched:
    """Search for the settings of these methods, in folders below `folder`; the same command goes on after a stop.

    The settings of a method stand in `compare.settings`, after those of the user. The splits whose validation nodes
    chose them stand in `evaluate.tuned_on`, so that no method is measured on nodes that chose settings.
    """
    settings, failed, evaluate = dict(config.compare.settings), {}, config.evaluate
    for name in names:
        title, own = method_of(name).title, configured(config, name)
        console.say(f"{title}: {budget.trials} trials")
        try:
            book = tune(own, budget.space, folder / name, budget.trials, None, console, _fixed(name))
        except RunError as error:
            failed[name] = str(error)
            continue
        if best := best_of(book.ended()):
            every = base_config(own.sized(size)).train.validate_every
            chosen = {**best.settings, "train.validate_every": every}
            settings[name] = [*settings.get(name, []), *_written(chosen)]
            evaluate = tuned_on_its_splits(own.model_copy(update={"evaluate": evaluate})).evaluate
    compared = config.compare.model_copy(update={"settings": settings})
    return Searched(config.model_copy(update={"compare": compared, "evaluate": evaluate}), failed)


def _fixed(name: str) -> list[str]:
    """The keys that make a method what it is: of a form of GSCL those of its rings and its loss."""
    own = method_of(name).settings
    return [f"{section}.{key}" for section in ("rings", "loss") for key in own.get(section, {})]


def _written(settings: Settings) -> list[str]:
    return [f"{key}={json.dumps(value)}" for key, value in settings.items()]
