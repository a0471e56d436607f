"""Stage train: train the encoder in this process, with the other processes of torchrun, or on a Ray cluster."""

import contextlib
import hashlib
import threading
from pathlib import Path

import numpy as np
import torch
from typing_extensions import TypedDict

from gscl_scale.batches.schedule import steps_per_epoch
from gscl_scale.config.config import Config
from gscl_scale.config.sections import TrainConfig
from gscl_scale.embed.layers import EncodingSettings, encode_nodes
from gscl_scale.errors import ConfigError
from gscl_scale.evaluate.measures import refuse_measure
from gscl_scale.evaluate.splits import make_splits, why_no_class, why_no_splits
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SPLIT_CODES, SparseFeatures
from gscl_scale.machine import available_memory, keep_freed_memory, processor_name, total_memory, usable_cores
from gscl_scale.model.captured import CapturedEncoder
from gscl_scale.model.device import chosen_device, gpu_arithmetic
from gscl_scale.model.fused.availability import has_kernels
from gscl_scale.model.inputs import Inputs, prepare_inputs
from gscl_scale.model.model import Model, build_model
from gscl_scale.model.scaling import Scaling
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.extras import need_package
from gscl_scale.runtime.runner import train_together
from gscl_scale.runtime.settings import Meter
from gscl_scale.stages.batches import anchors_of, make_batches, memory_of_process
from gscl_scale.stages.collapse import warn_of_collapse
from gscl_scale.stages.finished import checkpoints_of
from gscl_scale.stages.rounds import rounds_of_training
from gscl_scale.stages.selection import quick_figure, selection_for_training
from gscl_scale.text import format_bytes
from gscl_scale.train.checkpoint import load_state, load_weights
from gscl_scale.train.device_plan import DevicePlan, plan_device
from gscl_scale.train.follow_log import follow
from gscl_scale.train.loop import Stream, Trainer, Training, Validate, encode_all
from gscl_scale.train.objectives.methods import build_objective, objective_of
from gscl_scale.train.objectives.objective import Objective
from gscl_scale.train.objectives.trainer import ObjectiveTrainer
from gscl_scale.train.objectives.views import ViewStream
from gscl_scale.train.process_group import World, join_world


def refuse_untrainable(config: Config, run: Run) -> None:
    """Refuse what a training would refuse, before hours are spent on its samples."""
    if config.runtime.engine == "ray":
        need_package("ray", "ray", "runtime.engine=ray")
    refuse_absent_device(config)
    if config.runtime.tensorboard:
        need_package("tensorboardX", "tensorboard", "runtime.tensorboard")
    graph = Graph.open(run.graph)
    refuse_measure(graph, config.evaluate)
    if config.train.validate_every:
        selection_for_training(config, graph)


def refuse_absent_device(config: Config) -> None:
    """Refuse a device that the training and the stages after it would not have."""
    runtime, gpu = config.runtime, config.runtime.worker_gpus > 0
    if runtime.engine == "local":
        gpu = chosen_device(runtime).type == "cuda"
    elif runtime.device == "cuda" and not gpu:
        raise ConfigError(
            "runtime.device is cuda, but runtime.worker_gpus is 0, so Ray gives no process a GPU; "
            "set runtime.worker_gpus to 1, or runtime.device to auto or cpu"
        )
    if config.train.cuda_graphs is True and not gpu:
        raise ConfigError("train.cuda_graphs: this training runs on a CPU, which has no CUDA graphs; set it to false")


def train(config: Config, run: Run, console: Console) -> None:
    """Train the encoder to its last checkpoint; a finished training is skipped."""
    if checkpoints_of(config, run).is_finished():
        return
    refuse_absent_device(config)
    with join_world(config.runtime.timeout_s, config.runtime.device) as world:
        _refuse_shared_work(config, world)
        if config.runtime.engine == "ray" and world.size == 1:
            _train_on_cluster(config, run, console)
            return
        world.call(training_call(config, run))
        train_here(config, run, console)


def train_here(
    config: Config,
    run: Run,
    console: Console,
    stop: threading.Event | None = None,
    meter: Meter = lambda figures: None,
) -> None:
    """Run the part of this process in a training, which may be all of it."""
    with join_world(config.runtime.timeout_s, config.runtime.device) as world, contextlib.ExitStack() as stack:
        console = console if world.first else Console(quiet=True)
        graph, device = Graph.open(run.graph), chosen_device(config.runtime)
        checkpoints = checkpoints_of(config, run)
        if config.train.epochs == "auto":
            console.say(_why_epochs(config, graph, world.size))
        if config.model.feature_dropout == "auto" and graph.size.rare and config.train.reads_samples:
            share = config.model.feature_dropout_for(rare=True)
            console.say(f"model.feature_dropout is auto: each step drops {share:g} of the values, most of which are 0")
        config = config.sized(graph.size).among(world.size)
        if graph.edge_weights is not None and config.model.encoder == "gat":
            console.say("Edge weights do not reach the encoder gat, whose attention computes its own.")
        stack.enter_context(gpu_arithmetic(config.train, device))
        model = build_model(config.model, graph.feature_blocks, config.train.seed).to(device)
        if run.start.exists():
            load_start(model, run)
        console.event(
            "train", "started", device=str(device), epochs=config.train.num_epochs, processes=world.size,
            processor=processor_name(), cores=len(usable_cores()), memory=total_memory(),
        )  # fmt: skip
        inputs = prepare_inputs(graph, config.model, device)
        validate = None
        if config.train.validate_every and world.first:
            validate = _validation(config, run, graph, inputs, run.folder / ".validation", console)
            if (kind := selection_for_training(config, graph)) != "probe":
                console.event("train", "selection", by=kind)
        stream: Stream
        if config.train.reads_samples:
            rounds = stack.enter_context(rounds_of_training(config, run, world))
            plan = device_plan(config, graph, device)
            stream = make_batches(config, graph, inputs, rounds, world, console, plan, stack)
            if plan is not None and plan.graphs:  # before a thread makes batches: recording has the device for itself
                _record(model, inputs, config.train, console)
            trainer = Trainer(model, config.train)
        else:
            _refuse_without_memory(config, graph, device)
            objective = _objective(config, graph).to(device)
            stream = ViewStream(graph, inputs, config, objective.views)
            trainer = ObjectiveTrainer(model, objective, config.train)
        curves = run.folder / "tensorboard" if config.runtime.tensorboard else None
        if device.type == "cpu":
            keep_freed_memory()  # from now on
        Training(trainer, inputs, stream, config, checkpoints, validate, console, world, stop, curves, meter).run()
        console.event("train", "done")


def _why_epochs(config: Config, graph: Graph, num_processes: int) -> str:
    epochs, nodes = config.train.epochs_for(graph.size), graph.num_nodes
    batch_size = config.train.among(num_processes).batch_size
    steps = steps_per_epoch(nodes, batch_size) if config.train.reads_samples else 1
    return (
        f"train.epochs is auto: {epochs:,} epoch{'s' * (epochs > 1)} of {steps:,} step{'s' * (steps > 1)} "
        f"for {nodes:,} nodes"
    )


def load_start(model: Model, run: Run) -> None:
    """Load the weights that a training starts from."""
    load_weights(model, load_state(run.start), run.start)


def _record(model: Model, inputs: Inputs, config: TrainConfig, console: Console) -> None:
    """Record the encoder's passes; where CUDA cannot, and nobody has asked for it, kernels are started one by one."""
    try:
        model.captured = CapturedEncoder(model.encoder, inputs, config.uses_bfloat16(inputs.device.type))
    except ConfigError as error:
        if config.cuda_graphs is True:
            raise
        console.say(f"Each step starts its kernels one by one: {error}")


def device_plan(config: Config, graph: Graph, device: torch.device) -> DevicePlan | None:
    """What a training keeps on its GPU; None on a CPU, whose samples stay mapped files."""
    if device.type != "cuda":
        return None
    free = torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    features = graph.features
    # dropout of single stored values takes their rows and columns besides
    num_values = 3 * features.indices.size if isinstance(features, SparseFeatures) else features.size
    num_messages = graph.indices.size + graph.num_nodes
    return plan_device(config, graph.num_nodes, num_values, num_messages, free, has_kernels(device))


def _refuse_without_memory(config: Config, graph: Graph, device: torch.device) -> None:
    need = objective_of(config.train.objective).step_bytes(graph)
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else available_memory()
    if need > free:
        raise ConfigError(
            f"train.objective: a step of {config.train.objective} needs at least {format_bytes(need)} of memory for "
            f"{graph.num_nodes:,} nodes with {graph.num_features:,} features, and {format_bytes(free)} are available; "
            "choose another objective, or a machine with more memory"
        )


def _objective(config: Config, graph: Graph) -> Objective:
    """The objective, with the labels of one split's training nodes where it learns from labels."""
    if config.train.objective != "supervised":
        return build_objective(config, graph)
    split = next(iter(make_splits(graph, config.evaluate, config.train.label_seed)), None)
    if split is None or graph.labels is None:
        reason = why_no_class(graph) or why_no_splits(graph, config.evaluate) or "no split has labelled training nodes"
        raise ConfigError(
            f"train.objective: supervised learns from labels of a split, but {reason}; choose another objective"
        )
    targets = torch.from_numpy(np.where(split.codes == SPLIT_CODES["train"], graph.labels, -1))
    return build_objective(config, graph, len(graph.classes), targets)


class TrainingCall(TypedDict):
    """A training as plain values, for another process."""

    config: dict[str, object]
    folder: str
    graph: str
    samples: str


def train_process(
    values: TrainingCall, stop: threading.Event | None = None, meter: Meter = lambda figures: None
) -> None:
    """`train_here` in a process that another one has called."""
    run = Run(Path(values["folder"]), Path(values["graph"]), Path(values["samples"]))
    train_here(Config.parse(values["config"]), run, Console(run.log, quiet=True), stop, meter)


def training_call(config: Config, run: Run) -> TrainingCall:
    """The argument of `train_process`."""
    folder, graph, samples = (str(place.absolute()) for place in (run.folder, run.graph, run.samples))
    return {"config": config.dump(), "folder": folder, "graph": graph, "samples": samples}


def _train_on_cluster(config: Config, run: Run, console: Console) -> None:
    device = "cuda" if config.runtime.worker_gpus else "cpu"
    there = config.model_copy(update={"runtime": config.runtime.model_copy(update={"device": device})})
    graph = Graph.open(run.graph)
    anchors = anchors_of(config, graph)
    number = graph.num_nodes if anchors is None else anchors.size
    batch_size = config.train.among(config.runtime.for_training().workers[1]).batch_size
    steps = steps_per_epoch(number, batch_size) if config.train.reads_samples else 1
    total = config.train.epochs_for(graph.size) * steps
    with follow(run.log, total, console) as watch:
        train_together(
            train_process,
            training_call(there, run),
            run.folder.absolute(),
            config.runtime.for_training(),
            console,
            watch,
            memory_of_process(graph, config),
        )


def _refuse_shared_work(config: Config, world: World) -> None:
    workers = config.runtime.for_training().workers[1] if config.runtime.engine == "ray" else world.size
    if not config.train.reads_samples and max(workers, world.size) > 1:
        raise ConfigError(
            f"train.objective: {config.train.objective} trains on the whole graph in one process, "
            f"this training has {max(workers, world.size)}; start one process, or set runtime.train_workers to 1"
        )


def _validation(config: Config, run: Run, graph: Graph, inputs: Inputs, scratch: Path, console: Console) -> Validate:
    """The figure that chooses the epoch; no test node or test edge is ever read."""
    figure = warn_of_collapse(quick_figure(config, run, graph, inputs.device), config, graph, inputs, console)
    if inputs.features is not None:
        return lambda model: figure(encode_all(model, inputs))
    scaling = Scaling.of(graph.features, config.model.feature_scaling)

    def validate(model: Model) -> float:
        weights = [parameter.detach().cpu().numpy().tobytes() for parameter in model.parameters()]
        made_from = hashlib.sha256(b"".join(weights)).hexdigest()
        place = EncodingSettings.of(config.runtime, scratch, made_from, "train")
        with encode_nodes(model.encoder, graph, scaling, place, Console(quiet=True)) as vectors:
            return figure(vectors)

    return validate
