"""What was measured beside what is published: rows for a table, Markdown, and a picture."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gscl_scale.evaluate.summary import SCALINGS, is_late
from gscl_scale.report.plots import Panels, plot_panels
from gscl_scale.studies.reproduce.tables import Line, Measure, Table
from gscl_scale.text import table as markdown

Records = Mapping[tuple[str, str], dict[str, Any]]  # by (line, graph)

_BETTER = "GSCL, better on validation"
_NAMED = 3  # most commits that a page names
_WORDS: dict[Measure, str] = {
    "accuracy": "test accuracy, %",
    "validation": "validation accuracy, %",
    "nmi": "NMI",
    "sim_at_5": "Sim@5",
    "similarity": "mean cosine at hop 1, 2, ... and beyond",
    "consistency": "at hop 1, 2, ...",
}
_PARTS: dict[Measure, str] = {"accuracy": "test", "validation": "val"}  # of a split


@dataclass(frozen=True)
class Value:
    """A figure of a line on a graph; `values` are several where it is a row of hops, NaN for an empty ring."""

    line: str
    graph: str
    measure: Measure
    values: tuple[float, ...]
    deviation: float | None = None
    validation: float | None = None
    published: float | None = None

    def told(self) -> str:
        """As it stands in a table: `84.46 ± 0.31 (published 84.5: -0.04)`."""
        digits = 2 if self.measure in _PARTS else 4 if len(self.values) == 1 else 3
        text = ", ".join("-" if math.isnan(value) else f"{value:.{digits}f}" for value in self.values)
        if self.deviation is not None:
            text += f" ± {self.deviation:.{digits}f}"
        if self.published is not None:
            text += f" (published {self.published:g}: {self.values[0] - self.published:+.{digits}f})"
        return text


def values_of(table: Table, records: Records) -> list[Value]:
    """All figures of a table that are there, line by line."""
    found = [
        value
        for line in table.lines
        for graph in table.graphs
        if (line.name, graph) in records
        for measure in table.measures
        if (value := _value(table, line, graph, measure, records[line.name, graph]["figures"])) is not None
    ]
    return [*found, *_better(table, found)]


def _value(table: Table, line: Line, graph: str, measure: Measure, figures: dict[str, Any]) -> Value | None:
    published = table.published.get((line.name, graph, measure))
    if measure == "consistency":
        lc = figures.get("statistics", {}).get("lc")
        return Value(line.name, graph, measure, tuple(lc)) if lc else None
    if measure in _PARTS:
        probe, part = figures.get("probe", {}).get(line.of), _PARTS[measure]
        if probe is None or probe[f"{part}_mean"] is None:
            return None
        return Value(
            line.name, graph, measure, (100 * probe[f"{part}_mean"],), 100 * probe[f"{part}_std"],
            None if probe["val_mean"] is None else 100 * probe["val_mean"], published,
        )  # fmt: skip
    section = {"nmi": "clusters", "sim_at_5": "search", "similarity": "rings"}[measure]
    name = measure if line.of == "trained" else f"{measure}_{line.of}"
    value = figures.get(section, {}).get(name)
    if value is None:
        return None
    several = tuple(math.nan if each is None else each for each in (value if isinstance(value, list) else [value]))
    deviation = figures[section].get(f"{name}_se") if measure != "similarity" else None
    return Value(line.name, graph, measure, several, deviation, None, published)


def _better(table: Table, values: list[Value]) -> list[Value]:
    """Of some lines the one that is better on validation, graph by graph: its test figure, whatever that is."""
    out = []
    for graph in table.graphs:
        rivals = [v for v in values if v.graph == graph and v.measure == "accuracy" and v.line in table.better]
        if len(rivals) == len(table.better) > 0:
            best = max(rivals, key=lambda value: value.validation or 0.0)
            most = max((value.published for value in rivals if value.published is not None), default=None)
            out.append(
                Value(
                    _BETTER,
                    graph,
                    best.measure,
                    best.values,
                    best.deviation,
                    best.validation,
                    most,
                )
            )
    return out


def page(name: str, table: Table, records: Records, reasons: Mapping[str, str], command: str) -> str:
    """Markdown: the table, how it was measured, and what is not there and why."""
    values = values_of(table, records)
    graphs = [graph for graph in table.graphs if any(value.graph == graph for value in values)]
    parts = [f"## {table.title}"]
    for measure in table.measures:
        lines = list(dict.fromkeys(value.line for value in values if value.measure == measure))
        told = {(value.line, value.graph): value for value in values if value.measure == measure}
        rows = [
            [line, *(told[line, graph].told() if (line, graph) in told else "-" for graph in graphs)] for line in lines
        ]
        parts.append(f"{_WORDS[measure][:1].upper()}{_WORDS[measure][1:]}:")
        parts.append(markdown(["", *graphs], rows, left=(0,)))
        if table.ahead:
            parts.append(_ahead(table, told))
        if table.against:
            parts.append(_agreement(table, [value for value in values if value.measure == measure], records))
    if table.shape != "table" and values:
        parts.append(f"![{table.title}]({name}.png)")
    remarks = [*_remarks(records, reasons), *_late(table, records), f"By `{command}`."]
    parts.append("\n".join(f"- {sentence}" for sentence in remarks))
    return "\n\n".join(part for part in parts if part)


def _ahead(table: Table, told: Mapping[tuple[str, str], Value]) -> str:
    """How far the better line is ahead of the best of all others, graph by graph, on test and on validation nodes."""
    sentences = []
    for graph in table.graphs:
        rivals = [
            told[line.name, graph]
            for line in table.lines
            if line.name not in table.better and (line.name, graph) in told
        ]
        if (_BETTER, graph) in told and rivals:
            ours, best = told[_BETTER, graph], max(rivals, key=lambda value: value.values[0])
            gap = ours.values[0] - best.values[0]
            first = max(rivals, key=lambda value: value.validation or 0.0)
            absent = [line.name for line in table.lines if (line.name, graph) not in told]
            sentences.append(
                f"- {graph}: {gap:+.2f} against {best.line}, the best of {len(rivals)} others"
                + _ahead_on_validation(ours, first)
                + f"; not measured: {', '.join(absent)}" * bool(absent)
            )
    return "\n".join(sentences)


def _ahead_on_validation(ours: Value, other: Value) -> str:
    if ours.validation is None or other.validation is None:
        return ""
    return f"; on validation nodes {ours.validation - other.validation:+.2f} against {other.line}"


def _agreement(table: Table, values: list[Value], records: Records) -> str:
    """How far each line is from the one that it is compared with, beside the larger deviation of the two.

    Where a line's settings are those of that one they share a cell, and there is nothing to tell.
    """
    of = {(value.line, value.graph): value for value in values}
    sentences = []
    for line in table.lines:
        for graph in table.graphs:
            one, base = of.get((line.name, graph)), of.get((table.against or "", graph))
            if one is None or base is None or records[one.line, graph] is records[base.line, graph]:
                continue
            gap = one.values[0] - base.values[0]
            most = max(one.deviation or 0.0, base.deviation or 0.0)
            within = "within" if abs(gap) <= most else "**not** within"
            sentences.append(f"- {line.name}, {graph}: {gap:+.2f}, {within} one standard deviation ({most:.2f})")
    return "\n".join(sentences)


def _remarks(records: Records, reasons: Mapping[str, str]) -> list[str]:
    kept = list(records.values())
    out = [f"{graph}: not measured, {reason}" for graph, reason in reasons.items()]
    if not kept:
        return out
    seeds = sorted({len(record["seeds"]) for record in kept})
    words = {"published": "the published splits", "random": "random splits"}
    splits = [words[kind] for kind in sorted({record["split"] for record in kept if record["split"]})]
    hours = sum(record["seconds"] for record in {id(record): record for record in kept}.values()) / 3600
    dates = sorted(record["finished"][:10] for record in kept)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    machines = sorted({record["machine"] for record in kept})
    if splits:
        out.append(
            f"Seeds per cell: {', '.join(map(str, seeds))}; {' and '.join(splits)}. ± is the standard deviation of "
            "one measurement, by the variance within seeds (splits, initialisations of the probe) and that of their "
            "means; of NMI and Sim@5 the standard error over seeds."
        )
    probes = [record["figures"].get("probe", {}) for record in kept]
    if protocols := [probe["protocol"] for probe in probes if "protocol" in probe]:
        out.append(_probe_of(protocols))
        if apart := sum("left_out" in protocol for protocol in protocols):
            out.append(
                "Test nodes whose labels, as validation nodes of another split, chose the epoch are left out in "
                f"{apart} of {len(protocols)} cells."
            )
    out.append(f"{when}, {'; '.join(machines)}, {hours:.1f} hours, version {_versions(kept)}.")
    return out


def _late(table: Table, records: Records) -> list[str]:
    """Whose vectors the probe had not done with, graph by graph."""
    if not set(table.measures) & set(_PARTS):
        return []
    late: dict[str, list[str]] = {}
    for line in table.lines:
        for graph in table.graphs:
            probe = records.get((line.name, graph), {"figures": {}})["figures"].get("probe", {})
            if line.of in probe and is_late(probe, line.of):
                late.setdefault(graph, []).append(line.name)
    if not late:
        return []
    told = "; ".join(f"{graph} ({', '.join(names)})" for graph, names in late.items())
    return [f"The probe was still getting better at its last steps, so that more may raise the figure: {told}."]


def _versions(kept: list[dict[str, Any]]) -> str:
    """The code that measured, each commit once; of many commits how many there are."""
    commits: dict[str, set[str]] = {}
    for record in kept:
        some = record["commit"].split(" and ") if record["commit"] else ["no checkout"]
        commits.setdefault(record["version"], set()).update(some)
    told = {
        version: ", ".join(sorted(some)) if len(some) <= _NAMED else f"{len(some)} commits, which the cells name"
        for version, some in sorted(commits.items())
    }
    return "; ".join(f"{version} ({some})" for version, some in told.items())


def _probe_of(protocols: list[dict[str, Any]]) -> str:
    """How the frozen vectors were measured; a part that is not the same in all cells is told with all its values."""

    def told(key: str) -> str:
        return " or ".join(dict.fromkeys(_written(protocol[key]) for protocol in protocols))

    return (
        f"Probe: logistic regression on frozen vectors ({told('scaling')}), {told('epochs')} steps of Adam at "
        f"{told('learning_rate')}, weight decay among {told('weight_decays')}, {told('initialisations')} "
        "initialisations on a split; step and weight decay are chosen on validation nodes."
    )


def _written(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(f"{each:g}" for each in value)
    return SCALINGS.get(value, value) if isinstance(value, str) else f"{value:g}"


def draw(table: Table, records: Records, path: Path) -> None:
    """A panel for each graph: the first measure along the lines with deviations, or along the hops, line by line."""
    measure = table.measures[0]
    measured = [value for value in values_of(table, records) if value.measure == measure and value.line != _BETTER]
    along = _along_hops if table.shape == "along hops" else _along_lines
    panels, names = along(table, measured)
    x, y = ("hop", "") if table.shape == "along hops" else ("", _WORDS[measure])  # the title says what it is of hops
    plot_panels(panels, names, table.title, x, y, path)


def _along_lines(table: Table, measured: list[Value]) -> tuple[Panels, list[str]]:
    """Graphs with one point only are left out where others have more."""
    names = [line.name for line in table.lines]
    of = {(value.line, value.graph): (value.values[0], value.deviation or 0.0) for value in measured}
    graphs = list(dict.fromkeys(value.graph for value in measured))
    compared = [graph for graph in graphs if sum((name, graph) in of for name in names) > 1]
    return {graph: {"": [of.get((name, graph)) for name in names]} for graph in compared or graphs}, names


def _along_hops(table: Table, measured: list[Value]) -> tuple[Panels, list[str]]:
    panels: dict[str, dict[str, list[tuple[float, float] | None]]] = {}
    for value in measured:
        panels.setdefault(value.graph, {})[value.line] = [
            None if math.isnan(each) else (each, 0.0) for each in value.values
        ]
    hops = [str(hop) for hop in range(1, 1 + max(len(value.values) for value in measured))]
    return panels, [*hops[:-1], "beyond"] if measured[0].measure == "similarity" else hops
