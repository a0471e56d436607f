"""Rows brought to length one, and the gradient of PReLU, as operations of torch."""

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from gscl_scale.model.fused.launch import start

_COLUMNS, _ENTRIES = 256, 4096  # that a program reads at once


@custom_op("gscl_scale::unit_rows", mutates_args=())
def unit_rows(rows: Tensor, shortest: float) -> Tensor:
    """Rows [N, D] brought to length one in single precision; those that are no longer than `shortest` become 0."""
    out = torch.empty(rows.shape, device=rows.device)
    start("rows", "unit_rows", (out.shape[0],), rows.contiguous(), out, out.shape[1], shortest, _COLUMNS)
    return out


@custom_op("gscl_scale::unit_rows_gradient", mutates_args=())
def unit_rows_gradient(gradient: Tensor, rows: Tensor, shortest: float) -> Tensor:
    """The gradient of `unit_rows`."""
    out = torch.empty(rows.shape, dtype=rows.dtype, device=rows.device)
    arguments = (gradient.contiguous(), rows.contiguous(), out, out.shape[1], shortest, _COLUMNS)
    start("rows", "unit_rows_gradient", (out.shape[0],), *arguments)
    return out


@custom_op("gscl_scale::prelu_gradient", mutates_args=())
def prelu_gradient(gradient: Tensor, hidden: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of PReLU in `hidden` and in its one weight."""
    out = torch.empty(hidden.shape, dtype=hidden.dtype, device=hidden.device)
    parts = torch.empty(-(-hidden.numel() // _ENTRIES), device=hidden.device)
    arguments = (gradient.contiguous(), hidden.contiguous(), weight, out, parts, out.numel(), _ENTRIES)
    start("rows", "prelu_gradient", (parts.shape[0],), *arguments)
    return out, parts.sum(dtype=weight.dtype).reshape(weight.shape)


@unit_rows.register_fake
def _(rows: Tensor, shortest: float) -> Tensor:
    return torch.empty(rows.shape, device=rows.device)


@unit_rows_gradient.register_fake
def _(gradient: Tensor, rows: Tensor, shortest: float) -> Tensor:
    return torch.empty(rows.shape, dtype=rows.dtype, device=rows.device)


@prelu_gradient.register_fake
def _(gradient: Tensor, hidden: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty(hidden.shape, dtype=hidden.dtype, device=hidden.device), torch.empty_like(weight)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    rows, ctx.shortest = inputs
    ctx.save_for_backward(rows)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    return unit_rows_gradient(gradient, *ctx.saved_tensors, ctx.shortest), None


unit_rows.register_autograd(_backward, setup_context=_save)
