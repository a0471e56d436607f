"""Encoder, projection head and ring loss."""

from gscl_scale.model.device import chosen_device
from gscl_scale.model.inputs import Inputs, Layer, MappedFeatures, features_on, prepare_inputs, prepare_layers
from gscl_scale.model.loss import RingLoss, ring_loss
from gscl_scale.model.model import Model, build_model

__all__ = [
    "Inputs",
    "Layer",
    "MappedFeatures",
    "Model",
    "RingLoss",
    "build_model",
    "chosen_device",
    "features_on",
    "prepare_inputs",
    "prepare_layers",
    "ring_loss",
]
