import dataclasses
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp

from gscl_scale.batches.collate import collate
from gscl_scale.batches.schedule import steps_per_epoch
from gscl_scale.batches.stream import BatchStream, epoch_order, held_out
from gscl_scale.config.loss import LossConfig
from gscl_scale.config.sections import RingsConfig, TrainConfig
from gscl_scale.graph.graph import Graph
from gscl_scale.rings.exact.bfs import exact_rings
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sample import Lists, RingSample, target_sizes
from gscl_scale.shards.reader import Samples
from tests.graphs import make_graph, make_samples, random_edges
from tests.oracles import csr_of, distances
from tests.pages import num_mapped, read_at_random

NODES = 300
RINGS = RingsConfig(hops=2, width=40, per_ring=4, beyond=6, rounds=2, part_anchors=64)
TRAIN = TrainConfig(batch_size=70, negatives=50, epochs=2)
LOSS = LossConfig(weighting="size")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    make_graph(folder / "graph", random_edges(NODES, 450, seed=2), NODES)
    make_samples(folder / "graph", folder / "samples", RINGS, 2)
    return folder


def stream_of(folders, **options):
    return BatchStream(Samples.open(folders / "samples"), NODES, RINGS, TRAIN, LOSS, **options)


@pytest.fixture(scope="module")
def stream(folders):
    return stream_of(folders)


@pytest.fixture
def fresh(folders):
    return stream_of(folders)


@pytest.fixture(scope="module")
def reader(folders):
    return Samples.open(folders / "samples").round(0)


def visited_by(stream):
    return np.concatenate(
        [(b := stream.batch(step)).nodes[b.anchors] for step in range(stream.schedule.steps_per_epoch)]
    )


@pytest.fixture(scope="module")
def distance(folders):
    graph = Graph.open(folders / "graph")
    return distances(graph.indptr, graph.indices)


def members_of(batch, level):
    """The nodes that each anchor is compared with at a level, the rings first, beyond last."""
    counts = np.stack([mask.sum(axis=1) for mask in batch.present], axis=1)
    starts = batch.pairs.indptr[:-1] + counts[:, :level].sum(axis=1)
    assert (np.diff(batch.pairs.indptr) == counts.sum(axis=1)).all()
    positions = [batch.pairs.indices[s : s + n] for s, n in zip(starts, counts[:, level], strict=True)]
    return [batch.nodes[row] for row in positions]


def collated(reader, anchors, train=TRAIN, epoch=0):
    sample, decided = reader.take(anchors), reader.decided(anchors)
    return collate(sample, decided, reader.priorities, NODES, RINGS, train, LOSS, epoch, 0)


def test_an_epoch_visits_every_anchor_once_in_an_order_of_seed_and_epoch_alone(stream):
    visited = visited_by(stream)
    assert sorted(visited) == list(range(NODES))
    assert visited.tolist() == epoch_order(NODES, TRAIN.seed, 0).tolist()
    assert epoch_order(NODES, 0, 0).tolist() != epoch_order(NODES, 0, 1).tolist()
    assert steps_per_epoch(NODES, 70) == 5


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells how files are read")
def test_samples_are_read_page_by_page_as_anchors_come_in_no_order(folders, fresh):
    fresh.batch(0)
    mapped = read_at_random(folders / "samples")
    assert len([name for name in mapped if "/part-" in name]) == 5
    assert all(mapped[name] for name in mapped if name.startswith("round-000"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells which files are mapped")
def test_the_samples_of_few_anchors_are_read_once_into_memory(folders, monkeypatch):
    anchors, before = np.arange(3, NODES, 7), num_mapped(folders / "samples")
    few, mapped = stream_of(folders, anchors=anchors), stream_of(folders, anchors=anchors)
    batches = [few.batch(step) for step in range(2)]
    assert num_mapped(folders / "samples") == before + 1  # the priorities
    monkeypatch.setattr("gscl_scale.shards.reader._KEPT", 0)
    for kept, read in zip(batches, [mapped.batch(step) for step in range(2)], strict=True):
        assert kept.nodes[kept.anchors].tolist() == read.nodes[read.anchors].tolist()
        for one, other in zip(arrays_of(kept), arrays_of(read), strict=True):
            np.testing.assert_array_equal(one, other)
    assert num_mapped(folders / "samples") == before + 1 + 1 + 5


def arrays_of(batch):
    pairs = batch.pairs
    return [batch.nodes, batch.candidates, batch.decided, batch.log_weight, pairs.indptr, pairs.indices, *batch.present]


def test_batches_made_ahead_are_those_that_a_fresh_stream_makes_at_any_step(stream, fresh):
    ahead = list(stream.batches(3, 8))
    assert len(ahead) == 5
    for step in (7, 3, 5, 4, 6):
        one, other = ahead[step - 3], fresh.batch(step)
        assert one.nodes.tolist() == other.nodes.tolist()
        assert one.pairs.indices.tolist() == other.pairs.indices.tolist()
        assert one.candidates.tolist() == other.candidates.tolist()
        assert (one.decided == other.decided).all()


def test_two_batches_are_made_ahead_and_no_more(fresh, monkeypatch):
    made, make = [], fresh.batch
    monkeypatch.setattr(fresh, "batch", lambda step, number: made.append(step) or make(step, number))
    batches = fresh.batches(0, 10)
    next(batches)
    batches.close()
    assert made == sorted(made)
    assert 1 <= len(made) <= 3
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("batches")]


def test_an_error_in_the_making_of_a_batch_is_raised_at_its_step(fresh, monkeypatch):
    make = fresh.batch

    def fail_at_two(step, number):
        if step == 2:
            raise ZeroDivisionError
        return make(step, number)

    monkeypatch.setattr(fresh, "batch", fail_at_two)
    batches = fresh.batches(0, 5)
    next(batches)
    next(batches)
    with pytest.raises(ZeroDivisionError):
        next(batches)


def test_members_are_at_the_distance_of_their_ring_and_far_nodes_beyond_all(stream, distance):
    for step in (0, 4, 6):
        batch = stream.batch(step)
        anchors = batch.nodes[batch.anchors]
        for level in range(2):
            for anchor, members in zip(anchors, members_of(batch, level), strict=True):
                assert (distance[anchor, members] == level + 1).all()
        assert sum(members.size for members in members_of(batch, 2)) > 0
        for row, (anchor, members) in enumerate(zip(anchors, members_of(batch, 2), strict=True)):
            far = batch.nodes[batch.candidates[batch.decided[row]]]
            assert (distance[anchor, members] > 2).all()
            assert (distance[anchor, far] > 2).all()
            assert not set(far) & set(members)


def test_a_node_of_a_ring_that_ties_with_the_last_one_that_is_known_is_not_taken_for_a_far_one():
    leaves, others = np.arange(1, 31), np.arange(31, 40)
    indptr, indices = csr_of([(0, leaf) for leaf in leaves], 40)
    order = np.concatenate([leaves[:5], others, [0], leaves[5:]]).astype(np.int32)
    priority = np.arange(40.0)
    priority[4] = priority[3]  # of the fourth and the fifth leaf
    priorities = Priorities(order, priority)
    config = RingsConfig(hops=1, width=4, per_ring=1, beyond=2)
    sample = exact_rings(indptr, indices, np.arange(40), priorities, priorities.rank(), config)
    assert sample.rings[0].members[: sample.rings[0].offsets[1]].tolist() == [1, 2, 3, 4]
    assert sample.decided[0] == priority[4]
    alone = dataclasses.replace(sample, near=None)  # the bits of the lowest nodes would decide about the tie themselves
    batch = collate(alone, sample.decided, priorities, 40, config, TRAIN, LOSS, 0, 0)
    assert 5 in batch.nodes[batch.candidates]
    assert not set(batch.nodes[batch.candidates[batch.decided[0]]]) & set(leaves)


def test_most_candidates_serve_most_anchors_and_change_with_every_step(stream):
    one, other = stream.batch(0), stream.batch(1)
    assert one.candidates.size == 50
    assert one.decided.mean() > 0.5
    assert one.nodes[one.candidates].tolist() != other.nodes[other.candidates].tolist()


def test_a_step_has_the_negatives_that_it_asks_for_where_balls_hold_much_of_the_graph(tmp_path):
    make_graph(tmp_path / "graph", random_edges(2000, 5000, seed=3), 2000)
    graph = Graph.open(tmp_path / "graph")
    distance = distances(graph.indptr, graph.indices)
    for hops in (1, 2, 3, 4):
        rings = RingsConfig(hops=hops, width=25, per_ring=4, beyond=6, rounds=1)
        make_samples(tmp_path / "graph", tmp_path / f"samples-{hops}", rings)
        reader = Samples.open(tmp_path / f"samples-{hops}").round(0)
        anchors, train = np.arange(0, 2000, 20), TRAIN.model_copy(update={"negatives": 200})
        sample, decided = reader.take(anchors), reader.decided(anchors)
        batch = collate(sample, decided, reader.priorities, 2000, rings, train, LOSS, 0, 0)
        assert batch.candidates.size == batch.asked == 200
        candidates = batch.nodes[batch.candidates]
        sure = np.isin(candidates, reader.priorities.order[: 8 * rings.width])
        for row, anchor in enumerate(anchors):
            own = sample.beyond.members[slice(*sample.beyond.offsets[row : row + 2])]
            far = (distance[anchor, candidates] > hops) & ~np.isin(candidates, own)
            assert (batch.decided[row] <= far).all()
            assert (batch.decided[row] == far)[sure].all()
    older = dataclasses.replace(sample, near=None)
    batch = collate(older, decided, reader.priorities, 2000, rings, train, LOSS, 0, 0)
    assert 0 < batch.candidates.size < 100
    assert batch.asked == 200


@pytest.mark.parametrize(("low", "number"), [(24, 50), (26, 20)])
def test_candidates_are_drawn_where_three_anchors_in_four_can_decide(reader, low, number):
    sample = dataclasses.replace(reader.take(np.arange(100)), near=None)
    decided = np.where(np.arange(100) < low, *reader.priorities.priority[[20, 200]])
    batch = collate(sample, decided, reader.priorities, NODES, RINGS, TRAIN, LOSS, 0, 0)
    assert batch.candidates.size == number


def test_nodes_are_distinct_and_nothing_is_carried_along_unused(stream):
    batch = stream.batch(2)
    assert (np.diff(batch.nodes) > 0).all()
    used = {*batch.anchors.tolist(), *batch.candidates.tolist(), *batch.pairs.indices.tolist()}
    assert used == set(range(batch.nodes.size))


def test_pairs_by_node_are_the_pairs_by_anchor_turned_round(stream):
    batch = stream.batch(2)
    pairs, shape = batch.pairs, (batch.anchors.size, batch.nodes.size)
    numbers = np.arange(1, pairs.indices.size + 1)
    by_anchor = sp.csr_array((numbers, pairs.indices, pairs.indptr), shape=shape)
    by_node = sp.csr_array((numbers[pairs.order], pairs.back_indices, pairs.back_indptr), shape=shape[::-1])
    assert (by_anchor.T.toarray() == by_node.toarray()).all()


def test_weights_scale_each_sum_to_the_whole_ring(stream, distance):
    batch = stream.batch(0)
    anchors = batch.nodes[batch.anchors]
    for level, hop in enumerate((1, 2)):
        size = (distance[anchors] == hop).sum(axis=1)
        used = batch.present[level].sum(axis=1)
        some = used > 0
        assert np.exp(batch.log_weight[some, level]) == pytest.approx(size[some] / used[some], rel=1e-5)
    far = (distance[anchors] > 2).sum(axis=1)
    used = batch.present[2].sum(axis=1) + batch.decided.sum(axis=1)
    assert np.exp(batch.log_weight[:, 2]) == pytest.approx(far / used, rel=1e-5)


def test_far_nodes_count_where_estimated_rings_leave_none(reader):
    anchors = np.arange(70)
    sample, decided = reader.take(anchors), reader.decided(anchors)
    sizes = sample.ring_size.copy()
    sizes[:, -1] = NODES - sizes[:, 0] + 3  # more than there are
    estimated = dataclasses.replace(sample, ring_size=sizes)
    batch = collate(estimated, decided, reader.priorities, NODES, RINGS, TRAIN, LOSS, 0, 0)
    assert (batch.log_weight[:, -1] == 0).all()  # each far node in use stands for itself


@pytest.mark.parametrize("members", ["lowest", "random", "stored"])
def test_each_choice_of_members_takes_as_many_as_it_says(reader, members):
    sample = reader.take(np.arange(50))
    train = TRAIN.model_copy(update={"members": members})
    batch = collated(reader, np.arange(50), train)
    for level, stored in enumerate(sample.rings):
        asked = stored.lengths() if members == "stored" else target_sizes(4, sample.ring_size[:, level])
        assert batch.present[level].sum(axis=1).tolist() == asked.tolist()
        for row, chosen in enumerate(members_of(batch, level)):
            whole = stored.members[stored.offsets[row] : stored.offsets[row + 1]]
            assert set(chosen) <= set(whole)
            if members == "lowest":
                assert chosen.tolist() == whole[: asked[row]].tolist()


def test_random_members_change_with_the_epoch_and_not_with_the_batch(reader):
    train = TRAIN.model_copy(update={"members": "random"})

    def chosen(anchors, epoch):
        batch = collated(reader, anchors, train, epoch)
        return {a: set(m) for a, m in zip(anchors.tolist(), members_of(batch, 1), strict=True)}

    one, same, later = chosen(np.arange(60), 0), chosen(np.arange(30, 90), 0), chosen(np.arange(60), 1)
    assert all(one[a] == same[a] for a in range(30, 60))
    assert one != later


def test_anchors_with_the_same_ring_choose_random_members_of_their_own():
    twins, ring = np.arange(8), np.arange(10, 30, dtype=np.int32)
    lists = Lists(ring.size * np.arange(twins.size + 1), np.tile(ring, twins.size))
    none = Lists(np.zeros(twins.size + 1, np.int64), np.zeros(0, np.int32))
    sizes, whole = np.full((twins.size, 1), ring.size), np.ones(twins.size, np.bool_)
    sample = RingSample(twins, [lists], none, np.zeros(twins.size), sizes, whole, None)
    rings, train = RINGS.model_copy(update={"hops": 1}), TRAIN.model_copy(update={"members": "random"})
    batch = collate(sample, sample.decided, None, NODES, rings, train, LOSS, 0, 0)
    chosen = {tuple(sorted(members)) for members in members_of(batch, 0)}
    assert len(chosen) == twins.size  # of 4,845 choices each


def test_what_is_decided_about_anchors_is_read_in_the_order_asked_for(reader):
    decided = np.random.default_rng(0).random(NODES)
    parts = [dataclasses.replace(part, decided=decided[part.anchors]) for part in reader.parts]
    assert len(parts) > 1
    reader = dataclasses.replace(reader, parts=parts)
    anchors = np.random.default_rng(1).permutation(NODES)[:100]
    assert reader.decided(anchors).tolist() == decided[anchors].tolist()
    assert reader.take(anchors).decided.tolist() == decided[anchors].tolist()


def test_without_common_priorities_only_stored_far_nodes_are_used(reader):
    batch = collated(dataclasses.replace(reader, priorities=None), np.arange(20))
    assert batch.candidates.size == 0
    assert batch.decided.shape == (20, 0)


def test_nodes_that_are_held_out_are_never_anchors_and_are_the_same_whatever_else_the_graph_has(folders, tmp_path):
    graph = Graph.open(folders / "graph")
    out = held_out(graph, 0.5, seed=0)
    assert out.mean() == pytest.approx(0.5, abs=0.08)
    assert not held_out(graph, 0.0, seed=0).any()
    assert (out != held_out(graph, 0.5, seed=1)).any()
    anchors = np.flatnonzero(~out)
    stream = stream_of(folders, anchors=anchors)
    assert stream.schedule.steps_per_epoch == steps_per_epoch(anchors.size, TRAIN.batch_size)
    assert sorted(visited_by(stream)) == anchors.tolist()
    make_graph(tmp_path / "more", random_edges(NODES + 50, 450, seed=9), NODES + 50)
    assert held_out(Graph.open(tmp_path / "more"), 0.5, seed=0)[:NODES].tolist() == out.tolist()
