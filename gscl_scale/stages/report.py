"""Stage report: write the HTML page of a run."""

import contextlib
from pathlib import Path

from gscl_scale.config.config import Config
from gscl_scale.embed.store import fingerprint_in, open_embeddings
from gscl_scale.evaluate.schema import read_metrics
from gscl_scale.graph.graph import Graph
from gscl_scale.report.compare_runs import neighbour_overlap, write_comparison
from gscl_scale.report.node_map import NodeMap, load_map
from gscl_scale.report.page import write_report
from gscl_scale.report.run_data import RunData
from gscl_scale.run.folder import Run
from gscl_scale.run.log import read_curve, read_events
from gscl_scale.run.record import config_in, read_record
from gscl_scale.runtime.console import Console
from gscl_scale.shards.plan import read_manifest
from gscl_scale.stages.evaluate import stats
from gscl_scale.stages.finished import page_mark


def report(config: Config, run: Run, console: Console) -> Path:
    """Write the page of a run; only a run with a graph of its own has a map."""
    console.event("report", "started")
    write_report(run.report, load_run_data(config, run, console), page_mark(run))
    console.event("report", "done")
    return run.report


def report_runs(folders: dict[str, Path], path: Path, console: Console) -> None:
    """Write a page that compares finished runs, by the names given."""
    found, places = {}, {}
    for name, folder in folders.items():
        run = Run.found(folder)
        config = config_in(folder)
        found[name] = load_run_data(config, run, console, mapped=False)
        places[name] = _first(config, run).embeddings
    overlap = None
    if len({one.statistics["graph_fingerprint"] for one in found.values()}) == 1:
        with contextlib.ExitStack() as stack:
            opened = [
                stack.enter_context(open_embeddings(place, path.parent, f"run-{number}"))
                for number, place in enumerate(places.values())
            ]
            overlap = neighbour_overlap(opened, seed=0)
    write_comparison(path, found, overlap)


def load_run_data(config: Config, run: Run, console: Console, mapped: bool = True) -> RunData:
    """Everything that the page of a run shows."""
    graph, first = Graph.open(run.graph), _first(config, run)
    mapped = mapped and run.graph.parent == run.folder and graph.num_nodes > 1
    return RunData(
        metrics=read_metrics(run.metrics),
        statistics=stats(run),
        curve=read_curve(first.log),
        events=[*(read_events(run.log) if first != run else []), *read_events(first.log)],
        record=dict(read_record(run.folder)),
        samples=dict(read_manifest(first.samples)) if (first.samples / "manifest.json").exists() else None,
        notes=graph.manifest["notes"],
        graph=graph,
        nodes=_map(config, run, first, console) if mapped else None,
    )


def _first(config: Config, run: Run) -> Run:
    """The run, or its first repeat."""
    return run if config.train.repeats == 1 else run.repeat(config.train.seed)


def _map(config: Config, run: Run, first: Run, console: Console) -> NodeMap:
    with open_embeddings(first.embeddings, run.folder) as vectors:
        return load_map(run.map, vectors, fingerprint_in(first.embeddings), config.evaluate.seed, console)
