"""A target that follows a module by a moving average of its weights."""

import torch
from torch import nn


def follow(target: nn.Module, online: nn.Module, momentum: float) -> None:
    """Move the target's weights towards those of the module; momentum 0 copies them."""
    with torch.no_grad():
        for slow, quick in zip(target.parameters(), online.parameters(), strict=True):
            slow.lerp_(quick, 1 - momentum)
