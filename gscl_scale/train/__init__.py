"""The training loop, its step, and its checkpoints."""

from gscl_scale.train.checkpoint import Checkpoints, Position
from gscl_scale.train.loop import Trainer, Training, Validate, encode_all
from gscl_scale.train.step import batch_inputs, batch_loss, training_step
from gscl_scale.train.watch import shown
from gscl_scale.train.world import ALONE, World, join_world

__all__ = [
    "ALONE",
    "Checkpoints",
    "Position",
    "Trainer",
    "Training",
    "Validate",
    "World",
    "batch_inputs",
    "batch_loss",
    "encode_all",
    "join_world",
    "shown",
    "training_step",
]
