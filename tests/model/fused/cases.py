"""What the kernels are tried with, in the interpreter and on a GPU."""

import scipy.sparse as sp
import torch

from gscl_scale.model.propagation import SparsePair, csr_tensor
from tests.model.test_pairs import case as pairs_case

LOSSES = [
    # hops, ranking, positives, gate, step, weighted, hop zero: each with each other at least once
    (1, "listwise", "in", 1.0, 0.0, False, 0.0),
    (3, "listwise", "in", 0.3, 0.1, True, 1.7),
    (2, "listwise", "each", 1.0, 0.1, False, 1.7),
    (3, "listwise", "each", 0.3, 0.0, True, 0.0),
    (2, "pairwise", "in", 0.3, 0.0, False, 1.7),
    (3, "pairwise", "in", 1.0, 0.1, True, 0.0),
    (3, "pairwise", "each", 0.3, 0.1, False, 0.0),
    (2, "pairwise", "each", 1.0, 0.0, True, 1.7),
]


def assert_close(found, expected, tolerance=1e-6):
    """Within so much of the largest number, or of 1."""
    scale = max(1.0, float(expected.abs().max()) if expected.numel() else 0.0)
    torch.testing.assert_close(found.double(), expected.double(), rtol=0, atol=tolerance * scale)


def gradient_of(function, *inputs):
    """The result of a function, and the gradients of its weighted sum."""
    inputs = [one.detach().clone().requires_grad_() for one in inputs]
    result = function(*inputs)
    weights = torch.linspace(-1, 2, result.numel()).bfloat16().to(result)
    (result * weights.view(result.shape)).sum().backward()
    return [result.detach(), *(one.grad for one in inputs)]


def product_case():
    """(a pair whose first row is a hub and whose second is empty, columns in two blocks), for backend triton."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.rand(7, 90, generator=generator) * (torch.rand(7, 90, generator=generator) < 0.1)
    matrix[0], matrix[1] = torch.rand(90, generator=generator), 0
    rows, back = sp.csr_array(matrix.numpy()), sp.csr_array(matrix.T.numpy())
    sides = (csr_tensor(side.indptr, side.indices, side.data, side.shape) for side in (rows, back))
    return SparsePair(*sides, "triton"), torch.randn(90, 130, generator=generator)


def padded_case(anchors):
    """(rows of anchors and nodes in double precision, pattern, which entries of padded rows are members)."""
    left, right, pattern, _ = pairs_case(anchors)
    left, right = (torch.cat([side.detach()] * 33, dim=1) for side in (left, right))  # 132 columns: two blocks
    counts = pattern.indptr.diff()
    member = torch.zeros(anchors, int(counts.max()) + 34, dtype=torch.bool)  # and two blocks of entries
    for row, count in enumerate(counts.tolist()):
        member[row, torch.randperm(member.shape[1], generator=torch.Generator().manual_seed(row))[:count]] = True
    return left, right, pattern, member


def attention_case(heads, channels):
    """(a pair whose first row is a hub and whose second is empty, what is sent, terms of senders and of receivers)."""
    pair, _ = product_case()
    generator = torch.Generator().manual_seed(1)
    sizes = ((90, heads * channels), (90, heads), (7, heads))
    return pair, *(2 * torch.randn(size, generator=generator) for size in sizes)
