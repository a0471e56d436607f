"""Pictures of a run, as SVG that follows the page's colours or as files of their own."""

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from gscl_scale.evaluate.average_ranks import AverageRanks
from gscl_scale.evaluate.graph_statistics import GraphStatistics
from gscl_scale.evaluate.label_summary import figure_name
from gscl_scale.evaluate.schema import Method, RingLevel
from gscl_scale.io.atomic import publish_file
from gscl_scale.report.chart_data import Line, readable
from gscl_scale.report.compare_methods import Comparison, MethodRow, is_by_links
from gscl_scale.report.html import Html

Panels = Mapping[str, Mapping[str, Sequence[tuple[float, float] | None]]]  # lines of each panel: (value, deviation)
PICTURES = (".svg", ".png", ".pdf")
_POINTS = 300
_MARKS: Any = {"marker": "o", "markersize": 4.5, "linewidth": 1.6, "capsize": 3}
_LEGEND: Any = {"frameon": False, "loc": "best", "fontsize": 9}
_RC: Any = {"svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9.5, "text.parse_math": False}


@dataclass(frozen=True)
class Theme:
    """Colours of text and axes, of the trained encoder, of what it is compared with, and of rules."""

    ink: str = "#26292e"
    accent: str = "#0f766e"
    other: str = "#b45309"
    rule: str = "#d9dce1"


PRINT = Theme()
# placeholders that `as_svg` turns into the page's own colours, so that a picture follows light and dark
_PAGE = Theme("#010101", "#010102", "#010103", "#010104")
_SERIES = (_PAGE.accent, _PAGE.other, "#010105", "#010106")
_DASHES = ("-", "--", ":")
_PAGE_COLOURS = {
    _PAGE.ink: "currentColor",
    _PAGE.accent: "var(--accent)",
    _PAGE.other: "var(--other)",
    _PAGE.rule: "var(--rule)",
    _SERIES[2]: "var(--third)",
    _SERIES[3]: "var(--fourth)",
}


def lines_svg(
    series: Mapping[str, Sequence[tuple[float, float | None]]], name: str, x: str, y: str, from_zero: bool = False
) -> str:
    """Lines of (x, y) by their names, without values that are not finite; empty where nothing is left."""
    finite = {
        label: [(at, value) for at, value in points if value is not None and math.isfinite(value)]
        for label, points in series.items()
    }
    lines = {label: _averaged(np.array(points, float)) for label, points in finite.items() if points}
    if not lines:
        return ""
    figure, axes = _figure(_PAGE, x, y)
    for number, (label, (at, values)) in enumerate(lines.items()):
        style: Any = {"color": _SERIES[number % len(_SERIES)], "linestyle": _DASHES[number // len(_SERIES) % 3]}
        axes.plot(at, values, linewidth=1.6, marker="o" if at.size == 1 else "", label=label, **style)
    if len(lines) > 1:
        axes.legend(labelcolor=_PAGE.ink, handlelength=1.6, **_LEGEND)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    if from_zero:
        axes.set_ylim(bottom=0)
    words = "; ".join(f"{label} from {values[0]:.4g} to {values[-1]:.4g}" for label, (_, values) in lines.items())
    read = [
        Line(label, _PAGE_COLOURS[_SERIES[number % len(_SERIES)]], at.tolist(), values.tolist(),
             [f"{value:.4g}" for value in values])
        for number, (label, (at, values)) in enumerate(lines.items())
    ]  # fmt: skip
    picture = as_svg(figure, name, f"Lines over {x}: {words}.")
    return readable(axes, picture, read, lambda place: f"{x} {place:,.0f}")


def consistency_svg(stats: GraphStatistics) -> str:
    """Label consistency LC(n) per hop; empty where the graph has no labels."""
    hops, means, _ = _consistency(stats)
    if not hops:
        return ""
    figure = consistency_figure(stats, _PAGE)
    values = ", ".join(f"{value:.2f}" for value in means)
    picture = as_svg(figure, "consistency", f"Line: label consistency per hop: {values}.")
    read = Line("LC(n)", _PAGE_COLOURS[_PAGE.accent], hops, means, [f"{value:.4f}" for value in means])
    sizes = [_short(size) for size in stats["ring_size"]]
    return readable(figure.axes[0], picture, [read], lambda hop: f"hop {hop:.0f}, rings of {sizes[int(hop) - 1]} nodes")


def violins_svg(distribution: dict[Method, list[RingLevel]], levels: Sequence[str]) -> str:
    """Cosine of anchors and ring members per hop: untrained on the left, trained on the right of each violin."""
    figure, axes = _figure(_PAGE, "hop", "cosine to the anchor")
    sides: dict[Method, float] = {"untrained": -1.0, "trained": 1.0}
    shown = [name for name in sides if name in distribution]
    if not any(level["pairs"] for name in shown for level in distribution[name]):
        return ""
    for name in shown:
        colour = _PAGE.accent if name == "trained" else _PAGE.other
        for place, level in enumerate(distribution[name]):
            if level["pairs"]:
                _half_violin(axes, place, level, sides[name], colour)
        axes.fill_between([], [], color=colour, alpha=0.45, linewidth=0, label=name)
    axes.set_xticks(range(len(levels)), [level.removeprefix("hop ") for level in levels])
    axes.legend(labelcolor=_PAGE.ink, handlelength=1.0, **_LEGEND)
    means = [level["mean"] for level in distribution.get("trained", [])]
    words = ", ".join("none" if mean is None else f"{mean:.2f}" for mean in means)
    picture = as_svg(figure, "violins", f"Violins: mean cosine of trained embeddings per hop, then beyond: {words}.")
    read = [_read(name, distribution[name]) for name in shown]
    return readable(axes, picture, read, lambda place: levels[int(place)])


def _read(name: Method, found: Sequence[RingLevel]) -> Line:
    """The mean of each level, and its middle half in words."""
    known = [
        (place, level["mean"], level["quantiles"]) for place, level in enumerate(found) if level["mean"] is not None
    ]
    colour = _PAGE_COLOURS[_PAGE.accent if name == "trained" else _PAGE.other]
    words = [f"{mean:.2f} (middle half {parts[1]:.2f} to {parts[3]:.2f})" for _, mean, parts in known]
    return Line(name, colour, [place for place, *_ in known], [mean for _, mean, _ in known], words)


def consistency_figure(stats: GraphStatistics, theme: Theme) -> Figure:
    """LC(n) with one standard error where sampled; the mean size of each ring stands below its hop."""
    figure, axes = _figure(theme, "hop n, and mean size of its ring", "LC(n)")
    hops, means, errors = _consistency(stats)
    style: Any = {"color": theme.accent, **_MARKS}
    if hops:
        axes.errorbar(hops, means, yerr=errors, **style)
    else:
        reason = "a node has many labels" if "labels_per_node" in stats else "the graph has no labels"
        axes.text(0.5, 0.5, reason, transform=axes.transAxes, ha="center", color=theme.ink)
    for hop, value in zip(hops, means, strict=True):
        axes.annotate(f"{value:.2f}", (hop, value), (0, 7), textcoords="offset points", ha="center", color=theme.ink)
    axes.set_ylim(0, 1.08)
    sizes = [f"{hop}\n{_short(size)}" for hop, size in enumerate(stats["ring_size"], 1)]
    axes.set_xticks(range(1, len(sizes) + 1), sizes)
    axes.margins(x=0.08)
    return figure


def _consistency(stats: GraphStatistics) -> tuple[list[float], list[float], list[float] | None]:
    """Hops, LC(n) and its standard errors, of a sample only; a hop at which no anchor has a ring is left out."""
    found = stats.get("consistency")
    means = found["mean"] if found else []
    known = [(float(hop), mean) for hop, mean in enumerate(means, 1) if mean is not None]
    errors = found["se"] if found else None
    shown = None if errors is None else [errors[int(hop) - 1] or 0.0 for hop, _ in known]
    return [hop for hop, _ in known], [mean for _, mean in known], shown


def plot_consistency(stats: GraphStatistics, path: Path) -> None:
    """Write the plot of LC(n) to an .svg, .png or .pdf file; for a graph without labels it says so."""
    _save(consistency_figure(stats, PRINT), path, "consistency")


def plot_comparison(result: Comparison, path: Path) -> None:
    """Write test accuracy by method, in the order of the table, to a picture; a bar is one deviation to either side.

    Without labels it is the AUC of held-out edges against nodes drawn by degree; a bar is one standard error.
    """
    by_links = is_by_links(result)
    shown = [(row, *found) for row in result["methods"] if (found := _auc(row) if by_links else _accuracy(row))]
    accuracy = f"test {figure_name(result['protocol'])} on {result['graph']['name']}, %, and one deviation"
    x = f"AUC of held-out edges of {result['graph']['name']}, %" if by_links else accuracy
    figure, axes = _figure(PRINT, x, "", size=(5.6, 0.9 + 0.34 * len(shown)), grid="x")
    for place, (row, share, wide) in enumerate(shown):
        colour = PRINT.accent if row["method"].startswith("gscl") else PRINT.ink if "training_s" in row else PRINT.other
        mean, deviation = 100 * share, 100 * wide
        axes.errorbar([mean], [place], xerr=[deviation], color=colour, marker="o", markersize=5, capsize=3)
        axes.annotate(f"{mean:.1f}", (mean, place), (0, 6), textcoords="offset points", ha="center", color=colour)
    axes.set_yticks(range(len(shown)), [row["title"] for row, _, _ in shown])
    axes.set_ylim(len(shown) - 0.5, -0.7)
    axes.margins(x=0.08)
    _save(figure, path, "comparison")


def plot_average_ranks(found: AverageRanks, path: Path) -> None:
    """Write a critical-difference diagram: methods at their average ranks, the best on the left.

    A thick line joins methods without a significant difference; the bar at the top shows the critical difference.
    """
    order = sorted(found.ranks, key=lambda name: found.ranks[name])
    groups, last = list(found.groups()), len(order)
    top = 0.4 + 0.3 * len(groups)  # below the axis come the groups, then the names, half of them on either side
    x = f"average rank over {len(found.graphs)} graphs, 1 is the best"
    figure, axes = _figure(PRINT, x, "", size=(7.2, 1.2 + 0.22 * (top + (last + 1) // 2)), grid="x")
    for number, group in enumerate(groups):
        ends = [found.ranks[group[0]] - 0.04, found.ranks[group[-1]] + 0.04]
        axes.plot(ends, [0.4 + 0.3 * number] * 2, color=PRINT.ink, linewidth=3, solid_capstyle="butt")
    for place, name in enumerate(order):
        left, rank = place < (last + 1) // 2, found.ranks[name]
        depth = top + 0.5 + (place if left else last - 1 - place)
        edge, side = (0.9, "right") if left else (last + 0.1, "left")
        colour = PRINT.accent if name.startswith("GSCL") else PRINT.ink
        axes.plot([rank, rank, edge], [0, depth, depth], color=colour, linewidth=1)
        axes.annotate(f"{name}  {rank:.2f}", (edge, depth), (-4 if left else 4, 0), textcoords="offset points",
                      ha=side, va="center", color=colour, annotation_clip=False)  # fmt: skip
    axes.errorbar([1 + found.critical / 2], [-0.6], xerr=[found.critical / 2], color=PRINT.other, capsize=4)
    axes.annotate(f"critical difference {found.critical:.2f}", (1 + found.critical, -0.6), (6, 0),
                  textcoords="offset points", va="center", color=PRINT.other, annotation_clip=False)  # fmt: skip
    axes.set(xlim=(1, last), ylim=(top + (last + 1) // 2 + 0.2, -1.1), xticks=range(1, last + 1), yticks=[])
    axes.spines["left"].set_visible(False)
    _save(figure, path, "average ranks")


def _accuracy(row: MethodRow) -> tuple[float, float] | None:
    mean = row.get("test_mean")
    return None if mean is None else (mean, row["test_std"] or 0.0)


def _auc(row: MethodRow) -> tuple[float, float] | None:
    figures = row["links"]["degree_matched"] if "links" in row else None
    return (figures["auc"], figures.get("auc_se", 0.0)) if figures else None


def _save(figure: Figure, path: Path, name: str) -> None:
    kind = path.suffix.lstrip(".").lower() or "svg"
    with matplotlib.rc_context({**_RC, "svg.hashsalt": name}), publish_file(path) as temporary:
        date = {"Date": None} if kind == "svg" else {"CreationDate": None} if kind == "pdf" else {}
        figure.savefig(temporary, format=kind, dpi=200, metadata=date)


def plot_panels(panels: Panels, names: Sequence[str], title: str, x: str, y: str, path: Path) -> None:
    """Write a panel for each name in `panels`: lines by their names, each of (value, deviation) along `names`.

    Each panel has its own axis; a legend stands in the first where there are several lines.
    """
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    labels = list(dict.fromkeys(line for lines in panels.values() for line in lines))
    with matplotlib.rc_context(_RC):
        wide = 3.2 if len(names) <= 5 else 4.8  # room for the names below, and for the title above
        breadth = max(5.6, wide * columns, 0.092 * len(title))
        figure = Figure(figsize=(breadth, 2.6 * rows + 0.4), layout="constrained")
        places = figure.subplots(rows, columns, squeeze=False)
    for axes in places.flat[len(panels) :]:
        axes.set_visible(False)
    colours = dict(zip(labels, (PRINT.accent, PRINT.other, PRINT.ink), strict=False))
    drawn: dict[str, ErrorbarContainer] = {}
    for axes, (panel, lines) in zip(places.flat, panels.items(), strict=False):
        _plain(axes, PRINT, grid="y")
        for line, points in lines.items():
            there = [(number, *point) for number, point in enumerate(points) if point is not None]
            at, values, deviations = zip(*there, strict=True)
            drawn[line] = axes.errorbar(at, values, yerr=deviations, color=colours[line], **_MARKS)
        axes.set_xticks(range(len(names)), names)
        axes.set_title(panel, color=PRINT.ink, fontsize=10)
    if len(labels) > 1:
        places.flat[0].legend(list(drawn.values()), list(drawn), labelcolor=PRINT.ink, **_LEGEND)
    figure.suptitle(title, color=PRINT.ink, fontsize=11)
    figure.supxlabel(x, color=PRINT.ink, fontsize=9.5)
    figure.supylabel(y, color=PRINT.ink, fontsize=9.5)
    with matplotlib.rc_context(_RC), publish_file(path) as temporary:
        figure.savefig(temporary, format="png", dpi=160)


def as_svg(figure: Figure, name: str, alt: str) -> Html:
    """A figure as an SVG element without any reference outside itself, in the page's colours, with a text for all."""
    buffer = io.StringIO()
    with matplotlib.rc_context({**_RC, "svg.hashsalt": name}):
        figure.savefig(
            buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Type", "Format"))
        )
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.S)
    text = text.replace("xlink:href", "href")
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r"font: (?:\w+ )?([\d.]+)px [^;\"]*", r"font-size: \1px; font-family: inherit", text)
    role = f'role="img" aria-label="{escape(alt)}"'
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', lambda svg: f'<svg viewBox="{svg[1]}" {role}>', text)
    for placeholder, colour in _PAGE_COLOURS.items():
        text = text.replace(placeholder, colour)
    return Html(text)


def _figure(
    theme: Theme, x: str, y: str, size: tuple[float, float] = (5.2, 3.1), grid: Literal["x", "y"] = "y"
) -> tuple[Figure, Axes]:
    with matplotlib.rc_context(_RC):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
    _plain(axes, theme, grid)
    axes.set_xlabel(x, color=theme.ink)
    axes.set_ylabel(y, color=theme.ink)
    return figure, axes


def _plain(axes: Axes, theme: Theme, grid: Literal["x", "y"]) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(theme.rule)
    axes.tick_params(colors=theme.ink, length=0, pad=5)
    axes.grid(axis=grid, color=theme.rule, linewidth=0.7)
    axes.set_axisbelow(True)


def _averaged(points: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """At most 300 points: means of equal runs of steps."""
    parts = np.array_split(points, min(_POINTS, len(points)))
    means = np.array([part.mean(axis=0) for part in parts])
    return means[:, 0], means[:, 1]


def _half_violin(axes: Axes, place: int, level: RingLevel, side: float, colour: str) -> None:
    """The histogram as half a violin, its middle half as a bar, its mean as a dot."""
    counts = np.array(level["histogram"], float)
    edges = np.linspace(-1, 1, counts.size + 1)
    centres = (edges[:-1] + edges[1:]) / 2
    filled = np.flatnonzero(counts)
    some = slice(max(0, filled[0] - 1), filled[-1] + 2)
    reach = place + side * (0.02 + 0.4 * counts[some] / counts.max())
    axes.fill_betweenx(centres[some], place + side * 0.02, reach, color=colour, alpha=0.45, linewidth=0)
    middle = place + side * 0.06
    axes.plot([middle, middle], [level["quantiles"][1], level["quantiles"][3]], color=colour, linewidth=2)
    mean = math.nan if level["mean"] is None else level["mean"]
    axes.plot([middle], [mean], color=colour, marker="o", markersize=4.5)


def _short(size: float) -> str:
    if size < 100:
        return f"{size:.1f}"
    return f"{size:,.0f}" if size < 1e5 else f"{size / 1e6:.2g}M"
