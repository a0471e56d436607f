import numpy as np
import pytest
import torch
from scipy import stats

from gscl_scale import seeding
from gscl_scale.model import keyed_random

CPU = torch.device("cpu")
KEYS = [0, 1, seeding.integer("step", 0, 7), 2**63 - 1, 2**63 + 8, 2**64 - 1]
NODES = torch.tensor([0, 1, 5, 2**31, 2**40 + 3, 3])


@pytest.mark.parametrize("key", KEYS)
def test_tensors_give_the_same_bits_as_the_kernel(key):
    found = keyed_random.uniform(key, NODES, (6, 40), CPU)
    assert found.dtype == torch.float32
    assert torch.equal(found, keyed_random._numbers(key, NODES[:, None], torch.arange(40)))  # as a GPU computes them


@pytest.mark.parametrize("key", KEYS)
def test_single_entries_have_the_numbers_of_the_matrix_by_either_way(key):
    whole, generator = keyed_random.uniform(key, None, (50, 30), CPU), torch.Generator().manual_seed(0)
    nodes, columns = (torch.randint(0, most, (200,), generator=generator) for most in (50, 30))
    assert torch.equal(keyed_random.uniform_entries(key, nodes, columns.int()), whole[nodes, columns])
    assert torch.equal(keyed_random._numbers(key, nodes, columns.int()), whole[nodes, columns])


@pytest.mark.parametrize("key", KEYS)
def test_a_key_on_the_device_gives_the_bits_of_the_number(key):
    expected = keyed_random.uniform(key, NODES, (6, 40), CPU)
    base = torch.tensor(keyed_random.signed((key - 205) % 2**64))
    there = keyed_random.DeviceKey(base) + 200 + 5
    assert torch.equal(keyed_random.uniform(there, NODES, (6, 40), CPU), expected)
    assert torch.equal(keyed_random.uniform_entries(there, NODES, torch.arange(6)), expected.diagonal())
    assert torch.equal(keyed_random._numbers(there, NODES[:, None], torch.arange(40)), expected)
    base += 1
    assert not torch.equal(keyed_random._numbers(there, NODES[:, None], torch.arange(40)), expected)


def test_numbers_of_a_node_and_column_are_the_same_among_other_nodes_and_columns():
    nodes, whole = torch.tensor([7, 0, 99, 7]), keyed_random.uniform(3, None, (100, 20), CPU)
    assert torch.equal(keyed_random.uniform(3, nodes, (4, 20), CPU), whole[nodes])
    assert torch.equal(keyed_random.uniform(3, None, (100, 5), CPU), whole[:, :5])


def test_numbers_are_at_least_zero_and_below_one_and_uniform():
    drawn = keyed_random.uniform(seeding.integer("step", 0, 1), None, (1000, 100), CPU).numpy()
    assert drawn.min() >= 0
    assert drawn.max() < 1
    for part in (drawn.ravel(), drawn[:, 0], drawn[0], drawn[:, -1], drawn[-1]):
        counted, _ = np.histogram(part, bins=max(10, part.size // 2000), range=(0, 1))
        assert stats.chisquare(counted).pvalue > 1e-3


def test_pairs_of_neighbours_in_rows_columns_and_keys_are_uniform_in_the_square():
    keys = [seeding.integer("step", 0, step) for step in (0, 1)]
    one, later, following = (keyed_random.uniform(key, None, (400, 100), CPU).numpy() for key in (*keys, keys[0] + 1))
    for first, second in ((one[:, :-1], one[:, 1:]), (one[:-1], one[1:]), (one, later), (one, following)):
        counted, _, _ = np.histogram2d(first.ravel(), second.ravel(), bins=12, range=[[0, 1], [0, 1]])
        assert stats.chisquare(counted.ravel()).pvalue > 1e-3


def test_different_keys_give_different_numbers():
    drawn = [keyed_random.uniform(key, None, (20, 20), CPU) for key in KEYS]
    for a in range(len(KEYS)):
        for b in range(a):
            assert (drawn[a] == drawn[b]).float().mean() < 0.01


def test_no_nodes_or_no_columns_give_no_numbers():
    assert keyed_random.uniform(3, torch.zeros(0, dtype=torch.int64), (0, 5), CPU).shape == (0, 5)
    assert keyed_random.uniform(3, None, (4, 0), CPU).shape == (4, 0)
    assert keyed_random.uniform_entries(3, *torch.zeros(2, 0, dtype=torch.int64)).shape == (0,)


def test_tensors_mix_as_the_seeding_module_does():
    values = [0, 1, 2**62, 2**63, 2**64 - 1, 0x0123456789ABCDEF]
    mixed = keyed_random.mix(torch.tensor([keyed_random.signed(value) for value in values])).numpy().astype(np.uint64)
    assert mixed.tolist() == [int(seeding.mix(np.uint64(value))) for value in values]
