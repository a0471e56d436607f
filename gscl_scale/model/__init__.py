"""Encoder, projection head and ring loss."""

from gscl_scale.model.inputs import Inputs, prepare_inputs
from gscl_scale.model.loss import RingLoss, ring_loss
from gscl_scale.model.model import Model, build_model

__all__ = ["Inputs", "Model", "RingLoss", "build_model", "prepare_inputs", "ring_loss"]
