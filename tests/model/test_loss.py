import itertools
import math

import numpy as np
import pytest
import torch

from gscl_scale.config.loss import LossConfig
from gscl_scale.model.loss import ring_loss
from tests.model import oracles

RANKINGS, POSITIVES = ("listwise", "pairwise"), ("in", "each")
VARIANTS = list(itertools.product(RANKINGS, POSITIVES))
STEPS = (0.0, 0.1)


def case(hops, seed=0, anchors=7, dtype=torch.float64, empty=0.25, weighted=False, longest=5):
    """Random similarities, masks with padding anywhere and some rings empty, and weights."""
    generator = torch.Generator().manual_seed(100 * hops + seed)
    widths = [int(torch.randint(1, longest + 1, (), generator=generator)) for _ in range(hops)] + [2 * longest]
    theta = [
        (2 * torch.rand(anchors, width, generator=generator, dtype=torch.float64) - 1).to(dtype) for width in widths
    ]
    present = [torch.rand(anchors, width, generator=generator) < 0.7 for width in widths]
    for mask in present:
        mask[torch.rand(anchors, generator=generator) < empty] = False
    weight = [3 * torch.rand(anchors, generator=generator, dtype=torch.float64) for _ in widths] if weighted else None
    return theta, present, weight


def settings(ranking="listwise", positives="in", gate=1.0, step=0.0, temperature=0.4):
    return LossConfig(ranking=ranking, positives=positives, gate=gate, temperature=temperature, temperature_step=step)


@pytest.mark.parametrize("hops", [1, 2, 3, 4])
@pytest.mark.parametrize(("ranking", "positives"), VARIANTS)
@pytest.mark.parametrize("gate", [1.0, 0.3, 0.05])
@pytest.mark.parametrize("hop_zero", [0.0, 1.7])
def test_every_variant_equals_the_sums_written_out(hops, ranking, positives, gate, hop_zero):
    for step, weighted, seed in itertools.product(STEPS, (False, True), range(3)):
        theta, present, weight = case(hops, seed, weighted=weighted)
        config = settings(ranking, positives, gate, step).model_copy(update={"hop_zero": hop_zero})
        own = 2 * torch.rand(7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 1
        own = own if hop_zero else None
        result = ring_loss(theta, present, weight, config, own_A=own)
        loss, per_level, gated = oracles.ring_loss(theta, present, weight, config, own)
        assert result.loss.item() == pytest.approx(loss, rel=1e-10, abs=1e-10)
        assert result.per_level.tolist() == pytest.approx(per_level, rel=1e-10, abs=1e-10)
        assert float(result.gated) == pytest.approx(gated)


def test_hop_zero_pulls_an_anchor_to_itself_and_away_from_all_rings():
    config = settings().model_copy(update={"hop_zero": 1.0})
    theta, present, _ = case(2, anchors=5, empty=0)
    own = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    theta = [tensor.requires_grad_() for tensor in theta]
    with_it, without = ring_loss(theta, present, None, config, own_A=own), ring_loss(theta, present, None, config)
    (with_it.loss - without.loss).backward()
    assert (own.grad < 0).all()
    assert all((t.grad[p] > 0).all() for t, p in zip(theta, present, strict=True))
    assert with_it.per_level.tolist()[1:] == without.per_level.tolist()


def test_a_loss_computed_by_hand_comes_out():
    # one anchor, rings {1.0} and {0.0, 0.5}, beyond {-1.0}, temperature 1
    theta = [torch.tensor([[1.0]]), torch.tensor([[0.0, 0.5]]), torch.tensor([[-1.0]])]
    present = [torch.ones_like(t, dtype=torch.bool) for t in theta]
    z1, z2, z3 = math.e, 1 + math.exp(0.5), math.exp(-1)
    listwise = -(math.log(z1 / (z1 + z2 + z3)) + math.log(z2 / (z2 + z3))) / 2
    pairwise = -(math.log(z1 / (z1 + z2)) + math.log(z1 / (z1 + z3)) + math.log(z2 / (z2 + z3))) / 2
    assert float(ring_loss(theta, present, None, settings(temperature=1.0)).loss) == pytest.approx(listwise)
    assert float(ring_loss(theta, present, None, settings("pairwise", temperature=1.0)).loss) == pytest.approx(pairwise)


@pytest.mark.parametrize(("ranking", "positives"), VARIANTS)
@pytest.mark.parametrize("gate", [1.0, 0.3])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_are_those_of_the_loss(ranking, positives, gate, step, weighted):
    theta, present, weight = case(3, seed=5, anchors=3, longest=3, weighted=weighted)
    config = settings(ranking, positives, gate, step)
    for tensor in theta:
        tensor.requires_grad_()
    assert torch.autograd.gradcheck(lambda *t: ring_loss(t, present, weight, config).loss, theta)


@pytest.mark.parametrize("positives", POSITIVES)
@pytest.mark.parametrize("gate", [1.0, 0.2])
def test_listwise_and_pairwise_agree_to_the_bit_where_there_is_one_ring(positives, gate):
    theta, present, weight = case(1, weighted=True, anchors=30, dtype=torch.float32)
    results = [ring_loss(theta, present, weight, settings(ranking, positives, gate)) for ranking in RANKINGS]
    assert float(results[0].loss) == float(results[1].loss) != 0
    assert torch.equal(results[0].gated, results[1].gated)


@pytest.mark.parametrize(("ranking", "positives"), VARIANTS)
def test_a_ratio_above_the_gate_has_no_gradient_and_costs_the_gate(ranking, positives):
    theta = [torch.tensor([[0.9], [-0.9]], requires_grad=True), torch.tensor([[-0.9], [0.9]], requires_grad=True)]
    present = [torch.ones(2, 1, dtype=torch.bool)] * 2
    result = ring_loss(theta, present, None, settings(ranking, positives, gate=0.5))
    result.loss.backward()
    assert float(result.gated) == 0.5
    assert all(t.grad[0].item() == 0 and t.grad[1].item() != 0 for t in theta)
    ratio = 1 / (1 + math.exp(1.8 / 0.4))
    assert result.loss.item() == pytest.approx(-(math.log(0.5) + math.log(ratio)) / 2)


@pytest.mark.parametrize(("ranking", "positives"), VARIANTS)
@pytest.mark.parametrize("step", STEPS)
def test_an_empty_ring_has_no_term_and_changes_no_other_anchor(ranking, positives, step):
    config = settings(ranking, positives, step=step)
    theta, present, weight = case(3, anchors=6, empty=0, weighted=True)
    for mask in present:
        mask[:, 0] = True
    present[1][2] = False
    weight[1][2] = math.inf  # as the logarithm of a size over no members would be
    for tensor in theta:
        tensor.requires_grad_()
    whole = ring_loss(theta, present, weight, config)
    whole.loss.backward()
    others = [a for a in range(6) if a != 2]
    rest, alone = (
        ring_loss(*([values[rows] for values in levels] for levels in (theta, present, weight)), config)
        for rows in (others, [2])
    )
    assert whole.loss.item() == pytest.approx((5 * rest.loss.item() + alone.loss.item()) / 6)
    assert alone.per_level[1] == 0
    assert whole.per_level[1] == pytest.approx(rest.per_level[1])
    for tensor, mask in zip(theta, present, strict=True):
        assert torch.isfinite(tensor.grad).all()
        assert (tensor.grad[~mask] == 0).all()
        assert (tensor.grad[mask] != 0).any()
    # the levels around the empty one are those of a loss in which this ring stands in no comparison
    without = [0, 2, 3]
    if step == 0:
        parts = ([values[q][[2]] for q in without] for values in (theta, present, weight))
        shorter = ring_loss(*parts, config)
        assert alone.per_level[[0, 2]].tolist() == pytest.approx(shorter.per_level.tolist())


@pytest.mark.parametrize(("ranking", "positives"), VARIANTS)
@pytest.mark.parametrize("gate", [1.0, 0.1])
def test_a_ring_with_nobody_farther_has_no_term(ranking, positives, gate):
    theta, present, _ = case(2, anchors=4, empty=0)
    present[1][:], present[2][:] = False, False
    result = ring_loss([t.requires_grad_() for t in theta], present, None, settings(ranking, positives, gate))
    result.loss.backward()
    assert result.loss.item() == 0
    assert float(result.gated) == 0
    assert all((t.grad == 0).all() for t in theta)


def test_a_level_of_width_zero_is_an_empty_level():
    theta, present, _ = case(2, anchors=4, empty=0)
    losses = []
    for width in (3, 0):
        last = torch.zeros(4, width, dtype=torch.float64, requires_grad=True)
        loss = ring_loss([*theta[:2], last], [*present[:2], last.detach().bool()], None, settings()).loss
        loss.backward()
        losses.append(loss.item())
    assert losses[0] == losses[1] != 0
    assert last.grad.shape == (4, 0)


@pytest.mark.parametrize(("ranking", "positives"), VARIANTS)
def test_padding_is_never_looked_at(ranking, positives):
    theta, present, _ = case(2, anchors=5)
    spoiled = [t.masked_fill(~p, math.nan).requires_grad_() for t, p in zip(theta, present, strict=True)]
    config = settings(ranking, positives, gate=0.5, step=0.1)
    result = ring_loss(spoiled, present, None, config)
    result.loss.backward()
    assert result.loss.item() == float(ring_loss(theta, present, None, config).loss)
    assert all((t.grad[~p] == 0).all() for t, p in zip(spoiled, present, strict=True))


@pytest.mark.parametrize(("ranking", "positives"), VARIANTS)
@pytest.mark.parametrize("gate", [1.0, 1e-4])
def test_extreme_similarities_temperatures_and_weights_stay_finite(ranking, positives, gate):
    theta = [torch.tensor([[1.0, -1.0], [-1.0, -1.0]]), torch.tensor([[-1.0, 1.0], [1.0, 1.0]]), torch.ones(2, 40)]
    present = [torch.ones_like(t, dtype=torch.bool) for t in theta]
    weight = [torch.full((2,), value) for value in (40.0, -40.0, 20.0)]
    config = settings(ranking, positives, gate, temperature=1e-3)
    for used in (None, weight):
        leaves = [t.clone().requires_grad_() for t in theta]
        result = ring_loss(leaves, present, used, config)
        result.loss.backward()
        assert torch.isfinite(result.loss)
        assert all(torch.isfinite(t.grad).all() for t in leaves)


def test_single_precision_keeps_small_losses_apart_from_zero():
    # with all ratios within 1e-9 of one, a difference of two logarithms would be lost in rounding
    theta = [torch.tensor([[1.0]]), torch.tensor([[-1.0]])]
    present = [torch.ones(1, 1, dtype=torch.bool)] * 2
    loss = float(ring_loss(theta, present, None, settings(temperature=0.1)).loss)
    assert loss == pytest.approx(math.exp(-20), rel=1e-4)


def test_the_order_of_members_does_not_matter():
    theta, present, _ = case(3, anchors=6)
    order = [torch.randperm(t.shape[1], generator=torch.Generator().manual_seed(1)) for t in theta]
    turned = ([values[:, o] for values, o in zip(level, order, strict=True)] for level in (theta, present))
    config = settings("pairwise", step=0.1)
    losses = [ring_loss(*parts, None, config).loss.item() for parts in ((theta, present), turned)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-12)


def test_size_weights_make_the_loss_of_copied_members():
    # a sample of 2 that stands for 6 members is worth each member three times
    theta, present, _ = case(2, anchors=4, empty=0)
    for mask in present:
        mask[:, 0] = True
    weight = [torch.full((4,), math.log(3.0), dtype=torch.float64)] * 3
    for ranking, positives in VARIANTS:
        config = settings(ranking, positives)
        copied = ring_loss([t.repeat(1, 3) for t in theta], [p.repeat(1, 3) for p in present], None, config)
        assert float(ring_loss(theta, present, weight, config).loss) == pytest.approx(float(copied.loss))


def test_what_is_reported_carries_no_gradient():
    theta, present, _ = case(2)
    result = ring_loss([t.requires_grad_() for t in theta], present, None, settings(gate=0.5))
    assert result.loss.requires_grad
    assert not result.per_level.requires_grad
    assert not result.gated.requires_grad
    assert np.isfinite(result.per_level.numpy()).all()


@pytest.mark.parametrize(("ranking", "positives"), VARIANTS)
def test_a_similarity_that_is_not_a_number_shows_in_the_loss(ranking, positives):
    theta, present, _ = case(2, empty=0)
    present[0][0, 0], theta[0][0, 0] = True, math.nan
    assert ring_loss(theta, present, None, settings(ranking, positives, gate=0.5)).loss.isnan()
