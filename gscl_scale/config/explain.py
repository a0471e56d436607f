"""One sentence for whatever is wrong with the values of a configuration."""

import difflib
import re
from collections.abc import Mapping

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gscl_scale.config.graphs import SOURCES
from gscl_scale.config.section import Section
from gscl_scale.errors import ConfigError
from gscl_scale.text import quoted, shortened

ALIASES = {  # the names that keys have elsewhere
    "lr": "learning_rate",
    "wd": "weight_decay",
    "random_state": "seed",
    **dict.fromkeys(("batch", "bs"), "batch_size"),
    **dict.fromkeys(("dim", "hidden", "hidden_dim", "hidden_channels"), "width"),
}
_EXPONENT = re.compile(r"[0-9]+[eE][0-9]")


def refuse_true_as_number(config: type[Section], values: Mapping[str, object]) -> None:
    """Python counts true as 1; a config file must not."""
    for name, given in values.items():
        section = _section_at(config, [name, ""])
        for key, value in given.items() if isinstance(given, dict) and section is not config else ():
            field = section.model_fields.get(key)
            if field and field.annotation in (int, float) and isinstance(value, bool):
                raise ConfigError(f"{name}.{key}: expected a number, got {value}; see gscl-scale config --schema")


def explain(config: type[Section], error: ValidationError) -> str:
    """One sentence about the first problem, and how many more there are."""
    problems = error.errors(include_url=False)
    location = [str(part) for part in problems[0]["loc"]]
    section = _section_at(config, location)
    more = len(problems) - 1
    rest = f" ({more} more problem{'s' * (more > 1)} after this one)" if more else ""
    return _sentence(section, location, problems[0]) + rest


def _section_at(config: type[Section], location: list[str]) -> type[Section]:
    """The section of a key; the kind of a graph, which is no part of a dotted key, leaves its location."""
    if location[:1] == ["graph"] and len(location) > 1 and location[1] in SOURCES:
        return SOURCES[location.pop(1)]
    field = config.model_fields.get(location[0]) if len(location) > 1 else None
    known = field.annotation if field else None
    return known if isinstance(known, type) and issubclass(known, Section) else config


def _sentence(section: type[Section], location: list[str], problem: ErrorDetails) -> str:
    dotted = ".".join(
        shortened(part, 60) for part in location[:6] if not part.startswith("function-") and part not in ("int", "str")
    )
    kind, given = problem["type"], problem["input"]
    if kind == "extra_forbidden":
        return f"{dotted}: {_unknown(section, location)}"
    if kind == "missing":
        return f"{dotted}: required and not given; add it to the config, or --set {dotted}=VALUE"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        sources = ", ".join(name for name in SOURCES if name != "memory")
        return f"graph.source: expected one of {sources}, got {quoted(given.get('source'))}"
    message = problem["msg"].removeprefix("Value error, ")
    message = shortened(message[0].lower() + message[1:])
    got = f", got {quoted(given)}" if not isinstance(given, dict) else ""
    if isinstance(given, str) and _EXPONENT.fullmatch(given):
        got += f" (YAML reads that as text: write {float(given):.0f})"
    place = f"{dotted}: " if dotted else ""  # a problem between two sections names their keys itself
    return f"{place}{message}{got}; see gscl-scale config --schema"


def _unknown(section: type[Section], location: list[str]) -> str:
    *above, name = location
    known = list(section.model_fields)
    if renamed := next((today for today in known if section.key(today).formerly == name), ""):
        return f"this key is now called {'.'.join([*above, renamed])}; rename it"
    close = [one for one in (ALIASES.get(name),) if one in known] or difflib.get_close_matches(name, known, n=1)
    return f"unknown key; did you mean {close[0]}?" if close else f"unknown key; known keys: {', '.join(known)}"
