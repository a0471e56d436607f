"""Intervals of the rows of a comparison, and their paired differences: types, and the part of the page."""

from collections.abc import Sequence
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from gscl_scale.evaluate.chance import Chance
from gscl_scale.evaluate.schema import Number
from gscl_scale.evaluate.summary import percent
from gscl_scale.text import table

BySplit = dict[str, dict[str, Number]]  # test figures by seed, and by the name of the split or part of the edges
Way = Literal["corrected resampled t", "t over seeds", "t over parts of the edges"]


class FigureInterval(TypedDict):
    """The confidence interval of a test figure and its standard error, by `n` seeds or splits."""

    error: float
    low: float
    high: float
    n: int


class Difference(FigureInterval):
    """The paired difference to another row, and its confidence interval."""

    method: str
    title: str
    difference: float


class RowIntervals(TypedDict, total=False):
    """What is known of a row's test figure; intervals where it was measured more than once."""

    test_by_split: BySplit
    interval: FigureInterval
    against: Difference


class IntervalRow(RowIntervals):
    """A row, as far as it is read here."""

    title: str
    error: NotRequired[str]
    test_mean: NotRequired[Number]


class IntervalsProtocol(TypedDict):
    """How intervals were computed; `test_per_train` is 0 on a fixed split, where seeds are independent."""

    level: float
    way: Way
    test_per_train: float


def interval_section(rows: Sequence[IntervalRow], protocol: IntervalsProtocol, figure: str, seeds: int) -> list[str]:
    """The paragraphs of the page."""
    headers = ["method", f"test {figure} %, {_level(protocol)}", "n", "against", "difference", _level(protocol), "n"]
    return [
        "## Intervals",
        table(headers, [_cells(row) for row in rows if "error" not in row], left=[0, 3]),
        f"{_method_sentence(protocol)}{_ONE_SEED * (seeds == 1)} {_rival_sentence(protocol)}",
    ]


def interval_remarks(rows: Sequence[IntervalRow], protocol: IntervalsProtocol) -> list[str]:
    """Which rows differ from what they are compared with, in a sentence."""
    compared = [(row, row["against"]) for row in rows if "against" in row]
    if not any("interval" in row for row in rows):
        if protocol["way"] == "t over parts of the edges":
            return ["There are no intervals: fewer than 100 edges are held out; raise evaluate.held_out_edges."]
        return [
            "There are no intervals: one seed on one split tells nothing of the spread; raise train.repeats or "
            "evaluate.random_splits."
        ]
    if not compared:
        return []
    apart = [
        f"{row['title']} {_points(one['difference'])} against {one['title']}"
        for row, one in compared
        if one["low"] > 0 or one["high"] < 0
    ]
    alike = [row["title"] for row, one in compared if one["low"] <= 0 <= one["high"]]
    reach = f"±{100 * max(one['high'] - one['low'] for _, one in compared) / 2:.1f}"
    none = f"none is significant; the intervals reach {reach} points, and smaller differences may be chance"
    return [
        f"Paired differences at {100 * protocol['level']:g} % ({protocol['way']}): "
        f"{', '.join(apart) or none}"
        f"{'; not significant: ' * bool(apart and alike)}{', '.join(alike) * bool(apart)}."
    ]


def leaks(rows: Sequence[IntervalRow], chance: Chance) -> list[IntervalRow]:
    """The rows that are more than two standard errors above chance, or below it."""
    low, high = chance["least"] - 2 * chance["error"], chance["most"] + 2 * chance["error"]
    return [row for row in rows if (mean := row.get("test_mean")) is not None and not low <= mean <= high]


def chance_remarks(rows: Sequence[IntervalRow], chance: Chance) -> list[str]:
    """Whether every row of shuffled labels is at chance, and what chance is."""
    at = " to ".join(f"{100 * share:.2f} %" for share in dict.fromkeys((chance["least"], chance["most"])))
    found = [f"{row['title']} {percent(row['test_mean'])}" for row in leaks(rows, chance)]
    verdict = f"Not at chance, so labels leak: {', '.join(found)}." if found else "Every row is."
    return [
        f"The labels are shuffled: every test figure must be within two standard errors ({200 * chance['error']:.2f} "
        f"points) of chance, {at}. {verdict}"
    ]


_ONE_SEED = " With one seed the spread between trainings is not covered."


def _rival_sentence(protocol: IntervalsProtocol) -> str:
    by_edges = protocol["way"] == "t over parts of the edges"
    chosen, same = ("held-out edges for validation", "edges") if by_edges else ("validation nodes", "splits")
    return (
        f"A GSCL row is compared with the best other row, and each other row with the best GSCL row, by {chosen}; "
        "where there is no GSCL row, with the best other row. Differences are paired: on the same seeds and "
        f"{same}, in points."
    )


def _method_sentence(protocol: IntervalsProtocol) -> str:
    if protocol["way"] == "t over seeds":
        return "All seeds have one fixed split: Student's t over n seeds. Other splits are not covered."
    if protocol["way"] == "t over parts of the edges":
        return (
            "The AUC against nodes drawn by degree: Student's t over n parts of the held-out edges, each a mean over "
            "the seeds. Another draw of held-out edges to train without is not covered."
        )
    return (
        "Splits overlap, so their figures are not independent: the corrected resampled t of Nadeau and Bengio (2003) "
        f"over n splits, with {protocol['test_per_train']:.2f} test nodes for each training node. It is wide where "
        "few nodes train."
    )


def _cells(row: IntervalRow) -> list[str]:
    own, other = row.get("interval"), row.get("against")
    bounds = [f"{100 * own['low']:.2f} to {100 * own['high']:.2f}", str(own["n"])] if own else ["-", "-"]
    if not other:
        return [row["title"], *bounds, "-", "-", "-", "-"]
    between = f"{_points(other['low'])} to {_points(other['high'])}"
    return [row["title"], *bounds, other["title"], _points(other["difference"]), between, str(other["n"])]


def _points(share: float) -> str:
    return f"{100 * share:+.2f}"


def _level(protocol: IntervalsProtocol) -> str:
    return f"{100 * protocol['level']:g} % interval"
