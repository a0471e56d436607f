"""Products of anchors with the nodes that each is compared with, as operations of torch."""

from typing import Any

import torch
from torch import Tensor

from gscl_scale.model.fused.launch import start
from gscl_scale.model.fused.operation import operation

_ROWS, _COLUMNS = 32, 64  # that a program gathers at once


def member_products(
    left: Tensor, right: Tensor, member: Tensor, indptr: Tensor, indices: Tensor,
    back_indptr: Tensor, back_indices: Tensor, order: Tensor,
) -> Tensor:  # fmt: skip
    """left[a] . right[u] at the members of padded rows [A, M], which stand in the order of the pairs; 0 elsewhere.

    The other arguments are those of a `PairPattern`.
    """
    arguments = (left, right, member, indptr, indices, back_indptr, back_indices, order)
    result: Tensor = _MemberProducts.apply(*arguments)  # type: ignore[no-untyped-call]  # torch's apply
    return result


class _MemberProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Tensor) -> Tensor:
        ctx.save_for_backward(*arguments)
        return _member_products(*arguments[:5])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return *_member_products_gradient(gradient, *ctx.saved_tensors), *[None] * 6


def _empty_products(left: Tensor, right: Tensor, member: Tensor, *_: Tensor) -> Tensor:
    return torch.empty(member.shape, device=left.device)


def _empty_gradients(gradient: Tensor, left: Tensor, right: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
    contiguous = torch.contiguous_format
    return torch.empty_like(left, memory_format=contiguous), torch.empty_like(right, memory_format=contiguous)


@operation(_empty_products)
def _member_products(left: Tensor, right: Tensor, member: Tensor, indptr: Tensor, indices: Tensor) -> Tensor:
    out = _empty_products(left, right, member)
    sides = (left.contiguous(), right.contiguous(), indptr, indices, member.contiguous())
    sizes = (out.shape[1], left.shape[1], _ROWS, _COLUMNS)
    start("pairs", "products", (out.shape[0],), *sides, out, *sizes, num_warps=1)
    return out


@operation(_empty_gradients)
def _member_products_gradient(
    gradient: Tensor, left: Tensor, right: Tensor, member: Tensor, indptr: Tensor, indices: Tensor,
    back_indptr: Tensor, back_indices: Tensor, order: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The gradients of `member_products` in both sides: two kernels."""
    left, right, member = left.contiguous(), right.contiguous(), member.contiguous()
    of_left, of_right = _empty_gradients(gradient, left, right)
    of_pairs = torch.empty(indices.shape[0], device=left.device)
    sizes, parts = (left.shape[1], _ROWS, _COLUMNS), -(-left.shape[1] // _COLUMNS)
    arguments = (gradient.contiguous(), right, indptr, indices, member, of_left, of_pairs, member.shape[1], *sizes)
    start("pairs", "left_gradient", (left.shape[0], parts), *arguments, num_warps=1)
    pattern = (back_indptr, back_indices, order)
    others = (of_pairs, left, *pattern, of_right, *sizes)
    start("pairs", "right_gradient", (right.shape[0], parts), *others, num_warps=1)
    return of_left, of_right
