"""One trial: the ordinary stages with some keys set, then validation accuracy by the protocol."""

from collections.abc import Callable
from dataclasses import replace

import torch

from gscl_scale.config.config import Config
from gscl_scale.embed.layers import EncodingSettings, encode_nodes
from gscl_scale.errors import ConfigError
from gscl_scale.evaluate.splits import Split, why_no_splits
from gscl_scale.evaluate.validation import tune_splits, validation_accuracy
from gscl_scale.graph.graph import Graph
from gscl_scale.io.atomic import hold_file_lock
from gscl_scale.model.device import chosen_device
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.stages import train as training
from gscl_scale.stages.embed import trained_encoder
from gscl_scale.stages.precompute import precompute
from gscl_scale.studies.tune.records import rings_run

_VALIDATIONS = 10

Report = Callable[[int, float], None]  # epochs that are done, and validation accuracy by the quick probe


def base_config(config: Config) -> Config:
    """The configuration of all trials, and of a run of the best: it validates, and keeps its best epoch."""
    every = config.train.validate_every or max(1, config.train.epochs // _VALIDATIONS)
    return config.model_copy(update={"train": config.train.model_copy(update={"validate_every": every})})


def trial_config(config: Config) -> Config:
    """The configuration of one trial: one training, in this process, on the cores of a trial."""
    device = "cuda" if config.runtime.worker_gpus else "cpu"
    changes = {
        "rings": {"ahead": 0},  # used rounds stay, for other trials
        "train": {"repeats": 1},
        "runtime": {"engine": "local", "workers": trial_threads(config), "device": device},
    }
    return config.model_copy(
        update={name: getattr(config, name).model_copy(update=values) for name, values in changes.items()}
    )


def trial_threads(config: Config) -> int:
    """Threads of a trial."""
    return max(1, int(config.runtime.worker_cpus))


def run_trial(config: Config, run: Run, report: Report) -> tuple[float, int]:
    """Sample, train and measure; returns validation accuracy and the epoch of the encoder that was measured.

    A trial that was interrupted resumes at its last checkpoint.
    """
    torch.set_num_threads(trial_threads(config))
    console = Console(run.log, quiet=True)
    run = _with_samples(config, run, console)

    def meter(figures: dict[str, float]) -> None:
        if "validation accuracy" in figures:
            report(int(figures["epoch"]), figures["validation accuracy"])

    training.train_here(config, run, console, meter=meter)
    return _measure(config, run, console)


def splits_of(graph: Graph, config: Config) -> list[Split]:
    """The splits that a trial is measured on; ConfigError where there are none."""
    splits = tune_splits(graph, config.evaluate, config.train.label_seed)
    if not splits:
        reason = why_no_splits(graph, config.evaluate) or "no split has labelled validation nodes"
        raise ConfigError(f"tune: {reason}, so that no trial can be chosen; bring labels and splits")
    return splits


def _with_samples(config: Config, run: Run, console: Console) -> Run:
    """The run with the ring samples of an earlier trial, or with new ones, for which other trials wait."""
    rings = rings_run(config, run)
    with hold_file_lock(rings.folder / "lock"):
        reused = (rings.samples / "manifest.json").exists()
        precompute(config, rings, Console(rings.log, quiet=True))
    console.event("tune", "samples", folder=rings.folder.name, reused=reused)
    return replace(run, sampled=rings.samples)


def _measure(config: Config, run: Run, console: Console) -> tuple[float, int]:
    """Validation accuracy of the encoder that the training chose."""
    graph, checkpoints = Graph.open(run.graph), training.checkpoints_of(config, run)
    state, position = checkpoints.chosen()
    encoder, scaling = trained_encoder(config, graph, state, checkpoints.folder)
    place = EncodingSettings.of(config.runtime, run.folder / ".vectors", checkpoints.fingerprint, "tune")
    with encode_nodes(encoder, graph, scaling, place, console) as vectors:
        accuracy = validation_accuracy(
            vectors, graph, splits_of(graph, config), config.evaluate, chosen_device(config.runtime)
        )
    console.event("tune", "measured", accuracy=accuracy, epoch=position.epoch)
    return accuracy, position.epoch
