"""Methods of other packages: their entry points are loaded when they are asked for, and checked."""

import inspect
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any

from gscl_scale.config.objectives import installed_objectives, package_of
from gscl_scale.errors import ConfigError
from gscl_scale.text import shortened
from gscl_scale.train.objectives.objective import Objective


def load_objective(name: str) -> type[Objective]:
    """The objective of an installed package; ConfigError where there is none, or it does not fit."""
    point = installed_objectives().get(name)
    if point is None:
        raise ConfigError(
            f"there is no method {name!r} in the installed packages; install its package, or name another"
        )
    if wrong := _misfit(loaded := _imported(point)):
        raise ConfigError(f"{package_of(point)}: its method {name!r} ({point.value}) {wrong}; see docs/own_method.md")
    objective: type[Objective] = loaded
    return objective


def installed_package(name: str) -> str | None:
    """The package of a method and its version; None for a method of ours."""
    point = installed_objectives().get(name)
    return None if point is None else package_of(point)


def _imported(point: EntryPoint) -> Any:
    try:
        return point.load()
    except Exception as error:  # a package may raise anything while it is imported
        raise ConfigError(
            f"{package_of(point)}: its method {point.name!r} cannot be imported from {point.value}: "
            f"{type(error).__name__}: {shortened(error)}; fix the package, or uninstall it"
        ) from error


def _misfit(loaded: Any) -> str:
    """What a class lacks to be an objective; "" for nothing."""
    if not (isinstance(loaded, type) and issubclass(loaded, Objective)):
        return "is not a subclass of gscl_scale.train.objectives.objective.Objective"
    if missing := sorted(loaded.__abstractmethods__):
        return f"does not define {', '.join(missing)}"
    if not isinstance(getattr(loaded, "title", None), str):
        return "has no title, a text"
    if not isinstance(getattr(loaded, "paper", None), Mapping) or not isinstance(loaded.defaults, Mapping):
        return "has no paper and defaults, mappings of settings"
    if not _takes(loaded, 1):
        return "is not built from one argument, an ObjectiveInputs"
    if not _takes(loaded.loss, 5):
        return "has a loss that does not take (self, model, views, hidden_ND, key)"
    return ""


def _takes(function: Any, number: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * number)
    except TypeError:
        return False
    return True
