"""One sentence for whatever is wrong with the values."""

import difflib
from typing import Any

from pydantic import BaseModel, ValidationError

from gscl_scale.config.graphs import SOURCES
from gscl_scale.config.section import Section
from gscl_scale.errors import ConfigError
from gscl_scale.text import quoted, shortened


def refuse_true_as_number(config: type[BaseModel], values: dict[str, Any]) -> None:
    """Python counts true as 1; a config file must not."""
    for name, field in config.model_fields.items():
        part, section = values.get(name), field.annotation
        if not (isinstance(part, dict) and isinstance(section, type) and issubclass(section, BaseModel)):
            continue
        numbers = {key for key, known in section.model_fields.items() if known.annotation in (int, float)}
        for key in numbers & set(part):
            if isinstance(part[key], bool):
                raise ConfigError(f"{name}.{key}: expected a number, got {part[key]}; see gscl-scale config --schema")


def explain(config: type[BaseModel], error: ValidationError, values: dict[str, Any]) -> str:
    """One sentence for the first thing that is wrong."""
    problems = error.errors(include_url=False)
    first = problems[0]
    location = [str(part) for part in first["loc"]]
    section: type[BaseModel] | None = config
    if location[:1] == ["graph"] and len(location) > 1 and location[1] in SOURCES:
        section = SOURCES[location.pop(1)]
    elif len(location) > 1 and location[0] in config.model_fields:
        annotation = config.model_fields[location[0]].annotation
        section = annotation if isinstance(annotation, type) else None
    dotted = ".".join(
        shortened(part, 60) for part in location[:6] if not part.startswith("function-") and part not in ("int", "str")
    )
    more = f" ({len(problems) - 1} more problem{'s' * (len(problems) > 2)} after this one)" if len(problems) > 1 else ""
    kind = first["type"]
    if kind == "extra_forbidden":
        known = list((section or config).model_fields)
        if renamed := _renamed(section or config, location[-1]):
            return f"{dotted}: this key is now called {'.'.join([*location[:-1], renamed])}; rename it{more}"
        close = difflib.get_close_matches(location[-1], known, n=1)
        cure = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
        return f"{dotted}: unknown key; {cure}{more}"
    if kind == "missing":
        return f"{dotted}: required and not given; add it to the config, or --set {dotted}=VALUE{more}"
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        known_sources = ", ".join(name for name in SOURCES if name != "memory")
        got = values.get("graph", {}).get("source")
        return f"graph.source: expected one of {known_sources}, got {quoted(got)}{more}"
    message = first["msg"].removeprefix("Value error, ")
    message = shortened(message[0].lower() + message[1:])
    got = f", got {quoted(first['input'])}" if not isinstance(first["input"], dict) else ""
    place = f"{dotted}: " if dotted else ""  # what is wrong between two sections names them itself
    return f"{place}{message}{got}; see gscl-scale config --schema{more}"


def _renamed(section: type[BaseModel], name: str) -> str:
    """Today's name of a key that was renamed."""
    if not issubclass(section, Section):
        return ""
    return next((today for today in section.model_fields if section.key(today).formerly == name), "")
