"""Stage evaluate: figures of the embeddings, and statistics of the graph."""

import contextlib
import functools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from gscl_scale.config.config import Config
from gscl_scale.config.identity import deciding_values
from gscl_scale.embed.layers import EncodingSettings, encode_nodes
from gscl_scale.embed.store import open_embeddings
from gscl_scale.evaluate.graph_statistics import SavedStatistics, read_statistics, statistics
from gscl_scale.evaluate.run import evaluate_run
from gscl_scale.evaluate.schema import METHODS, Method, Metrics
from gscl_scale.evaluate.similarity import ring_lists
from gscl_scale.evaluate.validation import selection_of
from gscl_scale.evaluate.vectors import Vectors
from gscl_scale.graph.graph import Graph
from gscl_scale.io.checksum import fingerprint_of
from gscl_scale.io.json import write_json
from gscl_scale.model.device import chosen_device
from gscl_scale.model.model import build_model
from gscl_scale.model.scaling import Scaling
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import Runner
from gscl_scale.shards.reader import Samples
from gscl_scale.stages.collapse import cure_of
from gscl_scale.stages.finished import figures_made_from, known_figures
from gscl_scale.stages.on_cluster import embedding_runner, run_stage
from gscl_scale.stages.selection import reported_anchors, selection_kind


@contextlib.contextmanager
def _untrained(
    config: Config, run: Run, graph: Graph, console: Console, runner: Runner | None = None
) -> Iterator[npt.NDArray[np.float32]]:
    """The vectors of the encoder with its initial weights."""
    first = build_model(config.model, graph.feature_blocks, config.train.seed)
    scaling = Scaling.of(graph.features, config.model.feature_scaling)
    fingerprint = fingerprint_of(["untrained", deciding_values(config.model, "training"), config.train.seed])
    place = EncodingSettings.of(config.runtime, run.folder / ".untrained", fingerprint, "evaluate")
    with encode_nodes(first.encoder, graph, scaling, place, console, runner) as vectors:
        yield vectors


def evaluate(config: Config, run: Run, console: Console, measured: Sequence[Method] = METHODS) -> Metrics:
    """Figures of the embeddings, and of the input features and the untrained encoder where these are `measured`."""
    if (known := known_figures(config, run)) is not None:
        return known
    with embedding_runner(config, run.folder) as runner:
        if runner is None:
            return _evaluate(config, run, console, measured)
        with _untrained(config, run, Graph.open(run.graph), console, runner):  # the task finds them computed
            return run_stage(runner, functools.partial(_evaluate, measured=measured), config, run, console)


def _evaluate(config: Config, run: Run, console: Console, measured: Sequence[Method]) -> Metrics:
    """Measure and store the figures in this process."""
    made_from, validated = figures_made_from(config, run), bool(config.train.validate_every)
    graph, device = Graph.open(run.graph), chosen_device(config.runtime)
    by_labels = validated and selection_kind(config, graph) == "probe"
    rings = None
    if config.train.reads_samples:
        samples = Samples.open(run.samples).round(0)
        samples.check_nodes(graph.num_nodes)
        rings = ring_lists(samples, graph, config.evaluate, reported_anchors(config, graph))
    console.event("evaluate", "started")
    with contextlib.ExitStack() as opened:
        vectors: dict[Method, Vectors] = {"trained": opened.enter_context(open_embeddings(run.embeddings, run.folder))}
        if "untrained" in measured:
            vectors["untrained"] = opened.enter_context(_untrained(config, run, graph, console))
        if "raw" in measured:
            vectors["raw"] = graph.features
        metrics = evaluate_run(
            graph, vectors, rings, config.evaluate, device, config.train.label_seed, console,
            selection_of(graph, config.evaluate, by_labels, config.train.label_seed),
        )  # fmt: skip
    found, width = metrics["spread"]["trained"], metrics["width"]["trained"]
    if cure := cure_of(found, width, config, graph, lambda: metrics["spread"].get("untrained")):
        metrics["cure"] = cure
    metrics["made_from"] = made_from
    write_json(run.metrics, metrics)
    console.event("evaluate", "done", metrics={"probe": metrics.get("probe"), "clusters": metrics.get("clusters")})
    return metrics


def stats(run: Run, anchors: int | None = None) -> SavedStatistics:
    """Statistics of the graph, measured once per sample size and stored in the run folder of the graph.

    Those of an earlier version, without the consistency over the rings that are there, are measured again.
    """
    path = run.graph.parent / f"statistics{f'-{anchors}' if anchors else ''}.json"
    graph = Graph.open(run.graph)
    if path.exists():
        known = read_statistics(path)
        if known["graph_fingerprint"] == graph.fingerprint and "consistency" in known:
            return known
    result: SavedStatistics = {**statistics(graph, anchors=anchors), "graph_fingerprint": graph.fingerprint}
    write_json(path, result)
    return result
