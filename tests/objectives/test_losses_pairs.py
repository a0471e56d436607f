"""The losses of methods that tell linked pairs or summaries from others, beside a slow, obvious computation."""

import numpy as np
import pytest
import torch

from gscl_scale import seeding
from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError
from gscl_scale.train.objectives import reconstruction
from gscl_scale.train.objectives.methods import OBJECTIVES, build_objective
from tests.model.graphs import EDGES, NUM_NODES, graph_of, random_features, random_sparse_features
from tests.objectives.cases import FEATURES, KEY, WIDTH, case_of
from tests.objectives.slow import linked, slow_adjacency, weights


def test_mvgrl_tells_nodes_on_the_graph_by_the_summary_of_the_diffusion_and_the_reverse():
    case = case_of("mvgrl", teleport=0.3)
    case.model.encoder.eval()
    case.objective.diffusion_encoder.eval()
    parts = weights(case.objective)
    dense = 0.3 * np.linalg.inv(np.eye(NUM_NODES) - 0.7 * slow_adjacency())
    assert case.objective.matrix.to_dense().numpy() == pytest.approx(dense, rel=1e-5, abs=1e-7)
    on_graph, diffused = case.rows(), []
    for view in case.views:
        rows = dense @ view.features.numpy() @ parts["diffusion_encoder.layers.0.weight"]
        rows += parts["diffusion_encoder.layers.0.bias"]
        diffused.append(np.where(rows > 0, rows, rows * parts["diffusion_encoder.activations.0.weight"]))
    total = 0.0
    for nodes, other in ((on_graph, diffused), (diffused, on_graph)):
        summary = 1 / (1 + np.exp(-other[0].mean(axis=0)))
        for rows, truth in zip(nodes, (1, 0), strict=True):
            for row in rows:
                chance = 1 / (1 + np.exp(-(row @ parts["weight"] @ summary + parts["bias"])))
                total -= np.log(chance if truth else 1 - chance)
    assert case.loss() == pytest.approx(total / (4 * NUM_NODES), rel=1e-6)


def test_mvgrl_is_refused_with_an_encoder_that_reads_no_weights_of_pairs():
    graph = graph_of(EDGES, random_features(NUM_NODES, FEATURES))
    config = Config.parse({"train": {"objective": "mvgrl"}, "model": {"encoder": "gat"}})
    with pytest.raises(ConfigError, match=r"model\.encoder: mvgrl weights pairs of nodes, which gat does not read"):
        build_objective(config, graph)


def test_mvgrl_needs_memory_for_each_pair_of_nodes():
    graph = graph_of(EDGES, random_features(NUM_NODES, FEATURES))
    assert OBJECTIVES["mvgrl"].step_bytes(graph) == 32 * NUM_NODES**2


def slow_gae(rows, others):
    """The code of Kipf and Welling (2016): cross entropy of pairs with pos_weight and norm, here as two means."""
    pairs = [(u, v) for u in range(NUM_NODES) for v in range(NUM_NODES)]
    edges = [np.log(1 + np.exp(-rows[u] @ rows[v])) for u, v in pairs if linked(u, v)]
    return (np.mean(edges) + np.mean([np.log(1 + np.exp(rows[u] @ rows[v])) for u, v in others])) / 2


def test_gae_is_the_weighted_cross_entropy_of_all_pairs():
    case = case_of("gae")
    (rows,) = case.rows()
    truth = np.array([[linked(u, v) for u in range(NUM_NODES)] for v in range(NUM_NODES)])
    pairs, edges = NUM_NODES**2, truth.sum()
    scores = rows @ rows.T
    weight, norm = (pairs - edges) / edges, pairs / (2 * (pairs - edges))
    losses = np.where(truth, weight * np.log(1 + np.exp(-scores)), np.log(1 + np.exp(scores)))
    assert case.loss() == pytest.approx(norm * losses.mean(), rel=1e-6)
    assert case.loss() == pytest.approx(slow_gae(rows, np.argwhere(~truth)), rel=1e-6)


def test_gae_with_drawn_pairs_is_the_mean_over_those_without_an_edge():
    case = case_of("gae", negatives=40)
    codes = np.sort(seeding.generator("negatives", 5).integers(0, NUM_NODES**2, 40))
    others = [divmod(int(code), NUM_NODES) for code in codes if not linked(*divmod(int(code), NUM_NODES))]
    assert 10 < len(others) < 40
    assert case.loss(key=5) == pytest.approx(slow_gae(case.rows()[0], others), rel=1e-6)
    assert case.loss(key=6) != case.loss(key=5)
    assert case_of("gae", negatives=200_000).loss() == pytest.approx(case_of("gae").loss(), rel=0.01)


def test_gae_in_blocks_of_rows_has_the_same_loss_and_gradient(monkeypatch):
    results = []
    for at_once in (1 << 20, 3 * NUM_NODES):
        monkeypatch.setattr(reconstruction, "_NUMBERS_AT_ONCE", at_once)
        case = case_of("gae")
        loss = case.objective.loss(case.model, case.views, case.hidden, 5)
        loss.backward()
        results.append((loss.detach(), case.model.encoder.layers[0].weight.grad))
    for whole, blocks in zip(*results, strict=True):
        torch.testing.assert_close(whole, blocks)


def test_vgae_is_gae_at_drawn_rows_and_their_divergence_from_the_standard_normal_distribution():
    case = case_of("vgae")
    (mean,) = case.rows()
    (log_sigma,) = case.rows([case.objective.log_sigma(case.views[0], 5)])
    noise = seeding.generator("noise", 5).standard_normal((NUM_NODES, WIDTH), "float32").astype(np.float64)
    others = [(u, v) for u in range(NUM_NODES) for v in range(NUM_NODES) if not linked(u, v)]
    expected = slow_gae(mean + np.exp(log_sigma) * noise, others)
    for u in range(NUM_NODES):
        for d in range(WIDTH):
            spread = 1 + 2 * log_sigma[u, d] - mean[u, d] ** 2 - np.exp(log_sigma[u, d]) ** 2
            expected -= spread / (2 * NUM_NODES**2)
    assert case.loss(key=5) == pytest.approx(expected, rel=1e-6)
    assert case.loss(key=6) != case.loss(key=5)


@pytest.mark.parametrize(("layers", "negatives"), [(1, 100), (2, 5)])
def test_s2gae_decodes_masked_edges_from_the_rows_of_all_layers(layers, negatives):
    case = case_of("s2gae", layers=layers, masked=0.6, negatives=negatives, predictor=5)
    both = sorted([*EDGES, *((v, u) for u, v in EDGES)])
    masked = [both[place] for place in seeding.generator("mask", KEY).permutation(12)[:7]]
    drawn = seeding.generator("negatives", KEY).integers(0, NUM_NODES, (2, min(7, negatives))).T
    parts, by_layer = weights(case.objective.decoder), np.split(case.rows()[0], layers, axis=1)

    def chance(u, v):
        rows = np.concatenate([first[u] * second[v] for first in by_layer for second in by_layer])
        for number in range(2):
            rows = np.maximum(rows @ parts[f"{number}.weight"].T + parts[f"{number}.bias"], 0)
        return 1 / (1 + np.exp(-(parts["2.weight"][0] @ rows + parts["2.bias"][0])))

    expected = -np.mean([np.log(chance(*pair)) for pair in masked[:negatives]])
    expected -= np.mean([np.log(1 - chance(*pair)) for pair in drawn])
    assert case.loss() == pytest.approx(expected, rel=1e-6)


def test_s2gae_masks_each_direction_of_an_edge_on_its_own_and_encodes_the_graph_that_is_left():
    case = case_of("s2gae", layers=2, masked=0.5)
    both = sorted([*EDGES, *((v, u) for u, v in EDGES)])
    masked = {both[place] for place in seeding.generator("mask", KEY).permutation(12)[:6]}
    left = np.array([[float(u == v or ((u, v) in both and (u, v) not in masked)) for v in range(NUM_NODES)]
                     for u in range(NUM_NODES)])  # fmt: skip
    expected = left / np.sqrt(np.outer(left.sum(axis=1), left.sum(axis=0)))
    (read,) = case.objective.prepare(case.views, KEY)
    assert read.layers[0].edges.matrix.to_dense().numpy() == pytest.approx(expected, rel=1e-6)
    first, last = np.split(case.rows()[0], 2, axis=1)
    parts = weights(case.model.encoder)
    for number, (below, rows) in enumerate([(random_features(NUM_NODES, FEATURES), first), (first, last)]):
        inner = expected @ below @ parts[f"layers.{number}.weight"] + parts[f"layers.{number}.bias"]
        inner = np.where(inner > 0, inner, inner * parts[f"activations.{number}.weight"])
        assert rows == pytest.approx(inner, rel=1e-5, abs=1e-6)


def test_s2gae_drops_values_in_its_decoder_by_the_key():
    case = case_of("s2gae", masked=0.6)
    case.objective._model = case.objective._model.model_copy(update={"hidden_dropout": 0.5})
    assert case.loss() == case.loss() != case_of("s2gae", masked=0.6).loss()


def test_s2gae_is_refused_on_a_graph_without_edges():
    graph = graph_of([], random_features(NUM_NODES, FEATURES))
    with pytest.raises(ConfigError, match=r"s2gae decodes masked edges, but the graph has none"):
        build_objective(Config.parse({"train": {"objective": "s2gae"}}), graph)


def test_gmi_is_the_information_of_features_and_neighbors_and_the_reconstruction_of_edges():
    case = case_of("gmi", terms=[0.8, 0.5, 0.3], negatives=2)
    parts, (rows,) = weights(case.objective), case.rows()
    features = random_features(NUM_NODES, FEATURES).astype(np.float64)
    sent = features @ weights(case.model)["encoder.layers.0.weight"]
    around = np.array([np.mean([sent[u] for u in range(NUM_NODES) if linked(u, v) and u != v] or [0 * sent[v]], axis=0)
                       for v in range(NUM_NODES)])  # fmt: skip
    around = np.where(around > 0, around, around * parts["activation.weight"])
    drawn = []
    for number in range(2):
        others = seeding.generator("negatives", KEY, number).integers(0, NUM_NODES - 1, NUM_NODES)
        drawn.append([u + (u >= v) for v, u in enumerate(others)])

    def information(seen, own, name):
        def score(u, v):
            return 1 / (1 + np.exp(-(seen[u] @ parts[f"{name}.weight"] @ own[v] + parts[f"{name}.bias"])))

        true = np.mean([np.log(1 + np.exp(-score(v, v))) for v in range(NUM_NODES)])
        return true + np.mean([np.log(1 + np.exp(score(nodes[v], v))) for nodes in drawn for v in range(NUM_NODES)])

    truth = np.array([[linked(u, v) for u in range(NUM_NODES)] for v in range(NUM_NODES)])
    pairs, half, chance = NUM_NODES**2, truth.sum() / 2, 1 / (1 + np.exp(-(rows @ rows.T)))
    errors = np.where(truth, -(pairs - half) / half * np.log(chance), -np.log(1 - chance))
    expected = 0.8 * information(features, rows, "of_features") + 0.5 * information(rows, around, "of_neighbours")
    expected += 0.3 * errors.mean() * pairs / (pairs - half)
    assert case.loss() == pytest.approx(expected, rel=1e-6)


def test_gmi_reads_sparse_features_as_dense_ones():
    features = random_sparse_features(NUM_NODES, FEATURES)
    sparse, dense = case_of("gmi", given_features=features), case_of("gmi", given_features=features.toarray())
    assert sparse.loss() == pytest.approx(dense.loss(), rel=1e-6)
