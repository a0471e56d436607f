import numpy as np
import pytest

from gscl_scale.batches import BatchStream, collate, epoch_order, steps_per_epoch
from gscl_scale.config import LossConfig, RingsConfig, TrainConfig
from gscl_scale.graph import Graph
from gscl_scale.rings import wanted
from gscl_scale.shards import Samples
from tests.graphs import make_graph, make_samples, random_edges
from tests.oracles import distances

NODES = 300
RINGS = RingsConfig(hops=2, width=40, per_ring=4, beyond=6, rounds=2, part_anchors=64)
TRAIN = TrainConfig(batch_size=70, negatives=50, epochs=2)
LOSS = LossConfig(weighing="size")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    make_graph(folder / "graph", random_edges(NODES, 450, seed=2), NODES)
    make_samples(folder / "graph", folder / "samples", RINGS, 2)
    return folder


@pytest.fixture(scope="module")
def stream(folders):
    return BatchStream(Samples.open(folders / "samples"), NODES, RINGS, TRAIN, LOSS)


@pytest.fixture(scope="module")
def distance(folders):
    graph = Graph.open(folders / "graph")
    return distances(graph.indptr, graph.indices)


def members_of(batch, level):
    return [batch.nodes[row[mask]] for row, mask in zip(level.positions, level.present, strict=True)]


def test_an_epoch_visits_every_anchor_once_in_an_order_of_seed_and_epoch_alone(stream):
    steps = range(stream.steps_per_epoch)
    visited = np.concatenate([(b := stream.batch(step)).nodes[b.anchors] for step in steps])
    assert sorted(visited) == list(range(NODES))
    assert visited.tolist() == epoch_order(NODES, TRAIN.seed, 0).tolist()
    assert epoch_order(NODES, 0, 0).tolist() != epoch_order(NODES, 0, 1).tolist()
    assert steps_per_epoch(NODES, 70) == 5


def test_a_batch_is_the_same_from_a_fresh_stream_at_any_step(folders, stream):
    fresh = BatchStream(Samples.open(folders / "samples"), NODES, RINGS, TRAIN, LOSS)
    for step in (7, 3):
        one, other = stream.batch(step), fresh.batch(step)
        assert one.nodes.tolist() == other.nodes.tolist()
        assert one.candidates.tolist() == other.candidates.tolist()
        assert (one.decided == other.decided).all()


def test_members_are_at_the_distance_of_their_ring_and_far_nodes_beyond_all(stream, distance):
    for step in (0, 4, 6):
        batch = stream.batch(step)
        anchors = batch.nodes[batch.anchors]
        for hop, level in enumerate(batch.rings, start=1):
            for anchor, members in zip(anchors, members_of(batch, level), strict=True):
                assert (distance[anchor, members] == hop).all()
        for row, (anchor, members) in enumerate(zip(anchors, members_of(batch, batch.beyond), strict=True)):
            far = batch.nodes[batch.candidates[batch.decided[row]]]
            assert (distance[anchor, members] > 2).all()
            assert (distance[anchor, far] > 2).all()
            assert not set(far) & set(members)


def test_most_candidates_serve_most_anchors(stream):
    batch = stream.batch(0)
    assert batch.candidates.size == 50
    assert batch.decided.mean() > 0.5


def test_candidates_change_with_every_step(stream):
    one, other = stream.batch(0), stream.batch(1)
    assert one.nodes[one.candidates].tolist() != other.nodes[other.candidates].tolist()


def test_nodes_are_distinct_and_nothing_is_carried_along_unused(stream):
    batch = stream.batch(2)
    assert (np.diff(batch.nodes) > 0).all()
    levels = (*batch.rings, batch.beyond)
    used = {*batch.anchors.tolist(), *batch.candidates.tolist()}
    used |= {int(p) for level in levels for p in level.positions[level.present]}
    assert used == set(range(batch.nodes.size))


def test_weights_scale_each_sum_to_the_whole_ring(folders, stream, distance):
    batch = stream.batch(0)
    anchors = batch.nodes[batch.anchors]
    for level, hop in enumerate((1, 2)):
        size = (distance[anchors] == hop).sum(axis=1)
        used = batch.rings[level].present.sum(axis=1)
        some = used > 0
        assert np.exp(batch.log_weight[some, level]) == pytest.approx(size[some] / used[some], rel=1e-5)
    far = (distance[anchors] > 2).sum(axis=1)
    used = batch.beyond.present.sum(axis=1) + batch.decided.sum(axis=1)
    assert np.exp(batch.log_weight[:, 2]) == pytest.approx(far / used, rel=1e-5)


@pytest.mark.parametrize("members", ["lowest", "random", "stored"])
def test_each_choice_of_members_takes_as_many_as_it_says(folders, members):
    reader = Samples.open(folders / "samples").round(0)
    sample = reader.take(np.arange(50))
    train = TRAIN.model_copy(update={"members": members})
    batch = collate(sample, reader.priorities, NODES, RINGS, train, LOSS, 0, 0)
    for hop, level in enumerate(batch.rings):
        stored = sample.rings[hop]
        asked = stored.lengths() if members == "stored" else wanted(4, sample.ring_size[:, hop])
        assert level.present.sum(axis=1).tolist() == asked.tolist()
        for row, chosen in enumerate(members_of(batch, level)):
            whole = stored.members[stored.offsets[row] : stored.offsets[row + 1]]
            assert set(chosen) <= set(whole)
            if members == "lowest":
                assert chosen.tolist() == whole[: asked[row]].tolist()


def test_random_members_change_with_the_epoch_and_not_with_the_batch(folders):
    reader = Samples.open(folders / "samples").round(0)
    train = TRAIN.model_copy(update={"members": "random"})

    def chosen(anchors, epoch):
        batch = collate(reader.take(anchors), reader.priorities, NODES, RINGS, train, LOSS, epoch, 0)
        return {a: set(m) for a, m in zip(anchors.tolist(), members_of(batch, batch.rings[1]), strict=True)}

    one, same, later = chosen(np.arange(60), 0), chosen(np.arange(30, 90), 0), chosen(np.arange(60), 1)
    assert all(one[a] == same[a] for a in range(30, 60))
    assert one != later


def test_without_common_priorities_only_stored_far_nodes_are_used(folders):
    reader = Samples.open(folders / "samples").round(0)
    batch = collate(reader.take(np.arange(20)), None, NODES, RINGS, TRAIN, LOSS, 0, 0)
    assert batch.candidates.size == 0
    assert batch.decided.shape == (20, 0)
