"""Fused kernels on a GPU equal plain torch on the CPU: noise to the bit, sums within 1e-5 of the largest number."""

import pytest
import scipy.sparse as sp
import torch

from gscl_scale.model import keyed_random
from gscl_scale.model.encoder import PReLU
from gscl_scale.model.fused import noise as fused_noise
from gscl_scale.model.fused import pairs as fused_pairs
from gscl_scale.model.fused import ranking as fused_ranking
from gscl_scale.model.fused import rows as fused_rows
from gscl_scale.model.fused.availability import has_kernels
from gscl_scale.model.loss import ring_loss
from gscl_scale.model.model import normalise
from gscl_scale.model.noise import Noise, with_noise
from gscl_scale.model.pairs import pair_products
from gscl_scale.model.propagation import SparsePair, csr_tensor, sparse_product
from tests.gpu.conftest import DEVICE
from tests.model.fused.cases import LOSSES, assert_close, gradient_of, padded_case, product_case
from tests.model.test_keyed_random import KEYS
from tests.model.test_loss import case as loss_case
from tests.model.test_loss import settings

pytestmark = pytest.mark.gpu


def test_triton_is_installed_so_that_kernels_run():
    assert has_kernels(DEVICE), "install Triton as torch asks for it: this suite measures the kernels"


@pytest.mark.parametrize("key", KEYS)
def test_noise_has_the_bits_of_the_cpu(key):
    nodes = torch.randint(0, 2**40, (3000,), generator=torch.Generator().manual_seed(0))
    expected = keyed_random.uniform(key, nodes, (3000, 257), torch.device("cpu"))
    entries = fused_noise.uniform_entries(
        None, keyed_random.signed(key), nodes.to(DEVICE), (torch.arange(3000) % 257).to(DEVICE)
    )
    assert torch.equal(entries.cpu(), expected[torch.arange(3000), torch.arange(3000) % 257])
    ones = torch.ones(3000, 257, device=DEVICE)
    slopes = fused_noise.noise(-ones, nodes.to(DEVICE), None, keyed_random.signed(key), 0.0, 2.0, 0, 0.0)
    assert torch.equal(-slopes.cpu(), 2 * expected)
    kept = fused_noise.noise(ones, nodes.to(DEVICE), None, 0, 1.0, 1.0, keyed_random.signed(key), 0.3)
    assert torch.equal(kept.cpu() == 0, expected < 0.3)


@pytest.mark.parametrize("noise", [Noise(7, 0.0, 0), Noise(None, 0.3, 9), Noise(7, 0.3, 9)])
def test_slopes_and_dropout(noise):
    rows = torch.randn(3000, 257, generator=torch.Generator().manual_seed(0))
    expected = gradient_of(lambda one: with_noise(one, None, noise), rows)
    for one, other in zip(
        gradient_of(lambda one: with_noise(one, None, noise), rows.to(DEVICE)), expected, strict=True
    ):
        assert_close(one.cpu(), other, 1e-6)


def test_rows_of_length_one_and_prelu():
    rows = torch.randn(2000, 300, generator=torch.Generator().manual_seed(0))
    rows[1] = 0
    ours, peer = PReLU().to(DEVICE), torch.nn.PReLU().double()
    found = [
        *gradient_of(lambda one: fused_rows.unit_rows(one, 1e-12), rows.to(DEVICE)),
        *gradient_of(ours, rows.to(DEVICE)),
    ]
    expected = [*gradient_of(normalise, rows.double()), *gradient_of(peer, rows.double())]
    for one, other in zip([*found, ours.weight.grad], [*expected, peer.weight.grad], strict=True):
        assert_close(one.cpu(), other, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sparse_products(dtype):
    pair, dense = product_case()
    expected = gradient_of(lambda one: pair.matrix.to_dense().double() @ one, dense.to(dtype).double())
    there = pair.to(DEVICE)
    found = gradient_of(lambda one: sparse_product(there, one), dense.to(dtype).to(DEVICE))
    assert [one.dtype for one in found] == [torch.float32, dtype]
    for one, other, tolerance in zip(found, expected, (1e-5, 1e-5 if dtype == torch.float32 else 2.0**-8), strict=True):
        assert_close(one.cpu(), other, tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sparse_products_with_long_rows(dtype):
    degrees = torch.tensor([0, 1, 127, 128, 129, 256, 257, 5000])
    generator = torch.Generator().manual_seed(0)
    indptr, number = torch.cat([torch.zeros(1, dtype=torch.int64), degrees.cumsum(0)]).int(), int(degrees.sum())
    indices = torch.cat([torch.randperm(6000, generator=generator)[:degree].sort().values for degree in degrees])
    values = torch.randn(number, generator=generator)
    rows = sp.csr_array((values.numpy(), indices.numpy(), indptr.numpy()), shape=(8, 6000))
    matrix, back = (csr_tensor(one.indptr, one.indices, one.data, one.shape) for one in (rows, rows.T.tocsr()))
    pair, dense = SparsePair(matrix, back), torch.randn(6000, 200, generator=generator).to(dtype)
    there = pair.to(DEVICE)
    assert there.long[0].row.tolist() == [4, 5, 6, 6, *[7] * 39]
    found = gradient_of(lambda one: sparse_product(there, one), dense.to(DEVICE))
    expected = gradient_of(lambda one: matrix.to_dense().double() @ one, dense.double())
    for one, other, tolerance in zip(found, expected, (1e-5, 1e-5 if dtype == torch.float32 else 2.0**-8), strict=True):
        assert_close(one.cpu(), other, tolerance)


@pytest.mark.parametrize("anchors", [6, 300])
def test_products_of_members(anchors):
    left, right, pattern, member = padded_case(anchors)

    def plain(one, other):
        padded = torch.zeros(member.shape, dtype=torch.float64)
        return padded.masked_scatter(member, pair_products(one, other, pattern))

    there = [part.to(DEVICE) for part in (member, *vars(pattern).values())]
    found = gradient_of(
        lambda one, other: fused_pairs.member_products(one, other, *there),
        left.float().to(DEVICE), right.float().to(DEVICE),
    )  # fmt: skip
    for one, other in zip(found, gradient_of(plain, left, right), strict=True):
        assert_close(one.cpu(), other, 1e-5)


@pytest.mark.parametrize(("hops", "ranking", "positives", "gate", "step", "weighted", "hop_zero"), LOSSES)
def test_the_ring_loss(hops, ranking, positives, gate, step, weighted, hop_zero):
    theta, present, weight = loss_case(hops, anchors=500, weighted=weighted, longest=70)
    config = settings(ranking, positives, gate, step).model_copy(update={"hop_zero": hop_zero})
    own = [torch.linspace(-1, 1, 500, dtype=torch.float64)] if hop_zero else []
    widths, results = [one.shape[1] for one in theta], []
    masks = torch.cat(present, dim=1).to(DEVICE)
    weights = None if weight is None else torch.stack(weight, dim=1).float().to(DEVICE)

    def plain(whole, *own_A):
        results.append(ring_loss(torch.split(whole, widths, dim=1), present, weight, config, own_A=(*own_A, None)[0]))
        return results[-1].loss

    def kernels(whole, *own_A):
        results.append(fused_ranking.ring_loss(whole, masks, widths, weights, config, 500, (*own_A, None)[0]))
        return results[-1].loss

    whole = torch.cat(theta, dim=1)
    expected = gradient_of(plain, whole, *own)
    found = gradient_of(kernels, *(one.float().to(DEVICE) for one in (whole, *own)))
    for one, other in zip(found, expected, strict=True):
        assert_close(one.cpu(), other, 1e-5)
    flat, there = results[0].flat(), results[1].flat().cpu()
    assert_close(there[:-2], flat[:-2], 1e-5)
    assert_close(there[-2:], flat[-2:], 1e-3)  # a term may be on the other side of the gate
