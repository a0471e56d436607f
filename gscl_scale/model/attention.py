"""Attention of nodes over their neighbours, with its gradient, without a row per edge in memory."""

from typing import Any

import torch
from torch import Tensor

from gscl_scale.model import attention_kernels as kernels
from gscl_scale.model.fused import attention as fused
from gscl_scale.model.fused.availability import runs_fused
from gscl_scale.model.propagation import SparsePair, entry_rows


def attend(pair: SparsePair, hidden: Tensor, sender: Tensor, receiver: Tensor, slope: float) -> Tensor:
    """Rows [R, heads * channels] that are gathered by attention, in the precision of the terms.

    Row i is, head by head, the sum of hidden_j over the entries j of row i of the pattern, weighted by the softmax over
    these of leaky_relu(sender_j + receiver_i). The values of the pattern are not read.

    hidden [N, heads * channels], sender [N, heads], receiver [R, heads]
    """
    matrix, back = pair.matrix, pair.transposed
    patterns = (matrix.crow_indices(), matrix.col_indices(), back.crow_indices(), back.col_indices())
    if runs_fused(hidden) and sender.dtype == torch.float32:
        return fused.attend(hidden, sender, receiver, *patterns, slope)
    hidden = hidden.to(sender.dtype)  # of lower precision under autocast
    if hidden.device.type == "cpu":
        result: Tensor = _Attention.apply(hidden, sender, receiver, patterns, slope)  # type: ignore[no-untyped-call]  # torch's apply
        return result
    return attend_plainly(patterns[0], patterns[1], hidden, sender, receiver, slope)


def attend_plainly(
    indptr: Tensor, indices: Tensor, hidden: Tensor, sender: Tensor, receiver: Tensor, slope: float
) -> Tensor:
    """`attend` by operations of torch, which write one row per edge: for a GPU without Triton."""
    row, heads = entry_rows(indptr, indices.shape[0]), receiver.shape[1]
    column = indices.long()
    term = torch.nn.functional.leaky_relu(sender[column] + receiver[row], slope)
    where = row[:, None].expand_as(term)
    top = torch.full_like(receiver, -torch.inf).scatter_reduce(0, where, term.detach(), "amax")
    weight = (term - top.detach()[row]).exp()
    weight = weight / torch.zeros_like(receiver).index_add(0, row, weight)[row]
    messages = hidden.view(hidden.shape[0], heads, -1)[column] * weight[:, :, None]
    return hidden.new_zeros(receiver.shape[0], hidden.shape[1]).index_add(0, row, messages.flatten(1))


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, sender: Tensor, receiver: Tensor, patterns: tuple[Tensor, ...], slope: float
    ) -> Tensor:
        indptr, indices, *_ = (one.numpy() for one in patterns)
        sent, left, right = (one.detach().contiguous().numpy() for one in (hidden, sender, receiver))
        out, state = (torch.from_numpy(one) for one in kernels.attend(indptr, indices, sent, left, right, slope))
        ctx.patterns, ctx.slope = patterns, slope
        ctx.save_for_backward(hidden, sender, receiver, state, out)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        *saved, out, coming = (one.detach().contiguous().numpy() for one in (*ctx.saved_tensors, gradient))
        indptr, indices, back_indptr, back_indices = (one.numpy() for one in ctx.patterns)
        parts = tuple(saved)
        of_receiver, along = kernels.receiver_gradient(indptr, indices, parts, out, coming, ctx.slope)
        of_hidden, of_sender = kernels.sender_gradient(back_indptr, back_indices, parts, along, coming, ctx.slope)
        return *(torch.from_numpy(one) for one in (of_hidden, of_sender, of_receiver)), None, None
