"""The training loop, its step, and its checkpoints."""

from gscl_scale.train.checkpoint import Checkpoints, Position
from gscl_scale.train.loop import Trainer, train
from gscl_scale.train.step import training_step

__all__ = ["Checkpoints", "Position", "Trainer", "train", "training_step"]
