"""How far training has brought the embeddings above what it began with, and how sure that is."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gscl_scale.evaluate.label_summary import figure_name
from gscl_scale.evaluate.ranking_summary import measures_ranking_alone
from gscl_scale.evaluate.schema import METHODS, RANKING, TITLES, Method, Metrics, Probe


@dataclass(frozen=True)
class Gain:
    """The trained encoder beside another method, as shares.

    figure   what was measured
    gain     how much higher that of the trained encoder is
    error    the standard error of the gain
    """

    over: Method
    figure: str
    gain: float
    error: float

    @property
    def is_none(self) -> bool:
        """Whether the trained encoder is not above the other."""
        return self.gain <= 0

    @property
    def is_clear(self) -> bool:
        """Whether the trained encoder is above the other by more than the standard error."""
        return self.gain > max(0.0, self.error)


def gains(metrics: Metrics) -> list[Gain]:
    """The gains by accuracy; without labels by held-out edges, and without these by the ranking of neighbourhoods."""
    return list(accuracy_gains(metrics)) or list(_by_links(metrics)) or list(_by_ranking(metrics))


def gain_warnings(metrics: Metrics) -> Iterator[str]:
    """Warn of a gain that is none, or within its standard error or two; `ranking_warnings` has those of the ranking."""
    found = gains(metrics)
    none, clear = [one for one in found if one.is_none], [one for one in found if one.is_clear]
    for one in [] if measures_ranking_alone(metrics) else none:
        yield (
            f"training brought no gain over the {TITLES[one.over]} ({100 * one.gain:+.2f} points of {one.figure}); "
            "try other rings.hops, loss.temperature or train.learning_rate"
        )
    if unclear := [one for one in found if one not in none and one not in clear]:
        words = (f"{100 * one.gain:.2f} ± {100 * one.error:.2f} over the {TITLES[one.over]}" for one in unclear)
        yield (
            f"it is not known whether training helped: the gain in points of {found[0].figure} is "
            f"{' and '.join(words)}; {cure_of_chance(metrics)}"
        )
    for one in clear:
        if one.gain < 2 * one.error:
            yield (
                f"the gain over the {TITLES[one.over]} ({100 * one.gain:.2f} points) is less than two standard errors "
                f"({100 * one.error:.2f} each)"
            )


def cure_of_chance(metrics: Metrics) -> str:
    """How to measure a gain that may be chance more exactly."""
    edges = "" if "probe" in metrics else " --set evaluate.held_out_edges=0.3"
    more = f"on {'more ' * ('links' in metrics)}held-out edges and " if edges else ""
    return f"measure it {more}over several runs: use a new run folder (--run) and add --set train.repeats=5{edges}"


def accuracy_gains(metrics: Metrics) -> Iterator[Gain]:
    """The gains in accuracy on test nodes, or in micro-F1."""
    probe = metrics.get("probe")
    trained = probe["trained"]["test_mean"] if probe else None
    if probe is None or trained is None:
        return
    for name in METHODS[1:]:
        other = probe[name]["test_mean"] if name in probe else None
        if other is not None:
            error = _error_of_accuracy(metrics, probe, name)
            yield Gain(name, f"test {figure_name(probe['protocol'])}", trained - other, error)


def _error_of_accuracy(metrics: Metrics, probe: Probe, name: Method) -> float:
    """Standard error of the gain, paired over repeats or splits; over initialisations if there is one of each."""
    pairs = metrics.get("repeats", {}).get("runs") or probe.get("splits", [])
    found = [(pair["trained"]["test_mean"] or 0) - (pair[name]["test_mean"] or 0) for pair in pairs]
    if len(found) > 1:
        return float(np.std(found, ddof=1) / math.sqrt(len(found)))
    both = math.hypot(probe["trained"].get("test_std") or 0, probe[name].get("test_std") or 0)
    return both / math.sqrt(probe["protocol"]["initialisations"])


def _by_links(metrics: Metrics) -> Iterator[Gain]:
    links = metrics.get("links")
    if not links:
        return
    trained, edges = links["trained"]["degree_matched"], links["protocol"]["test"]
    for name in METHODS[1:]:
        if name in links:
            other = links[name]["degree_matched"]
            errors = [one.get("auc_se", _largest_error(one["auc"], edges)) for one in (trained, other)]
            yield Gain(name, "AUC of held-out edges", trained["auc"] - other["auc"], math.hypot(*errors))


def _by_ranking(metrics: Metrics) -> Iterator[Gain]:
    rings = metrics.get("rings")
    trained = rings.get("ranking", {}).get("accuracy") if rings else None
    if rings is None or trained is None:
        return
    for name in METHODS[1:]:
        other = rings[RANKING[name]]["accuracy"] if RANKING[name] in rings else None
        if other is not None:
            anchors = rings["protocol"]["anchors"]
            error = math.hypot(_largest_error(trained, anchors), _largest_error(other, anchors))
            yield Gain(name, "ranking accuracy", trained - other, error)


def _largest_error(share: float, number: int) -> float:
    """The largest standard error of a mean of so many shares: as if each were 0 or 1."""
    return math.sqrt(max(0.0, share * (1 - share)) / max(1, number))
