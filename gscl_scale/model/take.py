"""Rows of a matrix by their positions."""

from typing import Any

import torch
from torch import Tensor


def take_distinct(rows: Tensor, index: Tensor) -> Tensor:
    """rows[index] for positions of which none comes twice; its gradient then needs no sorting on a GPU."""
    if rows.device.type == "cpu":
        return rows[index]
    result: Tensor = _TakeDistinct.apply(rows, index)  # type: ignore[no-untyped-call]  # torch's apply
    return result


class _TakeDistinct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.number = rows.shape[0]
        return rows.index_select(0, index)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        out = gradient.new_zeros(ctx.number, *gradient.shape[1:])
        return out.index_copy_(0, index, gradient), None
