"""The kernels in Triton's interpreter equal plain torch; `test_kernels` runs this file in a process of its own."""

import os

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from triton.runtime.interpreter import InterpretedFunction

from gscl_scale.batches.stream import BatchStream
from gscl_scale.config.config import Config
from gscl_scale.model import keyed_random
from gscl_scale.model.attention import attend, attend_plainly
from gscl_scale.model.encoder import PReLU
from gscl_scale.model.fused import availability
from gscl_scale.model.fused import noise as fused_noise
from gscl_scale.model.fused import pairs as fused_pairs
from gscl_scale.model.fused import ranking as fused_ranking
from gscl_scale.model.fused import rows as fused_rows
from gscl_scale.model.fused.product import LongRows, csr_product
from gscl_scale.model.inputs import prepare_inputs
from gscl_scale.model.loss import ring_loss
from gscl_scale.model.model import build_model, normalise
from gscl_scale.model.noise import Noise, with_noise
from gscl_scale.model.pairs import pair_products
from gscl_scale.model.propagation import sparse_product
from gscl_scale.shards.reader import Samples
from gscl_scale.train.step import batch_inputs, batch_loss
from tests.graphs import make_graph, make_samples, random_edges
from tests.meta_device import KERNELS
from tests.model.fused.cases import LOSSES, assert_close, attention_case, gradient_of, padded_case, product_case
from tests.model.graphs import random_features
from tests.model.test_keyed_random import KEYS, NODES
from tests.model.test_loss import case as loss_case
from tests.model.test_loss import settings
from tests.slow import slow

assert os.environ["TRITON_INTERPRET"] == "1"
#: the interpreter computes with numpy, which warns where a GPU gives minus infinity or 0
pytestmark = [
    pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning"),
]
CLOSE = {"rtol": 1e-6, "atol": 1e-6}


@pytest.fixture
def fused(monkeypatch):
    """Everything that has kernels computes by them."""
    monkeypatch.setattr(availability, "has_kernels", lambda device: True)


@pytest.mark.parametrize("key", KEYS)
def test_single_numbers_have_the_bits_of_the_kernels_of_the_cpu(key):
    nodes, columns = NODES.repeat(40), torch.arange(240)
    expected = keyed_random.uniform_entries(key, nodes, columns)
    for kind in (torch.int64, torch.int32):
        for base, number in ((None, keyed_random.signed(key)), (before(key, 5), 5)):
            assert torch.equal(fused_noise.uniform_entries(base, number, nodes, columns.to(kind)), expected)


def before(key, number):
    """A key on the device that becomes this one where the number is added."""
    return torch.tensor(keyed_random.signed((key - number) % 2**64))


@pytest.mark.parametrize("nodes", [None, NODES])
@pytest.mark.parametrize("key", KEYS)
def test_rows_have_the_bits_of_the_kernels_of_the_cpu(key, nodes):
    shape = (6 if nodes is not None else 11, 130)
    expected = keyed_random.uniform(key, nodes, shape, torch.device("cpu"))
    slopes = fused_noise.noise(-torch.ones(shape), nodes, None, keyed_random.signed(key), 0.0, 2.0, 0, 0.0)
    assert torch.equal(-slopes, 2 * expected)
    dropped = fused_noise.noise(torch.ones(shape), nodes, None, 0, 1.0, 1.0, keyed_random.signed(key), 0.3)
    assert torch.equal(dropped == 0, expected < 0.3)


@pytest.mark.parametrize("slopes", [True, False])
@pytest.mark.parametrize("key", KEYS)
def test_a_key_on_the_device_gives_the_noise_of_the_number_forward_and_back(fused, key, slopes):
    rows, there = (
        torch.randn(11, 130, generator=torch.Generator().manual_seed(0)),
        keyed_random.DeviceKey(before(key, 2)),
    )
    numbers = Noise(key if slopes else None, 0.3, (key + 2) % 2**64)
    device_keys = Noise(there + 2 if slopes else None, 0.3, there + 4)
    expected = gradient_of(lambda one: with_noise(one, None, numbers), rows)
    found = gradient_of(lambda one: with_noise(one, None, device_keys), rows)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("noise", [Noise(7, 0.0, 0), Noise(None, 0.3, 9), Noise(7, 0.3, 9)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_slopes_and_dropout_equal_plain_torch_forward_and_back(monkeypatch, noise, dtype):
    rows = torch.randn(11, 130, generator=torch.Generator().manual_seed(0)).to(dtype)
    expected = gradient_of(lambda one: with_noise(one, None, noise), rows.double())
    monkeypatch.setattr(availability, "has_kernels", lambda device: True)
    found = gradient_of(lambda one: with_noise(one, None, noise), rows)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(
            one.double(), other, **(CLOSE if dtype == torch.float32 else {"rtol": 8e-3, "atol": 0})
        )


def test_rows_of_length_one_and_their_gradient_equal_plain_torch():
    rows = torch.randn(5, 300, generator=torch.Generator().manual_seed(0))
    rows[1], rows[2] = 0, rows[2] * 1e-14
    for found, expected in zip(
        gradient_of(lambda one: fused_rows.unit_rows(one, 1e-12), rows),
        gradient_of(normalise, rows.double()),
        strict=True,
    ):
        assert_close(found, expected)
    assert fused_rows.unit_rows(rows.bfloat16(), 1e-12).dtype == torch.float32


def test_the_gradient_of_prelu_equals_plain_torch(fused):
    hidden = torch.randn(7, 700, generator=torch.Generator().manual_seed(0))
    ours, peer = PReLU(), torch.nn.PReLU().double()
    expected, found = gradient_of(peer, hidden.double()), gradient_of(ours, hidden)
    for one, other in zip([*found, ours.weight.grad], [*expected, peer.weight.grad], strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rounded", [False, *slow(True)])
def test_the_sparse_product_and_its_gradient_equal_plain_torch_with_sums_in_single_precision(fused, dtype, rounded):
    pair, dense = product_case()
    dense = dense.to(dtype)
    matrix = pair.matrix.to_dense().double()
    found = gradient_of(lambda one: sparse_product(pair, one, rounded), dense)
    expected = gradient_of(lambda one: matrix @ one, dense.double())
    result = dtype if rounded else torch.float32
    assert [one.dtype for one in found] == [result, dtype]
    for one, other, kind in zip(found, expected, (result, dtype), strict=True):
        rounding = 1e-6 if kind == torch.float32 else 8e-3  # of the result alone, which the interpreter cuts off
        torch.testing.assert_close(one.double(), other, rtol=rounding, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("most", [8, 16, 89, 90])
def test_the_product_of_long_rows_that_are_shared_out_equals_plain_torch(dtype, most):
    pair, dense = product_case()  # the longest row has 90 entries
    matrix, dense = pair.matrix, dense.to(dtype)
    long = LongRows.of(matrix.crow_indices(), most)
    assert (long is None) == (most == 90)
    found = csr_product(matrix.crow_indices(), matrix.col_indices(), matrix.values(), dense, torch.float32, long, most)
    assert_close(found, matrix.to_dense().double() @ dense.double())


ATTENTIONS = [(torch.float32, 2, 40), (torch.bfloat16, 1, 5), (torch.float32, 1, 1)]
ATTENTIONS += slow((torch.float32, 4, 2))  # with eight heads it takes ten seconds
ATTENTIONS += slow((torch.bfloat16, 2, 40), (torch.float32, 1, 5), (torch.bfloat16, 1, 1))


@pytest.mark.parametrize(("dtype", "heads", "channels"), ATTENTIONS)
def test_attention_and_its_gradients_equal_plain_torch_with_sums_in_single_precision(fused, dtype, heads, channels):
    pair, *given = attention_case(heads, channels)
    given[0] = given[0].to(dtype)
    pattern = (pair.matrix.crow_indices(), pair.matrix.col_indices())
    found = gradient_of(lambda *rows: attend(pair, *rows, 0.2), *given)
    expected = gradient_of(lambda *rows: attend_plainly(*pattern, *rows, 0.2), *(one.double() for one in given))
    assert [one.dtype for one in found] == [torch.float32, dtype, torch.float32, torch.float32]
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, 1e-6 if one.dtype == torch.float32 else 8e-3)


@pytest.mark.parametrize("anchors", [6, *slow(40)])
def test_products_of_members_and_their_gradients_equal_plain_torch(anchors):
    left, right, pattern, member = padded_case(anchors)

    def plain(one, other):
        padded = torch.zeros(member.shape, dtype=torch.float64)
        return padded.masked_scatter(member, pair_products(one, other, pattern))

    expected = gradient_of(plain, left, right)
    found = gradient_of(
        lambda one, other: fused_pairs.member_products(one, other, member, *vars(pattern).values()),
        left.float(), right.float(),
    )  # fmt: skip
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize(("hops", "ranking", "positives", "gate", "step", "weighted", "hop_zero"), LOSSES)
def test_the_ring_loss_and_its_gradients_equal_plain_torch(hops, ranking, positives, gate, step, weighted, hop_zero):
    theta, present, weight = loss_case(hops, anchors=4, weighted=weighted, longest=70)
    config = settings(ranking, positives, gate, step).model_copy(update={"hop_zero": hop_zero})
    own = [torch.linspace(-1, 1, 4, dtype=torch.float64)] if hop_zero else []
    widths, results = [one.shape[1] for one in theta], []

    def plain(whole, *own_A):
        results.append(ring_loss(torch.split(whole, widths, dim=1), present, weight, config, own_A=(*own_A, None)[0]))
        return results[-1].loss

    def kernels(whole, *own_A):
        weights = None if weight is None else torch.stack(weight, dim=1).float()
        masks = torch.cat(present, dim=1)
        results.append(fused_ranking.ring_loss(whole, masks, widths, weights, config, 4, (*own_A, None)[0]))
        return results[-1].loss

    whole = torch.cat(theta, dim=1)
    expected, found = (
        gradient_of(plain, whole, *own),
        gradient_of(kernels, whole.float(), *(one.float() for one in own)),
    )
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other)
    assert_close(results[1].flat(), results[0].flat())


def test_a_loss_that_is_no_number_stays_none():
    theta, present, _ = loss_case(2, anchors=3, empty=0)
    whole = torch.cat(theta, dim=1).float()
    whole[1, 0], present[0][1, 0] = torch.nan, True
    masks, widths = torch.cat(present, dim=1), [one.shape[1] for one in theta]
    assert fused_ranking.ring_loss(whole, masks, widths, None, settings(), 3, None).loss.isnan()


def test_an_empty_share_of_a_batch_has_no_loss_and_gradients_of_zero():
    left, right, _, member = padded_case(6)
    none = [torch.zeros(0, dtype=torch.int64), *[torch.zeros(count, dtype=torch.int64) for count in (0, 10, 0, 0)]]
    member, right = member[:0], right.float().requires_grad_()
    products = fused_pairs.member_products(left[:0].float(), right, member, *none)
    result = fused_ranking.ring_loss(products, member, [2, member.shape[1] - 2], None, settings(), 4, None)
    result.loss.backward()
    assert result.flat().tolist() == [0] * 5
    assert (right.grad == 0).all()
    empty = fused_noise.noise(torch.zeros(0, 5), None, None, 1, 0.1, 0.3, 1, 0.2)
    assert fused_rows.unit_rows(empty, 1e-12).shape == (0, 5)


class Operations(TorchDispatchMode):
    """Notes how many kernels in Triton each operation is said to start."""

    def __init__(self):
        super().__init__()
        self.kernels = []

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        if function.namespace == "gscl_scale":
            self.kernels.append(KERNELS.get(function.overloadpacket.__name__, (1, 0))[0])
        return function(*arguments, **(named or {}))


STEPS = [
    {"activation": "rrelu", "feature_dropout": 0.2, "hidden_dropout": 0.2},
    {"activation": "prelu", "message_dropout": 0.3, "encoder": "sage"},
    {"activation": "prelu", "product": "triton"},
    *slow({"activation": "prelu", "encoder": "gat", "width": 18}),  # two heads: with eight it takes five times as long
]


@pytest.mark.parametrize("model", STEPS)
def test_a_whole_step_by_the_kernels_is_the_one_by_plain_torch(tmp_path, monkeypatch, model):
    graph = make_graph(tmp_path / "graph", random_edges(20, 40, seed=1), 20, features=random_features(20, 6))
    rings = {"hops": 2, "width": 16, "per_ring": 4, "beyond": 8, "rounds": 1}
    config = Config.parse({
        "graph": {"source": "memory"}, "rings": rings, "loss": {"hop_zero": 0.5, "weighting": "size"},
        "model": {"width": 16, "projection": 8, "layers": 2, **model},
        "train": {"epochs": 1, "batch_size": 6, "negatives": 10},
    })  # fmt: skip
    make_samples(tmp_path / "graph", tmp_path / "samples", config.rings)
    batch = BatchStream(Samples.open(tmp_path / "samples"), 20, config.rings, config.train, config.loss).batch(0)
    inputs, found, started = prepare_inputs(graph, config.model, torch.device("cpu")), [], []
    run = InterpretedFunction.run
    monkeypatch.setattr(InterpretedFunction, "run", lambda *a, **named: started.append(a) or run(*a, **named))
    for by_kernels in (False, True):
        monkeypatch.setattr(availability, "has_kernels", lambda device, by_kernels=by_kernels: by_kernels)
        model = build_model(config.model, graph.num_features, 0)
        with Operations() as operations:
            result = batch_loss(model, batch_inputs(inputs, batch), batch, config, key=5)
            result.loss.backward()
        assert len(started) == sum(operations.kernels)
        assert by_kernels == (len(started) > 8)
        found.append((result.flat(), {name: one.grad for name, one in model.named_parameters()}))
    assert_close(found[1][0], found[0][0])
    for name, gradient in found[0][1].items():
        assert_close(found[1][1][name], gradient)
