"""A comparison of methods: its type, the table for the terminal, and the page in Markdown."""

from collections.abc import Iterator
from typing import NotRequired

from typing_extensions import TypedDict

from gscl_scale.evaluate.chance import Chance
from gscl_scale.evaluate.label_summary import figure_name, part_titles
from gscl_scale.evaluate.link_schema import LINK_FIGURES, LinksProtocol, LinkTasks
from gscl_scale.evaluate.link_summary import LINK_COLUMNS, TASK_TITLES, link_aucs, links_sentence
from gscl_scale.evaluate.schema import MeasuredGraph, Number, ProbeProtocol
from gscl_scale.evaluate.summary import decimal, late_warnings, left_out_sentences, percent, validation_warnings
from gscl_scale.report.compare_intervals import (
    IntervalsProtocol,
    RowIntervals,
    chance_remarks,
    interval_remarks,
    interval_section,
)
from gscl_scale.text import format_bytes, join_names, table

_COST = ["training", "CPU", "memory"]


class MethodFigures(TypedDict, total=False):
    """Figures of a method: accuracies, ROC-AUC, or micro-F1 and `macro_mean` where a node has many labels.

    `best_step` is the step at which the probe was best, on average.
    """

    val_mean: Number
    val_std: Number
    test_mean: Number
    test_std: Number
    macro_mean: Number
    best_step: Number
    nmi: Number
    sim_at_5: Number
    links: LinkTasks


class MethodCost(TypedDict, total=False):
    """What training took: mean seconds over seeds, and the most memory.

    Of a method that only embeds, what that took. `cpu_s` are the seconds of all cores until there are embeddings, those
    of ring samples included; None where they were not measured.
    """

    steps: int
    training_s: float
    cpu_s: float | None
    peak_bytes: int
    sampling_s: float


class MethodRow(MethodFigures, MethodCost, RowIntervals):
    """A row of compare.json: its figures where it was measured, its cost where it was trained, or its error."""

    method: str
    title: str
    settings: NotRequired[dict[str, object]]  # by key: those that the configuration has otherwise, or of a peer all
    chosen: NotRequired[list[dict[str, float]]]  # for each seed, of a peer that has several values of a setting
    note: NotRequired[str]
    error: NotRequired[str]


class BestMethod(TypedDict):
    """The method that is best on validation nodes, or on held-out edges for validation; methods with labels apart."""

    method: str
    title: str
    run: str  # of the first seed, below the folder of the comparison


class Comparison(TypedDict):
    """compare.json: all methods on one graph; `protocol` is that of accuracy, None where none was measured."""

    graph: MeasuredGraph
    seeds: list[int]
    protocol: ProbeProtocol | None
    links_protocol: NotRequired[LinksProtocol]
    intervals: NotRequired[IntervalsProtocol]
    chance: NotRequired[Chance]
    config: dict[str, dict[str, object]]
    trials: NotRequired[int]  # of each trained method
    best: NotRequired[BestMethod]
    methods: list[MethodRow]


def is_by_links(result: Comparison) -> bool:
    """Whether methods are compared by held-out edges, because there are no labels."""
    return result["protocol"] is None and "links_protocol" in result


def comparison_headers(result: Comparison) -> list[str]:
    """The headers of the table."""
    if is_by_links(result):
        return ["", *LINK_COLUMNS, *_COST]
    of_classes = [] if figure_name(result["protocol"]) == "micro-F1" else ["NMI", "Sim@5"]
    return ["", *part_titles(result["protocol"]).values(), *of_classes, *_COST]


def comparison_rows(result: Comparison) -> list[tuple[str, ...]]:
    """A row per method; a failed one has a name only."""
    figures = _links if is_by_links(result) else _accuracy
    return [
        (row["title"], "failed", *["-"] * (len(comparison_headers(result)) - 2))
        if "error" in row
        else (row["title"], *figures(row), *_cost(row))
        for row in result["methods"]
    ]


def comparison_remarks(result: Comparison) -> list[str]:
    """The remarks beneath the table: the protocol, and the reasons of failed methods."""
    protocol, seeds = result["protocol"], len(result["seeds"])
    remarks = []
    if protocol:
        several, figure = protocol["num_splits"] > 1, figure_name(protocol)
        many = figure == "micro-F1"
        penalty = "L2 penalty" if many else "weight decay"
        of_several = f" (the epoch on those of the first split); one {penalty} for all splits, by their mean" * several
        chosen = (
            "; the epoch of the encoder, where it is validated, and the probe's settings are chosen on validation nodes"
            f"{of_several}"
        )
        share = protocol.get("train_fraction")
        starts = f" and {protocol['initialisations']} initialisations of the probe" * (not many)
        at = f" at a train share of {100 * share:g} %" if share and many else ""
        remarks = [
            f"{'F1' if many else figure[:1].upper() + figure[1:]} of a linear probe on frozen vectors: mean ± standard "
            f"deviation over {seeds} seed{'s' * (seeds > 1)} of the whole run{starts} on each of "
            f"{protocol['num_splits']} {protocol['kind']} split{'s' * several}{at}"
            f"{chosen * (protocol['least_val'] > 0)}.",
            *left_out_sentences(protocol),
            *(f"Take care: {warning}." for warning in [*validation_warnings(protocol), *_late(result, protocol)]),
        ]
    if "intervals" in result:
        remarks += interval_remarks(result["methods"], result["intervals"])
    if "chance" in result:
        remarks = [*chance_remarks(result["methods"], result["chance"]), *remarks]
    if is_by_links(result):
        remarks = [links_sentence(result["links_protocol"]), *_by_links(seeds), *remarks]
    if "trials" in result:
        where = "held-out edges for validation" if is_by_links(result) else "validation nodes"
        remarks.append(
            f"Settings: for each trained method the best of {result['trials']} trials on {where}, in the same "
            "space (searches/METHOD/leaderboard.md). Input features, the untrained encoder and peers have no trials."
        )
    if remarks:
        remarks.append(
            "Training: seconds of all steps, batches included, a mean over seeds; memory: the most that was resident, "
            "on a GPU the most that was allocated there. CPU: seconds of all cores from the graph to the embeddings, "
            "ring samples and validation included."
        )
    if protocol and (
        linked := [f"{row['title']} {link_aucs(row['links'])}" for row in result["methods"] if "links" in row]
    ):
        remarks.append(f"AUC of held-out edges in %, {' / '.join(TASK_TITLES.values())}: {', '.join(linked)}.")
    sampled = [row for row in result["methods"] if row.get("sampling_s")]
    if sampled:
        seconds = ", ".join(f"{row['title']} {_seconds(row['sampling_s'])}" for row in sampled)
        remarks.append(f"Ring samples took beside that: {seconds}; methods that read the same samples share them.")
    if any(row["method"] == "supervised" and "error" not in row for row in result["methods"]):
        remarks.append("The supervised encoder learns and is measured on one split per seed.")
    remarks += _notes(result)
    return [*remarks, *(f"{row['title']} failed: {row['error']}" for row in result["methods"] if "error" in row)]


def validation_figure(row: MethodRow) -> float:
    """The figure on validation nodes, or on held-out edges for validation; 0.0 where there is none."""
    return row.get("val_mean") or (row["links"].get("validation_auc", 0.0) if "links" in row else 0.0)


def best_sentence(result: Comparison) -> str:
    """Which method is best without labels; "" where nothing was validated."""
    if "best" not in result:
        return ""
    where = "held-out edges for validation" if is_by_links(result) else "validation nodes"
    best = result["best"]
    free = [row for row in result["methods"] if "settings" not in row]
    own = next(validation_figure(row) for row in result["methods"] if row["method"] == best["method"])
    above = [row["title"] for row in free if validation_figure(row) > own]
    return f"Best method without labels, on {where}: {best['title']}{', below ' * bool(above)}{join_names(above)}."


def _by_links(seeds: int) -> list[str]:
    """What a reader of a comparison without labels has to know."""
    means = [f"Means of {seeds} seeds of the whole run; ± is their standard error."] if seeds > 1 else []
    return [
        "The table is against nodes drawn by degree.",
        *means,
        "All methods read the graph without these edges, and are measured on the same edges and pairs. Adamic-Adar and "
        "preferential attachment score the remaining edges without embeddings. There are no labels to measure "
        "accuracy with, so methods that learn labels are left out.",
    ]


def _notes(result: Comparison) -> list[str]:
    """Each note once, with the methods that it is about."""
    notes: dict[str, list[str]] = {}
    for row in result["methods"]:
        if "note" in row:
            notes.setdefault(row["note"], []).append(row["title"])
    return [f"{', '.join(titles)}: {note}." for note, titles in notes.items()]


def _late(result: Comparison, protocol: ProbeProtocol) -> Iterator[str]:
    best = {row["title"]: row["best_step"] for row in result["methods"] if "best_step" in row}
    return late_warnings(best, protocol["epochs"])


def comparison_page(result: Comparison) -> str:
    """The page in Markdown, with the settings of each method that differ from the configuration."""
    rows = comparison_rows(result)
    settings = [(row["title"], _settings(row)) for row in result["methods"] if "settings" in row]
    figure = "AUC" if is_by_links(result) else figure_name(result["protocol"])
    seeds = len(result["seeds"])
    intervals = interval_section(result["methods"], result["intervals"], figure, seeds) if "intervals" in result else []
    return (
        "\n\n".join(
            [
                f"# Methods on {result['graph']['name']}",
                table(["method", *comparison_headers(result)[1:]], rows, left=[0]),
                *comparison_remarks(result),
                *([f"{best_sentence(result)} Its run: `{result['best']['run']}`."] if "best" in result else []),
                *intervals,
                "## Settings",
                table(["method", "other than in the configuration"], settings, left=[0, 1]),
            ]
        )
        + "\n"
    )


def _settings(row: MethodRow) -> str:
    settings = ", ".join(f"`{key}={value}`" for key, value in row["settings"].items()) or "as configured"
    chosen = [", ".join(f"`{key}={value}`" for key, value in one.items()) for one in row.get("chosen", [])]
    return f"{settings}; chosen by held-out edges for validation: {'; '.join(chosen)}" if chosen else settings


def _accuracy(row: MethodRow) -> tuple[str, ...]:
    of_classes = [] if "macro_mean" in row else [decimal(row["nmi"]), decimal(row["sim_at_5"])]
    of_labels = [percent(row["macro_mean"])] if "macro_mean" in row else []
    return (
        percent(row["val_mean"], row["val_std"]),
        percent(row["test_mean"], row["test_std"]),
        *of_classes,
        *of_labels,
    )


def _links(row: MethodRow) -> tuple[str, ...]:
    """The figures against nodes drawn by degree."""
    figures = row["links"]["degree_matched"]
    others = (f"{100 * figures[name]:.1f}" for name in LINK_FIGURES[1:])
    return (percent(figures["auc"], figures.get("auc_se")), *others)


def _cost(row: MethodRow) -> tuple[str, str, str]:
    trained, cpu_s = bool(row.get("training_s")), row.get("cpu_s")
    return (
        _seconds(row["training_s"]) if trained else "-",
        "-" if cpu_s is None else _seconds(cpu_s),
        format_bytes(row["peak_bytes"]) if trained else "-",
    )


def _seconds(seconds: float) -> str:
    digits = 2 if seconds < 1 else 1 if seconds < 100 else 0
    return f"{seconds:,.{digits}f} s"
