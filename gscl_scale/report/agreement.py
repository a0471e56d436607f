"""In what runs agree: their nodes, labels and splits must, so that they can be compared; the rest may differ."""

from collections.abc import Mapping, Sequence

from gscl_scale.evaluate.schema import ProbeProtocol
from gscl_scale.graph.types import Manifest
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
_OF_SPLITS = ("kind", "train_fraction", "num_splits", "counts", "seed", "labels", "val_fraction")
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
    ordered = sorted(keys, key=lambda key: (key not in _OF_SPLITS, key))
    return [key for key in ordered if len({str(one.get(key)) for one in protocols}) > 1]


def why_not_comparable(runs: Runs) -> str:
    """What runs do not agree in though they must; "" if they can be compared."""
    apart = [part for part in differing_parts(runs) if part in ("nodes", "labels", "splits")]
    if apart:
        return f"they differ in {join_names(apart)}"
    splits = [key for key in differences_in_measuring(runs) if key in _OF_SPLITS]
    return f"they differ in splits ({join_names(splits)})" if splits else ""


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
