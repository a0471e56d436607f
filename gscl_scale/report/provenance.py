"""What was run: settings, versions, machine, time, fingerprints."""

from typing import Any

from gscl_scale.config.config import Config
from gscl_scale.config.graphs import SOURCES
from gscl_scale.report.html import facts, folded, listing, plain, plain_table, seconds, section
from gscl_scale.report.run_data import Findings
from gscl_scale.text import in_words

_STAGES = ("ingest", "precompute", "train", "embed", "evaluate")


def what_was_run(found: Findings) -> str:
    """Settings that differ from the defaults first, then all of them, and what ran where for how long."""
    changed = changed_settings(found.config)
    shown = plain_table("Settings that differ from the defaults", ["setting", "here", "default"], changed)
    return section(
        "What was run",
        shown if changed else "",
        listing([] if changed or not found.config else ["every setting is the default"]),
        _all_settings(found.config),
        _stages(found),
        _machine(found),
    )


def changed_settings(config: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(key, value, default) of every setting that is not the default; what has none always counts."""
    if not config:
        return []
    source = str(config.get("graph", {}).get("source"))
    fields = SOURCES[source].model_fields if source in SOURCES else {}
    own = {name: field.default for name, field in fields.items() if name != "source" and not field.is_required()}
    default = flat({**Config().dump(), "graph": own})
    return [
        (key, plain(value), plain(default[key]) if key in default else "")
        for key, value in flat(config).items()
        if key not in default or value != default[key]
    ]


def flat(config: dict[str, Any]) -> dict[str, Any]:
    """Every setting by its dotted key."""
    return {
        f"{name}.{key}" if key else name: value
        for name, values in config.items()
        for key, value in (values.items() if isinstance(values, dict) else [("", values)])
    }


def _all_settings(config: dict[str, Any]) -> str:
    sections = ((str(name), values if isinstance(values, dict) else {"": values}) for name, values in config.items())
    tables = "".join(
        folded(name, facts((str(key), plain(value)) for key, value in values.items())) for name, values in sections
    )
    return folded("All settings", f'<div class="inner">{tables}</div>') if tables else ""


def _stages(found: Findings) -> str:
    took = found.stage_seconds()
    rows = [(stage, seconds(took[stage])) for stage in _STAGES if stage in took]
    return plain_table("Time of each stage, its last attempt", ["stage", "time"], rows) if rows else ""


def _machine(found: Findings) -> str:
    started, versions = found.last("train", "started"), found.record.get("versions", {})
    pairs = []
    if "processor" in started:
        pairs.append(("trained on", f"{started['processor']}, {started['cores']} cores, {in_words(started['memory'])}"))
    if started:
        pairs.append(("device", f"{started['device']}, {started['processes']} process(es)"))
    if versions:
        pairs.append(("versions", ", ".join(f"{name} {number}" for name, number in versions.items())))
    fingerprints = {
        "graph": found.metrics.get("graph", {}).get("fingerprint"),
        "samples": (found.samples or {}).get("fingerprint"),
        "embeddings": found.metrics.get("made_from", {}).get("embeddings"),
    }
    pairs += [(f"fingerprint of the {name}", str(print_)) for name, print_ in fingerprints.items() if print_]
    return facts(pairs) if pairs else ""
