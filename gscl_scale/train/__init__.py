"""The training loop, its step, and its checkpoints."""

from gscl_scale.train.checkpoint import Checkpoints, Position, fill, load_state, write_state
from gscl_scale.train.loop import Stream, Trainer, Training, Validate, encode_all
from gscl_scale.train.step import StepResult, batch_inputs, batch_loss, descend, training_step
from gscl_scale.train.watch import shown
from gscl_scale.train.world import ALONE, World, join_world

__all__ = [
    "ALONE",
    "Checkpoints",
    "Position",
    "StepResult",
    "Stream",
    "Trainer",
    "Training",
    "Validate",
    "World",
    "batch_inputs",
    "batch_loss",
    "descend",
    "encode_all",
    "fill",
    "join_world",
    "load_state",
    "shown",
    "training_step",
    "write_state",
]
