"""What was run: settings, versions, machine, time, fingerprints."""

from collections.abc import Mapping

import yaml

from gscl_scale.config.config import Config
from gscl_scale.config.graphs import SOURCES
from gscl_scale.report.html import Html, collapsible, copyable, element, facts, notes, plain, seconds, section, table
from gscl_scale.report.run_data import RunData
from gscl_scale.text import format_bytes

_STAGES = ("ingest", "precompute", "train", "embed", "evaluate")


def what_was_run(found: RunData) -> Html:
    """Settings that differ from the defaults first, then all of them, and what ran where for how long."""
    config, took = found.config, found.stage_seconds()
    changed = _changed_settings(config)
    stages = [(stage, seconds(took[stage])) for stage in _STAGES if stage in took]
    return section(
        "What was run",
        table("Settings that differ from the defaults", ["setting", "here", "default"], changed),
        notes(["every setting is the default"] if config and not changed else []),
        collapsible("All settings", element("div", _as_yaml(config), class_="inner")) if config else "",
        table("Time of each stage, its last attempt", ["stage", "time"], stages),
        facts(_machine(found)),
    )


def flat_settings(config: Mapping[str, object]) -> dict[str, object]:
    """Every setting by its dotted key."""
    return {
        f"{name}.{key}" if key else name: value
        for name, values in config.items()
        for key, value in (values.items() if isinstance(values, dict) else [("", values)])
    }


def _changed_settings(config: Mapping[str, object]) -> list[tuple[str, str, str]]:
    """(key, value, default) of every setting that is not the default; what has none always counts."""
    if not config:
        return []
    source = flat_settings(config).get("graph.source")
    fields = SOURCES[source].model_fields if isinstance(source, str) and source in SOURCES else {}
    own = {name: field.default for name, field in fields.items() if name != "source" and not field.is_required()}
    default = flat_settings({**Config().dump(), "graph": own})
    return [
        (key, plain(value), plain(default[key]) if key in default else "")
        for key, value in flat_settings(config).items()
        if key not in default or value != default[key]
    ]


def _as_yaml(config: Mapping[str, object]) -> Html:
    """The settings as a config file."""
    text = yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True, default_flow_style=None, width=100)
    return copyable(text, "config", "all settings as a config file")


def _machine(found: RunData) -> list[tuple[str, str]]:
    started, versions = found.last("train", "started"), found.record.get("versions", {})
    pairs = []
    if "processor" in started:
        pairs.append(
            ("trained on", f"{started['processor']}, {started['cores']} cores, {format_bytes(started['memory'])}")
        )
    if started:
        pairs.append(("device", f"{started['device']}, {started['processes']} process(es)"))
    if versions:
        pairs.append(("versions", ", ".join(f"{name} {number}" for name, number in versions.items())))
    fingerprints = {
        "graph": found.metrics.get("graph", {}).get("fingerprint"),
        "samples": (found.samples or {}).get("fingerprint"),
        "embeddings": found.metrics.get("made_from", {}).get("embeddings"),
    }
    return pairs + [(f"fingerprint of the {name}", str(value)) for name, value in fingerprints.items() if value]
