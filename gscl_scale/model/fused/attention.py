"""Attention over the entries of compressed sparse rows, as operations of torch."""

from typing import Any

import torch
from torch import Tensor

from gscl_scale.model.fused.launch import start
from gscl_scale.model.fused.operation import operation

_ROWS, _VALUES = 32, 4096  # that a program gathers at once


def attend(
    hidden: Tensor, sender: Tensor, receiver: Tensor, indptr: Tensor, indices: Tensor,
    back_indptr: Tensor, back_indices: Tensor, slope: float,
) -> Tensor:  # fmt: skip
    """What each row gathers [R, heads * channels].

    hidden [N, heads * channels], sender [N, heads], receiver [R, heads]; the rows' pattern, then its transpose
    """
    arguments = (hidden, sender, receiver, indptr, indices, back_indptr, back_indices, slope)
    result: Tensor = _Attend.apply(*arguments)  # type: ignore[no-untyped-call]  # torch's apply
    return result


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        *tensors, ctx.slope = arguments
        out, state = _attend(*tensors[:5], ctx.slope)
        ctx.save_for_backward(out, state, *tensors)
        rows: Tensor = out
        return rows

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return *_attend_gradient(gradient, *ctx.saved_tensors, ctx.slope), *[None] * 5


def _empty_results(hidden: Tensor, sender: Tensor, receiver: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    rows = torch.empty(receiver.shape[0], hidden.shape[1], device=hidden.device)
    return rows, torch.empty(*receiver.shape, 2, device=hidden.device)


def _empty_gradients(
    gradient: Tensor, out: Tensor, state: Tensor, hidden: Tensor, sender: Tensor, receiver: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    contiguous = torch.contiguous_format
    of_hidden, of_sender, of_receiver = (
        torch.empty_like(one, memory_format=contiguous) for one in (hidden, sender, receiver)
    )
    return of_hidden, of_sender, of_receiver


@operation(_empty_results)
def _attend(
    hidden: Tensor, sender: Tensor, receiver: Tensor, indptr: Tensor, indices: Tensor, slope: float
) -> tuple[Tensor, Tensor]:
    """(what each row gathers, largest term and divisor of each softmax [R, heads, 2])."""
    out, state = _empty_results(hidden, sender, receiver)
    arguments = (hidden.contiguous(), sender.contiguous(), receiver.contiguous(), indptr, indices, out, state)
    heads = receiver.shape[1]
    start("attention", "attend", tuple(receiver.shape), *arguments, heads, slope, *_sizes(hidden, heads), num_warps=1)
    return out, state


@operation(_empty_gradients)
def _attend_gradient(
    gradient: Tensor, out: Tensor, state: Tensor, hidden: Tensor, sender: Tensor, receiver: Tensor, indptr: Tensor,
    indices: Tensor, back_indptr: Tensor, back_indices: Tensor, slope: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of `attend` in what is sent and in the terms of senders and receivers: two kernels."""
    gradient, hidden, sender, receiver = (one.contiguous() for one in (gradient, hidden, sender, receiver))
    of_hidden, of_sender, of_receiver = _empty_gradients(gradient, out, state, hidden, sender, receiver)
    along, options = torch.empty_like(receiver), (receiver.shape[1], slope, *_sizes(hidden, receiver.shape[1]))
    arguments = (gradient, out, hidden, sender, receiver, state, indptr, indices, along, of_receiver)
    start("attention", "receiver_gradient", tuple(receiver.shape), *arguments, *options, num_warps=1)
    arguments = (gradient, hidden, sender, receiver, state, along, back_indptr, back_indices, of_hidden, of_sender)
    start("attention", "sender_gradient", tuple(sender.shape), *arguments, *options, num_warps=1)
    return of_hidden, of_sender, of_receiver


def _sizes(hidden: Tensor, heads: int) -> tuple[int, int, int]:
    """Rows that a program gathers at once, channels of a head, and the power of two from there."""
    channels = hidden.shape[1] // heads
    power = 1 << (channels - 1).bit_length()
    return max(2, min(_ROWS, _VALUES // power)), channels, power
