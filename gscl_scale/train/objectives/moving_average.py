"""A target encoder that follows the encoder by a moving average of its weights."""

import torch

from gscl_scale.model.encoder import Encoder
from gscl_scale.model.model import Model


def follow(target: Encoder, model: Model, momentum: float) -> None:
    """Move the target's weights towards those of the encoder; momentum 0 copies them."""
    with torch.no_grad():
        for slow, online in zip(target.parameters(), model.encoder.parameters(), strict=True):
            slow.lerp_(online, 1 - momentum)
