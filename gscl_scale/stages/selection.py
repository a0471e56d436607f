"""Which figure chooses the epoch of an encoder and the settings of a search, and its measurement.

No figure that a run reports is of what made such a choice: validation nodes are no test nodes, and held-out edges and
nodes are divided in two halves.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale import seeding
from gscl_scale.batches.stream import held_out
from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError
from gscl_scale.evaluate.links import by_cosine, validation_auc
from gscl_scale.evaluate.ranking import ring_ranking
from gscl_scale.evaluate.similarity import RingLists, ring_lists
from gscl_scale.evaluate.splits import Split, why_no_splits
from gscl_scale.evaluate.validation import training_splits, tune_splits, validation_accuracy
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.held_out_edges import HeldOutEdges
from gscl_scale.run.folder import Run
from gscl_scale.shards.reader import Samples

Kind = Literal["probe", "links", "ranking"]
Figure = Callable[[npt.NDArray[np.float32]], float]  # of the embeddings [N, d]; higher is better

_PAIRS_PER_HOP = 10_000


def selection_kind(config: Config, graph: Graph) -> Kind | None:
    """The kind of figure that chooses: the one of evaluate.select_by, or the first that the graph allows."""
    allowed: dict[Kind, Callable[[], bool]] = {
        "probe": lambda: bool(training_splits(graph, config.evaluate, config.train.label_seed)),
        "links": lambda: (found := HeldOutEdges.of(graph)) is not None and len(found.validation) > 0,
        "ranking": lambda: config.train.held_out > 0 and config.train.reads_samples,
    }
    asked = config.evaluate.select_by
    return next((kind for kind, check in allowed.items() if asked in ("auto", kind) and check()), None)


def why_no_selection(config: Config, graph: Graph) -> str:
    """Why no figure can choose, where `selection_kind` is None."""
    held = HeldOutEdges.of(graph)
    lacking = "no held-out edge is for validation" if held else "no edges are held out"
    if config.evaluate.select_by == "links":
        return f"evaluate.select_by is links, and {lacking}"
    if config.evaluate.select_by == "ranking":
        return "evaluate.select_by is ranking, and train.held_out holds out no anchors of ring samples"
    learns = f"seed {config.train.seed}: the split that {config.train.objective} learns from has no"
    lacks = "no split has" if config.train.label_seed is None else learns
    reason = why_no_splits(graph, config.evaluate) or f"{lacks} labelled validation nodes"
    return f"{reason}, and {lacking}" if held and config.evaluate.select_by == "auto" else reason


def cure_of_selection(config: Config, graph: Graph) -> str:
    """What a new run needs for a figure that can choose."""
    held = HeldOutEdges.of(graph)
    if held is None:
        return "bring labels and splits, or hold edges out (--set evaluate.held_out_edges=0.1) in another --run"
    if len(held.validation):
        return "let another figure choose (--set evaluate.select_by=auto)"
    share = min(2 * config.evaluate.held_out_edges, 0.9)
    return f"bring labels and splits, or hold more edges out (--set evaluate.held_out_edges={share:g}) in another --run"


def selection_for_training(config: Config, graph: Graph) -> Kind:
    """The kind of figure that a training is validated by; ConfigError where there is none."""
    kind = selection_kind(config, graph)
    if kind is None:
        cure = cure_of_selection(config, graph)
        raise ConfigError(f"train.validate_every: {why_no_selection(config, graph)}; set it to 0, or {cure}")
    return kind


def quick_figure(config: Config, run: Run, graph: Graph, device: torch.device) -> Figure:
    """The figure that a training is validated by; a probe is a quick one on a sample of the first split."""
    kind = selection_for_training(config, graph)
    if kind != "probe":
        return _figure_without_labels(kind, config, run, graph)
    whole = training_splits(graph, config.evaluate, config.train.label_seed)
    splits = [split.sampled(config.evaluate.sample, config.evaluate.seed) for split in whole]
    quick = config.evaluate.model_copy(update={"initialisations": 3, "probe_epochs": 100})
    return lambda vectors: validation_accuracy(vectors, graph, splits, quick, device)


def trial_figure(config: Config, run: Run, graph: Graph, device: torch.device) -> Figure:
    """The figure that a trial of a search is compared by; a probe is that of the protocol."""
    kind = selection_for_search(config, graph)
    if kind != "probe":
        return _figure_without_labels(kind, config, run, graph)
    splits = splits_of_search(graph, config)
    return lambda vectors: validation_accuracy(vectors, graph, splits, config.evaluate, device)


def selection_for_search(config: Config, graph: Graph) -> Kind:
    """The kind of figure that trials of a search are compared by; ConfigError where there is none."""
    kind = selection_kind(config, graph)
    if kind is None:
        cure = cure_of_selection(config, graph)
        raise ConfigError(f"tune: {why_no_selection(config, graph)}, so that no trial can be chosen; {cure}")
    return kind


def splits_of_search(graph: Graph, config: Config) -> list[Split]:
    """The splits that a trial is measured on by a probe."""
    return tune_splits(graph, config.evaluate, config.train.label_seed)


def reported_anchors(config: Config, graph: Graph) -> npt.NDArray[np.int64]:
    """The held-out nodes whose rings are reported: of those that chose an epoch, only the other half."""
    out = held_out(graph, config.train.held_out, config.train.seed)
    if config.train.validate_every and selection_kind(config, graph) == "ranking":
        out &= ~_choosing(graph)
    return np.flatnonzero(out)


def _choosing(graph: Graph) -> npt.NDArray[np.bool_]:
    """The half of all nodes [N] that may choose, by a node's own id."""
    draws = graph.draws(seeding.key("held-out nodes, validation half"))
    half: npt.NDArray[np.bool_] = draws < np.log(2)
    return half


def _figure_without_labels(kind: Kind, config: Config, run: Run, graph: Graph) -> Figure:
    if kind == "links":
        auc = validation_auc(graph, config.evaluate.seed)
        if auc is None:
            raise ConfigError("evaluate.held_out_edges: none of the edges for validation can be measured; raise it")
        return lambda vectors: auc(by_cosine(vectors))
    rings: list[RingLists] = []  # read with the first validation: a training may prepare its first round itself

    def ranking(vectors: npt.NDArray[np.float32]) -> float:
        if not rings:
            out = held_out(graph, config.train.held_out, config.train.seed) & _choosing(graph)
            rings.append(ring_lists(Samples.open(run.samples).round(0), graph, config.evaluate, np.flatnonzero(out)))
        return ring_ranking(vectors, rings[0], config.evaluate.seed, _PAIRS_PER_HOP)["accuracy"] or 0.0

    return ranking
