"""Embed a graph with a peer and measure the rows as those of a trained encoder; what is finished is not done again."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from gscl_scale import machine
from gscl_scale.config.config import Config
from gscl_scale.config.identity import deciding_values
from gscl_scale.config.section import RESULTS
from gscl_scale.embed.store import is_complete, open_embeddings, write_embeddings
from gscl_scale.errors import ConfigError
from gscl_scale.evaluate.links import by_cosine, validation_auc
from gscl_scale.evaluate.run import evaluate_run
from gscl_scale.evaluate.schema import MadeFrom, Metrics, read_metrics
from gscl_scale.evaluate.validation import selection_of
from gscl_scale.graph.graph import Graph
from gscl_scale.io.checksum import fingerprint_of
from gscl_scale.io.json import write_json
from gscl_scale.model.device import chosen_device
from gscl_scale.report.compare_methods import MethodCost
from gscl_scale.run.folder import Run
from gscl_scale.run.log import read_events
from gscl_scale.runtime.console import Console
from gscl_scale.studies.figures import refuse_unmeasured
from gscl_scale.studies.peers.factorisation import Rows
from gscl_scale.studies.peers.table import PEERS, Settings, Structure, combinations, peer_settings, plain_settings

_REVISION = 1  # of the peers: higher where their rows are no longer the same


def is_measured(config: Config, name: str, run: Run) -> bool:
    """Whether a peer has been measured with the settings that it has now."""
    return run.metrics.exists() and read_metrics(run.metrics).get("made_from", {}).get("embeddings") == _identity(
        config, name
    )


def measure_peer(config: Config, name: str, run: Run, console: Console) -> Metrics:
    """The figures of a peer, with the splits, the probe and the selection of trained encoders."""
    graph = Graph.open(run.graph)
    made_from: MadeFrom = {
        "embeddings": _identity(config, name),
        "evaluate": deciding_values(config.evaluate, *RESULTS, first_revision=2),
    }
    validated = bool(config.train.validate_every)
    if validated:  # its nodes are no test nodes for a peer either: all rows have the same
        made_from["selection"] = "left out"
    if run.metrics.exists():
        metrics = read_metrics(run.metrics)
        if metrics.get("made_from") == made_from and metrics["graph"]["fingerprint"] == graph.fingerprint:
            return metrics
    _embed(config, name, run, graph, console)
    with open_embeddings(run.embeddings, run.folder) as rows:
        metrics = evaluate_run(
            graph, {"trained": rows}, None, config.evaluate, chosen_device(config.runtime), None, console,
            selection_of(graph, config.evaluate, validated),
        )  # fmt: skip
    refuse_unmeasured(metrics, graph, config.evaluate)
    metrics["made_from"] = made_from
    write_json(run.metrics, metrics)
    return metrics


def peer_cost(runs: list[Run]) -> MethodCost:
    """Mean seconds of embedding over the seeds, on the clock and of all cores, and the most memory, by their logs."""
    logged = [_last_embedding(run) for run in runs]
    return {
        "training_s": sum(event["seconds"] for event in logged) / len(logged),
        "cpu_s": sum(event["cpu_s"] for event in logged) / len(logged),
        "peak_bytes": max(event["peak_bytes"] for event in logged),
    }


def chosen_settings(runs: list[Run]) -> list[dict[str, float]]:
    """The combination of several values that was chosen for each seed; none where there was no choice."""
    return [chosen for run in runs if (chosen := _last_embedding(run).get("chosen"))]


def peer_note(graph: Graph) -> str:
    """What a reader of a comparison has to know of its peers."""
    both_ways = "" if graph.undirected else "; the edges of this directed graph are followed both ways"
    return (
        f"embeddings of the structure alone, without features and without an encoder; training is embedding{both_ways}"
    )


def structure_of(graph: Graph) -> Structure:
    """The edges of a graph in both directions, with their weights or ones."""
    given, indices = graph.edge_weights, np.array(graph.indices)
    values = np.ones(indices.size, np.float32) if given is None else np.array(given)
    adjacency = sp.csr_array((values, indices, graph.indptr), shape=(graph.num_nodes,) * 2)
    if not graph.undirected:
        adjacency = sp.csr_array(adjacency + adjacency.T)
        adjacency.data[:] = 1 if given is None else adjacency.data
        adjacency.sort_indices()
    return Structure(adjacency, graph.identities())


def embed_peer(name: str, graph: Structure, settings: Settings, seed: int, console: Console) -> Rows:
    """Rows [N, width] of a peer; nodes without neighbours, and columns that a small graph cannot fill, have zeros."""
    rows = np.zeros((graph.identities.size, int(settings["width"])), np.float32)
    found = PEERS[name].embed(graph, settings, seed, console)
    rows[:, : found.shape[1]] = found
    rows[np.diff(graph.adjacency.indptr) == 0] = 0
    return rows


def _embed(config: Config, name: str, run: Run, graph: Graph, console: Console) -> None:
    fingerprint = fingerprint_of([_identity(config, name), graph.fingerprint])
    if is_complete(run.embeddings, fingerprint, config.runtime.npy):
        return
    choices, seed = combinations(peer_settings(config, name)), config.train.seed
    figure = _figure_of_choice(config, name, graph) if len(choices) > 1 else None
    structure, best, highest = structure_of(graph), None, -math.inf
    _warm_up(name, choices[0])
    machine.reset_peak_memory()
    seconds = cpu_s = 0.0
    for settings in choices:
        began, cpu_began = time.monotonic(), machine.cpu_seconds()
        rows = embed_peer(name, structure, settings, seed, console)
        seconds, cpu_s = seconds + time.monotonic() - began, cpu_s + machine.cpu_seconds() - cpu_began
        value = figure(rows) if figure else 0.0
        if value > highest:
            best, chosen, highest = rows, settings, value
    assert best is not None
    console.event(
        "compare", "embedded", seconds=seconds, cpu_s=cpu_s, peak_bytes=machine.peak_memory(),
        chosen=chosen if figure else None,
    )  # fmt: skip
    write_embeddings(run.embeddings, graph, best, fingerprint, config.runtime.npy)


def _figure_of_choice(config: Config, name: str, graph: Graph) -> Callable[[Rows], float]:
    """The figure that chooses among several values of a setting: no figure that is reported reads its edges."""
    figure = validation_auc(graph, config.evaluate.seed)
    if figure is None:
        raise ConfigError(
            f"compare.settings: {name}: of several values of a setting, held-out edges choose one, and no edges are "
            "held out; give one value, or use a new run folder (--run) and add --set evaluate.held_out_edges=0.1"
        )
    return lambda rows: figure(by_cosine(rows))


def _warm_up(name: str, settings: Settings) -> None:
    """Embed an edge: kernels are compiled, and libraries loaded, before time is taken."""
    edge = sp.csr_array(np.array([[0, 1], [1, 0]], np.float32))
    embed_peer(name, Structure(edge, np.arange(2, dtype=np.uint64)), settings, 0, Console(quiet=True))


def _last_embedding(run: Run) -> dict[str, Any]:
    events = [event for event in read_events(run.log) if event["event"] == "embedded"]
    return events[-1] if events else {"seconds": 0.0, "cpu_s": 0.0, "peak_bytes": 0}


def _identity(config: Config, name: str) -> str:
    settings = plain_settings(peer_settings(config, name))
    return fingerprint_of([_REVISION, name, settings, config.train.seed])
