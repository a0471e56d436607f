"""THE STORY: graph -> rings -> shards -> batches -> model -> train -> embed -> evaluate -> report.

Every stage reads the run folder, does its part, and records that it is finished; a finished stage is skipped.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale import embed as embeddings
from gscl_scale import shards
from gscl_scale.batches import held_out
from gscl_scale.config import Config
from gscl_scale.errors import FolderError
from gscl_scale.evaluate import (
    combine_repeats,
    evaluate_run,
    read_metrics,
    read_statistics,
    ring_lists,
    selection_of,
    statistics,
)
from gscl_scale.files import fingerprint_of, sha256_of, write_json
from gscl_scale.graph import Draft, Graph, write_graph
from gscl_scale.graph.estimate import read_if_it_fits
from gscl_scale.ids import asked_nodes
from gscl_scale.inputs import changed_inputs, input_state, with_checksums
from gscl_scale.logs import read_curve, read_events
from gscl_scale.model import build_model, chosen_device
from gscl_scale.model.encoder import Encoder
from gscl_scale.model.scaling import Scaling, notes_on
from gscl_scale.report import Findings, NodeMap, kept_map, neighbour_overlap, write_comparison, write_report
from gscl_scale.runs import (
    Run,
    claim,
    config_in,
    forget,
    open_run,
    read_record,
    with_seed,
)
from gscl_scale.runtime import Console, start_runner
from gscl_scale.train import fill
from gscl_scale.training import checkpoints_of, refuse_untrainable, train


def run(config: Config, folder: Path, console: Console, pages: bool = True) -> dict[str, Any]:
    """The whole story, once or once per repeat, with pages to look at or without; returns the figures."""
    for one, part, told in each_repeat(config, folder, console):
        if config.train.repeats > 1:
            console.say(f"seed {one.train.seed} (of {config.train.repeats} repeats)")
        refuse_untrainable(one, part)
        precompute(one, part, told)
        train(one, part, told)
        embed(one, part, told)
        evaluate(one, part, told)
        if pages:
            report(one, part, told)
    metrics = evaluate_all(config, folder, console)
    if pages and config.train.repeats > 1:
        report_repeats(config, folder, console)
    return metrics


def evaluate_all(config: Config, folder: Path, console: Console) -> dict[str, Any]:
    """The figures of a run; of one with repeats their means."""
    figures = [evaluate(one, part, told) for one, part, told in each_repeat(config, folder, console)]
    if len(figures) == 1:
        return figures[0]
    whole = Run.at(folder)
    metrics = combine_repeats(figures)
    write_json(whole.metrics, metrics)
    return metrics


def report_repeats(config: Config, folder: Path, console: Console) -> Path:
    """The page of a run with repeats: means of all, and the curves and the map of the first."""
    whole = Run.at(folder)
    return report(config, whole, console.with_log(whole.log))


def each_repeat(config: Config, folder: Path, console: Console) -> Iterator[tuple[Config, Run, Console]]:
    """Claim a run folder, bring the graph, and yield the run, or each of its repeats, for a stage to work on."""
    whole = open_run(config, folder)
    ingest(config, whole, console)
    if config.train.repeats == 1:
        yield config, whole, console.with_log(whole.log)
        return
    for number in range(config.train.repeats):
        one = with_seed(config, number)
        part = claim(one, whole.repeat(one.train.seed))
        yield one, part, console.with_log(part.log)


# --- graph -----------------------------------------------------------------------------------------------------------


def ingest(config: Config, run: Run, console: Console, draft: Draft | None = None) -> Graph:
    """Bring the graph into its folder."""
    inputs = input_state(config)
    if (run.graph / "manifest.json").exists():
        for path in changed_inputs(config, read_record(run.folder).get("inputs", {}), inputs):
            raise FolderError(
                f"{path} has changed since {run.graph} was made from it; "
                f"choose another --run, or delete {run.folder} to start again"
            )
        graph = Graph.open(run.graph)
        graph.verify()
        return graph
    console = console.with_log(run.log)
    console.event("ingest", "started", source=config.graph.source)
    record = {**read_record(run.folder), "inputs": inputs}  # before the graph: it is never of unknown inputs
    write_json(run.folder / "run.json", record)
    try:
        draft = draft or read_if_it_fits(config.graph, run.graph, console.say)
        graph = write_graph(draft, config.graph, run.graph)
    finally:
        if not run.graph.exists():
            forget(run)
    done = {"inputs": with_checksums(inputs), "graph_fingerprint": graph.fingerprint}
    write_json(run.folder / "run.json", {**record, **done})
    edges = graph.indices.size // 2 if graph.undirected else graph.indices.size
    console.say(
        f"graph {graph.name}: {graph.num_nodes:,} nodes, {edges:,} {'un' * graph.undirected}directed edges, "
        f"{graph.num_features:,} features, {len(graph.classes)} classes"
    )
    for note in [*graph.manifest["notes"], *notes_on(graph.features, config.model.feature_scaling)]:
        console.say(f"  {note}")
    console.event("ingest", "done", nodes=graph.num_nodes, entries=graph.indices.size, fingerprint=graph.fingerprint)
    return graph


# --- rings and shards ------------------------------------------------------------------------------------------------


def precompute(config: Config, run: Run, console: Console, verify: bool = False, since: Path | None = None) -> None:
    """Sample the rings of every node; `verify` compares finished files with their checksums and repairs them.

    With `since`, the folder of an earlier run, only the anchors near a change of the graph are sampled again.
    """
    if not config.train.reads_samples:
        console.say(f"{config.train.objective} is trained without ring samples: none are made")
        return
    graph = Graph.open(run.graph)
    if not verify and shards.is_complete(run.samples, graph, config.rings, config.train.epochs):
        return
    console.event("precompute", "started")
    with start_runner(config.runtime.for_tasks()) as runner:
        earlier = Run.at(since).repeat_like(run) if since else None
        before = (earlier.graph, earlier.samples) if earlier else None
        shards.precompute(run.graph, run.samples, config.rings, config.train.epochs, runner, console, before)


# --- embed, evaluate, report -----------------------------------------------------------------------------------------


def embed(
    config: Config,
    run: Run,
    console: Console,
    other: Path | None = None,
    out: Path | None = None,
    towards: Run | None = None,
) -> Path:
    """Embed all nodes with the frozen encoder: of the run's graph, or of `other`, a graph folder with like features.

    With `towards`, an earlier run, the embeddings are turned into the space of those, and so are later ones of this
    run. Returns the folder of the embeddings: `out`, or the run's.
    """
    checkpoints, folder = checkpoints_of(config, run), out or run.embeddings
    state, position = checkpoints.chosen()
    trained_on = Graph.open(run.graph)
    graph = Graph.open(other) if other else trained_on
    graph.refuse_other_features(trained_on.num_features, trained_on.feature_columns, str(graph.folder))
    made_from = [checkpoints.fingerprint, position.step, *([graph.fingerprint] if other else [])]
    fingerprint = _with_rotation(made_from, run)
    if embeddings.is_complete(folder, fingerprint, config.runtime.npy):
        embeddings.clear_away(folder)
        return folder
    if out:
        embeddings.refuse_taken(out)
    console.event("embed", "started")
    encoder, scaling = trained_encoder(config, trained_on, state, checkpoints.folder)
    place = embeddings.Workplace.of(config.runtime, embeddings.scratch_folder(folder), fingerprint, "embed")
    with embeddings.encode_nodes(encoder, graph, scaling, place, console) as vectors:
        if towards and not run.rotation.exists():
            _turn(run, towards, graph, vectors)
            fingerprint = _with_rotation(made_from, run)
        rotation = embeddings.read_rotation(run.rotation)
        embeddings.write_embeddings(folder, graph, vectors, fingerprint, config.runtime.npy, rotation)
    console.event("embed", "done", rows=vectors.shape[0], width=vectors.shape[1], epoch=position.epoch)
    return folder


def copy_embeddings(folder: Path, file: Path, ids: Path | None = None) -> None:
    """Copy embeddings into a .npy or .parquet file: all, or those of the ids in a file, in their order."""
    made = embeddings.Embeddings(folder)
    embeddings.export(made, file, asked_nodes(made.ids, None, ids, str(folder)))


def trained_encoder(config: Config, graph: Graph, state: dict[str, Any], where: Path) -> tuple[Encoder, Scaling]:
    """The encoder of a checkpoint, and how it reads features: as those of the graph that it was trained on."""
    model = build_model(config.model, graph.num_features, config.train.seed)
    fill(model, state.get("model"), where)
    return model.encoder, Scaling.of(graph.features, config.model.feature_scaling)


def _with_rotation(made_from: list[Any], run: Run) -> str:
    """What embeddings are made from: their rotation too, where the run has one."""
    return fingerprint_of([*made_from, *([sha256_of(run.rotation)] if run.rotation.exists() else [])])


def _turn(run: Run, towards: Run, graph: Graph, vectors: npt.NDArray[np.float32]) -> None:
    """Find the rotation of a run's embeddings into the space of an earlier run, if both have the same width."""
    common = embeddings.common_nodes(Graph.open(towards.graph), graph)
    target = embeddings.take_rows(towards.embeddings, common.earlier)
    if target.shape[1] == vectors.shape[1] and common.later.size:
        embeddings.write_rotation(run.rotation, embeddings.best_rotation(vectors[common.later], target))


@contextlib.contextmanager
def _untrained(config: Config, run: Run, graph: Graph, console: Console) -> Iterator[npt.NDArray[np.float32]]:
    """What the encoder gives with its first weights."""
    first = build_model(config.model, graph.num_features, config.train.seed)
    scaling = Scaling.of(graph.features, config.model.feature_scaling)
    fingerprint = fingerprint_of(["untrained", config.model.model_dump(mode="json"), config.train.seed])
    place = embeddings.Workplace.of(config.runtime, run.folder / ".untrained", fingerprint, "evaluate")
    with embeddings.encode_nodes(first.encoder, graph, scaling, place, console) as vectors:
        yield vectors


def evaluate(config: Config, run: Run, console: Console) -> dict[str, Any]:
    """Figures of the embeddings, beside raw features and the untrained encoder."""
    validated = bool(config.train.validate_every)
    chosen = validated or bool(config.evaluate.tuned_on)
    made_from = {
        "embeddings": embeddings.fingerprint_in(run.embeddings),
        "evaluate": config.evaluate.model_dump(mode="json"),
        **({"selection": "left out"} if chosen else {}),  # older figures are with these nodes, and are measured again
    }
    if run.metrics.exists() and (metrics := read_metrics(run.metrics)).get("made_from") == made_from:
        return metrics
    graph, device = Graph.open(run.graph), chosen_device(config.runtime)
    rings = None
    if config.train.reads_samples:
        out = np.flatnonzero(held_out(graph, config.train.held_out, config.train.seed))
        samples = shards.Samples.open(run.samples).round(0)
        samples.check_nodes(graph.num_nodes)
        rings = ring_lists(samples, graph, config.evaluate, out)
    console.event("evaluate", "started")
    with (
        embeddings.open_embeddings(run.embeddings, run.folder) as trained,
        _untrained(config, run, graph, console) as untrained,
    ):
        vectors = {"trained": trained, "untrained": untrained, "raw": graph.features}
        metrics = evaluate_run(
            graph, vectors, rings, config.evaluate, device, config.train.learnt, console,
            selection_of(graph, config.evaluate, validated, config.train.learnt),
        )  # fmt: skip
    metrics["made_from"] = made_from
    write_json(run.metrics, metrics)
    console.event("evaluate", "done", metrics={"probe": metrics.get("probe"), "clusters": metrics.get("clusters")})
    return metrics


def stats(run: Run, anchors: int | None = None) -> dict[str, Any]:
    """Statistics of the graph; kept in the graph's run folder and made once per sample size."""
    path = run.graph.parent / f"statistics{f'-{anchors}' if anchors else ''}.json"
    graph = Graph.open(run.graph)
    if path.exists() and (known := read_statistics(path))["graph_fingerprint"] == graph.fingerprint:
        return known
    result = {**statistics(graph, anchors=anchors), "graph_fingerprint": graph.fingerprint}
    write_json(path, result)
    return result


def report(config: Config, run: Run, console: Console) -> Path:
    """One page to look at; those of single repeats have no map."""
    console.event("report", "started")
    write_report(run.report, findings(config, run, console))
    console.event("report", "done")
    return run.report


def report_runs(folders: dict[str, Path], path: Path, console: Console) -> None:
    """One page that compares finished runs, by the names that they go by."""
    found, places = {}, {}
    for name, folder in folders.items():
        run = Run.found(folder)
        config = config_in(folder)
        found[name] = findings(config, run, console, mapped=False)
        places[name] = _first(config, run).embeddings
    overlap = None
    if len({one.statistics["graph_fingerprint"] for one in found.values()}) == 1:
        with contextlib.ExitStack() as stack:
            opened = [
                stack.enter_context(embeddings.open_embeddings(place, path.parent, f"run-{number}"))
                for number, place in enumerate(places.values())
            ]
            overlap = neighbour_overlap(opened, seed=0)
    write_comparison(path, found, overlap)


def findings(config: Config, run: Run, console: Console, mapped: bool = True) -> Findings:
    """What the page of a run tells."""
    graph, first = Graph.open(run.graph), _first(config, run)
    mapped = mapped and run.graph.parent == run.folder and graph.num_nodes > 1
    return Findings(
        metrics=read_metrics(run.metrics),
        statistics=stats(run),
        curve=read_curve(first.log),
        events=[*(read_events(run.log) if first != run else []), *read_events(first.log)],
        record=read_record(run.folder),
        samples=shards.read_manifest(first.samples) if (first.samples / "manifest.json").exists() else None,
        notes=graph.manifest["notes"],
        graph=graph,
        nodes=_map(config, run, first, console) if mapped else None,
    )


def _first(config: Config, run: Run) -> Run:
    """The run, or its first repeat."""
    return run if config.train.repeats == 1 else run.repeat(config.train.seed)


def _map(config: Config, run: Run, first: Run, console: Console) -> NodeMap:
    with embeddings.open_embeddings(first.embeddings, run.folder) as vectors:
        return kept_map(run.map, vectors, embeddings.fingerprint_in(first.embeddings), config.evaluate.seed, console)
