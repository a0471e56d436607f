"""Settings as keywords of Python functions: short names for the usual ones, `section__key` for every other."""

import contextlib
import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gscl_scale.config.config import Config
from gscl_scale.config.explain import ALIASES
from gscl_scale.config.graphs import SOURCES
from gscl_scale.config.read import apply_setting, read_yaml
from gscl_scale.errors import ConfigError, GsclError
from gscl_scale.text import quoted

Settings = Config | Mapping[str, Any] | Path | str | None
Changes = dict[str, dict[str, object]]  # keys and values by section

USUAL = {
    "epochs": ("train.epochs",),
    "hops": ("rings.hops",),
    "width": ("model.width",),
    "layers": ("model.layers",),
    "batch_size": ("train.batch_size",),
    "seed": ("train.seed", "rings.seed", "evaluate.seed"),  # as a repeat of train.repeats has them
    "device": ("runtime.device",),
}
_OF_TABLES = {  # what `fit` takes as values, a run takes as names of columns
    **dict.fromkeys(("label", "labels"), ("graph.label_column",)),
    **dict.fromkeys(("feature", "features"), ("graph.feature_columns",)),
    **dict.fromkeys(("weight", "weights"), ("graph.weight_column",)),
}
_SIDE_BY_SIDE = re.compile(r"(--set (?:'[^']*'|[^\s']+)) (?=--set )")
_OVERWRITE = re.compile(
    r", or gscl-scale run with --overwrite, which (removes \S+ and everything made from it|reads it again)"
)
_OPTION = re.compile(r"--set '(\w+\.\w+=[^']*)'|--set (\w+\.\w+=[^\s,;)]+)|--run\b")


def changes_by(keywords: Mapping[str, object], caller: str, others: tuple[str, ...] = ()) -> Changes:
    """What keywords set, by section; None sets nothing. ConfigError for an unknown one.

    others   further keywords of the caller, which a mistyped one may mean

    >>> changes_by({"hops": 3, "train__learning_rate": 0.01, "epochs": None}, "fit")
    {'rings': {'hops': 3}, 'train': {'learning_rate': 0.01}}
    """
    changes: Changes = {}
    for name, value in keywords.items():
        section, _, key = name.partition("__")
        if name not in USUAL and not (key and section in Config.model_fields):
            raise ConfigError(f"{caller}: {_unknown(name, others)}")
        for dotted in USUAL.get(name, (f"{section}.{key}",)) if value is not None or key else ():
            section, _, key = dotted.partition(".")
            changes.setdefault(section, {})[key] = value
    return changes


def settings_named(name: str) -> tuple[str, ...]:
    """The settings that a short name stands for, or that have this name; none if it is unknown.

    >>> settings_named("epochs"), settings_named("train.epochs"), settings_named("width")
    (('train.epochs',), ('train.epochs',), ('model.width',))
    """
    name = ALIASES.get(name, name)
    return (USUAL | _OF_TABLES).get(name) or tuple(
        dict.fromkeys(f"{section}.{key}" for section, key in _keys() if name in (key, f"{section}.{key}"))
    )


def values_of(config: Settings) -> dict[str, Any]:
    """The plain values of a configuration in any form: a Config, a mapping, the path of a YAML file, or nothing."""
    if isinstance(config, Config):
        given = config.dump()
        return given if "graph" in config.model_fields_set else {**given, "graph": {}}
    if isinstance(config, (str, Path)):
        return read_yaml(Path(config))
    if config is None or isinstance(config, Mapping):
        return dict(config or {})
    raise ConfigError(
        f"config: expected a Config, a dict of sections, or the path of a YAML file, got {type(config).__name__}; "
        "such as config={'train': {'epochs': 50}}"
    )


def merged(values: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    """Plain values with changes over them.

    >>> merged({"train": {"epochs": 50, "seed": 1}}, {"train": {"epochs": 2}})
    {'train': {'epochs': 2, 'seed': 1}}
    """
    together = dict(values)
    for section, keys in changes.items():
        before = together.get(section)
        if before is None or isinstance(before, Mapping):  # anything else is refused once the whole is checked
            together[section] = {**(before or {}), **keys}
    return together


@contextlib.contextmanager
def errors_in_python() -> Iterator[None]:
    """Let the messages of errors name keywords in place of options of the command line."""
    try:
        yield
    except GsclError as error:
        error.args = (in_python(str(error)),)
        raise


def in_python(message: str) -> str:
    """A message of the command line for a reader who calls a function.

    >>> print(in_python("choose another --run, or add --set graph.unknown_ids=add"))
    choose another run=..., or add graph__unknown_ids='add'
    """
    message = message.replace("--set graph.weight_column=null", "weights=False")
    message = _OVERWRITE.sub(" or delete that folder", _SIDE_BY_SIDE.sub(r"\1, ", message))
    return _OPTION.sub(lambda found: _keyword(found[1] or found[2]) if found[1] or found[2] else "run=...", message)


def _keyword(setting: str) -> str:
    changes: dict[str, Any] = {}
    try:
        apply_setting(changes, setting)
    except ConfigError:  # no value, such as a part of a name that a file gave
        return f"--set {setting}"
    ((section, keys),) = changes.items()
    ((key, value),) = keys.items()
    return f"{section}__{key}={value!r}"


def _unknown(name: str, others: tuple[str, ...]) -> str:
    """The nearest names that there are: short ones, those of the caller, and every key of the configuration."""
    known = {key: f"{section}__{key}" for section, key in _keys()} | {one: one for one in (*USUAL, *others)}
    key = name.rpartition("__")[2]
    close = difflib.get_close_matches(ALIASES.get(key, key), known, n=3, cutoff=0.7)
    if close:
        return f"unknown keyword {quoted(name)}; did you mean {' or '.join(known[one] for one in close)}?"
    every = ", ".join(dict.fromkeys((*USUAL, *others)))
    return (
        f"unknown keyword {quoted(name)}; known ones are {every}, and section__key for any "
        f"other setting, such as train__learning_rate (gscl-scale config --schema lists them)"
    )


def _keys() -> list[tuple[str, str]]:
    """Section and name of every key, those of all sources of graphs among them."""
    sections = [(name, type(section)) for name, section in vars(Config()).items() if name != "graph"]
    sections += [("graph", source) for source in SOURCES.values()]
    return [(name, key) for name, section in sections for key in section.model_fields]
