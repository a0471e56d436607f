import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gscl_scale.batches.collate import Batch, Pairs
from gscl_scale.batches.neighbours import Draw
from gscl_scale.batches.sampled_subgraph import NeighbourSampler
from gscl_scale.config.sections import ModelConfig
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.model.inputs import MappedFeatures, prepare_inputs
from gscl_scale.model.model import build_model
from gscl_scale.rings.priorities import draw_priorities
from gscl_scale.train.step import batch_inputs
from tests.graphs import random_edges
from tests.model.graphs import graph_of, random_features, random_sparse_features
from tests.oracles import distances
from tests.slow import slow

CPU = torch.device("cpu")
NODES = 60
ALONE = 59  # a node without edges
ENCODERS = ["gcn", "sage", "gat"]
FEATURES = {"narrow": (random_features, 5), "wide": (random_features, 12), "sparse": (random_sparse_features, 12)}


def random_graph(undirected, seed=0, features="narrow"):
    """Some hubs, some nodes of few neighbours, one without any."""
    make, width = FEATURES[features]
    return graph_of(random_edges(ALONE, 90, seed, hubs=2), make(NODES, width, seed), undirected)


def some_nodes(size, seed):
    """Distinct nodes in no order, the one without edges among them."""
    others = np.random.default_rng(seed).permutation(ALONE)[: size - 1]
    return np.random.default_rng(seed + 1).permutation([*others, ALONE])


def draw_of(round_number, weights=None):
    identities = np.arange(NODES, dtype=np.uint64)
    priorities = draw_priorities(identities, 0, round_number, weights, np.int32)
    return Draw(priorities, priorities.rank(), weights)


def random_weights(seed=0):
    return np.exp(np.random.default_rng(seed).normal(size=NODES))


def batch_of(nodes, subgraph, features=None):
    """A batch of these nodes and no anchors."""
    none = np.zeros(0, np.int64)
    pairs = Pairs.of(np.zeros((0, 1), np.int64), np.zeros((0, 1), np.bool_), nodes.size)
    return Batch(
        nodes, none, pairs, [], none, np.zeros((0, 0), np.bool_), None, 0, subgraph=subgraph, features=features
    )


def encoded(config, inputs, nodes, subgraph=None, key=3, features=None):
    """Embeddings of some nodes in training, by their subgraph or from all nodes, and the gradient of each weight."""
    given = inputs.features if features is None else features
    width = given.width if isinstance(given, SparseFeatures) else given.shape[1]
    model = build_model(config, width, seed=1).train()
    if subgraph is None:
        vectors = model.encode(inputs, key)[torch.from_numpy(nodes)]
    else:
        vectors = model.encode(batch_inputs(inputs, batch_of(nodes, subgraph, features)), key)
    target = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(2))
    (vectors * target).sum().backward()
    return [vectors.detach(), *(parameter.grad for parameter in model.encoder.parameters())]


def assert_close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-5)


def ways_to_begin(inputs):
    """(whether the first layer is known, inputs): from what is propagated already, or not."""
    ways = [(False, dataclasses.replace(inputs, propagated=None))]
    return ways if inputs.propagated is None else [*ways, (False, inputs), (True, inputs)]


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("layers", [1, 3, *slow(2)])
@pytest.mark.parametrize("features", list(FEATURES))
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_nodes_encoded_by_their_subgraph_are_the_rows_of_the_whole_graph(
    encoder, undirected, layers, features, dropout
):
    config = ModelConfig(
        encoder=encoder, layers=layers, width=8, activation="rrelu", feature_dropout=dropout, hidden_dropout=dropout,
        message_dropout=0.0 if encoder == "gat" else dropout,
    )  # fmt: skip
    graph = random_graph(undirected, seed=layers, features=features)
    prepared = prepare_inputs(graph, config, CPU)
    for first_known, inputs in ways_to_begin(prepared):
        sampler = NeighbourSampler(NormalisedAdjacency.of(graph, encoder), layers, None, first_known)
        for seed, size in enumerate([1, 5, 20, 50]):
            nodes = some_nodes(size, seed)
            assert_close(encoded(config, inputs, nodes, sampler.sample(nodes)), encoded(config, prepared, nodes))


@pytest.mark.parametrize("activation", ["relu", "prelu"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_any_activation_can_follow_a_block(encoder, activation):
    config = ModelConfig(encoder=encoder, layers=2, width=8, activation=activation)
    graph, nodes = random_graph(True), some_nodes(5, 0)
    inputs = prepare_inputs(graph, config, CPU)
    subgraph = NeighbourSampler(NormalisedAdjacency.of(graph, encoder), 2, None, inputs.propagated is not None).sample(
        nodes
    )
    assert_close(encoded(config, inputs, nodes, subgraph), encoded(config, inputs, nodes))


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("undirected", [True, False])
def test_a_subgraph_reads_the_nodes_within_as_many_hops_as_there_are_layers_and_no_others(encoder, undirected):
    graph = random_graph(undirected)
    distance = distances(graph.indptr, graph.indices)
    seen = 0
    for layers, seed in itertools.product([1, 2, 3], range(10)):
        nodes = some_nodes(3, seed)
        subgraph = NeighbourSampler(NormalisedAdjacency.of(graph, encoder), layers).sample(nodes)
        within = [set(np.flatnonzero((distance[nodes] <= hops).any(axis=0))) for hops in range(layers + 1)]
        if subgraph.inputs is not None:
            assert len(set(subgraph.inputs)) == subgraph.inputs.size
            assert set(subgraph.inputs) == within[layers]
            seen += 1
        for hops, block in enumerate(reversed(subgraph.blocks)):
            if block is not None:
                assert set(block.nodes) == within[hops]
    assert seen > 10


def test_few_nodes_are_blocks_and_nearly_all_of_them_are_all():
    graph = random_graph(True)
    messages = NormalisedAdjacency.of(graph, "gcn")
    nodes = some_nodes(2, 4)
    few = NeighbourSampler(messages, 2).sample(nodes)
    assert all(block is not None and block.messages is not None for block in few.blocks)
    assert few.inputs is not None
    assert few.rows is None
    nearly = some_nodes(50, 4)
    whole = NeighbourSampler(messages, 2).sample(nearly)
    assert whole.blocks == [None, None]
    assert whole.inputs is None
    assert whole.rows is nearly
    mixed = NeighbourSampler(messages, 3).sample(some_nodes(20, 4))
    assert [block is None for block in mixed.blocks] == [True, True, False]
    assert mixed.inputs is None
    assert mixed.rows is None


def test_a_first_layer_that_is_known_needs_no_messages():
    graph, nodes = random_graph(True), some_nodes(2, 4)
    subgraph = NeighbourSampler(NormalisedAdjacency.of(graph, "gcn"), 2, None, first_known=True).sample(nodes)
    assert subgraph.blocks[0].messages is None
    assert subgraph.blocks[1].messages is not None
    assert subgraph.inputs is None


@pytest.mark.parametrize("fanouts", [None, [2, 1]])
def test_one_sampler_makes_many_subgraphs_and_forgets_each_and_what_it_remembers_of_a_draw(fanouts):
    messages = NormalisedAdjacency.of(random_graph(True), "gcn")
    assert (np.diff(messages.indptr) > 8).sum() >= 2  # nodes of more than 4 times the fan-out
    sampler, draws = NeighbourSampler(messages, 2, fanouts), [draw_of(0), draw_of(1)]
    for seed, number in enumerate([0, 0, 0, 1, 1, 0]):
        nodes = some_nodes(3 if fanouts is None else 30, seed)
        fresh = NeighbourSampler(messages, 2, fanouts)
        one, other = (each.sample(nodes, draws[number]) for each in (sampler, fresh))
        for ours, theirs in zip(one.blocks, other.blocks, strict=True):
            assert ours.nodes.tolist() == theirs.nodes.tolist()
            assert ours.messages.indices.tolist() == theirs.messages.indices.tolist()
            assert ours.messages.values.tolist() == theirs.messages.values.tolist()


def test_numbers_of_a_step_are_those_of_its_key():
    config = ModelConfig(layers=2, width=8, activation="rrelu", feature_dropout=0.4)
    graph, nodes = random_graph(True), some_nodes(5, 0)
    inputs = prepare_inputs(graph, config, CPU)
    subgraph = NeighbourSampler(NormalisedAdjacency.of(graph, "gcn"), 2).sample(nodes)
    one, same, other = (encoded(config, inputs, nodes, subgraph, key)[0] for key in (3, 3, 4))
    assert torch.equal(one, same)
    assert not torch.allclose(one, other, rtol=0.01)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("scaling", ["none", "row", "standard"])
@pytest.mark.parametrize("features", list(FEATURES))
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_features_that_a_batch_reads_from_disk_are_those_in_memory(encoder, scaling, features, dropout):
    config = ModelConfig(encoder=encoder, layers=2, width=8, feature_dropout=dropout, feature_scaling=scaling)
    graph = random_graph(True, features=features)
    on_disk = prepare_inputs(graph, config.model_copy(update={"propagation": "sampled"}), CPU)
    assert on_disk.features is None
    assert on_disk.propagated is None
    nodes = some_nodes(10, 0)
    subgraph = NeighbourSampler(NormalisedAdjacency.of(graph, encoder), 2, [NODES, NODES]).sample(nodes, draw_of(0))
    read = MappedFeatures.of(graph, config).rows(subgraph.inputs)
    assert_close(
        encoded(config, on_disk, nodes, subgraph, features=read),
        encoded(config, prepare_inputs(graph, config, CPU), nodes),
    )


# --- fan-outs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize(("features", "dropout"), [("narrow", 0.0), ("wide", 0.4), ("sparse", 0.4)])
def test_a_fan_out_of_the_largest_degree_is_exact(encoder, undirected, features, dropout):
    config = ModelConfig(encoder=encoder, layers=2, width=8, activation="rrelu", feature_dropout=dropout)
    graph = random_graph(undirected, features=features)
    most = int(np.diff(graph.indptr).max())
    prepared = prepare_inputs(graph, config, CPU)
    for first_known, inputs in ways_to_begin(prepared):
        sampler = NeighbourSampler(NormalisedAdjacency.of(graph, encoder), 2, [most, most], first_known)
        for weights, size in itertools.product([None, random_weights()], [1, 20, 60]):
            nodes = some_nodes(size, size)
            subgraph = sampler.sample(nodes, draw_of(0, weights))
            assert_close(encoded(config, inputs, nodes, subgraph), encoded(config, prepared, nodes))


def gathered_by(subgraph, block):
    """{node: [(member, value), ...]} of the last layer of a subgraph of one layer."""
    rows = block.messages
    return {
        int(node): [
            (int(subgraph.inputs[rows.indices[e]]), float(rows.values[e]))
            for e in range(rows.indptr[i], rows.indptr[i + 1])
        ]
        for i, node in enumerate(block.nodes)
    }


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("fanout", [1, 3])
def test_neighbours_that_are_kept_are_those_of_the_lowest_ranks(encoder, undirected, weighted, fanout):
    graph = random_graph(undirected)
    messages = NormalisedAdjacency.of(graph, encoder)
    for round_number in range(3):
        draw = draw_of(round_number, random_weights() if weighted else None)
        subgraph = NeighbourSampler(messages, 1, [fanout]).sample(some_nodes(40, round_number), draw)
        gathered = gathered_by(subgraph, subgraph.blocks[0])
        assert len(gathered) == 40
        for node, entries in gathered.items():
            neighbours = graph.indices[graph.indptr[node] : graph.indptr[node + 1]]
            lowest = sorted(neighbours.tolist(), key=lambda u: draw.rank[u])[:fanout]
            loop = [node] if messages.loops else []
            assert sorted(member for member, _ in entries) == sorted(lowest + loop)
            own = float(messages.row_scale[node] * messages.column_scale[node])
            assert all(value == pytest.approx(own) for member, value in entries if member == node)


@pytest.mark.parametrize("fanouts", [[2, 4], [4, 2]])
def test_each_layer_has_its_own_fan_out_the_first_layer_first(fanouts):
    graph = random_graph(True)
    subgraph = NeighbourSampler(NormalisedAdjacency.of(graph, "sage"), 2, fanouts).sample(some_nodes(40, 0), draw_of(0))
    assert [int(np.diff(block.messages.indptr).max()) for block in subgraph.blocks] == fanouts


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_sample_of_neighbours_depends_on_the_round_and_not_on_the_batch(encoder):
    config = ModelConfig(encoder=encoder, layers=2, width=8, activation="rrelu")
    graph = random_graph(True)
    inputs = prepare_inputs(graph, config, CPU)
    sampler = NeighbourSampler(NormalisedAdjacency.of(graph, encoder), 2, [2, 2], inputs.propagated is not None)
    every, few = np.arange(NODES), some_nodes(10, 0)
    of_all, later = (encoded(config, inputs, every, sampler.sample(every, draw_of(number)))[0] for number in (0, 1))
    assert_close(encoded(config, inputs, few, sampler.sample(few, draw_of(0)))[0], of_all[torch.from_numpy(few)])
    assert not torch.allclose(of_all, later, rtol=0.01)


@pytest.mark.parametrize("encoder", ["gcn", "sage"])
@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("fanout", [3, *slow(1)])
def test_what_one_layer_gathers_of_sampled_neighbours_is_unbiased(encoder, undirected, weighted, fanout):
    graph = random_graph(undirected)
    messages, weights, every = (
        NormalisedAdjacency.of(graph, encoder),
        random_weights() if weighted else None,
        np.arange(NODES),
    )
    features = np.random.default_rng(5).uniform(0.5, 1.5, (NODES, 3))

    def gathered(sampler, draw=None):
        subgraph = sampler.sample(every, draw)
        rows = subgraph.blocks[0].messages
        matrix = sp.csr_array((rows.values.astype(np.float64), rows.indices, rows.indptr), shape=(NODES, rows.width))
        return matrix @ features[subgraph.inputs]

    sampler = NeighbourSampler(messages, 1, [fanout])
    drawn = np.stack([gathered(sampler, draw_of(number, weights)) for number in range(2000)])
    exact = gathered(NeighbourSampler(messages, 1, [NODES]), draw_of(0, weights))
    deviation = drawn.std(axis=0)
    sampled = np.diff(graph.indptr) > fanout
    assert (deviation[sampled] > 0).all()
    np.testing.assert_allclose(drawn[:, ~sampled].mean(axis=0), exact[~sampled], rtol=1e-6)
    error = (drawn.mean(axis=0) - exact)[sampled] / (deviation[sampled] / np.sqrt(len(drawn)))
    assert np.abs(error).max() < 5
    assert np.sqrt((error**2).mean()) < 1.5
