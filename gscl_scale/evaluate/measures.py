"""What the linear probe is chosen and measured by: accuracy, or ROC-AUC where there are two classes.

Each is a share of whole numbers, so that equal figures are equal to the bit: right answers among the nodes, or pairs
of nodes of different classes in the right order, of which a tie is half a pair.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale.config.evaluate import EvaluateConfig, Measure
from gscl_scale.errors import ConfigError
from gscl_scale.evaluate.splits import TEST, VAL, Split
from gscl_scale.graph.graph import Graph

_CURE = "set evaluate.measure to accuracy"


def count_right(measure: Measure, parts: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """What is right in each lane [L], of parts with logits [n, C, L] and classes [n]; of ROC-AUC twice the pairs."""
    if measure == "accuracy":
        # the index that `max` gives is that of `argmax`, which takes many times as long along this axis
        return torch.stack([(logits.max(1).indices == target[:, None]).sum(0) for logits, target in parts]).sum(0)
    pieces = [(logits[:, 1] - logits[:, 0], target == 1) for logits, target in parts]
    scores, positive = torch.cat([score for score, _ in pieces]), torch.cat([of for _, of in pieces])
    ours, others = scores[positive].T.contiguous(), scores[~positive].T.contiguous().sort(1).values
    sides = [torch.searchsorted(others, ours, right=right) for right in (False, True)]  # below, and below or equal
    return (sides[0] + sides[1]).sum(1)


def most_right(measure: Measure, labels: npt.NDArray[np.int64]) -> int:
    """What `count_right` finds at most among nodes of these classes [n]."""
    positive = int((labels == 1).sum())
    return labels.size if measure == "accuracy" else 2 * positive * (labels.size - positive)


def num_classes(labels: npt.NDArray[np.int64], graph: Graph) -> int:
    """The number of classes of a graph with these labels [N]."""
    return max(len(graph.classes), int(labels.max()) + 1)


def refuse_measure(graph: Graph, config: EvaluateConfig) -> None:
    """ConfigError where the labels of a graph do not allow evaluate.measure."""
    if config.measure == "accuracy" or not graph.labelled.any():
        return
    if graph.labels is None:
        raise ConfigError(
            f"evaluate.measure: roc_auc needs two classes, and a node of this graph has many labels; {_CURE}"
        )
    if (found := num_classes(graph.labels, graph)) != 2:
        raise ConfigError(f"evaluate.measure: roc_auc needs two classes, and this graph has {found:,}; {_CURE}")


def refuse_one_class(labels: npt.NDArray[np.int64], splits: Sequence[Split], config: EvaluateConfig) -> None:
    """ConfigError where ROC-AUC is not defined, because all nodes of a part have the same class."""
    for split in splits if config.measure == "roc_auc" else ():
        for name, code in (("validation", VAL), ("test", TEST)):
            found = labels[(split.codes == code) & (labels >= 0)]
            if found.size and not most_right(config.measure, found):
                raise ConfigError(
                    f"evaluate.measure: the {name} nodes of split {split.name} are all of one class, so that they have "
                    f"no ROC-AUC; {_CURE}"
                )
