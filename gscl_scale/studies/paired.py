"""Test figures of methods split by split: the interval of each, and paired differences to the best of the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gscl_scale.evaluate.intervals import LEVEL, Interval, t_interval
from gscl_scale.evaluate.schema import Method, Metrics, Probe
from gscl_scale.report.compare_intervals import IntervalsProtocol, RowIntervals
from gscl_scale.report.compare_methods import MethodRow

Figures = dict[tuple[int, str], float]  # by seed and split


@dataclass(frozen=True)
class Pairing:
    """How figures on the same seeds and splits are compared.

    fixed            whether all seeds have one split
    published        whether all seeds have the same splits, which are so many measurements
    test_per_train   test nodes of a split for each node that the probe learns from
    """

    fixed: bool
    published: bool
    test_per_train: float

    @classmethod
    def of(cls, probe: Probe) -> "Pairing":
        """That of a protocol; where a node has many labels the probe learns from validation nodes in the end."""
        protocol, published = probe["protocol"], probe["protocol"]["kind"] == "published"
        learns = ("train", "val") if "labels" in protocol else ("train",)
        counts = [dict(split) for split in probe.get("splits", [])] or [dict(protocol["counts"])]
        ratios = [float(str(one["test"])) / sum(float(str(one[part])) for part in learns) for one in counts]
        return cls(published and protocol["num_splits"] == 1, published, float(np.mean(ratios)))

    def interval(self, figures: Figures) -> Interval | None:
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


def figures_by_split(runs: Sequence[Metrics], vectors: Method) -> list[dict[str, float | None]]:
    """The test figure of some vectors on each split by its name, for each run of a method."""
    probes = [one["probe"] for one in runs if "probe" in one]
    return [
        {
            split.get("name", str(number)): split[vectors]["test_mean"]
            for number, split in enumerate(probe.get("splits", []))
        }
        for probe in probes
        if vectors in probe
    ]


def with_intervals(
    rows: Sequence[MethodRow], by_split: Mapping[str, list[dict[str, float | None]]], pairing: Pairing
) -> list[MethodRow]:
    """The rows with what is known of their test figures; `by_split` has them by method, for each seed in order."""
    figures = {
        name: {
            (seed, split): value for seed, one in enumerate(seeds) for split, value in one.items() if value is not None
        }
        for name, seeds in by_split.items()
    }
    measured = [row for row in rows if figures.get(row["method"])]

    def of(row: MethodRow) -> RowIntervals:
        known: RowIntervals = {"test_by_split": by_split[row["method"]]}
        own, rival = figures[row["method"]], _rival(row, measured)
        if found := pairing.interval(own):
            known["interval"] = {"low": max(0.0, found.low), "high": min(1.0, found.high), "n": found.count}
        other = figures[rival["method"]] if rival else {}
        both = {key: own[key] - other[key] for key in own.keys() & other.keys()}
        if rival and (found := pairing.interval(both)):
            known["against"] = {
                "method": rival["method"], "title": rival["title"], "difference": found.mean,
                "low": found.low, "high": found.high, "n": found.count,
            }  # fmt: skip
        return known

    return [{**row, **of(row)} if row in measured else row for row in rows]


def _rival(row: MethodRow, rows: Sequence[MethodRow]) -> MethodRow | None:
    """The best row on validation nodes of the other kind, GSCL or not; without any, the best of the other rows."""
    others = [one for one in rows if one["method"] != row["method"]]
    kind = [one for one in others if _is_ours(one) != _is_ours(row)]
    return max(kind or others, key=lambda one: one.get("val_mean") or 0.0, default=None)


def _is_ours(row: MethodRow) -> bool:
    return row["method"].startswith("gscl")
