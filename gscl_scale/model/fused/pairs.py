"""Products of anchors with the nodes that each is compared with, as operations of torch."""

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op

from gscl_scale.model.fused.launch import start

_ROWS, _COLUMNS = 32, 128  # that a program gathers at once


@custom_op("gscl_scale::member_products", mutates_args=())
def member_products(
    left: Tensor, right: Tensor, member: Tensor, indptr: Tensor, indices: Tensor,
    back_indptr: Tensor, back_indices: Tensor, order: Tensor,
) -> Tensor:  # fmt: skip
    """left[a] . right[u] at the members of padded rows [A, M], which stand in the order of the pairs; 0 elsewhere.

    The other arguments are those of a `PairPattern`.
    """
    out = torch.empty(member.shape, device=left.device)
    sides = (left.contiguous(), right.contiguous(), indptr, indices, member.contiguous())
    start("pairs", "products", (out.shape[0],), *sides, out, out.shape[1], left.shape[1], _ROWS, _COLUMNS)
    return out


@custom_op("gscl_scale::member_products_gradient", mutates_args=())
def member_products_gradient(
    gradient: Tensor, left: Tensor, right: Tensor, member: Tensor, indptr: Tensor, indices: Tensor,
    back_indptr: Tensor, back_indices: Tensor, order: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients of `member_products` in both sides: two kernels."""
    left, right, member = left.contiguous(), right.contiguous(), member.contiguous()
    of_left, of_right = torch.empty_like(left), torch.empty_like(right)
    of_pairs = torch.empty(indices.shape[0], device=left.device)
    sizes, parts = (left.shape[1], _ROWS, _COLUMNS), -(-left.shape[1] // _COLUMNS)
    arguments = (gradient.contiguous(), right, indptr, indices, member, of_left, of_pairs, member.shape[1], *sizes)
    start("pairs", "left_gradient", (left.shape[0], parts), *arguments)
    pattern = (back_indptr, back_indices, order)
    start("pairs", "right_gradient", (right.shape[0], parts), of_pairs, left, *pattern, of_right, *sizes)
    return of_left, of_right


@member_products.register_fake
def _(left: Tensor, right: Tensor, member: Tensor, *_: Tensor) -> Tensor:
    return torch.empty(member.shape, device=left.device)


@member_products_gradient.register_fake
def _(gradient: Tensor, left: Tensor, right: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
    contiguous = torch.contiguous_format
    return torch.empty_like(left, memory_format=contiguous), torch.empty_like(right, memory_format=contiguous)


def _save(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    return *member_products_gradient(gradient, *ctx.saved_tensors), *[None] * 6


member_products.register_autograd(_backward, setup_context=_save)
