"""Step after step, from the newest checkpoint to the end."""

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale.config.config import Config
from gscl_scale.config.sections import TrainConfig
from gscl_scale.errors import StoppedError
from gscl_scale.model.inputs import Inputs
from gscl_scale.model.model import Model
from gscl_scale.rings.sketch.level import NEAR_PER_WIDTH
from gscl_scale.runtime.console import Console
from gscl_scale.runtime.settings import Meter
from gscl_scale.runtime.stop import asked_to_stop
from gscl_scale.train.checkpoint import Checkpoints, Position, fill, fill_optimizer
from gscl_scale.train.metrics import Told
from gscl_scale.train.process_group import ALONE, World
from gscl_scale.train.step import StepResult, training_step
from gscl_scale.train.tensorboard import Scalars, scalars_to

Validate = Callable[[Model], float]


class Stream(Protocol):
    """The batches of a run in their one order, each in so many micro-batches."""

    @property
    def steps_per_epoch(self) -> int: ...  # noqa: D102

    @property
    def num_micro_batches(self) -> int: ...  # noqa: D102

    def batches(self, first: int, end: int) -> Iterator[Any]: ...  # noqa: D102


class Trainer:
    """The moving parts of one training: model, optimiser and position."""

    def __init__(self, model: Model, config: TrainConfig) -> None:
        self.model = model
        self.config = config
        self.position = Position()
        self.optimizer = torch.optim.Adam(model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay)

    def restore(self, checkpoints: Checkpoints, console: Console) -> bool:
        """Take up the newest valid checkpoint; False where there is none."""
        found = checkpoints.newest(console)
        if found is None:
            return False
        state, self.position = found
        for name, part in self.parts().items():
            put = fill_optimizer if name == "optimizer" else fill
            put(part, state.get(name), checkpoints.folder)
        return True

    def save(self, checkpoints: Checkpoints, best: bool) -> None:
        """Publish a checkpoint of this moment."""
        checkpoints.save({name: part.state_dict() for name, part in self.parts().items()}, self.position, best)

    def parts(self) -> dict[str, Any]:
        """What a checkpoint holds, by name."""
        return {"model": self.model, "optimizer": self.optimizer}

    def step(
        self, inputs: Inputs, micro_batches: Iterable[Any], config: Config, world: World, stop: bool
    ) -> StepResult:
        """Take one step with our share of a batch."""
        return training_step(self.model, self.optimizer, inputs, micro_batches, config, self.position.step, world, stop)


class Training:
    """A training that runs: what it reads, where it saves, whom it tells, and with whom it shares the work."""

    def __init__(
        self,
        trainer: Trainer,
        inputs: Inputs,
        stream: Stream,
        config: Config,
        checkpoints: Checkpoints,
        validate: Validate | None,
        console: Console,
        world: World = ALONE,
        stop: threading.Event | None = None,
        scalars: Path | None = None,
        meter: Meter = lambda figures: None,
    ) -> None:
        self._scalars = scalars if world.first else None
        self._trainer, self._inputs, self._stream, self._config = trainer, inputs, stream, config
        self._checkpoints, self._validate, self._world = checkpoints, validate, world
        self._console, self._stop = console if world.first else Console(quiet=True), stop
        self._saved, self._meter = time.monotonic(), meter

    def run(self) -> None:
        """Train to the end, or to the point where validation has not gained for `patience` validations."""
        trainer, config = self._trainer, self._config.train
        if trainer.restore(self._checkpoints, self._console):
            self._console.say(f"training goes on after step {trainer.position.step} (epoch {trainer.position.epoch})")
            self._console.event("train", "resumed", epoch=trainer.position.epoch, step=trainer.position.step)
        self._world.check_same(trainer.position.step, "steps to go on from")
        if trainer.position.finished:
            return
        total = config.epochs * self._stream.steps_per_epoch
        first = trainer.position.step
        with (
            asked_to_stop(self._stop) as stop,
            scalars_to(self._scalars, first) as scalars,
            self._console.progress("train", total, "steps", first) as advance,
        ):
            batches = _Waited(self._stream.batches(first, total))
            while not trainer.position.finished:
                began = time.monotonic()
                micro_batches = itertools.islice(batches, self._stream.num_micro_batches)
                result = trainer.step(self._inputs, micro_batches, self._config, self._world, stop.is_set())
                if trainer.position.step == first and (lack := _lack_of_negatives(result, self._config.rings.hops)):
                    self._console.say(f"training: {lack}")
                told = Told(result, time.monotonic() - began, batches.waited(), self._inputs.device)
                self._console.event("train", "step", **told.as_event(trainer.position))
                figures = told.as_figures()
                self._meter(figures)
                scalars.step(trainer.position.step, figures)
                self._after_step(result, scalars)
                advance(1, note=told.as_note())
        if stop.is_set() and self._stop is None:  # asked for in the last step: there may be more work after this
            raise StoppedError(
                "training was asked to stop when it had all its steps; the same command goes on from there"
            )

    def _after_step(self, result: StepResult, scalars: Scalars) -> None:
        """Validate and save where it is time to; stop where that was asked for."""
        trainer, config = self._trainer, self._config.train
        step = trainer.position.step + 1
        epoch, within = divmod(step, self._stream.steps_per_epoch)
        trainer.position = replace(trainer.position, step=step, epoch=epoch)
        improved = not within and self._improved(scalars)
        finished = epoch == config.epochs or (not within and _out_of_patience(trainer.position, config))
        trainer.position = replace(trainer.position, finished=finished)
        due = not within and epoch % config.checkpoint_every == 0
        due |= config.checkpoint_steps > 0 and step % config.checkpoint_steps == 0
        due |= time.monotonic() - self._saved > 60 * config.checkpoint_minutes
        if self._world.first and (finished or improved or due or result.stop):
            trainer.save(self._checkpoints, best=improved)
            self._saved = time.monotonic()
        if result.stop and not finished:
            self._world.wait()  # nobody leaves, and so ends the others, before the first has saved
            self._console.event("train", "stopped", step=step)
            raise StoppedError(
                f"training was asked to stop and has saved step {step}; the same command goes on from there"
            )

    def _improved(self, scalars: Scalars) -> bool:
        """Validate where it is time to, and note the best; all processes come to the same conclusion."""
        trainer, config = self._trainer, self._config.train
        epoch = trainer.position.epoch
        if self._validate is None or not (epoch % config.validate_every == 0 or epoch == config.epochs):
            return False
        figure = torch.tensor([self._validate(trainer.model)], dtype=torch.float64)  # all: nobody waits for too long
        if not self._world.first:
            figure.zero_()
        accuracy = float(self._world.sum(figure))
        self._console.event("train", "validation", epoch=epoch, accuracy=accuracy)
        scalars.validation(trainer.position.step, accuracy)
        self._meter({"validation accuracy": accuracy, "epoch": float(epoch)})
        if accuracy <= trainer.position.best:
            return False
        trainer.position = replace(trainer.position, best=accuracy, best_epoch=epoch)
        return True


class _Waited:
    """Batches, and the seconds that were spent waiting for them."""

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

    def waited(self) -> float:
        """The seconds since this was asked last."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds


def _lack_of_negatives(result: StepResult, hops: int) -> str:
    """What to say of a step whose anchors are compared with fewer nodes than the configuration asks for."""
    if result.asked and not result.used:
        cure = "lower rings.hops" if hops > 1 else "choose a graph with fewer edges"
        return (
            f"no negative of the first step is farther than {hops} hop{'s' * (hops > 1)} from its anchors, "
            f"so ring {hops} is compared with nothing; {cure}"
        )
    if result.negatives < result.asked:
        width = -(-result.asked // NEAR_PER_WIDTH)
        return (
            f"a step has {result.negatives} of the {result.asked} negatives of train.negatives, because the samples "
            "do not say of more nodes whether they are beyond; "
            f"sample again with rings.width of {width} or more, or lower train.negatives"
        )
    return ""


def _out_of_patience(position: Position, config: TrainConfig) -> bool:
    return config.patience > 0 and position.epoch - position.best_epoch >= config.patience * config.validate_every


def encode_all(model: Model, inputs: Inputs) -> npt.NDArray[np.float32]:
    """The encoder's output for all nodes, without dropout."""
    model.eval()
    with torch.inference_mode():
        vectors: npt.NDArray[np.float32] = model.encode(inputs).float().cpu().numpy()
    return vectors
