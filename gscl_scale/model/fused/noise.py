"""Keyed noise as operations of torch: one kernel each, and one more for the gradient."""

from typing import Any

import torch
from torch import Tensor

from gscl_scale.model.fused.launch import start
from gscl_scale.model.fused.operation import operation

_ROWS, _COLUMNS, _ENTRIES = 2, 256, 1024  # of a program


def noise(
    hidden: Tensor, nodes: Tensor | None, base: Tensor | None,
    slope_key: int, lower: float, upper: float, drop_key: int, share: float,
) -> Tensor:  # fmt: skip
    """Rows whose negative values have random slopes (none where `upper` is 1) and of which a share is dropped.

    Keys are signed, and added to `base` where there is one on the device. `nodes` are those of the rows; None: all, in
    order.
    """
    arguments = (hidden, nodes, base, slope_key, lower, upper, drop_key, share)
    result: Tensor = _Noise.apply(*arguments)  # type: ignore[no-untyped-call]  # torch's apply
    return result


class _Noise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        hidden, ctx.nodes, ctx.base, *ctx.settings = arguments
        ctx.save_for_backward(*([hidden] if ctx.settings[2] != 1 else []))
        rows: Tensor = _noise(*arguments)
        return rows

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (hidden,) = ctx.saved_tensors or (None,)
        return _noise_gradient(gradient, hidden, ctx.nodes, ctx.base, *ctx.settings), *[None] * 7


def _empty_numbers(base: Tensor | None, key: int, nodes: Tensor, columns: Tensor) -> Tensor:
    return torch.empty(nodes.shape[0], device=nodes.device)


def _empty_rows(rows: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(rows, memory_format=torch.contiguous_format)


@operation(_empty_numbers)
def uniform_entries(base: Tensor | None, key: int, nodes: Tensor, columns: Tensor) -> Tensor:
    """`keyed_random.uniform_entries`; `key` is signed, and added to `base` where there is one on the device."""
    out = _empty_numbers(base, key, nodes, columns)
    arguments = (base, key, nodes.contiguous(), columns.contiguous(), out, out.shape[0], _ENTRIES)
    start("noise", "uniform_entries", (-(-out.shape[0] // _ENTRIES),), *arguments)
    return out


@operation(_empty_rows)
def _noise(
    hidden: Tensor, nodes: Tensor | None, base: Tensor | None,
    slope_key: int, lower: float, upper: float, drop_key: int, share: float,
) -> Tensor:  # fmt: skip
    return _launch("noise", (hidden.contiguous(),), nodes, base, slope_key, lower, upper, drop_key, share)


@operation(_empty_rows)
def _noise_gradient(
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
    out = _empty_rows(sources[0])
    rows, width = out.shape
    start(
        "noise", kernel, (-(-rows // _ROWS), -(-width // _COLUMNS)),
        *sources, nodes, base, out, rows, width, slope_key, lower, upper, drop_key, share,
        nodes is not None, upper != 1, share > 0, _ROWS, _COLUMNS, num_warps=1,
    )  # fmt: skip
    return out
