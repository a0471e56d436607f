import dataclasses

import numpy as np
import pytest
import torch
from torch_geometric.nn import GATConv, SAGEConv

from gscl_scale.config.sections import ModelConfig
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.model import keyed_random, noise
from gscl_scale.model.encoder import GatLayer, KeyedRReLU, PReLU, SageLayer
from gscl_scale.model.inputs import Layer, prepare_inputs
from gscl_scale.model.model import build_model, normalise
from gscl_scale.model.propagation import adjacency_pair
from tests.model import oracles
from tests.model.graphs import EDGES, NUM_NODES, graph_of, random_features, random_sparse_features

CPU = torch.device("cpu")
ENCODERS = ["gcn", "sage", "gat"]
SLOPES = {"relu": 0.0, "prelu": 0.25, "rrelu": (1 / 8 + 1 / 3) / 2}


def inputs_of(config, features=None):
    features = random_features(NUM_NODES, 4) if features is None else features
    return prepare_inputs(graph_of(EDGES, features), config, CPU)


def dense_gcn(graph, model, features, slope):
    """The layers written out in numpy."""
    propagation, hidden = oracles.dense_propagation(graph), features.astype(np.float64)
    for layer in model.encoder.layers:
        bias = 0 if layer.bias is None else layer.bias.detach().numpy()
        hidden = propagation @ hidden @ layer.weight.detach().numpy() + bias
        hidden = np.where(hidden > 0, hidden, slope * hidden)
    return hidden


@pytest.mark.parametrize("activation", list(SLOPES))
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("num_features", [4, 12])
@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_the_gcn_is_its_formula(activation, layers, num_features, undirected, bias):
    config = ModelConfig(layers=layers, width=6, activation=activation, projection=5, bias=bias)
    for make in (random_features, random_sparse_features):
        features = make(NUM_NODES, num_features)
        graph = graph_of(EDGES, features, undirected)
        model = build_model(config, num_features, seed=1).eval()
        with torch.no_grad():
            for layer in model.encoder.layers if bias else ():
                layer.bias.normal_()
        found = model.encode(prepare_inputs(graph, config, CPU)).detach().numpy()
        dense = features if make is random_features else features.toarray()
        np.testing.assert_allclose(found, dense_gcn(graph, model, dense, SLOPES[activation]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("encoder", ["gcn", "sage"])
def test_what_is_propagated_beforehand_changes_nothing(encoder):
    config = ModelConfig(encoder=encoder, layers=2, width=6)
    inputs = inputs_of(config)
    assert inputs.propagated is not None
    model = build_model(config, 4, seed=0)
    assert torch.equal(model.encode(inputs), model.encode(dataclasses.replace(inputs, propagated=None)))


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_sparse_and_dense_features_give_the_same_embeddings_and_gradients(encoder, dropout):
    config = ModelConfig(encoder=encoder, layers=2, width=8, feature_dropout=dropout)
    matrix = random_sparse_features(NUM_NODES, 12)
    found = []
    for features in (matrix, matrix.toarray()):
        model = build_model(config, 12, seed=0)
        embeddings = model.encode(inputs_of(config, features), key=7)
        embeddings.square().sum().backward()
        found.append((embeddings, [p.grad for p in model.encoder.parameters()]))
    torch.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("encoder", ["sage", "gat"])
def test_our_layers_are_those_of_torch_geometric(encoder, bias):
    graph = graph_of([*EDGES, (6, 1)], random_features(NUM_NODES, 4), undirected=False)
    dense, adjacency = torch.from_numpy(np.array(graph.features)), NormalisedAdjacency.of(graph, encoder)
    edges = adjacency_pair(adjacency, graph.undirected)
    if encoder == "sage":
        layer, peer = SageLayer(4, 16, bias), SAGEConv(4, 16, bias=bias)
    else:
        layer, peer = GatLayer(4, 16, bias), GATConv(4, 2, heads=8, bias=bias)  # which adds the loops itself
    peer.load_state_dict(layer.conv.state_dict())
    pattern = adjacency_pair(NormalisedAdjacency.of(graph, "sage"), graph.undirected).matrix.to_dense()
    expected = peer(dense, pattern.nonzero().T.flip(0))
    torch.testing.assert_close(layer(dense, Layer(edges), None), expected)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("make", [random_features, random_sparse_features])
def test_one_step_changes_every_weight_and_lowers_the_loss(encoder, dropout, make):
    config = ModelConfig(encoder=encoder, layers=2, width=8, projection=6, feature_dropout=dropout)
    model = build_model(config, 5, seed=0)
    inputs = dataclasses.replace(inputs_of(config, make(NUM_NODES, 5)), rows=torch.tensor([0, 2, 3, 5]))
    target = torch.rand(4, 6, generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def loss():
        return (model.project(model.encode(inputs, key=1)) * target).sum()

    before = loss()
    before.backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())
    assert all((p.grad != 0).any() for p in model.parameters())
    optimizer.step()
    assert loss() < before


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("bias", [True, False])
def test_the_same_seed_gives_the_same_weights_and_leaves_the_generator_alone(encoder, bias):
    config = ModelConfig(encoder=encoder, layers=2, width=8, bias=bias)
    states = []
    for general, seed in ((5, 3), (6, 3), (6, 4)):
        torch.manual_seed(general)
        before = torch.get_rng_state()
        states.append(build_model(config, 5, seed=seed).state_dict())
        assert torch.equal(torch.get_rng_state(), before)
    first, again, other = states
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)
    assert any("bias" in name for name in first if name.startswith("encoder.")) == bias


@pytest.mark.parametrize(
    "setting", [{"activation": "rrelu"}, {"feature_dropout": 0.5}, {"hidden_dropout": 0.5}, {"message_dropout": 0.5}]
)
def test_dropout_and_random_slopes_act_in_training_only_and_by_their_key(setting):
    config = ModelConfig(**{"layers": 2, "width": 6, "activation": "relu", **setting})
    inputs, model = inputs_of(config), build_model(config, 4, seed=0)
    assert torch.equal(model.encode(inputs, 1), model.encode(inputs, 1))
    assert not torch.equal(model.encode(inputs, 1), model.encode(inputs, 2))
    model.eval()
    assert torch.equal(model.encode(inputs, 1), model.encode(inputs, 2))


def test_random_slopes_lie_between_the_bounds_of_torch_and_leave_positive_numbers_alone():
    peer, drawn = torch.nn.RReLU(), noise.Noise(5, 0.0, 0)
    ones = torch.ones(100, 6)
    slopes = -noise.with_noise(-ones, None, drawn)
    assert (peer.lower, peer.upper) == noise.SLOPES
    assert ((slopes >= peer.lower) & (slopes < peer.upper)).all()
    assert slopes.unique().numel() > 590
    assert float(slopes.mean()) == pytest.approx(sum(noise.SLOPES) / 2, abs=0.01)
    assert torch.equal(noise.with_noise(ones, None, drawn), ones)
    torch.testing.assert_close(KeyedRReLU()(-ones), peer.eval()(-ones))


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("make", [random_features, random_sparse_features])
def test_layers_that_are_computed_again_on_the_way_back_change_no_bit(encoder, make):
    config = ModelConfig(
        encoder=encoder, layers=3, width=8, activation="rrelu", feature_dropout=0.3, hidden_dropout=0.2
    )
    found = []
    for recompute in (False, True):
        again = config.model_copy(update={"recompute": recompute})
        model = build_model(again, 5, seed=0)
        embeddings = model.encode(inputs_of(again, make(NUM_NODES, 5)), key=4)
        embeddings.square().sum().backward()
        found.append([embeddings, *(p.grad for p in model.encoder.parameters())])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_our_prelu_is_that_of_torch_and_so_are_its_gradients():
    found = []
    for activation in (PReLU(), torch.nn.PReLU()):
        hidden = torch.linspace(-2, 2, 60).reshape(10, 6).requires_grad_()
        result = activation(hidden)
        (result * torch.arange(60.0).reshape(10, 6)).sum().backward()
        found.append((result, hidden.grad, activation.weight.grad))
    torch.testing.assert_close(found[0], found[1])


def test_all_numbers_of_a_step_are_drawn_by_keys_of_their_own(monkeypatch):
    config = ModelConfig(
        layers=3, width=6, activation="rrelu", feature_dropout=0.2, hidden_dropout=0.2, message_dropout=0.2
    )
    keys = []
    for name in ("uniform", "uniform_entries"):
        draw = getattr(keyed_random, name)
        monkeypatch.setattr(keyed_random, name, lambda key, *rest, draw=draw: keys.append(key) or draw(key, *rest))
    inputs = inputs_of(config)
    build_model(config, 4, seed=0).encode(inputs, key=5)
    assert len(keys) == len(set(keys)) == 9  # features, three activations, between the layers, messages of each


def test_a_share_of_what_lies_between_layers_is_dropped_and_the_rest_scaled_up():
    config = ModelConfig(layers=2, width=400, activation="relu", hidden_dropout=0.25)
    inputs = inputs_of(config)
    model, given = build_model(config, 4, seed=0), []
    model.encoder.layers[1].register_forward_pre_hook(lambda _, arguments: given.append(arguments[0]))
    model.encode(inputs, key=3)
    model.eval().encode(inputs, key=3)
    dropped, whole = given
    kept = dropped != 0
    assert float(kept.sum() / (whole != 0).sum()) == pytest.approx(0.75, abs=0.03)
    torch.testing.assert_close(dropped[kept], whole[kept] / 0.75)


@pytest.mark.parametrize("encoder", ["gcn", "sage"])
@pytest.mark.parametrize("undirected", [True, False])
def test_a_share_of_the_messages_is_dropped_and_the_rest_scaled_up(encoder, undirected):
    edges = np.random.default_rng(0).integers(0, 400, (6000, 2)).tolist()
    graph = graph_of(edges, random_features(400, 4), undirected)
    whole = adjacency_pair(NormalisedAdjacency.of(graph, encoder), undirected)
    dropping = whole.with_edge_dropout(0.25, 7, None, None)
    dense, dropped = whole.matrix.to_dense(), dropping.matrix.to_dense()
    own = torch.eye(400, dtype=torch.bool)
    torch.testing.assert_close(dropped[own], dense[own])
    between, kept = (dense != 0) & ~own, (dropped != 0) & ~own
    assert float(kept.sum() / between.sum()) == pytest.approx(0.75, abs=0.02)
    torch.testing.assert_close(dropped[kept], dense[kept] / 0.75)
    assert torch.equal(dropping.transposed.to_dense(), dropped.T)
    assert torch.equal(dropping.matrix.to_dense(), whole.with_edge_dropout(0.25, 7, None, None).matrix.to_dense())
    assert not torch.equal(dropped, whole.with_edge_dropout(0.25, 8, None, None).matrix.to_dense())


def test_features_that_were_propagated_beforehand_are_dropped_like_others():
    config = ModelConfig(width=6, activation="relu")
    inputs = inputs_of(config)
    model = build_model(config.model_copy(update={"feature_dropout": 0.5}), 4, seed=0)
    assert inputs.propagated is not None
    assert not torch.equal(model.encode(inputs), model.eval().encode(inputs))


@pytest.mark.parametrize("projection", [5, 0])
def test_projected_rows_have_length_one_and_are_the_embeddings_where_there_is_no_projection(projection):
    model, rows = build_model(ModelConfig(width=6, projection=projection), 4, seed=0), torch.rand(7, 6)
    projected = model.project(rows)
    torch.testing.assert_close(projected.norm(dim=1), torch.ones(7))
    if not projection:
        torch.testing.assert_close(projected, normalise(rows))
        assert all(name.startswith("encoder.") for name in model.state_dict())


def test_a_zero_row_has_cosine_zero_and_gradient_zero_and_numbers_that_are_not_finite_are_not_hidden():
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.0]], requires_grad=True)
    result = normalise(rows)
    (result @ result.T).sum().backward()
    torch.testing.assert_close(result, torch.tensor([[0.6, 0.8], [0.0, 0.0]]))
    assert torch.isfinite(rows.grad).all()
    assert (rows.grad[1] == 0).all()
    assert normalise(torch.tensor([[float("nan"), 1.0], [float("inf"), 1.0]])).isnan().any(dim=1).all()


def test_the_last_layer_may_end_without_the_activation():
    for layers in (1, 2):
        without, with_it = (
            ModelConfig(layers=layers, width=6, activation="relu", last_activation=last) for last in (False, True)
        )
        found, whole = (build_model(one, 4, seed=1).eval().encode(inputs_of(one)) for one in (without, with_it))
        assert (found < 0).any()
        torch.testing.assert_close(found.relu(), whole)


def test_a_batch_is_standardised_before_the_activation_and_later_rows_by_what_it_was():
    config = ModelConfig(width=6, norm="batch", last_activation=False)
    model, inputs = build_model(config, 4, seed=1).train(), inputs_of(config)
    rows = model.encode(inputs)
    torch.testing.assert_close(rows.mean(dim=0), torch.zeros(6), atol=1e-5, rtol=0)
    for _ in range(3):
        model.encode(inputs)
    spread = model.eval().encode(inputs).std(dim=0, correction=0)
    torch.testing.assert_close(spread, torch.ones(6), atol=0.1, rtol=0)
