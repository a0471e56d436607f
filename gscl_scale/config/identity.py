"""Which settings decide which result: keys say it where they are declared, everything else is derived here."""

from collections.abc import Callable, Iterator
from typing import Any

from gscl_scale.config.config import Config
from gscl_scale.config.graphs import SOURCES
from gscl_scale.config.section import Result, Section

_FIRST_REVISION = (
    3  # the revision of the configuration when names were first derived here; raising it would change them all
)

Values = dict[str, Any]  # of one section, by key
Sections = dict[str, Values]


def deciding_settings(config: Config, *results: Result, first_revision: int = _FIRST_REVISION) -> Sections:
    """The settings that decide these results, by section: whoever has the same gets the same.

    first_revision   the revision of the oldest stored results that these settings identify: a younger key counts only
                     where it differs from what those results were made with
    """
    found = {
        name: deciding_values(section, *results, first_revision=first_revision) for name, section in _sections(config)
    }
    return {name: values for name, values in found.items() if values}


def deciding_values(section: Section, *results: Result, first_revision: int = _FIRST_REVISION) -> Values:
    """The settings of one section that decide these results."""
    return _counted(section, lambda name: section.decides(name) in results, first_revision)


def naming_values(section: Section, *results: Result, first_revision: int) -> Values:
    """The settings that stored results are named by: as `deciding_values`, and all keys as old as the first names."""
    return _counted(
        section,
        lambda name: section.decides(name) in results or section.key(name).revision <= first_revision,
        first_revision,
    )


def _counted(section: Section, counts: Callable[[str], bool], first_revision: int) -> Values:
    counted = {}
    for name, value in section.model_dump(mode="json").items():
        key = section.key(name)
        unchanged = key.revision > first_revision and value == key.neutral
        if counts(name) and not unchanged:
            counted[key.formerly or name] = value
    return counted


def upgrade_settings(record: Sections) -> Sections:
    """The configuration of an earlier version under today's names, with what it did where keys are younger than it."""
    classes: dict[str, type[Section]] = {name: type(section) for name, section in _sections(Config())}
    classes["graph"] = SOURCES.get(record.get("graph", {}).get("source"), Section)
    return {name: _renamed(values, classes.get(name, Section)) for name, values in record.items()}


def _renamed(values: Values, section: type[Section]) -> Values:
    today = dict(values)
    for name in section.model_fields:
        key = section.key(name)
        if key.formerly and key.formerly in today:
            today[name] = today.pop(key.formerly)
        if key.revision and name not in today:
            today[name] = key.neutral
    return today


def changed_settings(before: Sections, config: Config, *results: Result) -> Iterator[tuple[str, str, Any, Any]]:
    """Section, key, earlier and present value of the settings that differ and decide one of these results."""
    default, earlier = Config().dump(), upgrade_settings(before)
    for name, section in _sections(config):
        now = section.model_dump(mode="json")
        then = {**({} if name == "graph" else default[name]), **earlier.get(name, {})}
        for key in sorted({*then, *now}):
            if section.decides(key) in results and then.get(key) != now.get(key):
                yield name, key, then.get(key), now.get(key)


def _sections(config: Config) -> list[tuple[str, Section]]:
    return [(name, getattr(config, name)) for name in Config.model_fields]
