import numpy as np
import pytest
import torch

from gscl_scale.batches.collate import Pairs
from gscl_scale.model import pairs
from gscl_scale.model.pairs import PairPattern, pair_products

ANCHORS, NODES, WIDTH = 6, 9, 4
WAYS = ["dense", "pairs"]


@pytest.fixture
def take_the_way(monkeypatch):
    """Force one of the two ways."""
    return lambda way: monkeypatch.setattr(pairs, "DENSE_PER_PAIR", 1e9 if way == "dense" else 0)


def pattern_of(present, positions):
    parts = Pairs.of(positions, present, NODES)
    names = ("indptr", "indices", "back_indptr", "back_indices", "order")
    return PairPattern(*(torch.from_numpy(getattr(parts, name)) for name in names))


def case(anchors=ANCHORS, seed=0):
    """A pattern with anchors without pairs, nodes in many pairs or in none, and the same pair twice."""
    generator = np.random.default_rng(seed)
    present = generator.random((anchors, 5)) < 0.6
    present[0], present[anchors // 2] = False, False
    positions = generator.integers(0, NODES - 1, present.shape)  # the last node is in no pair
    positions[1, :2], present[1, :2] = 3, True
    pattern = pattern_of(present, positions)
    left, right = (torch.from_numpy(generator.normal(size=(rows, WIDTH))) for rows in (anchors, NODES))
    expected = [float(left[a] @ right[u]) for a in range(anchors) for u in positions[a][present[a]]]
    return left.requires_grad_(), right.requires_grad_(), pattern, expected


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("anchors", [ANCHORS, 300])
def test_each_pair_has_its_product_in_the_order_of_the_pattern_and_its_gradient(take_the_way, way, anchors):
    take_the_way(way)
    left, right, pattern, expected = case(anchors)
    assert pair_products(left, right, pattern).tolist() == pytest.approx(expected)
    if anchors == ANCHORS:
        assert torch.autograd.gradcheck(lambda a, b: pair_products(a, b, pattern), (left, right))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_ways_agree_forward_and_back(take_the_way, dtype):
    found = []
    for way in WAYS:
        take_the_way(way)
        left, right, pattern, _ = case(300)
        left, right = (side.detach().to(dtype).requires_grad_() for side in (left, right))
        products = pair_products(left, right, pattern)
        (products * torch.linspace(-1, 1, products.shape[0], dtype=dtype)).sum().backward()
        found.append((products, left.grad, right.grad))
    assert found[0][0].dtype == dtype
    torch.testing.assert_close(found[0], found[1])
    assert (found[1][1][0] == 0).all()
    assert (found[1][2][-1] == 0).all()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("anchors", [0, 3])
def test_without_pairs_there_are_no_products_and_the_gradient_is_zero(take_the_way, way, anchors):
    take_the_way(way)
    pattern = pattern_of(np.zeros((anchors, 2), np.bool_), np.zeros((anchors, 2), np.int64))
    left, right = torch.rand(anchors, WIDTH, requires_grad=True), torch.rand(NODES, WIDTH, requires_grad=True)
    products = pair_products(left, right, pattern)
    assert products.shape == (0,)
    products.sum().backward()
    assert left.grad.shape == left.shape
    assert (right.grad == 0).all()


def test_the_cheaper_way_is_taken(monkeypatch):
    taken = []
    real = pairs._PairProducts.apply
    monkeypatch.setattr(pairs._PairProducts, "apply", lambda *arguments: taken.append(True) or real(*arguments))
    left, right, pattern, _ = case()
    pair_products(left, right, pattern)
    assert not taken
    many = torch.rand(400, WIDTH, dtype=torch.float64)
    pair_products(left, torch.cat([right, many]), pattern)
    assert taken


@pytest.mark.parametrize("way", WAYS)
def test_pairs_of_nodes_have_their_products_and_gradient(take_the_way, way):
    take_the_way(way)
    generator = np.random.default_rng(2)
    firsts, seconds = np.sort(generator.integers(0, NODES, 30)), generator.integers(0, NODES, 30)
    rows = torch.from_numpy(generator.normal(size=(NODES, WIDTH))).requires_grad_()
    pattern = PairPattern.of(firsts, seconds, NODES).to(torch.device("cpu"))
    expected = [float((rows[u] @ rows[v]).detach()) for u, v in zip(firsts, seconds, strict=True)]
    assert pair_products(rows, rows, pattern).tolist() == pytest.approx(expected)
    assert torch.autograd.gradcheck(lambda both: pair_products(both, both, pattern), (rows,))
