"""In what runs agree: their nodes, labels and splits must, so that they can be compared; the rest may differ."""

import shlex
from collections.abc import Mapping, Sequence
from itertools import chain

import yaml

from gscl_scale.config.evaluate import TunedOn
from gscl_scale.evaluate.schema import ProbeProtocol
from gscl_scale.graph.types import Manifest
from gscl_scale.report.provenance import flat_settings
from gscl_scale.report.run_data import RunData
from gscl_scale.text import join_names

Runs = Mapping[str, RunData]
PARTS = {  # of a graph, and the files that hold each
    "nodes": ("ids",),
    "labels": ("labels", "label_indptr", "label_indices"),
    "splits": ("splits",),
    "edges": ("indptr", "indices", "edge_weights"),
    "features": ("features", "feature_indptr", "feature_indices", "feature_values"),
}
_OF_SPLITS = {  # keys of a protocol, with what their values count
    "kind": "splits",
    "train_fraction": "of the labelled nodes to train on",
    "num_splits": "splits",
    "counts": "train / validation / test nodes",
    "seed": "as seed",
    "labels": "labels per node",
    "val_fraction": "of the labelled nodes to validate on",
}
_RESULTS = ("val_by_decay",)  # in a protocol; what was found, not how it was measured


def have_same_nodes(runs: Sequence[RunData]) -> bool:
    """Whether all runs have the same nodes in the same order."""
    return len({_part(found, "nodes") for found in runs}) == 1


def differing_parts(runs: Runs) -> list[str]:
    """The parts of the graphs that are not the same in all runs."""
    return [part for part in PARTS if len({_part(found, part) for found in runs.values()}) > 1]


def differences_in_measuring(runs: Runs) -> list[str]:
    """The keys of the protocols of accuracy that differ, those that tell which nodes were measured first."""
    protocols = [_protocol(found) for found in runs.values()]
    keys = sorted(
        {key for one in protocols for key in one} - set(_RESULTS), key=lambda key: (key not in _OF_SPLITS, key)
    )
    return [key for key in keys if len({str(one.get(key)) for one in protocols}) > 1]


def why_not_comparable(runs: Runs) -> str:
    """What runs do not agree in though they must; "" if they can be compared."""
    if apart := _parts_apart(runs):
        return f"they differ in {join_names(apart)}"
    protocols = [_protocol(found) for found in runs.values()]
    words = [
        f"{' and '.join(dict.fromkeys(_in_words(one.get(key)) for one in protocols))} {_OF_SPLITS[key]}"
        for key in differences_in_measuring(runs)
        if key in _OF_SPLITS
    ]
    return f"they differ in splits: {', '.join(words)}" if words else ""


def cure_of_tuning(runs: Runs) -> str:
    """The commands by which no run is tested on nodes that chose settings of another; "" where there are none."""
    searches = {name: _searches(found) for name, found in runs.items()}
    every = dict.fromkeys(chain(*searches.values()))
    setting = f"evaluate.tuned_on=[{', '.join(every)}]"
    commands = [
        shlex.join(["gscl-scale", "evaluate", "--run", name, "--set", setting])
        for name, own in searches.items()
        if not set(every) <= set(own)
    ]
    if not commands or _parts_apart(runs):
        return ""
    return (
        "Nodes that chose settings in a search (evaluate.tuned_on) are no test nodes; to leave them out of all runs: "
        f"{'; '.join(commands)}; then write this page again."
    )


def _searches(found: RunData) -> list[str]:
    """The searches in `evaluate.tuned_on` of a run as YAML, each by its settings that are not the defaults."""
    default = TunedOn().model_dump(mode="json")
    searches = flat_settings(found.config).get("evaluate.tuned_on")
    own = (
        {key: value for key, value in one.items() if value != default.get(key)}
        for one in (searches if isinstance(searches, list) else [])
    )
    return [yaml.safe_dump(one, default_flow_style=True, sort_keys=False, width=1_000_000).strip() for one in own]


def _parts_apart(runs: Runs) -> list[str]:
    return [part for part in differing_parts(runs) if part in ("nodes", "labels", "splits")]


def _in_words(value: object) -> str:
    """A value of a protocol: counts as `40 / 40 / 325`."""
    if isinstance(value, Mapping):
        return " / ".join(f"{count:,}" for count in value.values())
    return "unknown" if value is None else str(value)


def _part(found: RunData, part: str) -> str:
    """What identifies a part of a graph; of a run whose graph is not there the whole graph."""
    if found.graph is None:
        return str(found.metrics.get("graph", {}).get("fingerprint"))
    manifest: Manifest = found.graph.manifest
    names = [f"{name}.arrow" for name in PARTS[part]]
    files = {name: manifest["files"][name]["sha256"] for name in names if name in manifest["files"]}
    classes = manifest["classes"] if part == "labels" else []
    return str([files, classes, manifest["undirected"] if part == "edges" else ""])


def _protocol(found: RunData) -> Mapping[str, object]:
    probe = found.metrics.get("probe")
    protocol: ProbeProtocol | None = probe["protocol"] if probe else None
    return dict(protocol or {})
