"""The section of the page of `bench rings` about graphs whose balls hold all nodes."""

from typing import Any

from gscl_scale.config.sections import RingsConfig
from gscl_scale.text import cores_of, table, turns_of


def large_balls(setting: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """A heading, one sentence about the figures, the table, and whether the engines' samples are equal."""
    figures: dict[tuple[str, str], dict[str, float]] = {}
    for row in found["rows"]:
        figures.setdefault((row["graph"], row["competitor"]), {})[row["figure"]] = row["value"]
    graphs = {graph["graph"]: graph for graph in found["graphs"]}
    lines = [
        [
            name,
            f"{graphs[name]['nodes']:,}",
            f"{graphs[name]['entries']:,}",
            str(graphs[name]["hops"]),
            f"**auto** (it chose {graphs[name]['engine_chosen']})" if engine == "auto" else engine,
            f"{of['seconds']:.2f} s",
            f"{of['seconds_to_faster_engine']:.2f} x",
            f"{of['core_seconds']:.2f} s",
            f"{of['core_seconds_to_faster_engine']:.2f} x",
            f"{of['core_seconds_estimated']:.2f} s",
            f"{of['measured_to_estimated']:.2f} x",
        ]
        for (name, engine), of in figures.items()
    ]
    headers = ["graph", "nodes", "entries", "k", "engine", "time", "time / faster", "core time", "core time / faster",
               "estimate", "core time / estimate"]  # fmt: skip
    return [
        "## Graphs whose balls hold all nodes",
        _sentence(setting),
        table(headers, lines, left=(0, 4)),
        "\n".join(_sameness(graph) for graph in found["graphs"]),
    ]


def _sentence(setting: dict[str, Any]) -> str:
    rings = RingsConfig()
    return (
        f"A round of *every* node with the default rings ({rings.per_ring} per ring, {rings.beyond} beyond, width "
        f"{rings.width}), written and read back with checksums, on graphs where k hops lead to all nodes: `time` is of "
        f"all that on {cores_of(setting['cores'])} of {setting['processor']}, `core time` is the processor's time "
        "without the reading back, `/ faster` compares it with the lower one of `sketch` and `exact`, and `estimate` "
        f"is the core time that `auto` expects; {turns_of(setting['turns'])}, each in a fresh process with compiled "
        f"kernels. `{setting['command']}` makes this table:"
    )


def _sameness(graph: dict[str, Any]) -> str:
    if graph["samples_differ"]:
        return f"- {graph['graph']}: the samples of `sketch` and `exact` **differ**, first in {graph['samples_differ']}"
    return (
        f"- {graph['graph']}: `sketch` and `exact` have equal bytes in all columns but in ring sizes that are estimates"
    )
