"""Stage report: write the HTML page of a run."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale.config.config import Config
from gscl_scale.config.graphs import TablesGraph
from gscl_scale.embed.store import fingerprint_in, open_embeddings
from gscl_scale.errors import GsclError
from gscl_scale.evaluate.schema import read_metrics
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources.node_cells import NodeCells, read_cells, shown_columns
from gscl_scale.report.agreement import have_same_nodes
from gscl_scale.report.compare_runs import neighbour_overlap, write_comparison
from gscl_scale.report.node_map import NodeMap, load_map
from gscl_scale.report.page import write_report
from gscl_scale.report.run_data import RunData
from gscl_scale.run.folder import Run
from gscl_scale.run.inputs import changed_inputs, input_state
from gscl_scale.run.log import read_curve, read_events
from gscl_scale.run.record import config_in, read_record
from gscl_scale.runtime.console import Console
from gscl_scale.shards.plan import read_manifest
from gscl_scale.stages.evaluate import stats
from gscl_scale.stages.finished import page_mark
from gscl_scale.stages.on_cluster import embedding_runner, run_stage
from gscl_scale.storage.urls import url_of
from gscl_scale.text import join_names, shortened

_MOST_COLUMNS = 12  # of the node table on the page


def report(config: Config, run: Run, console: Console) -> Path:
    """Write the page of a run; only a run with a graph of its own has a map."""
    with embedding_runner(config, run.folder) as runner:
        if runner is None:
            _report(config, run, console)
        else:
            run_stage(runner, _report, config, run, console)
    return run.report


def _report(config: Config, run: Run, console: Console) -> None:
    """Write the page in this process."""
    console.event("report", "started")
    write_report(run.report, load_run_data(config, run, console), page_mark(run))
    console.event("report", "done")


def report_runs(folders: dict[str, Path], path: Path, console: Console) -> None:
    """Write a page that compares finished runs, by the names given."""
    found, places = {}, {}
    for name, folder in folders.items():
        run = Run.found(folder)
        config = config_in(folder)
        found[name] = load_run_data(config, run, console, mapped=False)
        places[name] = _first(config, run).embeddings
    overlap = None
    if have_same_nodes(list(found.values())):
        with contextlib.ExitStack() as stack:
            opened = [
                stack.enter_context(open_embeddings(place, path.parent, f"run-{number}"))
                for number, place in enumerate(places.values())
            ]
            overlap = neighbour_overlap(opened)
    write_comparison(path, found, overlap)


def load_run_data(config: Config, run: Run, console: Console, mapped: bool = True) -> RunData:
    """Everything that the page of a run shows."""
    graph, first = Graph.open(run.graph), _first(config, run)
    mapped = mapped and run.graph.parent == run.folder and graph.num_nodes > 1
    nodes = _map(config, run, first, console) if mapped else None
    cells, notes_on_cells = _cells(config, run, graph, nodes.nodes) if nodes else ([], [])
    return RunData(
        metrics=read_metrics(run.metrics),
        statistics=stats(run),
        curve=read_curve(first.log),
        events=[*(read_events(run.log) if first != run else []), *read_events(first.log)],
        record=dict(read_record(run.folder)),
        samples=dict(read_manifest(first.samples)) if (first.samples / "manifest.json").exists() else None,
        notes=graph.manifest["notes"],
        graph=graph,
        nodes=nodes,
        cells=cells,
        notes_on_cells=notes_on_cells,
    )


def _first(config: Config, run: Run) -> Run:
    """The run, or its first repeat."""
    return run if config.train.repeats == 1 else run.repeat(config.train.seed)


def _map(config: Config, run: Run, first: Run, console: Console) -> NodeMap:
    with open_embeddings(first.embeddings, run.folder) as vectors:
        return load_map(run.map, vectors, fingerprint_in(first.embeddings), config.evaluate.seed, console)


def _cells(
    config: Config, run: Run, graph: Graph, nodes: npt.NDArray[np.int64]
) -> tuple[Sequence[NodeCells], list[str]]:
    """The first columns of the node table for nodes, and sentences about what is not there; the table may be gone."""
    if not isinstance(config.graph, TablesGraph) or config.graph.nodes is None:
        return [], []
    columns = shown_columns(config.graph, graph)
    left_out = [one["name"] for one in columns[_MOST_COLUMNS:]]
    reason = ""
    try:
        if url_of(config.graph.nodes):
            reason = "the node table is in an object store"
        elif changed := changed_inputs(config, read_record(run.folder).get("inputs", {}), input_state(config)):
            reason = f"{changed[0]} has changed since the graph was made from it"
        elif columns:
            found = read_cells(config.graph, graph, columns[:_MOST_COLUMNS], nodes)
            return found, [
                f"Columns of the node table that are not on the map: {join_names(left_out)}"
            ] if left_out else []
    except (GsclError, OSError, pa.ArrowException) as error:
        reason = shortened(error)
    return [], [f"No columns of the node table are on the map, because {reason}"] if reason else []
