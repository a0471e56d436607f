"""Splits into the nodes that the probe is trained, validated and tested on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.config.evaluate import SplitsConfig
from gscl_scale.evaluate.schema import SplitCounts
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SPLIT_CODES

TRAIN, VAL, TEST = SPLIT_CODES["train"], SPLIT_CODES["val"], SPLIT_CODES["test"]
MIN_LABELLED = 10
VALIDATES = 0.2  # of the train share, where a node has many labels
MIN_TEST = 10  # of a split from which nodes are left out: a share of fewer nodes is not reported

_ALONE = "each labelled node has a class of its own"


@dataclass(frozen=True)
class Split:
    """Codes [N] int8 of 0 (none), 1 (train), 2 (val), 3 (test); the train fraction is None for published splits.

    left_out  the number of test nodes that `without` has taken out
    cut       whether the validation nodes are a part of the train share, which the probe learns from in the end
    """

    name: str
    fraction: float | None
    codes: npt.NDArray[np.int8]
    left_out: int = 0
    cut: bool = False

    def counts(self) -> SplitCounts:
        """Nodes in each part."""
        train, val, test = (int((self.codes == code).sum()) for code in (TRAIN, VAL, TEST))
        return {"train": train, "val": val, "test": test}

    def sampled(self, most: int, seed: int) -> "Split":
        """The split with at most so many training and validation nodes."""
        codes = self.codes.copy()
        for code in (TRAIN, VAL):
            nodes = np.flatnonzero(codes == code)
            codes[np.setdiff1d(nodes, seeding.sample(nodes, most, "nodes of a quick probe", seed, code))] = 0
        return replace(self, codes=codes)

    def without(self, nodes: npt.NDArray[np.bool_]) -> "Split":
        """The split without some of the [N] nodes among its test nodes; train and validation nodes stay."""
        gone = (self.codes == TEST) & nodes
        return replace(self, codes=np.where(gone, 0, self.codes).astype(np.int8), left_out=int(gone.sum()))

    @property
    def is_measurable(self) -> bool:
        """Whether enough test nodes remain."""
        return not self.left_out or self.counts()["test"] >= MIN_TEST


def make_splits(graph: Graph, config: SplitsConfig, label_seed: int | None = None) -> list[Split]:
    """The splits of the protocol; empty where `why_no_splits` gives a reason.

    With `label_seed`, the seed of a training that learns labels, only the split that it learns from: other splits
    would test the labels that it has seen.
    """
    if why_no_splits(graph, config):
        return []
    published = _published(graph)
    if config.split == "published" or (config.split == "auto" and published):
        splits = published
    else:
        splits = list(_random(graph, config) if graph.label_sets is None else _random_shares(graph, config))
    if label_seed is None:
        return splits
    alike = [split for split in splits if split.fraction == splits[0].fraction]  # a mean over repeats is of one
    return [alike[label_seed % len(alike)]]


def why_no_splits(graph: Graph, config: SplitsConfig) -> str:
    """Why the labels of a graph cannot be used, in a sentence; empty where they can."""
    known = int(graph.labelled.sum())
    if not known:
        return "the graph has no labels"
    sizes = _class_sizes(graph)
    if sizes.size == 1:
        return "all labelled nodes are of one class"
    if config.split == "published" and not _published(graph):
        return "evaluate.split is 'published', but the graph has no split with labelled train and test nodes"
    uses_random = config.split == "random" or not _published(graph)
    if uses_random and known < MIN_LABELLED:
        return f"only {known} nodes have a label; random splits need at least {MIN_LABELLED}"
    return _ALONE if sizes.max(initial=0) == 1 else ""


def _published(graph: Graph) -> list[Split]:
    """Splits of the graph that have labelled train and test nodes; unlabelled nodes are taken out."""
    masked = {name: np.where(graph.labelled, codes, 0).astype(np.int8) for name, codes in graph.splits.items()}
    return [Split(name, None, codes) for name, codes in masked.items() if {TRAIN, TEST} <= set(np.unique(codes))]


def why_no_class(graph: Graph) -> str:
    """Why what compares the classes of nodes cannot be measured, in a sentence; empty where it can."""
    if graph.label_sets is not None:
        return "a node has many labels"
    return _ALONE if _class_sizes(graph).max(initial=0) == 1 else ""


def _class_sizes(graph: Graph) -> npt.NDArray[np.int64]:
    """Nodes of each class; none where nodes have many labels."""
    if graph.labels is None:
        return np.empty(0, np.int64)
    return np.unique(graph.labels[graph.labels >= 0], return_counts=True)[1]


def _random(graph: Graph, config: SplitsConfig) -> Iterator[Split]:
    """Plain draws without stratification, as in the paper; keyed by seed, fraction and number."""
    labelled = np.flatnonzero(graph.labelled)
    for fraction in config.train_fractions:
        # rounding never takes the last node of a part
        num_val = min(max(1, round(config.val_fraction * labelled.size)), labelled.size - 2)
        num_train = min(max(1, round(fraction * labelled.size)), labelled.size - num_val - 1)
        for name, order, codes in _draws(graph, labelled, config, fraction):
            codes[order[:num_train]] = TRAIN
            codes[order[num_train : num_train + num_val]] = VAL
            yield Split(name, fraction, codes)


def _random_shares(graph: Graph, config: SplitsConfig) -> Iterator[Split]:
    """Plain draws as in node2vec: a share of the labelled nodes to train on, of which some validate, and all others."""
    labelled = np.flatnonzero(graph.labelled)
    for fraction in dict.fromkeys(config.many_labels_fractions):
        share = min(max(2, round(fraction * labelled.size)), labelled.size - 1)
        num_train = share - max(1, round(VALIDATES * share))
        for name, order, codes in _draws(graph, labelled, config, fraction):
            codes[order[:share]] = VAL
            codes[order[:num_train]] = TRAIN
            yield Split(name, fraction, codes, cut=True)


def _draws(
    graph: Graph, labelled: npt.NDArray[np.int64], config: SplitsConfig, fraction: float
) -> Iterator[tuple[str, npt.NDArray[np.int64], npt.NDArray[np.int8]]]:
    """The name of each random split, a random order of the labelled nodes, and codes by which these are test nodes."""
    for number in range(config.random_splits):
        draw = seeding.generator("split", config.seed, round(fraction * 1_000_000_000), number)
        codes = np.zeros(graph.num_nodes, np.int8)
        codes[labelled] = TEST
        yield f"random_{fraction:g}_{number}", draw.permutation(labelled), codes
