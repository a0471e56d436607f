"""The measured figures and the published ones: rows for a table, Markdown, and a picture."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from gscl_scale.evaluate.schema import ProbeProtocol
from gscl_scale.evaluate.summary import SCALINGS, is_late
from gscl_scale.report.plots import Panels, plot_panels
from gscl_scale.studies.reproduce.cells import CellFigures, Record
from gscl_scale.studies.reproduce.ranks import ranks_of_table, ranks_section
from gscl_scale.studies.reproduce.tables import BETTER, Line, Measure, Table
from gscl_scale.text import table as markdown

Records = Mapping[tuple[str, str], Record]  # by (line, graph)
Values = dict[tuple[str, str], "Value"]  # likewise, of one measure

_NAMED = 3  # most commits that a page names
_WORDS: dict[Measure, str] = {
    "accuracy": "test accuracy, %",
    "roc_auc": "test ROC-AUC, %",
    "validation": "validation accuracy, %",
    "nmi": "NMI",
    "sim_at_5": "Sim@5",
    "similarity": "mean cosine at hop 1, 2, ... and beyond",
    "consistency": "at hop 1, 2, ... (0 of an anchor without nodes there, as in the paper's mean over all nodes)",
}
_CHOSEN_BY: tuple[Measure, ...] = ("accuracy", "roc_auc")  # one of them for a graph
_SECTIONS: dict[Measure, Literal["clusters", "search", "rings", "statistics"]] = {
    "nmi": "clusters", "sim_at_5": "search", "similarity": "rings", "consistency": "statistics",
}  # fmt: skip
_SPLITS = {"published": "the published splits", "random": "random splits"}


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

    def text(self) -> str:
        """As it stands in a table: `84.46 ± 0.31 (published 84.5: -0.04)`."""
        digits = 2 if self.measure not in _SECTIONS else 4 if len(self.values) == 1 else 3
        text = ", ".join("-" if math.isnan(value) else f"{value:.{digits}f}" for value in self.values)
        if self.deviation is not None:
            text += f" ± {self.deviation:.{digits}f}"
        if self.published is not None:
            text += f" (published {self.published:g}: {self.values[0] - self.published:+.{digits}f})"
        return text


def values_of(table: Table, records: Records) -> list[Value]:
    """All figures of a table that are there, line by line."""
    values = [
        value
        for line in table.lines
        for graph in table.graphs
        if (line.name, graph) in records
        for measure in table.measures
        if (value := _value(table, line, graph, measure, records[line.name, graph]["figures"])) is not None
    ]
    return [*values, *_better(table, values)]


def _value(table: Table, line: Line, graph: str, measure: Measure, figures: CellFigures) -> Value | None:
    published = table.published.get((line.name, graph, measure))
    if measure not in _SECTIONS:
        probe = figures.get("probe", {})
        if (measure == "roc_auc") != ("measure" in probe.get("protocol", {})):
            return None
        accuracy: Mapping[str, object] = probe.get(line.of, {})
        part = "val" if measure == "validation" else "test"
        mean, validation = _percent(accuracy.get(f"{part}_mean")), _percent(accuracy.get("val_mean"))
        if mean is None:
            return None
        return Value(line.name, graph, measure, (mean,), _percent(accuracy.get(f"{part}_std")), validation, published)
    section: Mapping[str, object] = figures.get(_SECTIONS[measure], {})
    name = "lc" if measure == "consistency" else measure if line.of == "trained" else f"{measure}_{line.of}"
    found, deviation = section.get(name), section.get(f"{name}_se")
    several = found if isinstance(found, list) else [found] if isinstance(found, float) else []
    if not several:
        return None
    values = tuple(math.nan if each is None else float(each) for each in several)
    error = deviation if isinstance(deviation, float) else None
    return Value(line.name, graph, measure, values, error, published=published)


def _percent(share: object) -> float | None:
    return 100 * share if isinstance(share, (int, float)) else None


def _better(table: Table, values: list[Value]) -> list[Value]:
    """Of some lines the one that is better on validation, graph by graph: its test figure, whatever that is."""
    better = []
    for graph in table.graphs:
        rivals = [v for v in values if v.graph == graph and v.measure in _CHOSEN_BY and v.line in table.better]
        if len(rivals) == len(table.better) > 0:
            best = max(rivals, key=lambda value: value.validation or 0.0)
            most = max((value.published for value in rivals if value.published is not None), default=None)
            better.append(replace(best, line=BETTER, published=most))
    return better


def page(name: str, table: Table, records: Records, reasons: Mapping[str, str], command: str) -> str:
    """Markdown: the table, how it was measured, and what is not there and why."""
    values = values_of(table, records)
    parts = [f"# {table.title}"]
    for measure in table.measures:
        of: Values = {(value.line, value.graph): value for value in values if value.measure == measure}
        if not of:
            continue
        parts.append(f"{_WORDS[measure][:1].upper()}{_WORDS[measure][1:]}:")
        parts += _tables(table, of)
        if table.ahead:
            parts.append(_ahead(table, table.ahead, of))
        if table.against:
            parts.append(_agreement(table, of, records))
    if ranks := ranks_of_table(table, records):
        parts += ranks_section(name, table, ranks)
    if table.shape != "table" and values:
        parts.append(f"![{table.title}]({name}.png)")
    remarks = [f"{what}: not measured, {reason}" for what, reason in reasons.items()]
    if records:
        remarks += [*_absent(table, records, reasons), *_fewer(records)]
        remarks += [*_remarks(list(records.values())), *_late(table, records)]
    parts.append("\n".join(f"- {sentence}" for sentence in [*remarks, f"By `{command}`."]))
    return "\n\n".join(part for part in parts if part)


def _tables(table: Table, of: Values) -> list[str]:
    """A measure line by line, some graphs side by side; lines and graphs without any figure are left out."""
    graphs = [graph for graph in table.graphs if any(graph == measured for _, measured in of)]
    tables = []
    for at in range(0, len(graphs), table.columns):
        some = graphs[at : at + table.columns]
        lines = dict.fromkeys(line for line, graph in of if graph in some)
        rows = [[line, *(of[line, graph].text() if (line, graph) in of else "-" for graph in some)] for line in lines]
        tables.append(markdown(["", *some], rows, left=(0,)))
    return tables


def _absent(table: Table, records: Records, reasons: Mapping[str, str]) -> list[str]:
    """The cells without figures or a reason; graphs that lack the same lines share a sentence."""
    lacking: dict[tuple[str, ...], list[str]] = {}
    for graph in table.graphs:
        absent = [line.name for line in table.lines if (line.name, graph) not in records]
        unexplained = tuple(line for line in absent if f"{line}, {graph}" not in reasons and graph not in reasons)
        lacking.setdefault(unexplained, []).append(graph)
    every = tuple(line.name for line in table.lines)
    sentences = []
    for lines, graphs in lacking.items():
        which = "" if lines == every else f" ({'; '.join(lines)})"
        sentences += [f"Not measured: {', '.join(graphs)}{which}."] if lines else []
    return sentences


def _fewer(records: Records) -> list[str]:
    """The cells with fewer seeds than the others."""
    most = max(len(record["seeds"]) for record in records.values())
    cells: dict[int, list[str]] = {}
    for (line, graph), record in records.items():
        if len(record["seeds"]) < most:
            cells.setdefault(len(record["seeds"]), []).append(f"{line}, {graph}")
    return [
        f"Measured with {count} {'seed' if count == 1 else 'seeds'} so far: {'; '.join(some)}."
        for count, some in cells.items()
    ]


def _ahead(table: Table, first: str, of: Values) -> str:
    """How far one line is ahead of the best of all others, graph by graph, on test and on validation nodes."""
    others = [line.name for line in table.lines if line.name not in (*table.better, first)]
    sentences = []
    for graph in table.graphs:
        rivals = [of[line, graph] for line in others if (line, graph) in of]
        if (first, graph) not in of or not rivals:
            continue
        ours, best = of[first, graph], max(rivals, key=lambda value: value.values[0])
        chosen = max(rivals, key=lambda value: value.validation or 0.0)
        gap = ours.values[0] - best.values[0]
        sentence = f"- {graph}: {gap:+.2f} against {best.line}, the best of {len(rivals)} others"
        if ours.validation is not None and chosen.validation is not None:
            sentence += f"; on validation nodes {ours.validation - chosen.validation:+.2f} against {chosen.line}"
        sentences.append(sentence)
    return "\n".join(sentences)


def _agreement(table: Table, of: Values, records: Records) -> str:
    """How far each line is from the one that it is compared with, and the larger deviation of the two.

    Where a line's settings are those of that one they share a cell, and there is nothing to compare.
    """
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


def _remarks(records: list[Record]) -> list[str]:
    """How the cells were measured, when, where, and by which code."""
    remarks = []
    if any("shuffled_labels" in record["figures"].get("graph", {}) for record in records):
        remarks.append("The labels are shuffled (`evaluate.shuffle_labels`): figures by labels are those of chance.")
    if kinds := sorted({record["split"] for record in records if record["split"]}):
        seeds = sorted({len(record["seeds"]) for record in records})
        remarks.append(
            f"Seeds per cell: {', '.join(map(str, seeds))}; {' and '.join(_SPLITS[kind] for kind in kinds)}. ± is the "
            "standard deviation of one measurement, by the variance within seeds (splits, initialisations of the "
            "probe) and that of their means; of NMI and Sim@5 the standard error over seeds."
        )
    probes = [record["figures"]["probe"] for record in records if "probe" in record["figures"]]
    if protocols := [probe["protocol"] for probe in probes if "protocol" in probe]:
        remarks += [_probe_sentence(of_classes)] if (of_classes := [p for p in protocols if "labels" not in p]) else []
        remarks += [_labels_sentence(of_sets)] if (of_sets := [p for p in protocols if "labels" in p]) else []
        if apart := sum("left_out" in protocol for protocol in protocols):
            remarks.append(
                "Test nodes whose labels, as validation nodes of another split, chose the epoch are left out in "
                f"{apart} of {len(protocols)} cells."
            )
    dates = sorted(record["finished"][:10] for record in records)
    when = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    machines = sorted({record["machine"] for record in records})
    hours = sum(record["seconds"] for record in {id(record): record for record in records}.values()) / 3600
    return [*remarks, f"{when}, {'; '.join(machines)}, {hours:.1f} hours, version {_versions(records)}."]


def _late(table: Table, records: Records) -> list[str]:
    """The lines whose figure the probe was still improving, graph by graph."""
    late: dict[str, list[str]] = {}
    for line in table.lines:
        for graph in table.graphs:
            probe = records[line.name, graph]["figures"].get("probe") if (line.name, graph) in records else None
            if probe and line.of in probe and is_late(probe, line.of):
                late.setdefault(graph, []).append(line.name)
    if not late or set(table.measures) <= set(_SECTIONS):
        return []
    lines = "; ".join(f"{graph} ({', '.join(names)})" for graph, names in late.items())
    return [f"The probe was still getting better at its last steps, so that more may raise the figure: {lines}."]


def _versions(records: list[Record]) -> str:
    """The code that measured, each commit once; of many commits how many there are."""
    commits: dict[str, set[str]] = {}
    for record in records:
        some = record["commit"].split(" and ") if record["commit"] else ["no checkout"]
        commits.setdefault(record["version"], set()).update(some)
    return "; ".join(
        f"{version} ({', '.join(sorted(some))})"
        if len(some) <= _NAMED
        else f"{version} ({len(some)} commits, which the cells name)"
        for version, some in sorted(commits.items())
    )


def _probe_sentence(protocols: list[ProbeProtocol]) -> str:
    """How the frozen vectors were measured; what differs between cells is given with all its values."""
    scaling, epochs, rate, decays, initialisations = (
        " or ".join(dict.fromkeys(each))
        for each in zip(*(_protocol_words(protocol) for protocol in protocols), strict=True)
    )
    return (
        f"Probe: logistic regression on frozen vectors ({scaling}), {epochs} steps of Adam at {rate}, weight decay "
        f"among {decays}, {initialisations} initialisations on a split; step and weight decay are chosen on validation "
        "nodes."
    )


def _labels_sentence(protocols: list[ProbeProtocol]) -> str:
    """The same for graphs of which a node has many labels."""
    shares = " or ".join(dict.fromkeys(f"{protocol['train_fraction']:g}" for protocol in protocols))
    return (
        f"Where a node has many labels: micro-F1 of one-vs-rest logistic regression, trained on {shares} of the nodes; "
        "its penalty is chosen on validation nodes."
    )


def _protocol_words(protocol: ProbeProtocol) -> tuple[str, str, str, str, str]:
    return (
        SCALINGS[protocol["scaling"]],
        f"{protocol['epochs']:g}",
        f"{protocol['learning_rate']:g}",
        ", ".join(f"{each:g}" for each in protocol["weight_decays"]),
        f"{protocol['initialisations']:g}",
    )


def draw(table: Table, records: Records, path: Path) -> None:
    """A panel for each graph: the first measure along the lines with deviations, or along the hops, line by line."""
    measure = table.measures[0]
    measured = [value for value in values_of(table, records) if value.measure == measure and value.line != BETTER]
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
