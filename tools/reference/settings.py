"""Every key of the configuration: a page for each section."""

from collections.abc import Iterable

from gscl_scale.config.config import Config
from gscl_scale.config.graphs import SOURCES
from gscl_scale.config.schema import section_rows
from gscl_scale.config.section import Section
from tools.reference.markdown import choice, code, page, rows

HEADERS = ("key", "type", "default", "meaning", "decides")
DECIDES = {  # what a key decides, and which stage reads it
    "graph": "the graph folder; read by `ingest`",
    "samples": "the ring samples; read by `precompute`",
    "ring sizes": "whether stored ring sizes are exact; read by `precompute`",
    "rounds": "how many rounds of samples there are; read by `precompute`",
    "training": "the trained encoder; read by `train`",
    "splits": "which nodes choose and which test, for checkpoints and figures; read by `train` and `evaluate`",
    "probe": "how the probe measures, for checkpoints and figures; read by `train` and `evaluate`",
    "figures": "`metrics.json` alone; read by `evaluate`",
    "nothing": "no result: where and how the work runs, and what is done with it",
}
_INDEX = """
A config file is YAML with these sections, each a page of its own. Every key has a default (but those marked
*required*), so a file holds only what differs; unknown keys are refused. `--set section.key=value` overrides a key
for one command, `gscl-scale config` prints the resolved configuration, and `gscl-scale config --schema` prints what is
on these pages.
""".strip()


def pages() -> dict[str, str]:
    """{name: text} of the pages of all sections, and the page that lists them."""
    found = {"config/graph.md": _graph_page()}
    for name, field in Config.model_fields.items():
        if name != "graph":
            section = field.annotation
            assert isinstance(section, type)
            found[f"config/{name}.md"] = page(
                f"`{name}`", field.description or "", _table(name, section, section.model_fields)
            )
    sections = [(f"[`{name}`]({name}.md)", field.description or "") for name, field in Config.model_fields.items()]
    decides = [(f"*{name}*", text) for name, text in DECIDES.items()]
    parts = (_INDEX, rows(("section", "holds"), sections), "## What a key decides", rows(("decides", "what"), decides))
    return found | {"config/index.md": page("Configuration", *parts)}


def _graph_page() -> str:
    """The keys that all sources have, and those of each source."""
    shared = set.intersection(*(set(source.model_fields) for source in SOURCES.values())) - {"source"}
    parts = [
        "`graph.source` names the source; each has keys of its own beside these of all.",
        _table("graph", SOURCES["tables"], shared),
    ]
    for kind, source in SOURCES.items():
        own = [name for name in source.model_fields if name not in shared and name != "source"]
        parts += [f"## `{kind}`", source.model_fields["source"].description or ""]
        parts += [_table("graph", source, own)] if own else []
    return page("`graph`", *parts)


def _table(prefix: str, section: type[Section], names: Iterable[str]) -> str:
    described = {key: (kind, default) for key, kind, default, _ in section_rows(section, prefix)}
    lines = []
    for name in section.model_fields:
        if name in names:
            key = f"{prefix}.{name}"
            kind, default = described[key]
            about = section.model_fields[name].description or ""
            lines.append((code(key), choice(kind.split(" | ")), _default(default), about, section.decides(name)))
    return rows(HEADERS, lines)


def _default(text: str) -> str:
    """A default as YAML has it."""
    if text in ("required", "-", ""):
        return text or "empty"
    return code({"None": "null", "True": "true", "False": "false"}.get(text, text))
