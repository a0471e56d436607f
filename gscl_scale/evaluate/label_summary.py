"""The figures of the probe in words where they are not accuracy: F1 where a node has many labels, and ROC-AUC."""

from typing import Literal

from gscl_scale.config.evaluate import Measure
from gscl_scale.evaluate.schema import Accuracies, Metrics, Probe, ProbeProtocol

Part = Literal["val", "test", "macro"]

FIGURES: dict[Measure, str] = {"accuracy": "accuracy", "roc_auc": "ROC-AUC"}
_OF_CLASSES: dict[Part, str] = {"val": "validation %", "test": "test %"}
_OF_ROC_AUC: dict[Part, str] = {"val": "validation ROC-AUC %", "test": "test ROC-AUC %"}
_OF_LABELS: dict[Part, str] = {"val": "validation micro-F1 %", "test": "micro-F1 %", "macro": "macro-F1 %"}


def has_many_labels(metrics: Metrics) -> bool:
    """Whether the probe predicts many labels per node."""
    return "probe" in metrics and "labels" in metrics["probe"]["protocol"]


def figure_name(protocol: ProbeProtocol | None) -> str:
    """What the probe measures."""
    if protocol and "labels" in protocol:
        return "micro-F1"
    return FIGURES[protocol.get("measure", "accuracy") if protocol else "accuracy"]


def part_titles(protocol: ProbeProtocol | None) -> dict[Part, str]:
    """The figures of a probe, and their names in a table."""
    return {"accuracy": _OF_CLASSES, "ROC-AUC": _OF_ROC_AUC, "micro-F1": _OF_LABELS}[figure_name(protocol)]


def protocol_of(metrics: Metrics) -> ProbeProtocol | None:
    """How the probe was measured; None where it was not."""
    return metrics["probe"]["protocol"] if "probe" in metrics else None


def task_titles(metrics: Metrics) -> list[str]:
    """The names in a table of what compares classes; none where a node has many labels."""
    return [] if has_many_labels(metrics) else ["NMI", "Sim@5"]


def by_share(metrics: Metrics) -> list[tuple[str, Accuracies]]:
    """The probes of several train shares with these in per cent; the order is that of the config for classes."""
    parts = list(metrics.get("probe_by_fraction", {}).items())
    if has_many_labels(metrics):
        parts.sort(key=lambda part: float(part[0]))
    return [(f"{100 * float(fraction):g} %", part) for fraction, part in parts]


def label_sentences(probe: Probe, scaling: str, penalties: str, repeated: bool) -> list[str]:
    """How many labels were predicted, and where the penalty comes from."""
    protocol = probe["protocol"]
    counts, splits, share = protocol["counts"], protocol["num_splits"], protocol.get("train_fraction")
    at = f" at {100 * share:g} % of the labelled nodes" if share else ""
    sample = f", {protocol['rows_per_step']:,} of them drawn" * (counts["train"] > protocol["rows_per_step"])
    return [
        f"F1: logistic regression for each of {protocol['labels']:,} labels on frozen vectors ({scaling}); of each "
        f"test node as many labels are predicted as it has. {splits} {protocol['kind']} split{'s' * (splits > 1)} into "
        f"train / validation / test{at} ({counts['train']:,} / {counts['val']:,} / {counts['test']:,} nodes{sample}); "
        f"{'mean' if repeated else 'mean ± standard deviation'} over splits, at the {protocol['selection']}.",
        f"L2 penalty chosen on validation: {penalties}.",
    ]
