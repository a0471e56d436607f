"""THE STORY: graph -> rings -> shards -> batches -> model -> train -> embed -> evaluate -> report.

Every stage reads the run folder, does its part, and records that it is finished; a finished stage is skipped.
"""

import contextlib
import hashlib
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale import embed as embeddings
from gscl_scale import shards
from gscl_scale.batches import BatchStream, FieldMaker, Share, steps_per_epoch
from gscl_scale.config import Config
from gscl_scale.errors import ConfigError, DivergedError, FolderError, GraphError, PeerError, StoppedError
from gscl_scale.evaluate import combine_repeats, evaluate_run, make_splits, probe, ring_lists, statistics
from gscl_scale.files import fingerprint_of, read_json, write_json
from gscl_scale.graph import Draft, Graph, Messages, write_graph
from gscl_scale.graph.estimate import read_if_it_fits
from gscl_scale.machine import keep_freed_memory
from gscl_scale.model import Inputs, MappedFeatures, Model, build_model, prepare_inputs
from gscl_scale.model.scaling import Scaling
from gscl_scale.report import write_report
from gscl_scale.runs import Run, claim, forget, input_state, open_run, read_curve, with_seed
from gscl_scale.runtime import Console, Runner, RunnerSettings, TrainingSettings, start_runner, train_together
from gscl_scale.train import Checkpoints, Trainer, Training, Validate, World, encode_all, join_world, shown

if TYPE_CHECKING:
    from torch_geometric.data import Data


def run(config: Config, folder: Path, console: Console) -> dict[str, Any]:
    """The whole story, once or once per repeat; returns the figures."""
    for one, part, told in each_repeat(config, folder, console):
        if config.train.repeats > 1:
            console.say(f"seed {one.train.seed} (of {config.train.repeats} repeats)")
        precompute(one, part, told)
        train(one, part, told)
        embed(one, part, told)
        evaluate(one, part, told)
        report(one, part, told)
    return evaluate_all(config, folder, console)


def evaluate_all(config: Config, folder: Path, console: Console) -> dict[str, Any]:
    """The figures of a run; of one with repeats their means, with a report of its own."""
    figures = [evaluate(one, part, told) for one, part, told in each_repeat(config, folder, console)]
    if len(figures) == 1:
        return figures[0]
    whole = Run.at(folder)
    metrics = combine_repeats(figures)
    write_json(whole.metrics, metrics)
    report(config, whole, console)
    return metrics


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
        before = read_json(run.folder / "run.json").get("inputs", {})
        for path in inputs:
            if path in before and before[path] != inputs[path]:
                raise FolderError(
                    f"{path} has changed since {run.graph} was made from it; "
                    f"choose another --run, or delete {run.folder} to start again"
                )
        return Graph.open(run.graph)
    console = console.with_log(run.log)
    console.event("ingest", "started", source=config.graph.source)
    try:
        draft = draft or read_if_it_fits(config.graph, run.graph, console.say)
        graph = write_graph(draft, config.graph, run.graph)
    finally:
        if not run.graph.exists():
            forget(run)
    record = read_json(run.folder / "run.json")
    write_json(run.folder / "run.json", {**record, "inputs": inputs, "graph_fingerprint": graph.fingerprint})
    edges = graph.indices.size // 2 if graph.undirected else graph.indices.size
    console.say(
        f"graph {graph.name}: {graph.num_nodes:,} nodes, {edges:,} {'un' * graph.undirected}directed edges, "
        f"{graph.num_features:,} features, {len(graph.classes)} classes"
    )
    for note in graph.manifest["notes"]:
        console.say(f"  {note}")
    console.event("ingest", "done", nodes=graph.num_nodes, entries=graph.indices.size, fingerprint=graph.fingerprint)
    return graph


# --- rings and shards ------------------------------------------------------------------------------------------------


def precompute(config: Config, run: Run, console: Console, verify: bool = False, since: Path | None = None) -> None:
    """Sample the rings of every node; `verify` compares finished files with their checksums and repairs them.

    With `since`, the folder of an earlier run, only the anchors near a change of the graph are sampled again.
    """
    graph = Graph.open(run.graph)
    if not verify and shards.is_complete(run.samples, graph, config.rings, config.train.epochs):
        return
    with start_runner(_runner_settings(config)) as runner:
        earlier = Run.at(since).repeat_like(run) if since else None
        before = (earlier.graph, earlier.samples) if earlier else None
        shards.precompute(run.graph, run.samples, config.rings, config.train.epochs, runner, console, before)


def _runner_settings(config: Config) -> RunnerSettings:
    return RunnerSettings(**config.runtime.model_dump(include={field.name for field in fields(RunnerSettings)}))


# --- model and train -------------------------------------------------------------------------------------------------


def train(config: Config, run: Run, console: Console) -> None:
    """Train the encoder on the samples: here, with the other processes of torchrun, or on a Ray cluster."""
    if _checkpoints(config, run).is_finished():
        return
    with join_world(config.runtime.timeout_s) as world:
        if config.runtime.engine == "ray" and world.size == 1:
            _train_on_cluster(config, run, console)
            return
        world.call(_as_values(config, run))
        train_here(config, run, console)


def train_here(config: Config, run: Run, console: Console, stop: threading.Event | None = None) -> None:
    """The part of this process in a training, which may be all of it."""
    with join_world(config.runtime.timeout_s) as world, _rounds(config, run, world) as rounds:
        told = console if world.first else Console(quiet=True)
        graph, device = Graph.open(run.graph), _device(config)
        if device.type == "cpu":
            keep_freed_memory()
        model = build_model(config.model, graph.num_features, config.train.seed).to(device)
        told.event("train", "started", device=str(device), epochs=config.train.epochs, processes=world.size)
        inputs = prepare_inputs(graph, config.model, device)
        validate = (
            _validation(config, graph, inputs, run.folder / f"validation-{world.rank}")
            if config.train.validate_every
            else None
        )
        messages = Messages.of(graph, config.model.encoder)
        maker = FieldMaker(messages, config.model.layers, config.model.fanouts(), inputs.propagated is not None)
        share = Share(world.rank, world.size)
        read = MappedFeatures.of(graph, config.model).rows if inputs.features is None else None
        stream = BatchStream(rounds, graph.num_nodes, config.rings, config.train, config.loss, maker, share, read)
        trainer, checkpoints = Trainer(model, config.train), _checkpoints(config, run)
        curves = run.folder / "tensorboard" if config.runtime.tensorboard else None
        Training(trainer, inputs, stream, config, checkpoints, validate, told, world, stop, curves).run()
        told.event("train", "done")


def train_process(values: dict[str, Any], stop: threading.Event | None = None) -> None:
    """`train_here` in a process that another one has called, with plain values."""
    run = Run(Path(values["folder"]), Path(values["graph"]))
    train_here(Config.parse(values["config"]), run, Console(run.log, quiet=True), stop)


def _as_values(config: Config, run: Run) -> dict[str, Any]:
    return {"config": config.dump(), "folder": str(run.folder.absolute()), "graph": str(run.graph.absolute())}


def _train_on_cluster(config: Config, run: Run, console: Console) -> None:
    runtime = config.runtime
    there = runtime.model_copy(update={"device": "cuda" if runtime.worker_gpus else "cpu"})
    values = _as_values(config.model_copy(update={"runtime": there}), run)
    settings = TrainingSettings(
        runtime.address, runtime.train_range(), runtime.worker_cpus, runtime.worker_gpus, runtime.timeout_s,
        runtime.max_failures,
    )  # fmt: skip
    total = config.train.epochs * steps_per_epoch(Graph.open(run.graph).num_nodes, config.train.batch_size)
    with shown(run.log, total, console) as watch:
        train_together(train_process, values, run.folder.absolute(), settings, console, watch)


@contextlib.contextmanager
def leading(config: Config) -> Iterator[bool]:
    """Whether this process leads the command: it is alone, or the first of those that torchrun has started.

    The others train with the first whenever it does, and have nothing else to do.
    """
    with join_world(config.runtime.timeout_s) as world:
        if not world.first:
            _follow(world)
        yield world.first
        if world.first:
            world.call(None)


def _follow(world: World) -> None:
    try:
        for values in world.calls():
            train_process(values)
    except (PeerError, StoppedError, DivergedError):
        raise SystemExit(1) from None  # the first process tells


@contextlib.contextmanager
def _rounds(config: Config, run: Run, world: World) -> Iterator[shards.SomeRounds]:
    """The rounds on disk, or rounds that are made while they are used."""
    if not config.rings.ahead:
        yield shards.Samples.open(run.samples)
        return
    if world.size > 1:
        raise ConfigError(
            f"rings.ahead: rounds are made during a training of one process only, this one has {world.size}; "
            "set rings.ahead to 0"
        )
    asked = shards.rounds_asked(config.rings, config.train.epochs)
    quiet = Console(run.log, quiet=True)

    def runner() -> contextlib.AbstractContextManager[Runner]:
        return start_runner(_runner_settings(config))

    with shards.RoundsAhead(run.graph, run.samples, config.rings, asked, runner, quiet) as rounds:
        yield rounds


def _checkpoints(config: Config, run: Run) -> Checkpoints:
    samples = shards.Samples.open(run.samples)
    asked = shards.rounds_asked(config.rings, config.train.epochs)
    depends = {
        "samples": samples.identity(),
        "rounds": asked if config.rings.ahead else samples.num_rounds,
        "model": config.model.model_dump(mode="json", exclude={"product", "recompute"}),
        "loss": config.loss.model_dump(mode="json"),
        "train": config.train.model_dump(
            mode="json", exclude={"repeats", "checkpoint_every", "checkpoint_steps", "checkpoint_minutes"}
        ),
    }
    return Checkpoints(run.checkpoints, fingerprint_of(depends))


def _validation(config: Config, graph: Graph, inputs: Inputs, scratch: Path) -> Validate:
    """Validation accuracy of a quick probe on the first split; test labels are never looked at."""
    splits = make_splits(graph, config.evaluate)
    if not splits or not (splits[0].codes == 2).any():
        raise ConfigError(
            "train.validate_every: the graph has no labelled validation nodes; set it to 0, or bring labels and splits"
        )
    assert graph.labels is not None
    labels, codes = graph.labels, np.where(splits[0].codes == 3, 0, splits[0].codes).astype(np.int8)
    quick = config.evaluate.model_copy(update={"initialisations": 3, "probe_epochs": 100})

    def figure(vectors: npt.NDArray[np.float32]) -> float:
        return probe(vectors, labels, codes, len(graph.classes), quick, inputs.device).val_mean

    if inputs.features is not None:
        return lambda model: figure(encode_all(model, inputs))
    scaling = Scaling.of(graph.features, config.model.feature_scaling)

    def validate(model: Model) -> float:
        weights = [parameter.detach().cpu().numpy().tobytes() for parameter in model.parameters()]
        place = _workplace(config, scratch, hashlib.sha256(b"".join(weights)).hexdigest(), "train")
        with embeddings.encode_nodes(model.encoder, graph, scaling, place, Console(quiet=True)) as vectors:
            return figure(vectors)

    return validate


def _device(config: Config) -> torch.device:
    if config.runtime.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("runtime.device: cuda is asked for and torch sees no GPU; set it to auto or cpu")
    wants_gpu = config.runtime.device != "cpu" and torch.cuda.is_available()
    return torch.device("cuda" if wants_gpu else "cpu")


# --- embed, evaluate, report -----------------------------------------------------------------------------------------


def embed(config: Config, run: Run, console: Console, other: Path | None = None, out: Path | None = None) -> Path:
    """Embed all nodes with the frozen encoder: of the run's graph, or of `other`, a graph folder with like features.

    Returns the folder of the embeddings: `out`, or the run's.
    """
    checkpoints, folder = _checkpoints(config, run), out or run.embeddings
    state, position = checkpoints.chosen()
    trained_on = Graph.open(run.graph)
    graph = Graph.open(other) if other else trained_on
    fingerprint = fingerprint_of([checkpoints.fingerprint, position.epoch, *([graph.fingerprint] if other else [])])
    if embeddings.is_complete(folder, fingerprint, config.runtime.npy):
        embeddings.clear_away(folder)
        return folder
    if out:
        embeddings.refuse_taken(out)
    model = build_model(config.model, trained_on.num_features, config.train.seed)
    model.load_state_dict(state["model"])
    scaling = Scaling.of(trained_on.features, config.model.feature_scaling)
    place = _workplace(config, embeddings.scratch_folder(folder), fingerprint, "embed")
    with embeddings.encode_nodes(model.encoder, graph, scaling, place, console) as vectors:
        embeddings.write_embeddings(folder, graph, vectors, fingerprint, config.runtime.npy)
    console.event("embed", "done", rows=vectors.shape[0], width=vectors.shape[1], epoch=position.epoch)
    return folder


def _workplace(config: Config, folder: Path, fingerprint: str, stage: str) -> embeddings.Workplace:
    return embeddings.Workplace(folder, fingerprint, _device(config), config.runtime.embed_memory_gb, stage)


@contextlib.contextmanager
def _untrained(config: Config, run: Run, graph: Graph, console: Console) -> Iterator[npt.NDArray[np.float32]]:
    """What the encoder gives with its first weights."""
    first = build_model(config.model, graph.num_features, config.train.seed)
    scaling = Scaling.of(graph.features, config.model.feature_scaling)
    fingerprint = fingerprint_of(["untrained", config.model.model_dump(mode="json"), config.train.seed])
    place = _workplace(config, run.folder / "untrained", fingerprint, "evaluate")
    with embeddings.encode_nodes(first.encoder, graph, scaling, place, console) as vectors:
        yield vectors


def evaluate(config: Config, run: Run, console: Console) -> dict[str, Any]:
    """Figures of the embeddings, beside raw features and the untrained encoder."""
    made_from = {
        "embeddings": embeddings.fingerprint_in(run.embeddings),
        "evaluate": config.evaluate.model_dump(mode="json"),
    }
    if run.metrics.exists() and (metrics := read_json(run.metrics)).get("made_from") == made_from:
        return metrics
    graph, device = Graph.open(run.graph), _device(config)
    _, trained = embeddings.read_embeddings(run.embeddings)
    samples = shards.Samples.open(run.samples).round(0)
    console.event("evaluate", "started")
    with _untrained(config, run, graph, console) as untrained, console.progress("evaluate", 1):
        vectors = {"trained": trained, "untrained": untrained, "raw": graph.features}
        metrics = evaluate_run(graph, vectors, ring_lists(samples, graph, config.evaluate), config.evaluate, device)
    metrics["made_from"] = made_from
    write_json(run.metrics, metrics)
    console.event("evaluate", "done", metrics={"probe": metrics.get("probe"), "clusters": metrics.get("clusters")})
    return metrics


def stats(config: Config, run: Run, console: Console, anchors: int | None = None) -> dict[str, Any]:
    """Statistics of the graph; kept in the graph's run folder and made once per sample size."""
    path = run.graph.parent / f"statistics{f'-{anchors}' if anchors else ''}.json"
    graph = Graph.open(run.graph)
    if path.exists() and (known := read_json(path)).get("graph_fingerprint") == graph.fingerprint:
        return known
    result = {**statistics(graph, anchors=anchors), "graph_fingerprint": graph.fingerprint}
    write_json(path, result)
    return result


def report(config: Config, run: Run, console: Console) -> Path:
    """One page to look at."""
    graph = Graph.open(run.graph)
    first = run if config.train.repeats == 1 else run.repeat(config.train.seed)
    write_report(
        run.report,
        config=config.dump(),
        metrics=read_json(run.metrics),
        curve=read_curve(first.log),
        statistics=stats(config, run, console),
        notes=graph.manifest["notes"],
    )
    console.event("report", "done")
    return run.report


# --- from Python -----------------------------------------------------------------------------------------------------


def fit(
    graph: "Data | Graph | Draft",
    config: "Config | dict[str, Any] | Path | str | None" = None,
    run: Path | str | None = None,
    quiet: bool = True,
) -> npt.NDArray[np.float32]:
    """Embeddings [N, d] of a graph, rows in the order of its nodes.

    `graph` is a torch_geometric Data, a Graph or a Draft; `config` a Config, plain values, or a YAML file. With `run`
    the run folder is kept (and a finished one is read); without it everything lives in a temporary folder.

    >>> embeddings = fit(data, {"rings": {"hops": 1}, "train": {"epochs": 50}})   # doctest: +SKIP
    """
    settings = _as_config(config)
    if run is not None:
        return _fit(graph, settings, Path(run), Console(quiet=quiet))
    with tempfile.TemporaryDirectory(prefix="gscl-scale-") as folder:
        return _fit(graph, settings, Path(folder) / "run", Console(quiet=quiet))


def _fit(graph: "Data | Graph | Draft", config: Config, folder: Path, console: Console) -> npt.NDArray[np.float32]:
    one = open_run(config, folder)
    if (one.graph / "manifest.json").exists():
        _refuse_other_graph(graph, config, one)
    elif isinstance(graph, Graph):
        shutil.copytree(graph.folder, one.graph)
    else:
        ingest(config, one, console, draft=_draft_of(graph))
    console = console.with_log(one.log)
    precompute(config, one, console)
    train(config, one, console)
    embed(config, one, console)
    return embeddings.read_embeddings(one.embeddings)[1]


def _refuse_other_graph(graph: "Data | Graph | Draft", config: Config, run: Run) -> None:
    """Compare the graph that was handed over with the one that the run was made from."""
    fingerprint = graph.fingerprint if isinstance(graph, Graph) else None
    if not isinstance(graph, Graph):
        with tempfile.TemporaryDirectory(prefix="gscl-scale-") as folder:
            fingerprint = write_graph(_draft_of(graph), config.graph, Path(folder) / "graph").fingerprint
    if fingerprint != Graph.open(run.graph).fingerprint:
        raise FolderError(f"{run.folder} was made from another graph; choose another run, or delete this folder")


def _draft_of(data: "Data | Draft") -> Draft:
    if isinstance(data, Draft):
        return data
    from gscl_scale.graph.sources.pyg import draft_from_data

    if not hasattr(data, "edge_index") and not hasattr(data, "adj_t"):
        raise GraphError(
            f"fit: expected a torch_geometric Data, a Graph or a Draft, got {type(data).__name__}; "
            "see 'From Python' in the README"
        )
    return draft_from_data(data, "data")


def _as_config(config: "Config | dict[str, Any] | Path | str | None") -> Config:
    if isinstance(config, Config):
        return config
    if isinstance(config, (str, Path)):
        return Config.load(Path(config))
    return Config.parse({"graph": {"source": "memory"}, **(config or {})})
