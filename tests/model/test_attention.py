"""Our attention is the one of torch-geometric, forward and back."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.nn import GATConv

from gscl_scale.model import attention
from gscl_scale.model.encoder import GatLayer
from gscl_scale.model.inputs import Layer
from gscl_scale.model.propagation import SparsePair, csr_tensor
from tests.model.fused.cases import assert_close, attention_case, gradient_of

#: (nodes below, nodes of the layer, whether each entry has its opposite)
SHAPES = [(40, 40, True), (40, 40, False), (40, 9, False), (700, 600, False)]


def pattern_of(below, rows, symmetric):
    """Entries with loops; node 3 has no other one, node 0 is a hub."""
    dense = np.random.default_rng(0).random((rows, below)) < 3 / below
    dense[0] = True
    if symmetric:
        dense |= dense.T
    dense[3], dense[:, 3] = False, False
    dense[np.arange(rows), np.arange(rows)] = True
    matrix = sp.csr_array(dense.astype(np.float32))
    back = sp.csr_array(matrix.T)
    sides = (csr_tensor(one.indptr, one.indices, one.data, one.shape) for one in (matrix, back))
    return SparsePair(*sides), torch.from_numpy(np.stack(dense.nonzero()[::-1]))


def results(run, hidden, layer):
    """Rows, and the gradients in what is read and in every weight."""
    hidden = hidden.clone().requires_grad_()
    rows = run(hidden)
    (rows * torch.linspace(-1, 2, rows.numel()).view(rows.shape)).sum().backward()
    return [rows.detach(), hidden.grad, *(one.grad for one in layer.parameters())]


@pytest.mark.parametrize(("below", "rows", "symmetric"), SHAPES)
@pytest.mark.parametrize("width", [16, 5])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_rows_and_gradients_are_those_of_torch_geometric(below, rows, symmetric, width, dtype, tolerance):
    pair, edges = pattern_of(below, rows, symmetric)
    torch.manual_seed(0)
    hidden, layer = torch.randn(below, 6, dtype=dtype), GatLayer(6, width, True).to(dtype)
    heads = layer.conv.heads
    peer = GATConv(6, width // heads, heads, add_self_loops=False).to(dtype)
    peer.load_state_dict(layer.conv.state_dict())
    own = None if rows == below else torch.arange(rows)
    found = results(lambda one: layer(one, Layer(pair, own), None), hidden, layer)
    expected = results(lambda one: peer((one, one[:rows]), edges), hidden, peer)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == dtype
        assert_close(one, other, tolerance)


def test_under_autocast_terms_and_sums_are_in_single_precision():
    pair, edges = pattern_of(40, 40, False)
    torch.manual_seed(0)
    hidden, layer = torch.randn(40, 6), GatLayer(6, 16, True)
    peer = GATConv(6, 2, 8, add_self_loops=False)
    peer.load_state_dict(layer.conv.state_dict())
    with torch.autocast("cpu", torch.bfloat16):
        found = results(lambda one: layer(one, Layer(pair), None), hidden, layer)
        expected = results(lambda one: peer(one, edges), hidden, peer)
    assert_close(found[0], expected[0], 1e-5)
    for one, other in zip(found[1:], expected[1:], strict=True):
        assert_close(one, other, 1e-2)


def test_large_terms_do_not_overflow_and_rows_without_entries_are_zero():
    pair, hidden, sender, receiver = attention_case(2, 3)
    pattern = (pair.matrix.crow_indices(), pair.matrix.col_indices())
    given = (hidden.double(), 1000 * sender.double(), receiver.double())
    found = gradient_of(lambda *rows: attention.attend(pair, *rows, 0.2), *given)
    expected = gradient_of(lambda *rows: attention.attend_plainly(*pattern, *rows, 0.2), *given)
    assert (found[0][1] == 0).all()
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, 1e-12)


def test_any_number_of_threads_gives_the_same_bits():
    pair, _ = pattern_of(700, 600, False)
    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(size, generator=generator) for size in ((700, 16), (700, 8), (600, 8))]
    threads, found = torch.get_num_threads(), []
    try:
        for number in (1, 3):
            torch.set_num_threads(number)
            found.append(gradient_of(lambda *rows: attention.attend(pair, *rows, 0.2), *given))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))
