"""One trial: the ordinary stages with some keys set, then the figure that trials are compared by."""

from collections.abc import Callable
from dataclasses import replace

import torch

from gscl_scale.config.config import Config
from gscl_scale.embed.layers import EncodingSettings, encode_nodes
from gscl_scale.graph.graph import Graph
from gscl_scale.io.atomic import hold_file_lock
from gscl_scale.model.device import chosen_device
from gscl_scale.run.folder import Run
from gscl_scale.runtime.console import Console
from gscl_scale.stages import train as training
from gscl_scale.stages.embed import trained_encoder
from gscl_scale.stages.finished import checkpoints_of
from gscl_scale.stages.precompute import precompute
from gscl_scale.stages.selection import trial_figure
from gscl_scale.studies.tune.records import rings_run

_VALIDATIONS = 10

Report = Callable[[int, float], None]  # epochs that are done, and the figure of a validation


def base_config(config: Config) -> Config:
    """The configuration of all trials, and of a run of the best: it validates, and keeps its best epoch."""
    every = config.train.validate_every or max(1, config.train.num_epochs // _VALIDATIONS)
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
    """Sample, train and measure; returns the figure and the epoch of the encoder that was measured.

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


def _with_samples(config: Config, run: Run, console: Console) -> Run:
    """The run with the ring samples of an earlier trial, or with new ones, for which other trials wait."""
    rings = rings_run(config, run)
    with hold_file_lock(rings.folder / "lock"):
        reused = (rings.samples / "manifest.json").exists()
        precompute(config, rings, Console(rings.log, quiet=True))
    console.event("tune", "samples", folder=rings.folder.name, reused=reused)
    return replace(run, sampled=rings.samples)


def _measure(config: Config, run: Run, console: Console) -> tuple[float, int]:
    """The figure of the encoder that the training chose."""
    graph, checkpoints = Graph.open(run.graph), checkpoints_of(config, run)
    state, position = checkpoints.chosen()
    encoder, scaling = trained_encoder(config, graph, state, checkpoints.folder)
    place = EncodingSettings.of(config.runtime, run.folder / ".vectors", checkpoints.fingerprint, "tune")
    figure = trial_figure(config, run, graph, chosen_device(config.runtime))
    with encode_nodes(encoder, graph, scaling, place, console) as vectors:
        accuracy = figure(vectors)
    console.event("tune", "measured", accuracy=accuracy, epoch=position.epoch)
    return accuracy, position.epoch
