"""Train a run on a graph that a Python program gives, as far as its embeddings."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gscl_scale.config.config import Config
from gscl_scale.errors import FolderError, GraphError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.held_out_edges import ALL_STAY, HeldOutEdges, HoldOut
from gscl_scale.graph.sources.given import Encodings, GivenGraph
from gscl_scale.io.atomic import publish_folder
from gscl_scale.run.folder import Run
from gscl_scale.run.record import claim, open_run, repeat_config
from gscl_scale.runtime.console import Console
from gscl_scale.stages.embed import embed
from gscl_scale.stages.ingest import ingest
from gscl_scale.stages.precompute import precompute
from gscl_scale.stages.train import refuse_untrainable, train


def fit_run(given: GivenGraph, values: Mapping[str, Any], folder: Path, console: Console) -> tuple[Config, Run]:
    """Train a run, or its first repeat; finished stages are skipped, and a graph other than that of the run refused.

    values   the settings, as plain values by section
    """
    config = config_for(given, values)
    whole = _bring_graph(given, config, folder, console)
    config, run = _first_repeat(config, whole)
    console = console.with_log(run.log)
    refuse_untrainable(config, run)
    precompute(config, run, console)
    train(config, run, console)
    embed(config, run, console)
    return config, run


def config_for(given: GivenGraph, values: Mapping[str, Any]) -> Config:
    """The configuration of a run on this graph."""
    section = values.get("graph") or {}
    return Config.parse({**values, "graph": given.section(section) if isinstance(section, Mapping) else section})


@contextlib.contextmanager
def graph_of(given: GivenGraph, config: Config, known: Encodings = None, asked: HoldOut = ALL_STAY) -> Iterator[Graph]:
    """The graph in its folder, or written into a temporary one; a node table with the encodings that are known."""
    if given.opened is not None:
        yield given.opened
        return
    assert given.draft is not None
    with temporary_folder() as folder:
        yield write_graph(given.draft(config.graph, known), config.graph, folder / "graph", asked)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="gscl-scale-") as folder:
        yield Path(folder)


def _bring_graph(given: GivenGraph, config: Config, folder: Path, console: Console) -> Run:
    """Claim the run folder and bring the graph into it."""
    if (folder / "graph/manifest.json").exists() and not given.in_files:
        whole = open_run(config, folder)
        _refuse_other_graph(given, config, whole)
        return whole
    draft = None  # read before the folder is claimed, in which a refused graph leaves nothing
    if given.draft is not None and not given.in_files:
        draft = given.draft(config.graph, None)
    if given.opened is None:
        whole = open_run(config, folder)
        ingest(config, whole, console, draft)
        return whole
    _refuse_without_held_out(given.opened, config)
    whole = open_run(config, folder)
    with publish_folder(whole.graph) as copy:
        shutil.copytree(given.opened.folder, copy, dirs_exist_ok=True)
    return whole


def _first_repeat(config: Config, whole: Run) -> tuple[Config, Run]:
    if config.train.repeats == 1:
        return config, whole
    config = repeat_config(config, 0)
    return config, claim(config, whole.repeat(config.train.seed))


def _refuse_other_graph(given: GivenGraph, config: Config, run: Run) -> None:
    """Refuse a graph other than the one that the run was made from."""
    with graph_of(given, config, asked=HoldOut.of(config.evaluate)) as graph:
        if graph.fingerprint != Graph.open(run.graph).fingerprint:
            raise FolderError(f"{run.folder} was made from another graph; choose another folder, or delete it")


def _refuse_without_held_out(graph: Graph, config: Config) -> None:
    """Refuse a finished graph with all edges where some are to be held out, or with labels that are not shuffled."""
    shuffle = config.evaluate.shuffle_labels
    if shuffle is not None and graph.manifest.get("shuffled_labels") != shuffle:
        raise GraphError(
            f"evaluate.shuffle_labels: {graph.folder} was ingested with other labels; ingest it with this config, or "
            "leave it out"
        )
    if config.evaluate.held_out_edges and HeldOutEdges.of(graph) is None:
        raise GraphError(
            f"evaluate.held_out_edges: {graph.folder} was ingested with all edges; ingest it with this config, or set "
            "it to 0"
        )
