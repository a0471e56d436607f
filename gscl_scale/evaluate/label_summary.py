"""The figures of the probe in words where a node has many labels: F1 in place of accuracy."""

from typing import Literal

from gscl_scale.evaluate.schema import Accuracies, Metrics, Probe, ProbeProtocol

Part = Literal["val", "test", "macro"]

_OF_CLASSES: dict[Part, str] = {"val": "validation %", "test": "test %"}
_OF_LABELS: dict[Part, str] = {"val": "validation micro-F1 %", "test": "micro-F1 %", "macro": "macro-F1 %"}


def has_many_labels(metrics: Metrics) -> bool:
    """Whether the probe predicts many labels per node."""
    return "probe" in metrics and "labels" in metrics["probe"]["protocol"]


def figure_name(protocol: ProbeProtocol | None) -> str:
    """What the probe measures."""
    return "micro-F1" if protocol and "labels" in protocol else "accuracy"


def part_titles(metrics: Metrics) -> dict[Part, str]:
    """The figures of a probe, and their names in a table."""
    return _OF_LABELS if has_many_labels(metrics) else _OF_CLASSES


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
