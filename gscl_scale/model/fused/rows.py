"""Rows brought to length one, and the gradient of PReLU, as operations of torch."""

from typing import Any

import torch
from torch import Tensor

from gscl_scale.model.fused.launch import start
from gscl_scale.model.fused.operation import operation

_COLUMNS, _ENTRIES = 256, 512  # that a program reads at once


def unit_rows(rows: Tensor, shortest: float) -> Tensor:
    """Rows [N, D] brought to length one in single precision; those that are no longer than `shortest` become 0."""
    result: Tensor = _UnitRows.apply(rows, shortest)  # type: ignore[no-untyped-call]  # torch's apply
    return result


class _UnitRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, shortest: float) -> Tensor:
        ctx.shortest = shortest
        ctx.save_for_backward(rows)
        return _unit_rows(rows, shortest)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _unit_rows_gradient(gradient, *ctx.saved_tensors, ctx.shortest), None


def _empty_rows(rows: Tensor, shortest: float) -> Tensor:
    return torch.empty(rows.shape, device=rows.device)


def _empty_like_rows(gradient: Tensor, rows: Tensor, *_: Any) -> Tensor:
    return torch.empty(rows.shape, dtype=rows.dtype, device=rows.device)


def _empty_gradients(gradient: Tensor, hidden: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return _empty_like_rows(gradient, hidden), torch.empty_like(weight)


@operation(_empty_rows)
def _unit_rows(rows: Tensor, shortest: float) -> Tensor:
    out = _empty_rows(rows, shortest)
    start("rows", "unit_rows", (out.shape[0],), rows.contiguous(), out, out.shape[1], shortest, _COLUMNS, num_warps=1)
    return out


@operation(_empty_like_rows)
def _unit_rows_gradient(gradient: Tensor, rows: Tensor, shortest: float) -> Tensor:
    out = _empty_like_rows(gradient, rows)
    arguments = (gradient.contiguous(), rows.contiguous(), out, out.shape[1], shortest, _COLUMNS)
    start("rows", "unit_rows_gradient", (out.shape[0],), *arguments, num_warps=1)
    return out


@operation(_empty_gradients)
def prelu_gradient(gradient: Tensor, hidden: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of PReLU in `hidden` and in its one weight."""
    out = _empty_like_rows(gradient, hidden)
    parts = torch.empty(-(-hidden.numel() // _ENTRIES), device=hidden.device)
    arguments = (gradient.contiguous(), hidden.contiguous(), weight, out, parts, out.numel(), _ENTRIES)
    start("rows", "prelu_gradient", (parts.shape[0],), *arguments)
    return out, parts.sum(dtype=weight.dtype).reshape(weight.shape)
