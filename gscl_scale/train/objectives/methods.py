"""The methods in the order of the tables, each as settings over a user's configuration."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gscl_scale import seeding
from gscl_scale.config.config import Config
from gscl_scale.config.read import apply_setting
from gscl_scale.config.sections import MOST_EPOCHS, TrainConfig
from gscl_scale.errors import ConfigError
from gscl_scale.graph.graph import Graph
from gscl_scale.train.objectives.bgrl import Bgrl
from gscl_scale.train.objectives.cca_ssg import CcaSsg
from gscl_scale.train.objectives.dgi import Dgi
from gscl_scale.train.objectives.g_bt import GraphBarlowTwins
from gscl_scale.train.objectives.gae import Gae
from gscl_scale.train.objectives.gca import Gca
from gscl_scale.train.objectives.grace import Grace
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs, Sections
from gscl_scale.train.objectives.supervised import Supervised

OBJECTIVES: dict[str, type[Objective]] = {
    "supervised": Supervised,
    "gae": Gae,
    "dgi": Dgi,
    "grace": Grace,
    "gca": Gca,
    "bgrl": Bgrl,
    "cca-ssg": CcaSsg,
    "g-bt": GraphBarlowTwins,
}


@dataclass(frozen=True)
class Method:
    """A method by its title, and its settings in each section of a configuration."""

    title: str
    settings: Sections

    @classmethod
    def of(cls, name: str, objective: type[Objective]) -> "Method":
        """An objective as its paper trains it, on the user's encoder."""
        encoder = {"feature_dropout": 0.0, "hidden_dropout": 0.0, "message_dropout": 0.0, "bias": True}
        own: Sections = {"train": {"objective": name}, "model": encoder}
        sections = {**own, **objective.paper}
        return cls(objective.title, {key: {**own.get(key, {}), **objective.paper.get(key, {})} for key in sections})


METHODS = {
    **{name: Method.of(name, objective) for name, objective in OBJECTIVES.items()},
    "first-hop": Method("first-hop positives", {"rings": {"hops": 1}, "loss": {"positives": "out", "hop_zero": 0.0}}),
    "gscl-pairwise": Method("GSCL pairwise", {"loss": {"ranking": "pairwise"}}),
    "gscl-listwise": Method("GSCL listwise", {"loss": {"ranking": "listwise"}}),
}

_OWN = ("rings", "model", "loss", "train", "baseline")  # sections that a method may have its own settings in
_SAMPLING = ("rings", "loss")
_SHARED = ("train.objective", "train.repeats", "train.seed", "rings.seed")


def configured(config: Config, name: str) -> Config:
    """A user's configuration for one method: its own settings, then those of `compare.settings`.

    Whatever its number of epochs, it is validated and saved as often as the user's configuration asks for.
    """
    try:
        return _configured(config, name)
    except ConfigError as error:
        raise ConfigError(f"compare.settings: {name}: {error}") from None


def _configured(config: Config, name: str) -> Config:
    chosen = {section: dict(settings) for section, settings in METHODS[name].settings.items()}
    for setting in config.compare.settings.get(name, []):
        key = setting.partition("=")[0].strip()
        section = key.partition(".")[0]
        if section not in _OWN or key in _SHARED:
            raise ConfigError(
                f"{key} cannot differ between methods; set it for all, or choose a key of {', '.join(_OWN)}"
            )
        if name in OBJECTIVES and section in _SAMPLING:
            raise ConfigError(f"{name} ignores {key}, because it uses no ring samples; leave it out")
        apply_setting(chosen, setting, option="")
    values = {**config.dump(), "compare": {}}
    epochs = chosen.get("train", {}).get("epochs")
    if isinstance(epochs, int):
        chosen["train"] = {**_in_proportion(config.train, epochs), **chosen["train"]}
    return Config.parse({**values, **{section: {**values.get(section, {}), **chosen[section]} for section in chosen}})


def _in_proportion(train: TrainConfig, epochs: int) -> dict[str, int]:
    every = {"validate_every": train.validate_every, "checkpoint_every": train.checkpoint_every}
    total = train.epochs if isinstance(train.epochs, int) else MOST_EPOCHS
    return {key: max(1, number * epochs // total) for key, number in every.items() if number}


def settings_of(config: Config) -> dict[str, Any]:
    """The `baseline` settings that the objective reads, the paper's where none is given; others are refused."""
    name, given = config.train.objective, config.baseline.model_dump(exclude_none=True)
    known = OBJECTIVES[name].defaults
    if others := sorted(given.keys() - known.keys()):
        raise ConfigError(
            f"baseline.{others[0]}: {name} reads no such setting, it reads {', '.join(known) or 'none'}; leave it out"
        )
    return {**known, **given}


def build_objective(config: Config, graph: Graph, num_classes: int = 0, targets: Tensor | None = None) -> Objective:
    """The objective of a configuration; its first weights depend on the seed alone, torch's generator is left alone."""
    given = ObjectiveInputs(config.model, graph, num_classes, targets, **settings_of(config))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seeding.integer("objective", config.train.seed))
        return OBJECTIVES[config.train.objective](given)
