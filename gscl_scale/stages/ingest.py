"""Stage ingest: bring the graph into its folder."""

import functools
from collections.abc import Callable, Sequence

from gscl_scale.config.config import Config
from gscl_scale.errors import FolderError
from gscl_scale.graph.column_table import column_lines
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.graph.estimate import has_sections, is_large, memory_of_tasks, read_if_it_fits
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.held_out_edges import HoldOut
from gscl_scale.graph.types import ColumnEncoding
from gscl_scale.io.atomic import scratch_folder
from gscl_scale.io.json import write_json
from gscl_scale.model.scaling import notes_on
from gscl_scale.run.folder import Run
from gscl_scale.run.inputs import Inputs, changed_inputs, input_state, with_checksums
from gscl_scale.run.record import delete_claimed, read_record
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.runner import Runner, start_runner
from gscl_scale.text import counted


def ingest(
    config: Config,
    run: Run,
    console: Console,
    draft: GraphDraft | None = None,
    preferred: Sequence[ColumnEncoding] = (),
) -> Graph:
    """Bring the graph into its folder; a node table with the encodings of an earlier graph, if they fit its columns."""
    inputs = input_state(config)
    if (run.graph / "manifest.json").exists():
        for path in changed_inputs(config, read_record(run.folder).get("inputs", {}), inputs):
            raise FolderError(
                f"{path} has changed since {run.graph} was made from it; "
                f"choose another --run, or gscl-scale run with --overwrite, which reads it again"
            )
        graph = Graph.open(run.graph)
        graph.verify()
        return graph
    console = console.with_log(run.log)
    console.event("ingest", "started", source=config.graph.source)
    record = {**read_record(run.folder), "inputs": inputs}  # first, so that no graph has unknown inputs
    write_json(run.folder / "run.json", record)
    try:
        file_bytes = sum(size for size, *_ in inputs.values())
        large = draft is None and is_large(config.graph, file_bytes)
        if large and config.runtime.engine == "ray":
            write = _write_by_tasks if has_sections(config.graph) else _write_on_cluster
            write(config, run, console, preferred)
        else:
            say = console.say if large else _nothing  # a small graph is read before the lines are
            _write(config, run, console, draft, preferred, say=say)
    finally:
        if not run.graph.exists():
            delete_claimed(run)
    graph = Graph.open(run.graph)
    done = {"inputs": with_checksums(inputs), "graph_fingerprint": graph.fingerprint}
    write_json(run.folder / "run.json", {**record, **done})
    edges = graph.indices.size // 2 if graph.undirected else graph.indices.size
    one = f"{'un' * graph.undirected}directed edge"
    labels = counted(len(graph.classes), *(("class", "classes") if graph.label_sets is None else ("label", "labels")))
    console.say(
        f"graph {graph.name}: {counted(graph.num_nodes, 'node', 'nodes')}, {counted(edges, one, f'{one}s')}, "
        f"{counted(graph.num_features, 'feature', 'features')}, {labels if graph.classes else 'no labels'}"
    )
    for line in column_lines(graph.manifest.get("columns", [])):
        console.say(line)
    for note in [*graph.manifest["notes"], *notes_on(graph.features, config.model.feature_scaling)]:
        console.say(f"  {note}")
    console.event("ingest", "done", nodes=graph.num_nodes, entries=graph.indices.size, fingerprint=graph.fingerprint)
    return graph


def _write(
    config: Config,
    run: Run,
    console: Console,
    draft: GraphDraft | None = None,
    preferred: Sequence[ColumnEncoding] = (),
    runner: Runner | None = None,
    say: Callable[[str], None] | None = None,
) -> None:
    with scratch_folder(run.folder.absolute(), "source") as scratch:
        draft = draft or read_if_it_fits(config.graph, run.graph, say or console.say, preferred, scratch, runner)
        write_graph(draft, config.graph, run.graph, HoldOut.of(config.evaluate), console, runner)
        del draft  # its arrays may be mapped from the folder that is removed now


def _nothing(_: str) -> None:
    """Say nothing."""


def _write_by_tasks(config: Config, run: Run, console: Console, preferred: Sequence[ColumnEncoding]) -> None:
    """Read the nodes here, and the edges by tasks on all machines."""
    with start_runner(config.runtime.for_tasks()) as runner:
        runner.check_shared(run.folder.absolute(), memory_of_tasks(config.graph))
        _write(config, run, console, preferred=preferred, runner=runner)


def _write_on_cluster(config: Config, run: Run, console: Console, preferred: Sequence[ColumnEncoding]) -> None:
    """Write the graph on a machine that sees the source as this one does, which may be small; here where none does."""
    from gscl_scale.stages.on_cluster import run_stage  # with torch

    with start_runner(config.runtime.for_tasks()) as runner:
        runner.check_shared(run.folder.absolute())
        if (here := _source_state(config, run, console)) and run_stage(
            runner, _source_state, config, run, console
        ) == here:
            run_stage(runner, functools.partial(_write, preferred=preferred), config, run, console)
            return
    console.say("the machines of the Ray cluster do not see the source of the graph as this one does: it is read here")
    _write(config, run, console, preferred=preferred)


def _source_state(config: Config, run: Run, console: Console) -> Inputs:
    """What a machine sees of the source; nothing where it would have to be downloaded."""
    path = getattr(config.graph, "path", None)
    return input_state(config) or ({} if path and not path.exists() else {config.graph.source: []})
