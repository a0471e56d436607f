"""Test figures of methods split by split: the interval of each, and paired differences to the best of the others."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gscl_scale.evaluate.intervals import LEVEL, Interval, t_interval
from gscl_scale.evaluate.link_schema import LinkMethod
from gscl_scale.evaluate.schema import Method, Metrics, ProbeProtocol
from gscl_scale.report.compare_intervals import BySplit, IntervalsProtocol, RowIntervals
from gscl_scale.report.compare_methods import MethodRow, validation_figure
from gscl_scale.studies.figures import OF_EDGES

SplitFigures = dict[tuple[str, str], float]  # by seed and split


@dataclass(frozen=True)
class Pairing:
    """How figures on the same seeds and splits are compared.

    fixed            whether all seeds have one split
    published        whether all seeds have the same splits, which are so many measurements
    test_per_train   test nodes of the first split for each node that the probe learns from
    """

    fixed: bool
    published: bool
    test_per_train: float

    @classmethod
    def of(cls, protocol: ProbeProtocol) -> "Pairing":
        """How the figures of a protocol compare; with many labels per node a probe learns from validation nodes too."""
        counts, published = protocol["counts"], protocol["kind"] == "published"
        learns = counts["train"] + (counts["val"] if "labels" in protocol else 0)
        return cls(published and protocol["num_splits"] == 1, published, counts["test"] / learns)

    def interval(self, figures: SplitFigures) -> Interval | None:
        """The interval of a mean: over seeds on a fixed split, else over splits that overlap."""
        if self.fixed:
            return t_interval(list(figures.values()), len(figures))
        distinct = {split if self.published else (seed, split) for seed, split in figures}
        return t_interval(list(figures.values()), len(distinct), self.test_per_train)

    def protocol(self) -> IntervalsProtocol:
        """What a reader has to know."""
        if self.fixed:
            return {"level": LEVEL, "way": "t over seeds", "test_per_train": 0.0}
        return {"level": LEVEL, "way": "corrected resampled t", "test_per_train": self.test_per_train}


class EdgePairing:
    """How the AUCs of parts of the held-out edges are compared: over the parts, each a mean over the seeds.

    The parts have no edge in common, so that their figures are independent but for the nodes that they share.
    """

    def interval(self, figures: SplitFigures) -> Interval | None:
        """The interval of a mean over the parts."""
        by_part: dict[str, list[float]] = {}
        for (_, part), figure in figures.items():
            by_part.setdefault(part, []).append(figure)
        return t_interval([float(np.mean(values)) for values in by_part.values()], len(by_part))

    def protocol(self) -> IntervalsProtocol:
        """What a reader has to know."""
        return {"level": LEVEL, "way": "t over parts of the edges", "test_per_train": 0.0}


def figures_by_part(
    runs: Mapping[str, Mapping[int, Metrics]], reference: Mapping[int, Metrics], free: Iterable[Method]
) -> dict[str, BySplit]:
    """The AUC of each row by seed and part of the held-out edges, of the runs of each method by their seeds.

    reference   the runs with the figures of the rows `free`; those of scores of edges are in any run
    """
    any_runs = next(iter(runs.values()), {})
    return {
        **{name: _parts(of, "trained") for name, of in runs.items()},
        **{name: _parts(reference, name) for name in free if reference},
        **{name: _parts(any_runs, name) for name in OF_EDGES},
    }


def _parts(runs: Mapping[int, Metrics], scored: LinkMethod) -> BySplit:
    """The AUC of a score against nodes drawn by degree, by seed and part of the edges."""
    by_seed = {str(seed): run["links"].get(scored) for seed, run in runs.items() if "links" in run}
    return {
        seed: {f"part {number}": auc for number, auc in enumerate(tasks["degree_matched"].get("auc_by_part", []))}
        for seed, tasks in by_seed.items()
        if tasks
    }


def figures_by_split(runs: Mapping[int, Metrics], vectors: Method) -> BySplit:
    """The test figure of some vectors by seed and split, of the runs of a method by their seeds."""
    return {
        str(seed): {
            split.get("name", str(number)): split[vectors]["test_mean"]
            for number, split in enumerate(run["probe"].get("splits", []))
        }
        for seed, run in runs.items()
        if "probe" in run and vectors in run["probe"]
    }


def with_intervals(
    rows: Sequence[MethodRow], by_split: Mapping[str, BySplit], pairing: Pairing | EdgePairing
) -> list[MethodRow]:
    """The rows with what is known of their test figures; `by_split` has them by method."""
    figures: dict[str, SplitFigures] = {
        name: {(seed, split): value for seed, one in seeds.items() for split, value in one.items() if value is not None}
        for name, seeds in by_split.items()
    }
    measured = [row for row in rows if figures.get(row["method"])]

    def of(row: MethodRow) -> RowIntervals:
        known: RowIntervals = {"test_by_split": by_split[row["method"]]}
        own, rival = figures[row["method"]], _rival(row, measured)
        if found := pairing.interval(own):
            low, high = max(0.0, found.low), min(1.0, found.high)
            known["interval"] = {"error": found.error, "low": low, "high": high, "n": found.count}
        other = figures[rival["method"]] if rival else {}
        both = {key: own[key] - other[key] for key in own.keys() & other.keys()}
        if rival and (found := pairing.interval(both)):
            known["against"] = {
                "method": rival["method"], "title": rival["title"], "difference": found.mean,
                "error": found.error, "low": found.low, "high": found.high, "n": found.count,
            }  # fmt: skip
        return known

    return [{**row, **of(row)} if row in measured else row for row in rows]


def best_row(rows: Sequence[MethodRow]) -> MethodRow | None:
    """The best row by validation; None where nothing was validated."""
    validated = [row for row in rows if "error" not in row and validation_figure(row)]
    return max(validated, key=validation_figure, default=None)


def _rival(row: MethodRow, rows: Sequence[MethodRow]) -> MethodRow | None:
    """The best row of the other kind by validation, GSCL or not; without any, the best of the other rows."""
    others = [one for one in rows if one["method"] != row["method"]]
    kind = [one for one in others if _is_ours(one) != _is_ours(row)]
    return max(kind or others, key=validation_figure, default=None)


def _is_ours(row: MethodRow) -> bool:
    return row["method"].startswith("gscl")
