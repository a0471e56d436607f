"""The linear probe: logistic regression with Adam, all random initialisations and weight decays trained at once.

Shapes: n rows, d columns, C classes, S splits, I initialisations; L lanes, each an initialisation under a decay.
Weights are [d, C * L], so a step is one product, and sums over the classes run along lanes that lie side by side.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale import seeding
from gscl_scale.config.evaluate import EvaluateConfig
from gscl_scale.evaluate.measures import count_right, most_right, refuse_one_class
from gscl_scale.evaluate.schema import Accuracy, MeanAccuracy, ScalingKind
from gscl_scale.evaluate.splits import TEST, TRAIN, VAL, Split
from gscl_scale.evaluate.vectors import (
    KINDS,
    Rows,
    Scaling,
    Vectors,
    blocks,
    fit_scaling,
    scaled_rows,
    take_parts,
    width,
)
from gscl_scale.machine import trim_heap
from gscl_scale.model import optimizers
from gscl_scale.runtime.threads import map_in_order

_LOGITS = 1 << 26  # most logits at once: 256 MB
_BLOCK_ROWS = 32768
_PARTS_TRIMMED = 16
_SMALL_TASK = 1 << 25  # numbers: 128 MB
_TINY_TASK = 1 << 20  # so few are quicker on one thread alone


@dataclass(frozen=True)
class ProbeResult:
    """Accuracies [S, I] at the best validation epoch, under decay and scaling with the best mean validation accuracy.

    With `evaluate.measure` roc_auc all accuracies are ROC-AUC.

    val, test [S, I]   NaN where a split has no such nodes
    best_epoch [S, I]  from 1; the last epoch where a split has no validation nodes; None of a probe without epochs
    val_by_decay       mean validation accuracy of every decay tried; NaN where nothing could be validated
    macro [S, I]       macro-F1 on test nodes where a node has many labels; accuracies are micro-F1 then
    """

    val: npt.NDArray[np.float64]
    test: npt.NDArray[np.float64]
    best_epoch: npt.NDArray[np.int64] | None
    weight_decay: float
    val_by_decay: dict[float, float]
    rows_per_step: int
    scaling: ScalingKind
    macro: npt.NDArray[np.float64] | None = None

    @property
    def val_mean(self) -> float:
        """Mean validation accuracy over splits and initialisations."""
        return _mean(self.val)

    @property
    def test_mean(self) -> float:
        """Mean test accuracy over splits and initialisations."""
        return _mean(self.test)

    def figures(self) -> Accuracy:
        """The figures over all splits, None where there is nothing to measure."""
        accuracy: Accuracy = {
            "val_mean": or_none(self.val_mean),
            "val_std": or_none(_std(self.val)),
            "test_mean": or_none(self.test_mean),
            "test_std": or_none(_std(self.test)),
            "weight_decay": self.weight_decay,
        }
        if self.test.shape[0] > 1:
            accuracy["test_se"] = or_none(_std(self.test.mean(axis=1)) / math.sqrt(self.test.shape[0]))
        accuracy["scaling"] = self.scaling
        if self.macro is not None:
            accuracy |= {"macro_mean": or_none(_mean(self.macro)), "macro_std": or_none(_std(self.macro))}
        return accuracy

    def on_split(self, number: int) -> MeanAccuracy:
        """The figures on one split."""
        means: MeanAccuracy = {
            "val_mean": or_none(self.val[number].mean()),
            "test_mean": or_none(self.test[number].mean()),
        }
        if self.best_epoch is not None:
            means["best_epoch_mean"] = or_none(self.best_epoch[number].mean())
        if self.macro is not None:
            means["macro_mean"] = or_none(self.macro[number].mean())
        return means


def or_none(value: float) -> float | None:
    """None for NaN."""
    return None if math.isnan(value) else float(value)


def probe_splits(
    vectors: Vectors,
    labels: npt.NDArray[np.int64],
    splits: Sequence[Split],
    num_classes: int,
    config: EvaluateConfig,
    device: torch.device | str = "cpu",
) -> ProbeResult:
    """Probe the vectors on every split; epoch, weight decay and, if asked, scaling are chosen on validation nodes.

    The epoch is chosen for each split and initialisation, the others for all splits, by the mean over them.
    """
    refuse_one_class(labels, splits, config)
    tried = []
    for kind in KINDS if config.probe_scaling == "auto" else (config.probe_scaling,):
        scaling = fit_scaling(vectors, kind)
        tasks = [
            _Task(vectors, labels, split.codes, num_classes, scaling, config, device, number)
            for number, split in enumerate(splits)
        ]
        runs = np.stack(_probe_each(tasks), axis=1)
        tried.append(_at_best_decay(runs, kind, num_classes, config))
    return max(tried, key=lambda result: -1.0 if math.isnan(result.val_mean) else result.val_mean)  # the first on ties


def _at_best_decay(
    runs: npt.NDArray[np.float64], kind: ScalingKind, num_classes: int, config: EvaluateConfig
) -> ProbeResult:
    """The result under the best decay, from runs [3, S, decays, I]."""
    (val, test, best_epoch), decays = runs, config.probe_weight_decay
    means = [_mean(val[:, number]) for number in range(len(decays))]
    chosen = 0 if all(map(math.isnan, means)) else int(np.nanargmax(means))  # the first on ties
    return ProbeResult(
        val=val[:, chosen],
        test=test[:, chosen],
        best_epoch=best_epoch[:, chosen].astype(np.int64),
        weight_decay=decays[chosen],
        val_by_decay=dict(zip(decays, means, strict=True)),
        rows_per_step=_rows_per_step(num_classes, config),
        scaling=kind,
    )


@dataclass(frozen=True)
class _Task:
    vectors: Vectors
    labels: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int8]
    num_classes: int
    scaling: Scaling
    config: EvaluateConfig
    device: torch.device | str
    number: int

    def nodes(self, code: int) -> npt.NDArray[np.int64]:
        return np.flatnonzero((self.codes == code) & (self.labels >= 0))

    def most_right(self, code: int) -> int:
        return most_right(self.config.measure, self.labels[self.nodes(code)])

    def numbers(self) -> int:
        """How many numbers the rows of all labelled nodes and their logits have."""
        lanes = self.num_classes * self.config.initialisations * len(self.config.probe_weight_decay)
        return int((self.labels >= 0).sum()) * (width(self.vectors) + lanes)

    def load(self, *parts: npt.NDArray[np.int64]) -> list["_Labelled"]:
        return [
            _Labelled(scaled_rows(rows, self.scaling, self.device), self._target(nodes))
            for rows, nodes in zip(take_parts(self.vectors, parts), parts, strict=True)
        ]

    def each(self, nodes: npt.NDArray[np.int64], size: int) -> Iterator["_Labelled"]:
        for some in blocks(nodes, size):
            yield from self.load(some)

    def _target(self, nodes: npt.NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(self.labels[nodes].astype(np.int64)).to(self.device)

    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(seeding.integer("probe", self.config.seed, self.number))


@dataclass(frozen=True)
class _Labelled:
    rows: Rows
    target: torch.Tensor


def _probe_each(tasks: Sequence[_Task]) -> list[npt.NDArray[np.float64]]:
    """`_probe_split` of each task; small ones side by side, as their products are no quicker on several threads."""
    threads = torch.get_num_threads()
    together = min(threads, len(tasks))
    most = _SMALL_TASK if together > 1 else _TINY_TASK
    if str(tasks[0].device) != "cpu" or max(task.numbers() for task in tasks) > most:
        return [_probe_split(task) for task in tasks]
    try:
        return list(map_in_order(_on_one_thread, tasks, together))
    finally:
        torch.set_num_threads(threads)  # later threads have as many as any thread has set last


def _on_one_thread(task: _Task) -> npt.NDArray[np.float64]:
    torch.set_num_threads(1)  # of this thread
    return _probe_split(task)


def _probe_split(task: _Task) -> npt.NDArray[np.float64]:
    """Accuracies on validation and test nodes and the best epoch [3, decays, I]; all lanes begin with equal weights."""
    size = _rows_per_step(task.num_classes, task.config)
    draw = seeding.generator("probe order", task.config.seed, task.number)
    train_nodes = task.nodes(TRAIN)
    assert train_nodes.size, "a split without labelled training nodes"
    if train_nodes.size > size:
        train_nodes = draw.permutation(train_nodes)
    equal = np.array_split(train_nodes, -(-train_nodes.size // size))  # a step on a few rows left over would be noise
    train, val = task.load(*equal), list(task.each(task.nodes(VAL), size))
    decays, count = task.config.probe_weight_decay, task.config.initialisations
    test_nodes = task.nodes(TEST)
    together = max(1, _LOGITS // (_rows_at_once(task, size) * count * task.num_classes))
    fitted = [_fit(task, train, val, decays[at : at + together]) for at in range(0, len(decays), together)]
    right = [
        _count(task, task.each(test_nodes, size), one.weight, one.bias)
        if test_nodes.size
        else torch.zeros_like(one.val_right)
        for one in fitted
    ]
    val_right, epochs = torch.cat([one.val_right for one in fitted]), torch.cat([one.best_epoch for one in fitted])
    shares = _share(val_right, task.most_right(VAL)), _share(torch.cat(right), task.most_right(TEST))
    return np.stack([*shares, epochs.cpu().numpy()]).reshape(3, -1, count)


@dataclass(frozen=True)
class _Fitted:
    """weight [d, C * L], bias [C * L], val_right and best_epoch [L]; the lanes of a decay lie side by side."""

    weight: torch.Tensor
    bias: torch.Tensor
    val_right: torch.Tensor
    best_epoch: torch.Tensor


def _fit(task: _Task, train: list[_Labelled], val: list[_Labelled], decays: list[float]) -> _Fitted:
    """Train, and keep of each lane the weights of its first best validation epoch."""
    config, num_classes = task.config, task.num_classes
    weight, bias = _initial(task, len(decays))
    decay = torch.tensor(decays, device=task.device).repeat_interleave(config.initialisations).repeat(num_classes)
    adam = optimizers.Adam([weight, bias], lr=config.probe_learning_rate)
    best_weight, best_bias = weight.clone(), bias.clone()
    best = torch.full((len(decays) * config.initialisations,), -1, dtype=torch.int64, device=task.device)
    epoch = torch.zeros_like(best)
    for step in range(1, config.probe_epochs + 1):
        weight.grad, bias.grad = _gradient(train[(step - 1) % len(train)], weight, bias, num_classes)
        weight.grad.addcmul_(weight, decay)
        bias.grad.addcmul_(bias, decay)
        adam.step()
        if val:
            right = _count(task, val, weight, bias)
            better = right > best
            if better.any():
                columns = better.repeat(num_classes)
                best_weight[:, columns], best_bias[columns] = weight[:, columns], bias[columns]
                best, epoch = torch.maximum(best, right), torch.where(better, step, epoch)
    if not val:
        return _Fitted(weight, bias, best, torch.full_like(epoch, config.probe_epochs))
    return _Fitted(best_weight, best_bias, best, epoch)


def _initial(task: _Task, decays: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Uniform weights of Glorot and Bengio, the same for each decay, drawn on the processor: every device starts alike.

    They lie in memory as [C * L, d]: with few columns in a product, that is several times quicker than [d, C * L].
    """
    num_columns, count = width(task.vectors), task.config.initialisations
    limit = math.sqrt(6 / (num_columns + task.num_classes))
    drawn = torch.rand(count, num_columns, task.num_classes, generator=task.generator()) * (2 * limit) - limit
    stored = drawn.permute(2, 0, 1).repeat(1, decays, 1).reshape(-1, num_columns)
    return stored.to(task.device).T, torch.zeros(stored.shape[0], device=task.device)


def _gradient(
    part: _Labelled, weight: torch.Tensor, bias: torch.Tensor, num_classes: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradient of the mean cross entropy of each lane: rows.T @ (softmax - one hot) / n."""
    logits = (part.rows.times(weight) + bias).view(part.target.numel(), num_classes, -1)
    error = torch.softmax(logits, dim=1)
    error -= torch.nn.functional.one_hot(part.target, num_classes)[:, :, None]
    error = error.view(part.target.numel(), -1) / part.target.numel()
    return part.rows.transposed_times(error), error.sum(0)


def _count(task: _Task, parts: Iterable[_Labelled], weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """What is right in some rows [L], in each lane, by the measure of the task."""

    def logits() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for number, part in enumerate(parts, start=1):
            yield (part.rows.times(weight) + bias).view(part.target.numel(), task.num_classes, -1), part.target
            if number % _PARTS_TRIMMED == 0:  # the counts of parts lie between freed logits, and keep these in memory
                trim_heap()

    return count_right(task.config.measure, logits())


def _rows_at_once(task: _Task, size: int) -> int:
    """The rows with logits in memory: a block, or of ROC-AUC all that are compared with each other."""
    return size if task.config.measure == "accuracy" else max(size, *(task.nodes(code).size for code in (VAL, TEST)))


def _rows_per_step(num_classes: int, config: EvaluateConfig) -> int:
    return min(_BLOCK_ROWS, max(256, _LOGITS // (config.initialisations * num_classes)))


def _share(right: torch.Tensor, most: int) -> npt.NDArray[np.float64]:
    counts = right.cpu().numpy().astype(np.float64)
    return counts / most if most else np.full_like(counts, np.nan)


def _mean(values: npt.NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else math.nan


def _std(values: npt.NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(known.std(ddof=1)) if known.size > 1 else 0.0 if known.size else math.nan
