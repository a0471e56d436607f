"""Noise of a step on rows of nodes: random slopes and dropout, by node, column and key."""

from typing import NamedTuple

import torch
from torch import Tensor

from gscl_scale.model import keyed_random
from gscl_scale.model.fused import noise as fused
from gscl_scale.model.fused.availability import runs_fused
from gscl_scale.model.keyed_random import StepKey

SLOPES = (1 / 8, 1 / 3)  # the lowest and the highest, as torch's RReLU has them


class Noise(NamedTuple):
    """What is drawn for rows.

    slope_key         of the slopes of negative values; None: they stay as they are
    share, drop_key   the share of the values that is dropped after that; the others are scaled up

    Both keys are numbers, or both have the same base on the device.
    """

    slope_key: StepKey | None
    share: float
    drop_key: StepKey


def with_noise(rows: Tensor, nodes: Tensor | None, noise: Noise) -> Tensor:
    """Rows of `nodes` (None: all nodes, in order) with noise; a node has the same noise in every batch."""
    if noise.slope_key is None and noise.share == 0:
        return rows
    if runs_fused(rows):
        base, drop_key = keyed_random.parts(noise.drop_key)
        _, slope_key = keyed_random.parts(noise.slope_key or 0)
        slopes = (1.0, 1.0) if noise.slope_key is None else SLOPES
        result: Tensor = fused.noise(rows, nodes, base, slope_key, *slopes, drop_key, noise.share)
        return result
    if noise.slope_key is not None:
        rows = _with_slopes(rows, noise.slope_key, nodes)
    return rows if noise.share == 0 else _with_dropout(rows, noise.share, noise.drop_key, nodes)


def _with_slopes(rows: Tensor, key: StepKey, nodes: Tensor | None) -> Tensor:
    lower, upper = SLOPES
    drawn = keyed_random.uniform(key, nodes, (rows.shape[0], rows.shape[1]), rows.device).to(rows.dtype)
    return torch.where(rows >= 0, rows, rows * (lower + (upper - lower) * drawn))


def _with_dropout(rows: Tensor, share: float, key: StepKey, nodes: Tensor | None) -> Tensor:
    drawn = keyed_random.uniform(key, nodes, (rows.shape[0], rows.shape[1]), rows.device)
    return rows * (drawn >= share) / (1 - share)
