"""Batches made by torch from a round on the device have the bits of those that numba makes."""

import dataclasses
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from gscl_scale.batches.collate import Batch, Pairs, collate
from gscl_scale.batches.device_collate import DeviceRound
from gscl_scale.batches.host_part import fill_anchors
from gscl_scale.batches.sampled_subgraph import transpose_pattern
from gscl_scale.batches.stream import BatchStream, DeviceRoom, Share
from gscl_scale.config.loss import LossConfig
from gscl_scale.config.sections import RingsConfig, TrainConfig
from gscl_scale.rings.exact.bfs import exact_rings, independent_rings
from gscl_scale.rings.priorities import draw_priorities
from gscl_scale.rings.sample import Lists, RingSample
from gscl_scale.shards.reader import RoundReader, Samples
from tests.graphs import make_graph, make_samples, random_edges
from tests.oracles import csr_of

CPU = torch.device("cpu")
MODES = list(product(("lowest", "random", "stored"), ("raw", "size"), ("shared", "independent"), ("near", "older")))


def assert_same_bits(one: Batch, other: Batch):
    """Equal shapes, types and bits of all arrays, and equal numbers."""
    for field in dataclasses.fields(one):
        values = getattr(one, field.name), getattr(other, field.name)
        if isinstance(values[0], Pairs):
            values = tuple([getattr(pairs, part.name) for part in dataclasses.fields(Pairs)] for pairs in values)
        lists = values if isinstance(values[0], list) else tuple([value] for value in values)
        for expected, found in zip(*lists, strict=True):
            if not isinstance(expected, np.ndarray):
                assert expected == found, field.name
                continue
            assert isinstance(found, torch.Tensor), field.name
            found = found.cpu().numpy()
            assert (expected.dtype, expected.shape) == (found.dtype, found.shape), field.name
            assert expected.tobytes() == found.tobytes(), field.name


def among_all(batch: Batch, num_nodes: int) -> Batch:
    """The batch with positions among all nodes of the graph, if it may name each of them."""
    if batch.anchors.size + batch.candidates.size + batch.pairs.indices.size < num_nodes:
        return batch
    nodes, indptr = batch.nodes, batch.pairs.indptr
    indices = nodes[batch.pairs.indices].astype(np.int32)
    pairs = Pairs(indptr, indices, *transpose_pattern(indptr, indices, num_nodes))
    places = {"anchors": nodes[batch.anchors], "candidates": nodes[batch.candidates]}
    return dataclasses.replace(batch, nodes=None, pairs=pairs, **places)


def random_round(seed, sharing, near):
    """(a round of a small random graph in parts, its config, its number of nodes)."""
    generator = np.random.default_rng(seed)
    nodes = int(generator.integers(1, 120))
    indptr, indices = csr_of(random_edges(nodes, int(generator.integers(0, 4 * nodes)), seed, hubs=nodes > 9), nodes)
    config = RingsConfig(
        hops=int(generator.integers(1, 4)), width=int(generator.integers(1, 24)), beyond=int(generator.integers(1, 9)),
        per_ring=[2, 5, "all", "ratio:0.3"][generator.integers(4)], sharing=sharing,
    )  # fmt: skip
    identities, weights = generator.integers(0, 2**60, nodes).astype(np.uint64), generator.random(nodes) + 0.1
    weights = weights if generator.random() < 0.5 else None
    priorities = draw_priorities(identities, seed, 0, weights, np.int32)
    cuts = np.unique(generator.integers(0, nodes, 2))
    parts = []
    for anchors in filter(len, np.split(np.arange(nodes), cuts)):
        if sharing == "shared":
            part = exact_rings(indptr, indices, anchors, priorities, priorities.rank(), config)
        else:
            part = independent_rings(indptr, indices, anchors, identities, weights, 0, config)
        sizes = part.ring_size + (generator.integers(0, 5, part.ring_size.shape) if seed % 3 == 0 else 0)  # estimates
        parts.append(dataclasses.replace(part, ring_size=sizes, near=part.near if near == "near" else None))
    return RoundReader(Path(), parts, priorities if sharing == "shared" else None), config, nodes


@pytest.mark.parametrize("seed", range(200))
def test_torch_makes_the_batches_of_numba_bit_for_bit(seed):
    assert_batches_are_those_of_numba(seed, CPU)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(0, 200, 7))
def test_a_gpu_makes_the_batches_of_numba_bit_for_bit(seed):
    assert_batches_are_those_of_numba(seed, torch.device("cuda"))


def assert_batches_are_those_of_numba(seed, device):
    members, weighting, sharing, near = MODES[seed % len(MODES)]
    reader, rings, nodes = random_round(seed, sharing, near)
    generator = np.random.default_rng(seed + 1000)
    train = TrainConfig(members=members, negatives=int(generator.integers(0, 40)), seed=seed)
    loss, there = LossConfig(weighting=weighting), DeviceRound.of(reader, device)
    for step in range(3):
        whole = generator.permutation(nodes)[: generator.integers(1, nodes + 1)]
        own, decided = Share(step % 2, 2).of(whole), reader.decided(whole)
        settings = (rings, train, loss, step, step + 5)
        expected = collate(reader.take(own), decided, reader.priorities, nodes, *settings)
        assert_same_bits(expected, there.collate(own, decided, *settings))
        assert_same_bits(among_all(expected, nodes), there.collate(own, decided, *settings, all_encoded=True))


def test_all_nodes_as_64_bit_numbers_are_told_apart():
    ring = Lists(np.array([0, 2, 3]), np.array([1, 2, 0], np.int64))
    none = Lists(np.array([0, 0, 0]), np.zeros(0, np.int64))
    parts = [RingSample(np.arange(2), [ring], none, np.zeros(2), np.full((2, 1), 2), np.ones(2, np.bool_), None)]
    parts.append(dataclasses.replace(parts[0], anchors=np.arange(2, 4)))
    reader, rings, train = RoundReader(Path(), parts, None), RingsConfig(hops=1), TrainConfig()
    anchors, settings = np.array([3, 0]), (rings, train, LossConfig(), 0, 0)
    expected = collate(reader.take(anchors), np.zeros(2), None, 4, *settings)
    assert_same_bits(expected, DeviceRound.of(reader, CPU).collate(anchors, np.zeros(2), *settings))


def test_an_anchor_that_only_shares_its_last_bits_with_a_candidate_is_none():
    anchors, candidates, whole = np.array([(1 << 16) + 5, 5, 7]), np.array([5, 9]), np.zeros(3, np.int64)
    nodes, own, decided = np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros(3)
    fill_anchors(anchors, candidates, np.arange(1 << 17) / 2, whole[:0], 0, nodes, own, decided, whole, whole)
    assert (nodes.tolist(), own.tolist(), decided.tolist()) == (anchors.tolist(), [2, 3, 8], (anchors / 2).tolist())


def test_a_stream_with_rounds_on_a_device_has_the_batches_of_one_without(tmp_path):
    rings = RingsConfig(hops=2, width=16, per_ring=4, beyond=6, rounds=2, part_anchors=64)
    make_graph(tmp_path / "graph", random_edges(150, 300, seed=2), 150)
    make_samples(tmp_path / "graph", tmp_path / "samples", rings, 2)
    train = TrainConfig(batch_size=60, negatives=30, epochs=2, accumulate=2)
    samples = Samples.open(tmp_path / "samples")
    needs, told = [DeviceRound.bytes_of(samples.round(number)) for number in range(2)], []
    places = [None, *(DeviceRoom(CPU, room, told.append) for room in (max(needs), min(needs) - 1))]
    expected, found, without = (
        list(BatchStream(samples, 150, rings, train, LossConfig(), device=place).batches(0, 6)) for place in places
    )
    assert len(expected) == 12
    for one, other in zip(expected, found, strict=True):
        assert_same_bits(among_all(one, 150), other)
    assert all(batch.nodes is None for batch in found)
    assert all(isinstance(batch.nodes, np.ndarray) for batch in without)
    assert [words.partition(":")[0] for words in told] == ["Batches are made on the GPU", "Batches are made on the CPU"]


@pytest.mark.parametrize("near", ["near", "older"])
def test_a_round_takes_as_many_bytes_on_the_device_as_was_said_beforehand(near):
    reader, _, _ = random_round(7, "shared", near)
    there = DeviceRound.of(reader, CPU)
    tensors = [there.members, *(() if there.near is None else there.near[1:])]
    assert sum(tensor.nbytes for tensor in tensors) == DeviceRound.bytes_of(reader)
