"""Epoch after epoch, from the newest checkpoint to the end."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from gscl_scale.batches import BatchStream
from gscl_scale.config import LossConfig, TrainConfig
from gscl_scale.model import Inputs, Model
from gscl_scale.runtime import Console
from gscl_scale.train.checkpoint import Checkpoints, Position
from gscl_scale.train.step import StepResult, training_step

Validate = Callable[[npt.NDArray[np.float32]], float]


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
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        return True

    def save(self, checkpoints: Checkpoints, best: bool) -> None:
        """Publish a checkpoint of this moment."""
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        checkpoints.save(state, self.position, best)


def train(
    trainer: Trainer,
    inputs: Inputs,
    stream: BatchStream,
    loss: LossConfig,
    checkpoints: Checkpoints,
    validate: Validate | None,
    console: Console,
) -> None:
    """Train to the end, or to the point where validation has not gained for `patience` validations."""
    config = trainer.config
    if trainer.restore(checkpoints, console):
        console.say(f"training goes on after epoch {trainer.position.epoch}")
        console.event("train", "resumed", epoch=trainer.position.epoch)
    with console.progress("train", config.epochs, unit="epochs", done=trainer.position.epoch) as advance:
        while trainer.position.epoch < config.epochs and not trainer.position.finished:
            result = _epoch(trainer, inputs, stream, loss, console)
            _after_epoch(trainer, inputs, checkpoints, validate, console)
            advance(1, note=f"loss {result.loss:.4f}")


def _epoch(trainer: Trainer, inputs: Inputs, stream: BatchStream, loss: LossConfig, console: Console) -> StepResult:
    epoch = trainer.position.epoch
    first = epoch * stream.steps_per_epoch
    for step in range(first, first + stream.steps_per_epoch):
        began = time.monotonic()
        batch = stream.batch(step)
        waited = time.monotonic() - began
        result = training_step(
            trainer.model, trainer.optimizer, inputs, batch, loss, trainer.config.clip, trainer.config.seed, step
        )
        console.event(
            "train",
            "step",
            step=step,
            epoch=epoch,
            loss=result.loss,
            per_level=result.per_level,
            gated=result.gated,
            gradient_norm=result.gradient_norm,
            data_wait_s=round(waited, 6),
            step_s=round(time.monotonic() - began, 6),
        )
    trainer.position = replace(trainer.position, epoch=epoch + 1)
    return result


def _after_epoch(
    trainer: Trainer, inputs: Inputs, checkpoints: Checkpoints, validate: Validate | None, console: Console
) -> None:
    """Validate and save where it is time to."""
    config, epoch = trainer.config, trainer.position.epoch
    improved = False
    if validate is not None and (epoch % config.validate_every == 0 or epoch == config.epochs):
        figure = validate(encode_all(trainer.model, inputs))
        console.event("train", "validation", epoch=epoch, accuracy=figure)
        improved = figure > trainer.position.best
        if improved:
            trainer.position = replace(trainer.position, best=figure, best_epoch=epoch)
    finished = epoch == config.epochs or _out_of_patience(trainer.position, config)
    trainer.position = replace(trainer.position, finished=finished)
    if finished or improved or epoch % config.checkpoint_every == 0:
        trainer.save(checkpoints, best=improved)


def _out_of_patience(position: Position, config: TrainConfig) -> bool:
    return config.patience > 0 and position.epoch - position.best_epoch >= config.patience * config.validate_every


def encode_all(model: Model, inputs: Inputs) -> npt.NDArray[np.float32]:
    """The encoder's output for all nodes, without dropout."""
    model.eval()
    with torch.inference_mode():
        vectors: npt.NDArray[np.float32] = model.encode(inputs).float().cpu().numpy()
    return vectors
