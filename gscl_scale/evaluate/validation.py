"""Validation accuracy alone, for whoever chooses: of each split, the labels of its test nodes are not read."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from gscl_scale.config import EvaluateConfig
from gscl_scale.evaluate.linear_probe import probe_splits
from gscl_scale.evaluate.rows import Vectors
from gscl_scale.evaluate.splits import TEST, VAL, Split, make_splits
from gscl_scale.graph import Graph


def validation_splits(graph: Graph, config: EvaluateConfig, most: int, learnt: int | None = None) -> list[Split]:
    """At most so many splits of the protocol, of its first train fraction, with validation and no test nodes.

    `learnt` as of `make_splits`.
    """
    splits = make_splits(graph, config, learnt)
    return [
        replace(split, codes=np.where(split.codes == TEST, 0, split.codes).astype(np.int8))
        for split in splits
        if split.fraction == splits[0].fraction and (split.codes == VAL).any()
    ][:most]


def validation_accuracy(
    vectors: Vectors, graph: Graph, splits: Sequence[Split], config: EvaluateConfig, device: torch.device | str = "cpu"
) -> float:
    """Mean validation accuracy of the probe over splits and initialisations."""
    assert graph.labels is not None
    return probe_splits(vectors, graph.labels, splits, len(graph.classes), config, device).val_mean
