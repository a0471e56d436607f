"""How far training has brought the embeddings above what it began with, and how sure that is."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gscl_scale.evaluate.label_summary import figure_name
from gscl_scale.evaluate.schema import METHODS, RANKING, Method, Metrics, Probe


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
        """Whether the trained encoder is not above the other by more than the standard error."""
        return self.gain <= self.error


def gains(metrics: Metrics) -> list[Gain]:
    """The gains by accuracy; without labels by held-out edges, and without these by the ranking of neighbourhoods."""
    return list(accuracy_gains(metrics)) or list(_by_links(metrics)) or list(_by_ranking(metrics))


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
