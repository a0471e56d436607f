"""Keyed noise as operations of torch: one kernel each, and one more for the gradient."""

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from gscl_scale.model.fused.launch import start

_ROWS, _COLUMNS, _ENTRIES = 8, 128, 1024  # of a program


@custom_op("gscl_scale::uniform_entries", mutates_args=())
def uniform_entries(base: Tensor | None, key: int, nodes: Tensor, columns: Tensor) -> Tensor:
    """`keyed_random.uniform_entries`; `key` is signed, and added to `base` where there is one on the device."""
    out = torch.empty(nodes.shape[0], device=nodes.device)
    arguments = (base, key, nodes.contiguous(), columns.contiguous(), out, out.shape[0], _ENTRIES)
    start("noise", "uniform_entries", (-(-out.shape[0] // _ENTRIES),), *arguments)
    return out


@uniform_entries.register_fake
def _(base: Tensor | None, key: int, nodes: Tensor, columns: Tensor) -> Tensor:
    return torch.empty(nodes.shape[0], device=nodes.device)


@custom_op("gscl_scale::noise", mutates_args=())
def noise(
    hidden: Tensor, nodes: Tensor | None, base: Tensor | None,
    slope_key: int, lower: float, upper: float, drop_key: int, share: float,
) -> Tensor:  # fmt: skip
    """Rows whose negative values have random slopes (none where `upper` is 1) and of which a share is dropped.

    Keys are signed, and added to `base` where there is one on the device. `nodes` are those of the rows; None: all, in
    order.
    """
    return _launch("noise", (hidden.contiguous(),), nodes, base, slope_key, lower, upper, drop_key, share)


@custom_op("gscl_scale::noise_gradient", mutates_args=())
def noise_gradient(
    gradient: Tensor, hidden: Tensor | None, nodes: Tensor | None, base: Tensor | None,
    slope_key: int, lower: float, upper: float, drop_key: int, share: float,
) -> Tensor:  # fmt: skip
    """The gradient of `noise`; `hidden` is None where there are no slopes."""
    gradient = gradient.contiguous()
    sources = (gradient, gradient if hidden is None else hidden.contiguous())
    return _launch("noise_gradient", sources, nodes, base, slope_key, lower, upper, drop_key, share)


def _launch(
    kernel: str, sources: tuple[Tensor, ...], nodes: Tensor | None, base: Tensor | None,
    slope_key: int, lower: float, upper: float, drop_key: int, share: float,
) -> Tensor:  # fmt: skip
    out = torch.empty_like(sources[0])
    rows, width = out.shape
    start(
        "noise", kernel, (-(-rows // _ROWS), -(-width // _COLUMNS)),
        *sources, nodes, base, out, rows, width, slope_key, lower, upper, drop_key, share,
        nodes is not None, upper != 1, share > 0, _ROWS, _COLUMNS,
    )  # fmt: skip
    return out


@noise.register_fake
def _(hidden: Tensor, *_: object) -> Tensor:
    return torch.empty_like(hidden, memory_format=torch.contiguous_format)


@noise_gradient.register_fake
def _(gradient: Tensor, *_: object) -> Tensor:
    return torch.empty_like(gradient, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    hidden, ctx.nodes, ctx.base, *ctx.settings = inputs
    ctx.save_for_backward(*([hidden] if ctx.settings[2] != 1 else []))


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    (hidden,) = ctx.saved_tensors or (None,)
    return noise_gradient(gradient, hidden, ctx.nodes, ctx.base, *ctx.settings), *[None] * 7


noise.register_autograd(_backward, setup_context=_save)
