"""The training loop: step after step, from the newest checkpoint to the end."""

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale.batches.schedule import Schedule
from gscl_scale.config.config import Config
from gscl_scale.config.sections import TrainConfig
from gscl_scale.errors import StoppedError
from gscl_scale.model import optimizers
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.rings.sketch.level import NEAR_PER_WIDTH
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.settings import Meter
from gscl_scale.runtime.stop import stop_event
from gscl_scale.train.checkpoint import Checkpoints, Position, load_optimizer, load_weights
from gscl_scale.train.follow_log import describe_batch
from gscl_scale.train.metrics import StepMetrics
from gscl_scale.train.process_group import ALONE, World
from gscl_scale.train.step import LaunchedStep, StepResult, fetch, training_step
from gscl_scale.train.tensorboard import Scalars, scalar_writer

_STEPS_AT_ONCE = 16  # whose figures are fetched from a GPU together, so that it need not wait in between

Validate = Callable[[Model], float]
Part = torch.nn.Module | torch.optim.Optimizer


class Stream(Protocol):
    """The batches of a run in their one order, each in so many micro-batches."""

    schedule: Schedule

    @property
    def num_micro_batches(self) -> int: ...  # noqa: D102

    def batches(self, first: int, end: int) -> Iterator[Any]: ...  # noqa: D102


class Trainer:
    """The state of one training: model, optimiser and position."""

    def __init__(self, model: Model, config: TrainConfig) -> None:
        self.model = model
        self.config = config
        self.position = Position()
        self.optimizer = optimizers.Adam(
            model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay,
            fused=next(model.parameters()).is_cuda or None,  # None: as torch does it
        )  # fmt: skip

    def restore(self, checkpoints: Checkpoints, console: Console) -> bool:
        """Load the newest intact checkpoint; False where there is none."""
        found = checkpoints.newest(console)
        if found is None:
            return False
        state, self.position = found
        for name, part in self.parts().items():
            if isinstance(part, torch.optim.Optimizer):
                load_optimizer(part, state.get(name), checkpoints.folder)
            else:
                load_weights(part, state.get(name), checkpoints.folder)
        return True

    def save(self, checkpoints: Checkpoints, best: bool) -> None:
        """Publish a checkpoint."""
        checkpoints.save({name: part.state_dict() for name, part in self.parts().items()}, self.position, best)

    def parts(self) -> dict[str, Part]:
        """The parts of a checkpoint, by name."""
        return {"model": self.model, "optimizer": self.optimizer}

    def step(
        self, inputs: Inputs, micro_batches: Iterable[Any], config: Config, world: World, stop: bool
    ) -> LaunchedStep:
        """Take one step with our share of a batch."""
        return training_step(self.model, self.optimizer, inputs, micro_batches, config, self.position.step, world, stop)


@dataclass
class Training:
    """One training: what it reads, where it saves and reports, and the processes that share the work.

    validate   of the first process, which validates for all
    """

    trainer: Trainer
    inputs: Inputs
    stream: Stream
    config: Config
    checkpoints: Checkpoints
    validate: Validate | None
    console: Console
    world: World = ALONE
    stop: threading.Event | None = None
    curves: Path | None = None
    meter: Meter = lambda figures: None

    def __post_init__(self) -> None:
        if not self.world.first:
            self.console, self.curves = Console(quiet=True), None
        self._saved, self._first = time.monotonic(), 0

    def run(self) -> None:
        """Train to the end, or until `patience` validations in a row have not improved."""
        with stop_event(self.stop) as stop:
            self._resume()
            if not self.trainer.position.finished:
                self._train(stop)
        if stop.is_set() and self.stop is None:  # asked for in the last step: there may be more work after this
            raise StoppedError("training was asked to stop after its last step; rerun the command to resume")

    def _resume(self) -> None:
        """Go to the newest checkpoint, all processes to the same one."""
        trainer = self.trainer
        if trainer.restore(self.checkpoints, self.console):
            self.console.say(f"resuming training after step {trainer.position.step} (epoch {trainer.position.epoch})")
            self.console.event("train", "resumed", epoch=trainer.position.epoch, step=trainer.position.step)
        self.world.check_same(trainer.position.step, "steps to resume from")

    def _train(self, stop: threading.Event) -> None:
        """Take the steps that are left."""
        trainer = self.trainer
        schedule = self.stream.schedule = _resumed(self.stream.schedule, trainer.position)
        total = schedule.end_of(self.config.train.num_epochs)
        self._first = first = trainer.position.step
        self._tell_batch(total)
        with (
            self.console.log_open(),
            scalar_writer(self.curves, first) as scalars,
            self.console.progress("train", total, "steps", first) as advance,
        ):
            batches = DataWait(self.stream.batches(first, total))
            while not trainer.position.finished:
                began = time.monotonic()
                steps = list(self._launch(batches, stop))
                self.world.settle()
                results = fetch([step.launched for step in steps])
                took = (time.monotonic() - began) / len(steps)
                if steps[0].position.step == first and (lack := _lack_of_negatives(results[0], self.config.rings.hops)):
                    self.console.say(f"training: {lack}")
                for step, result in zip(steps, results, strict=True):
                    metrics = StepMetrics(result, took, step.waited, self.inputs.device)
                    self._report(metrics, step.position, scalars)
                self._after_steps(any(result.stop for result in results), scalars)
                advance(len(steps), note=metrics.as_note())

    def _tell_batch(self, total: int) -> None:
        """Say how large a batch is where that follows from the number of processes."""
        config, size = self.config.train, self.world.size
        if not config.batch_size_per_worker:
            return
        batch = {"processes": size, "anchors": config.batch_size, "learning_rate": config.learning_rate, "steps": total}
        self.console.say(describe_batch(batch))
        self.console.event("train", "batch", **batch)

    def _launch(self, batches: "DataWait", stop: threading.Event) -> Iterator["_Step"]:
        """Take steps up to the next one after which figures are fetched."""
        trainer, fetched = self.trainer, False
        while not fetched:
            micro_batches = self._micro_batches(batches)
            launched = trainer.step(self.inputs, micro_batches, self.config, self.world, stop.is_set())
            yield _Step(launched, trainer.position, batches.seconds())
            step = trainer.position.step + 1
            epoch, seen = self.stream.schedule.at(step)
            trainer.position = replace(trainer.position, step=step, epoch=epoch, seen=seen)
            fetched = self._is_fetched(trainer.position)

    def _micro_batches(self, batches: "DataWait") -> Iterator[Any]:
        """Our micro-batches of the next step."""
        position, number = self.trainer.position, self.stream.num_micro_batches
        if position.step != self._first and position.seen:
            return itertools.islice(batches, number)
        opened = self.world.together(batches.__next__)  # a round is checked before its first batch: that may take long
        return itertools.chain([opened], itertools.islice(batches, number - 1))

    def _is_fetched(self, position: Position) -> bool:
        """Whether figures are fetched after so many steps: in all processes alike, which stop only then."""
        step, often = position.step, self.config.train.checkpoint_steps
        return step % _steps_at_once(self.inputs.device) == 0 or not position.seen or (often > 0 and step % often == 0)

    def _report(self, metrics: StepMetrics, position: Position, scalars: Scalars) -> None:
        """The figures of a step to the log and to all who draw curves."""
        self.console.event("train", "step", **metrics.as_event(position))
        figures = metrics.as_figures()
        self.meter(figures)
        scalars(position.step, {f"train/{name}": value for name, value in figures.items()})

    def _after_steps(self, stop: bool, scalars: Scalars) -> None:
        """Validate and save where that is due; stop where that was asked for."""
        trainer, config = self.trainer, self.config.train
        step, epoch = trainer.position.step, trainer.position.epoch
        within = trainer.position.seen
        improved = not within and self._improved(scalars)
        finished = epoch == config.num_epochs or (not within and _out_of_patience(trainer.position, config))
        trainer.position = replace(trainer.position, finished=finished)
        due = not within and epoch % config.checkpoint_every == 0
        due |= config.checkpoint_steps > 0 and step % config.checkpoint_steps == 0
        due |= time.monotonic() - self._saved > 60 * config.checkpoint_minutes
        if self.world.first and (finished or improved or due or stop):
            trainer.save(self.checkpoints, best=improved)
            self._saved = time.monotonic()
        if stop and not finished:
            self.world.wait()  # a process that left before the first has saved would end the others
            self.console.event("train", "stopped", step=step)
            raise StoppedError(f"training was asked to stop and has saved step {step}; rerun the command to resume")

    def _improved(self, scalars: Scalars) -> bool:
        """Validate where that is due, and record the best; all processes come to the same conclusion."""
        trainer, config = self.trainer, self.config.train
        epoch = trainer.position.epoch
        if not config.validate_every or not (epoch % config.validate_every == 0 or epoch == config.num_epochs):
            return False
        accuracy = self.world.of_first(self._accuracy)
        self.console.event("train", "validation", epoch=epoch, accuracy=accuracy)
        scalars(trainer.position.step, {"validation/accuracy": accuracy})
        self.meter({"validation accuracy": accuracy, "epoch": float(epoch)})
        if accuracy <= trainer.position.best:
            return False
        trainer.position = replace(trainer.position, best=accuracy, best_epoch=epoch)
        return True

    def _accuracy(self) -> float:
        assert self.validate is not None, "the first process of a training with validations has a figure for them"
        return self.validate(self.trainer.model)


@dataclass(frozen=True)
class _Step:
    """A step that was launched, where it stands, and the seconds for which it waited for its batch."""

    launched: LaunchedStep
    position: Position
    waited: float


class DataWait:
    """An iterator over batches that measures how long they are waited for."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches, self._seconds = batches, 0.0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        began = time.monotonic()
        try:
            return next(self._batches)
        finally:
            self._seconds += time.monotonic() - began

    def seconds(self) -> float:
        """The seconds of waiting since the last call."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds


def _resumed(schedule: Schedule, position: Position) -> Schedule:
    """The steps from a position on; before there was `seen`, the batches of a training were all of one size."""
    seen = position.seen
    if seen < 0:
        seen = (position.step - position.epoch * schedule.steps_per_epoch) * schedule.batch_size
    return replace(schedule, step=position.step, epoch=position.epoch, seen=seen)


def _steps_at_once(device: torch.device) -> int:
    return _STEPS_AT_ONCE if device.type == "cuda" else 1


def _lack_of_negatives(result: StepResult, hops: int) -> str:
    """A note on a step that compares its anchors with fewer nodes than the configuration asks for."""
    if result.asked and not result.used:
        cure = "lower rings.hops" if hops > 1 else "choose a graph with fewer edges"
        return (
            f"no negative of the first step is farther than {hops} hop{'s' * (hops > 1)} from its anchors, "
            f"so ring {hops} gets no training signal; {cure}"
        )
    if result.negatives < result.asked:
        width = -(-result.asked // NEAR_PER_WIDTH)
        return (
            f"a step has {result.negatives} of the {result.asked} negatives of train.negatives, because the samples "
            "do not record for more nodes whether they are beyond; "
            f"use a new run with rings.width of {width} or more, or lower train.negatives"
        )
    return ""


def _out_of_patience(position: Position, config: TrainConfig) -> bool:
    return config.patience > 0 and position.epoch - position.best_epoch >= config.patience * config.validate_every


def encode_all(model: Model, inputs: Inputs) -> npt.NDArray[np.float32]:
    """Embeddings of all nodes, without dropout."""
    model.eval()
    with torch.inference_mode():
        output = model.encode(inputs).float()
        if isinstance(inputs.features, torch.Tensor):
            output = model.encoder.join(output, inputs.features)
        vectors: npt.NDArray[np.float32] = output.cpu().numpy()
    return vectors
