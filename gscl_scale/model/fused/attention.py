"""Attention over the entries of compressed sparse rows, as operations of torch."""

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from gscl_scale.model.fused.launch import start

_ROWS, _VALUES = 32, 4096  # that a program gathers at once


@custom_op("gscl_scale::attend", mutates_args=())
def attend(
    hidden: Tensor, sender: Tensor, receiver: Tensor, indptr: Tensor, indices: Tensor,
    back_indptr: Tensor, back_indices: Tensor, slope: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """(what each row gathers [R, heads * channels], largest term and divisor of each softmax [R, heads, 2]).

    hidden [N, heads * channels], sender [N, heads], receiver [R, heads]; the rows' pattern, then its transpose
    """
    out, state = _results(hidden, receiver)
    arguments = (hidden.contiguous(), sender.contiguous(), receiver.contiguous(), indptr, indices, out, state)
    heads = receiver.shape[1]
    start("attention", "attend", tuple(receiver.shape), *arguments, heads, slope, *_sizes(hidden, heads))
    return out, state


@custom_op("gscl_scale::attend_gradient", mutates_args=())
def attend_gradient(
    gradient: Tensor, out: Tensor, state: Tensor, hidden: Tensor, sender: Tensor, receiver: Tensor, indptr: Tensor,
    indices: Tensor, back_indptr: Tensor, back_indices: Tensor, slope: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of `attend` in what is sent and in the terms of senders and receivers: two kernels."""
    gradient, hidden, sender, receiver = (one.contiguous() for one in (gradient, hidden, sender, receiver))
    of_hidden, of_sender, of_receiver = (torch.empty_like(one) for one in (hidden, sender, receiver))
    along, options = torch.empty_like(receiver), (receiver.shape[1], slope, *_sizes(hidden, receiver.shape[1]))
    arguments = (gradient, out, hidden, sender, receiver, state, indptr, indices, along, of_receiver)
    start("attention", "receiver_gradient", tuple(receiver.shape), *arguments, *options)
    arguments = (gradient, hidden, sender, receiver, state, along, back_indptr, back_indices, of_hidden, of_sender)
    start("attention", "sender_gradient", tuple(sender.shape), *arguments, *options)
    return of_hidden, of_sender, of_receiver


@attend.register_fake
def _(hidden: Tensor, sender: Tensor, receiver: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return _results(hidden, receiver)


@attend_gradient.register_fake
def _(
    gradient: Tensor, out: Tensor, state: Tensor, hidden: Tensor, sender: Tensor, receiver: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    contiguous = torch.contiguous_format
    of_hidden, of_sender, of_receiver = (
        torch.empty_like(one, memory_format=contiguous) for one in (hidden, sender, receiver)
    )
    return of_hidden, of_sender, of_receiver


def _results(hidden: Tensor, receiver: Tensor) -> tuple[Tensor, Tensor]:
    rows = torch.empty(receiver.shape[0], hidden.shape[1], device=hidden.device)
    return rows, torch.empty(*receiver.shape, 2, device=hidden.device)


def _sizes(hidden: Tensor, heads: int) -> tuple[int, int, int]:
    """Rows that a program gathers at once, channels of a head, and the power of two from there."""
    channels = hidden.shape[1] // heads
    power = 1 << (channels - 1).bit_length()
    return max(2, min(_ROWS, _VALUES // power)), channels, power


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.slope = inputs
    ctx.set_materialize_grads(False)  # nobody reads the state
    ctx.save_for_backward(*output, *tensors)


def _backward(ctx: Any, gradient: Tensor, _: None) -> tuple[Tensor | None, ...]:
    return *attend_gradient(gradient, *ctx.saved_tensors, ctx.slope), *[None] * 5


attend.register_autograd(_backward, setup_context=_save)
