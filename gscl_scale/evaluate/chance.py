"""What test figures are where the labels have nothing to do with the nodes."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from gscl_scale.config.evaluate import Measure
from gscl_scale.graph.graph import Graph


class Chance(TypedDict):
    """The figure of guesses that are uniform, and of guesses that name what is most frequent: any other is between.

    `error` is the standard error of a figure that is measured once. Splits share test nodes, and a mean over them has
    no larger one, whatever their number.
    """

    least: float
    most: float
    error: float


def chance_of(graph: Graph, test_nodes: int, measure: Measure = "accuracy") -> Chance:
    """The measure by chance; micro-F1 where a node has many labels, of which as many are predicted as it has."""
    labels: npt.NDArray[Any]
    if graph.label_sets is not None:
        labels, counts = graph.label_sets.indices, graph.label_sets.counts
    else:
        assert graph.labels is not None
        labels = graph.labels[graph.labels >= 0]
        counts = np.ones(labels.size, np.int64)
    often = np.bincount(labels)
    if measure == "roc_auc":  # the pairs of two classes; its error is that of the Mann-Whitney statistic
        first, second = test_nodes * often[often > 0] / labels.size
        return {"least": 0.5, "most": 0.5, "error": math.sqrt((test_nodes + 1) / (12 * first * second))}
    place = np.argsort(np.argsort(-often, kind="stable"))
    named = place[labels] < np.repeat(counts, counts)  # whether naming the most frequent ones finds a label
    uniform = float(np.square(counts).sum() / counts.sum() / np.count_nonzero(often))
    most = float(named.mean())
    return {"least": uniform, "most": most, "error": math.sqrt(most * (1 - most) / test_nodes)}
