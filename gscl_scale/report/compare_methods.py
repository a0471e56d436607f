"""A comparison of methods: its type, the table for the terminal, and the page in Markdown."""

from collections.abc import Iterator
from typing import NotRequired

from typing_extensions import TypedDict

from gscl_scale.evaluate.label_summary import figure_name
from gscl_scale.evaluate.link_schema import LinkTasks
from gscl_scale.evaluate.link_summary import TASK_TITLES, link_aucs
from gscl_scale.evaluate.schema import MeasuredGraph, Number, ProbeProtocol
from gscl_scale.evaluate.summary import decimal, late_warnings, left_out_sentences, percent, validation_warnings
from gscl_scale.text import in_words, table

_COSTS = ["training", "CPU", "memory"]
COMPARISON = ["", "validation %", "test %", "NMI", "Sim@5", *_COSTS]
OF_LABELS = ["", "validation micro-F1 %", "micro-F1 %", "macro-F1 %", *_COSTS]


class MethodFigures(TypedDict, total=False):
    """Figures of a method: accuracies, or micro-F1 and `macro_mean` where a node has many labels.

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


class MethodRow(MethodFigures, MethodCost):
    """A row of compare.json: its figures where it was measured, its cost where it was trained, or its error."""

    method: str
    title: str
    settings: NotRequired[dict[str, object]]  # by key: those that the configuration has otherwise, or of a peer all
    note: NotRequired[str]
    error: NotRequired[str]


class Comparison(TypedDict):
    """compare.json: all methods on one graph; `protocol` is None where every method failed."""

    graph: MeasuredGraph
    seeds: list[int]
    protocol: ProbeProtocol | None
    config: dict[str, dict[str, object]]
    methods: list[MethodRow]


def comparison_columns(result: Comparison) -> list[str]:
    """The columns of the table."""
    return OF_LABELS if figure_name(result["protocol"]) == "micro-F1" else COMPARISON


def comparison_rows(result: Comparison) -> list[tuple[str, ...]]:
    """A row per method; a failed one has a name only."""
    return [_row(row, len(comparison_columns(result))) for row in result["methods"]]


def comparison_remarks(result: Comparison) -> list[str]:
    """The remarks beneath the table: the protocol, and the reasons of failed methods."""
    protocol, seeds = result["protocol"], len(result["seeds"])
    remarks = []
    if protocol:
        several, figure = protocol["num_splits"] > 1, figure_name(protocol)
        penalty = "weight decay" if figure == "accuracy" else "L2 penalty"
        of_several = f" (the epoch on those of the first split); one {penalty} for all splits, by their mean" * several
        chosen = (
            "; the epoch of the encoder, where it is validated, and the probe's settings are chosen on validation nodes"
            f"{of_several}"
        )
        share = protocol.get("train_fraction")
        starts = f" and {protocol['initialisations']} initialisations of the probe" * (figure == "accuracy")
        at = f" at a train share of {100 * share:g} %" if share and figure != "accuracy" else ""
        remarks = [
            f"{'Accuracy' if figure == 'accuracy' else 'F1'} of a linear probe on frozen vectors: mean ± standard "
            f"deviation over {seeds} seed{'s' * (seeds > 1)} of the whole run{starts} on each of "
            f"{protocol['num_splits']} {protocol['kind']} split{'s' * several}{at}"
            f"{chosen * (protocol['least_val'] > 0)}.",
            *left_out_sentences(protocol),
            *(f"Take care: {warning}." for warning in [*validation_warnings(protocol), *_late(result, protocol)]),
            "Training: seconds of all steps, batches included, a mean over seeds; memory: the most that was resident, "
            "on a GPU the most that was allocated there. CPU: seconds of all cores from the graph to the embeddings, "
            "ring samples and validation included.",
        ]
    if linked := [f"{row['title']} {link_aucs(row['links'])}" for row in result["methods"] if "links" in row]:
        remarks.append(f"AUC of held-out edges in %, {' / '.join(TASK_TITLES.values())}: {', '.join(linked)}.")
    sampled = [row for row in result["methods"] if row.get("sampling_s")]
    if sampled:
        seconds = ", ".join(f"{row['title']} {_seconds(row['sampling_s'])}" for row in sampled)
        remarks.append(f"Ring samples took beside that: {seconds}; methods that read the same samples share them.")
    if any(row["method"] == "supervised" for row in result["methods"]):
        remarks.append("The supervised encoder learns and is measured on one split per seed.")
    remarks += _notes(result)
    return [*remarks, *(f"{row['title']} failed: {row['error']}" for row in result["methods"] if "error" in row)]


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
    settings = [
        (row["title"], ", ".join(f"`{key}={value}`" for key, value in row["settings"].items()) or "as configured")
        for row in result["methods"]
        if "settings" in row
    ]
    return (
        "\n\n".join(
            [
                f"# Methods on {result['graph']['name']}",
                table(["method", *comparison_columns(result)[1:]], rows, left=[0]),
                *comparison_remarks(result),
                "## Settings",
                table(["method", "other than in the configuration"], settings, left=[0, 1]),
            ]
        )
        + "\n"
    )


def _row(row: MethodRow, columns: int) -> tuple[str, ...]:
    if "error" in row:
        return (row["title"], "failed", *["-"] * (columns - 2))
    of_classes = [] if "macro_mean" in row else [decimal(row["nmi"]), decimal(row["sim_at_5"])]
    of_labels = [percent(row["macro_mean"])] if "macro_mean" in row else []
    trained, cpu_s = bool(row.get("training_s")), row.get("cpu_s")
    return (
        row["title"],
        percent(row["val_mean"], row["val_std"]),
        percent(row["test_mean"], row["test_std"]),
        *of_classes,
        *of_labels,
        _seconds(row["training_s"]) if trained else "-",
        "-" if cpu_s is None else _seconds(cpu_s),
        in_words(row["peak_bytes"]) if trained else "-",
    )


def _seconds(seconds: float) -> str:
    digits = 2 if seconds < 1 else 1 if seconds < 100 else 0
    return f"{seconds:,.{digits}f} s"
