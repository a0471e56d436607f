"""Products of anchors with the nodes that each is compared with, in the cheaper of two ways."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gscl_scale.model import kernels
from gscl_scale.model.propagation import entry_rows, pattern_times_dense

DENSE_PER_PAIR = 20  # on the CPU a pair costs as much as this many products of the dense matrix
_MOST_DENSE = 1 << 28  # entries
_PIECE = 1 << 18  # pairs

Nodes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PairPattern:
    """Rows of anchors, entries at the nodes that they are compared with; and the same by node.

    indptr [A + 1], indices [P]                        positions of nodes
    back_indptr [U + 1], back_indices [P], order [P]   positions of anchors, and which of the P pairs
    """

    indptr: Tensor
    indices: Tensor
    back_indptr: Tensor
    back_indices: Tensor
    order: Tensor

    @classmethod
    def of(cls, firsts: Nodes, seconds: Nodes, num_nodes: int) -> "PairPattern":
        """Pairs of nodes, in ascending order of the first."""
        order = np.argsort(seconds, kind="stable")
        parts = (_pointers(firsts, num_nodes), seconds, _pointers(seconds, num_nodes), firsts[order])
        indptr, indices, back_indptr, back_indices = (torch.from_numpy(part.astype(np.int32)) for part in parts)
        return cls(indptr, indices, back_indptr, back_indices, torch.from_numpy(order))

    def to(self, device: torch.device) -> "PairPattern":
        """The pattern on a device."""
        return PairPattern(*(getattr(self, part.name).to(device) for part in fields(self)))


def _pointers(nodes: Nodes, num_nodes: int) -> Nodes:
    return np.concatenate([[0], np.cumsum(np.bincount(nodes, minlength=num_nodes))])


def pair_products(left_AD: Tensor, right_UD: Tensor, pattern: PairPattern) -> Tensor:
    """left[a] . right[u] for every pair of the pattern [P]."""
    anchors, nodes, pairs = left_AD.shape[0], right_UD.shape[0], pattern.indices.shape[0]
    few = anchors * nodes <= DENSE_PER_PAIR * pairs
    if few or (left_AD.device.type != "cpu" and anchors * nodes <= _MOST_DENSE):
        return (left_AD @ right_UD.T).view(-1)[entry_rows(pattern.indptr, pairs) * nodes + pattern.indices]
    result: Tensor = _PairProducts.apply(left_AD, right_UD, pattern)  # type: ignore[no-untyped-call]  # torch's apply
    return result


class _PairProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, pattern: PairPattern) -> Tensor:
        ctx.save_for_backward(left, right)
        ctx.pattern = pattern
        if left.device.type == "cpu":
            parts = (pattern.indptr, pattern.indices, left.detach().contiguous(), right.detach().contiguous())
            return torch.from_numpy(kernels.dots(*(part.numpy() for part in parts)))
        rows = entry_rows(pattern.indptr, pattern.indices.shape[0])
        pieces = zip(torch.split(rows, _PIECE), torch.split(pattern.indices, _PIECE), strict=True)
        return torch.cat([(left[a] * right[u]).sum(dim=1) for a, u in pieces])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient_P: Tensor) -> tuple[Tensor, Tensor, None]:
        (left, right), p = ctx.saved_tensors, ctx.pattern
        left_gradient = pattern_times_dense(p.indptr, p.indices, gradient_P, right)
        right_gradient = pattern_times_dense(p.back_indptr, p.back_indices, gradient_P[p.order], left)
        return left_gradient, right_gradient, None
