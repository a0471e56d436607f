"""Splits into the nodes that the probe is trained, validated and tested on."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.config.sections import SplitsConfig
from gscl_scale.evaluate.schema import SplitCounts
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SPLIT_CODES

TRAIN, VAL, TEST = SPLIT_CODES["train"], SPLIT_CODES["val"], SPLIT_CODES["test"]
MIN_LABELLED = 10
MIN_TEST = 10  # of a split from which nodes are left out: a share of fewer nodes is not reported


@dataclass(frozen=True)
class Split:
    """Codes [N] int8 of 0 (none), 1 (train), 2 (val), 3 (test); the train fraction is None for published splits.

    left_out  the number of test nodes that `without` has taken out
    """

    name: str
    fraction: float | None
    codes: npt.NDArray[np.int8]
    left_out: int = 0

    def counts(self) -> SplitCounts:
        """Nodes in each part."""
        train, val, test = (int((self.codes == code).sum()) for code in (TRAIN, VAL, TEST))
        return {"train": train, "val": val, "test": test}

    def without(self, nodes: npt.NDArray[np.bool_]) -> "Split":
        """The split without some of the [N] nodes among its test nodes; train and validation nodes stay."""
        gone = (self.codes == TEST) & nodes
        return replace(self, codes=np.where(gone, 0, self.codes).astype(np.int8), left_out=int(gone.sum()))

    @property
    def is_measurable(self) -> bool:
        """Whether enough test nodes remain."""
        return not self.left_out or self.counts()["test"] >= MIN_TEST


def make_splits(graph: Graph, config: SplitsConfig, learnt: int | None = None) -> list[Split]:
    """The splits of the protocol; empty where `why_no_splits` gives a reason.

    With `learnt`, the seed of a training that learns labels, only the split that it learns from: other splits would
    test the labels that it has seen.
    """
    if why_no_splits(graph, config):
        return []
    published = _published(graph)
    if config.split == "published" or (config.split == "auto" and published):
        splits = published
    else:
        splits = list(_random(graph, config))
    if learnt is None:
        return splits
    alike = [split for split in splits if split.fraction == splits[0].fraction]  # a mean over repeats is of one
    return [alike[learnt % len(alike)]]


def why_no_splits(graph: Graph, config: SplitsConfig) -> str:
    """Why the labels of a graph cannot be used, in a sentence; empty where they can."""
    if graph.labels is None or not (graph.labels >= 0).any():
        return "the graph has no labels"
    known = graph.labels[graph.labels >= 0]
    if np.unique(known).size < 2:
        return "all labelled nodes are of one class"
    if config.split == "published" and not _published(graph):
        return "evaluate.split is 'published', but the graph has no split with labelled train and test nodes"
    uses_random = config.split == "random" or not _published(graph)
    if uses_random and known.size < MIN_LABELLED:
        return f"only {known.size} nodes have a label; random splits need at least {MIN_LABELLED}"
    return ""


def _published(graph: Graph) -> list[Split]:
    """Splits of the graph that have labelled train and test nodes; unlabelled nodes are taken out."""
    assert graph.labels is not None
    masked = {name: np.where(graph.labels >= 0, codes, 0).astype(np.int8) for name, codes in graph.splits.items()}
    return [Split(name, None, codes) for name, codes in masked.items() if {TRAIN, TEST} <= set(np.unique(codes))]


def _random(graph: Graph, config: SplitsConfig) -> Iterator[Split]:
    """Plain draws without stratification, as in the paper; keyed by seed, fraction and number."""
    assert graph.labels is not None
    labelled = np.flatnonzero(graph.labels >= 0)
    for fraction in config.train_fractions:
        # rounding never takes the last node of a part
        num_val = min(max(1, round(config.val_fraction * labelled.size)), labelled.size - 2)
        num_train = min(max(1, round(fraction * labelled.size)), labelled.size - num_val - 1)
        for number in range(config.random_splits):
            draw = seeding.generator("split", config.seed, round(fraction * 1_000_000_000), number)
            order = draw.permutation(labelled)
            codes = np.zeros(graph.num_nodes, np.int8)
            codes[order] = TEST
            codes[order[:num_train]] = TRAIN
            codes[order[num_train : num_train + num_val]] = VAL
            yield Split(f"random_{fraction:g}_{number}", fraction, codes)
