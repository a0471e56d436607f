"""The methods in the order of the tables, each as settings over a user's configuration."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gscl_scale import seeding
from gscl_scale.config.baselines import BaselineConfig
from gscl_scale.config.config import Config
from gscl_scale.config.objectives import installed_objectives
from gscl_scale.config.read import apply_setting
from gscl_scale.config.sections import MOST_EPOCHS, TrainConfig
from gscl_scale.errors import ConfigError
from gscl_scale.graph.graph import Graph
from gscl_scale.train.objectives.af_gcl import AfGcl
from gscl_scale.train.objectives.afgrl import Afgrl
from gscl_scale.train.objectives.autossl import AutoSsl
from gscl_scale.train.objectives.bgrl import Bgrl
from gscl_scale.train.objectives.blnn import Blnn
from gscl_scale.train.objectives.cca_ssg import CcaSsg
from gscl_scale.train.objectives.costa import Costa
from gscl_scale.train.objectives.dgi import Dgi
from gscl_scale.train.objectives.g_bt import GraphBarlowTwins
from gscl_scale.train.objectives.gae import Gae
from gscl_scale.train.objectives.gca import Gca
from gscl_scale.train.objectives.gmi import Gmi
from gscl_scale.train.objectives.grace import Grace
from gscl_scale.train.objectives.graph_acl import GraphAcl
from gscl_scale.train.objectives.graphmae import GraphMae
from gscl_scale.train.objectives.graphmae2 import GraphMae2
from gscl_scale.train.objectives.installed import load_objective
from gscl_scale.train.objectives.mvgrl import Mvgrl
from gscl_scale.train.objectives.objective import Objective, ObjectiveInputs, Sections
from gscl_scale.train.objectives.s2gae import S2gae
from gscl_scale.train.objectives.sugrl import Sugrl
from gscl_scale.train.objectives.supervised import Supervised
from gscl_scale.train.objectives.vgae import Vgae

OBJECTIVES: dict[str, type[Objective]] = {
    "supervised": Supervised,
    "gae": Gae,
    "vgae": Vgae,
    "dgi": Dgi,
    "mvgrl": Mvgrl,
    "gmi": Gmi,
    "grace": Grace,
    "gca": Gca,
    "bgrl": Bgrl,
    "afgrl": Afgrl,
    "af-gcl": AfGcl,
    "autossl": AutoSsl,
    "cca-ssg": CcaSsg,
    "g-bt": GraphBarlowTwins,
    "graphmae": GraphMae,
    "graphmae2": GraphMae2,
    "s2gae": S2gae,
    "sugrl": Sugrl,
    "costa": Costa,
    "graphacl": GraphAcl,
    "blnn": Blnn,
}


def objective_of(name: str) -> type[Objective]:
    """An objective of ours or of an installed package."""
    return OBJECTIVES[name] if name in OBJECTIVES else load_objective(name)


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
    "supervised": Method.of("supervised", Supervised),
    "gat": Method("supervised GAT", Supervised.gat),
    **{name: Method.of(name, objective) for name, objective in OBJECTIVES.items() if name != "supervised"},
    "first-hop": Method("first-hop positives", {"rings": {"hops": 1}, "loss": {"positives": "each", "hop_zero": 0.0}}),
    "gscl-pairwise": Method("GSCL pairwise", {"loss": {"ranking": "pairwise"}}),
    "gscl-listwise": Method("GSCL listwise", {"loss": {"ranking": "listwise"}}),
}

USUAL = ("supervised", "dgi", "grace", "bgrl", "cca-ssg", "first-hop", "gscl-pairwise", "gscl-listwise")


def all_methods() -> list[str]:
    """The names of our methods and of those of installed packages, in the order of the tables."""
    return [*METHODS, *installed_objectives()]


def method_of(name: str) -> Method:
    """A method of ours or of an installed package."""
    return METHODS[name] if name in METHODS else Method.of(name, objective_of(name))


_OWN = ("rings", "model", "loss", "train", "baseline")  # sections that a method may have its own settings in
_SAMPLING = ("rings", "loss")
_SHARED = ("train.objective", "train.repeats", "train.seed", "rings.seed")


def configured(config: Config, name: str) -> Config:
    """A user's configuration for one method: its own settings, then those of `compare.settings`.

    Whatever its number of epochs, it is validated and saved as often as the user's configuration asks for.
    """
    method = method_of(name)
    try:
        return _configured(config, name, method)
    except ConfigError as error:
        raise ConfigError(f"compare.settings: {name}: {error}") from None


def _configured(config: Config, name: str, method: Method) -> Config:
    chosen = {section: dict(settings) for section, settings in method.settings.items()}
    for setting in config.compare.settings.get(name, []):
        key = setting.partition("=")[0].strip()
        section = key.partition(".")[0]
        if section not in _OWN or key in _SHARED:
            raise ConfigError(
                f"{key} cannot differ between methods; set it for all, or choose a key of {', '.join(_OWN)}"
            )
        if section in _SAMPLING and chosen.get("train", {}).get("objective", "gscl") != "gscl":
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
    name = config.train.objective
    given = config.baseline.model_dump(exclude_none=True)
    options = {f"options.{key}": value for key, value in given.pop("options").items()}
    known = {_key(key): value for key, value in objective_of(name).defaults.items()}
    for key, value in (given | options).items():
        if key not in known:
            raise ConfigError(
                f"baseline.{key}: {name} reads no such setting, it reads {', '.join(known) or 'none'}; leave it out"
            )
        if key in options and not _alike(value, known[key]):
            raise ConfigError(f"baseline.{key}: expected a value like {known[key]!r}, its default, got {value!r}")
    return {**known, **given, **options}


def _key(name: str) -> str:
    """A setting below `baseline`: a key of ours, or an option of a method of another package."""
    return name if name in BaselineConfig.model_fields else f"options.{name}"


def _alike(value: object, default: object) -> bool:
    """Whether a value has the type of a default; a whole number is a number, and nothing is known of None."""
    return default is None or type(value) is type(default) or (type(value) is int and type(default) is float)


def build_objective(config: Config, graph: Graph, num_classes: int = 0, targets: Tensor | None = None) -> Objective:
    """The objective of a configuration; its first weights depend on the seed alone, torch's generator is left alone."""
    settings = settings_of(config)
    options = {key.removeprefix("options."): settings.pop(key) for key in list(settings) if key.startswith("options.")}
    given = ObjectiveInputs(config.model, graph, num_classes, targets, options, **settings)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seeding.integer("objective", config.train.seed))
        objective = objective_of(config.train.objective)(given)
    if not getattr(objective, "views", None):
        raise ConfigError(f"train.objective: {config.train.objective} has no views; see docs/own_method.md")
    return objective
