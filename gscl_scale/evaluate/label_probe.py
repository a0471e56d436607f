"""The linear probe where a node has many labels: the protocol of DeepWalk and node2vec.

Logistic regression for each label against the rest; of each test node as many labels are predicted as it has, those
with the highest probabilities. Micro-F1 is then the share of all labels that are predicted: with one label per node,
accuracy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale import seeding
from gscl_scale.config.evaluate import EvaluateConfig
from gscl_scale.evaluate.linear_probe import ProbeResult
from gscl_scale.evaluate.one_vs_rest import OneVsRest, Part, fit_one_vs_rest
from gscl_scale.evaluate.schema import LabelsProtocol
from gscl_scale.evaluate.splits import TEST, TRAIN, VAL, VALIDATES, Split
from gscl_scale.evaluate.vectors import KINDS, Scaling, Vectors, blocks, fit_scaling, load_rows
from gscl_scale.graph.label_sets import LabelSets

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # of `fit_one_vs_rest`; the best were inside wherever it was tried
MOST_ROWS = 65_536  # that a probe learns from
ITERATIONS = 60  # F1 was within 0.05 points of that of the minimum (BlogCatalog, PPI, Wikipedia)
_TO_CHOOSE = 30  # iterations for each penalty before one is chosen
_LOGITS = 1 << 23  # at once


def probe_label_sets(
    vectors: Vectors,
    labels: LabelSets,
    splits: Sequence[Split],
    config: EvaluateConfig,
    device: torch.device | str = "cpu",
) -> ProbeResult:
    """Probe the vectors on every split; penalty and, if asked, scaling are chosen by the mean micro-F1 on validation.

    Then the probe is trained once more under these: on validation nodes too where they were cut out of the train nodes.
    """
    tried = []
    for kind in KINDS if config.probe_scaling == "auto" else (config.probe_scaling,):
        task = _Task(vectors, labels, fit_scaling(vectors, kind), config, device)
        val = np.array([task.validate(split, number) for number, split in enumerate(splits)])
        known = val[~np.isnan(val[:, 0])]
        tried.append((task, val, known.mean(axis=0) if known.size else val[0]))
    task, val, means = max(tried, key=lambda one: -1.0 if np.isnan(one[2]).all() else one[2].max())  # the first on ties
    chosen = len(PENALTIES) // 2 if np.isnan(means).all() else int(means.argmax())
    test = np.array([task.test(split, number, PENALTIES[chosen]) for number, split in enumerate(splits)])
    return ProbeResult(
        val=val[:, [chosen]],
        test=test[:, [0]],
        best_epoch=None,
        weight_decay=PENALTIES[chosen],
        val_by_decay=dict(zip(PENALTIES, means.tolist(), strict=True)),
        rows_per_step=MOST_ROWS,
        scaling=task.scaling.kind,
        macro=test[:, [1]],
    )


def labels_protocol(labels: LabelSets, split: Split) -> LabelsProtocol:
    """How labels are measured, where that is other than for classes."""
    best = "best validation micro-F1"
    return {
        "labels": labels.shape[1],
        "val_fraction": split.fraction and VALIDATES * split.fraction,
        "initialisations": 1,
        "epochs": ITERATIONS,
        "weight_decays": list(PENALTIES),
        "selection": f"{best}, then trained on validation nodes too" if split.cut else best,
    }


@dataclass(frozen=True)
class _Task:
    vectors: Vectors
    labels: LabelSets
    scaling: Scaling
    config: EvaluateConfig
    device: torch.device | str

    def validate(self, split: Split, number: int) -> npt.NDArray[np.float64]:
        """Micro-F1 on the validation nodes [P] under each penalty; NaN where there are none."""
        if not (split.codes == VAL).any():
            return np.full(len(PENALTIES), math.nan)
        train_mask = split.codes == TRAIN
        fitted = fit_one_vs_rest(self.parts(train_mask, number), PENALTIES, _TO_CHOOSE)
        return self.count(fitted, split.codes == VAL).micro()

    def test(self, split: Split, number: int, penalty: float) -> tuple[float, float]:
        """Micro- and macro-F1 on the test nodes; NaN where there are none."""
        if not (split.codes == TEST).any():
            return math.nan, math.nan
        train_mask = (split.codes == TRAIN) | ((split.codes == VAL) & split.cut)
        fitted = fit_one_vs_rest(self.parts(train_mask, number), [penalty], ITERATIONS)
        counted = self.count(fitted, split.codes == TEST)
        return float(counted.micro()[0]), float(counted.macro()[0])

    def parts(self, train_mask: npt.NDArray[np.bool_], number: int) -> list[Part]:
        """The nodes to learn from, or a sample where there are very many."""
        nodes = seeding.sample(np.flatnonzero(train_mask), MOST_ROWS, "probe nodes", self.config.seed, number)
        return [self.load(some) for some in blocks(nodes, self.rows_at_once)]

    def load(self, nodes: npt.NDArray[np.int64]) -> Part:
        target = torch.from_numpy(self.labels.of(nodes).astype(np.float32)).to(self.device)
        return Part(load_rows(self.vectors, nodes, self.scaling, self.device), target)

    def count(self, fitted: OneVsRest, measured: npt.NDArray[np.bool_]) -> "_Counts":
        """Predict the labels of some nodes, and count how often that is right."""
        parts = (self.load(nodes) for nodes in blocks(np.flatnonzero(measured), self.rows_at_once))
        counted = torch.stack([_count(fitted.logits(part.rows), part.target > 0) for part in parts]).sum(0)
        return _Counts(*counted.cpu().numpy())

    @property
    def rows_at_once(self) -> int:
        return max(64, _LOGITS // (self.labels.shape[1] * len(PENALTIES)))


@dataclass(frozen=True)
class _Counts:
    """Of each label [L, P]: predicted nodes, nodes that have it, and nodes where both hold."""

    predicted: npt.NDArray[np.int64]
    present: npt.NDArray[np.int64]
    both: npt.NDArray[np.int64]

    def micro(self) -> npt.NDArray[np.float64]:
        """F1 of all labels together [P]."""
        return 2 * self.both.sum(0) / np.maximum(self.predicted.sum(0) + self.present.sum(0), 1)

    def macro(self) -> npt.NDArray[np.float64]:
        """Mean F1 of the labels [P]; 0 for one that is neither predicted nor present, as in scikit-learn."""
        mean: npt.NDArray[np.float64] = (2 * self.both / np.maximum(self.predicted + self.present, 1)).mean(0)
        return mean


def _count(logits: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """The three counts [3, L, P] of logits [n, L, P]."""
    order = logits.argsort(dim=1, descending=True, stable=True)
    ranks = torch.empty_like(order).scatter_(1, order, torch.arange(order.shape[1]).to(order)[:, None].expand_as(order))
    predicted = ranks < present.sum(1)[:, None, None]
    true = present[:, :, None].expand_as(predicted)
    return torch.stack([predicted.sum(0), true.sum(0), (predicted & true).sum(0)])
