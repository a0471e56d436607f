"""Validation accuracy for choosing settings and epochs, and the nodes whose labels were used for such a choice.

Test labels of a split are never read for a choice. But splits overlap: a validation node of one split may be a test
node of another, and is left out of its test nodes (`Selection`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale.config.evaluate import EvaluateConfig, SplitsConfig
from gscl_scale.evaluate.label_probe import probe_label_sets
from gscl_scale.evaluate.linear_probe import ProbeResult, probe_splits
from gscl_scale.evaluate.measures import num_classes, refuse_measure
from gscl_scale.evaluate.splits import TEST, VAL, Split, make_splits
from gscl_scale.evaluate.vectors import Vectors
from gscl_scale.graph.graph import Graph

MOST_SPLITS = 5  # for `tune`: a search overfits one split, and probing twenty takes longer than many a training


@dataclass(frozen=True)
class Selection:
    """The nodes [N] whose labels were used for a choice, and what they chose, empty for nothing."""

    nodes: npt.NDArray[np.bool_]
    chose: str


def validation_splits(graph: Graph, config: SplitsConfig, most: int, label_seed: int | None = None) -> list[Split]:
    """At most `most` splits of the first train fraction that have validation nodes; their test nodes are taken out."""
    splits = make_splits(graph, config, label_seed)
    return [
        replace(split, codes=np.where(split.codes == TEST, 0, split.codes).astype(np.int8))
        for split in splits
        if split.fraction == splits[0].fraction and (split.codes == VAL).any()
    ][:most]


def training_splits(graph: Graph, config: SplitsConfig, label_seed: int | None) -> list[Split]:
    """The split that a training is validated on; none if no split has validation nodes."""
    return validation_splits(graph, config, 1, label_seed)


def tune_splits(graph: Graph, config: SplitsConfig, label_seed: int | None) -> list[Split]:
    """The splits that the trials of `tune` are measured on."""
    return validation_splits(graph, config, MOST_SPLITS, label_seed)


def selection_of(graph: Graph, config: EvaluateConfig, validated: bool, label_seed: int | None = None) -> Selection:
    """The validation nodes that a validated training and the searches of `config.tuned_on` have used.

    Train nodes of these splits are not selected: a choice counts right answers on validation nodes only.
    """
    tuned = [split for search in config.tuned_on for split in tune_splits(graph, search, search.learnt)]
    trained = training_splits(graph, config, label_seed) if validated else []
    nodes = np.zeros(graph.num_nodes, np.bool_)
    for split in (*tuned, *trained):
        nodes |= split.codes == VAL
    chose = ["the settings"] * bool(tuned) + ["the epoch of the encoder"] * bool(trained)
    return Selection(nodes, " and ".join(chose))


def validation_accuracy(
    vectors: Vectors, graph: Graph, splits: Sequence[Split], config: EvaluateConfig, device: torch.device | str = "cpu"
) -> float:
    """Mean validation accuracy of the probe over splits and initialisations, or what else it is measured by."""
    return probe(vectors, graph, splits, config, device).val_mean


def probe(
    vectors: Vectors, graph: Graph, splits: Sequence[Split], config: EvaluateConfig, device: torch.device | str = "cpu"
) -> ProbeResult:
    """Probe the vectors on every split: for the class of each node, or for its labels where a node has many."""
    refuse_measure(graph, config)
    if graph.label_sets is not None:
        return probe_label_sets(vectors, graph.label_sets, splits, config, device)
    assert graph.labels is not None
    return probe_splits(vectors, graph.labels, splits, num_classes(graph.labels, graph), config, device)
