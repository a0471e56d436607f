"""The loss of every method beside a slow, obvious computation on eight nodes."""

import numpy as np
import pytest
import torch

from gscl_scale.errors import ConfigError
from gscl_scale.train.objectives import gca, grace
from gscl_scale.train.objectives.grace import contrast, draw_nodes
from gscl_scale.train.objectives.methods import OBJECTIVES
from tests.model.graphs import EDGES, NUM_NODES, graph_of, random_features
from tests.objectives.cases import FEATURES, KEY, TARGETS, WIDTH, case_of
from tests.objectives.slow import cosine, linked, weights


def test_dgi_tells_rows_of_the_graph_from_those_of_shuffled_features():
    case = case_of("dgi")
    own, shuffled = case.rows()
    summary = 1 / (1 + np.exp(-own.mean(axis=0)))
    form = weights(case.objective)
    total = 0.0
    for rows, truth in ((own, 1), (shuffled, 0)):
        for row in rows:
            chance = 1 / (1 + np.exp(-(row @ form["weight"] @ summary + form["bias"])))
            total -= np.log(chance if truth else 1 - chance)
    assert case.loss() == pytest.approx(total / (2 * NUM_NODES), rel=1e-5)


def test_dgi_looks_at_the_graph_and_at_the_same_graph_with_features_that_changed_places():
    own, shuffled = case_of("dgi").views
    assert own.layers is shuffled.layers
    assert not torch.equal(own.features, shuffled.features)
    assert sorted(own.features.tolist()) == sorted(shuffled.features.tolist())


def slow_grace(one, other, drawn, temperature):
    """Zhu et al. (2020), eq. 1 for each node: it is no negative of its own, in neither view."""
    losses = []
    for v in range(len(one)):
        positive = np.exp(cosine(one[v], other[v]) / temperature)
        negatives = [np.exp(cosine(one[v], rows[k]) / temperature) for k in drawn if k != v for rows in (other, one)]
        losses.append(-np.log(positive / (positive + sum(negatives))))
    return losses


@pytest.mark.parametrize("negatives", [None, 3])
def test_grace_is_the_mean_over_both_views_against_all_nodes_or_those_drawn(negatives):
    case = case_of("grace", temperature=0.3, negatives=negatives)
    one, other = (case.model.project(rows).detach().numpy().astype(np.float64) for rows in case.hidden)
    drawn = draw_nodes(NUM_NODES, negatives, 5).tolist()
    assert len(set(drawn)) == (negatives or NUM_NODES)
    expected = np.mean(slow_grace(one, other, drawn, 0.3) + slow_grace(other, one, drawn, 0.3))
    assert case.loss(key=5) == pytest.approx(expected, rel=1e-5)
    if negatives:
        assert case.loss(key=6) != case.loss(key=5)


def test_grace_needs_two_negatives_because_one_may_be_the_node_itself():
    with pytest.raises(ConfigError, match=r"baseline\.negatives: expected 2 or more here, got 1"):
        case_of("grace", negatives=1)


def test_grace_in_blocks_of_rows_has_the_same_loss_and_gradient(monkeypatch):
    rows = torch.nn.functional.normalize(torch.randn(20, 5, generator=torch.Generator().manual_seed(0)), dim=1)
    results = []
    for at_once in (1 << 20, 2 * 12 * 7):
        monkeypatch.setattr(grace, "_NUMBERS_AT_ONCE", at_once)
        one, other = rows.clone().requires_grad_(), rows.flip(0).requires_grad_()
        losses = contrast(one, other, torch.arange(3, 15), 0.5)
        losses.sum().backward()
        results.append((losses, one.grad, other.grad))
    for whole, blocks in zip(*results, strict=True):
        torch.testing.assert_close(whole, blocks)


def slow_gca_chances(scores, share, most):
    """Zhu et al. (2021), eq. 4 and 6."""
    highest, mean = max(scores), sum(scores) / len(scores)
    return [min((highest - score) / (highest - mean) * share, most) for score in scores]


def slow_centrality(edges, kind):
    adjacency = np.zeros((NUM_NODES, NUM_NODES))
    for u, v in edges:
        adjacency[u, v] = adjacency[v, u] = 1
    degree = adjacency.sum(axis=0)
    if kind == "degree":
        return degree
    if kind == "eigenvector":
        values, vectors = np.linalg.eigh(adjacency)
        return np.abs(vectors[:, np.argmax(values)])
    share = np.where(degree > 0, adjacency.T / np.maximum(degree, 1), 1 / NUM_NODES)
    return NUM_NODES * np.linalg.solve(np.eye(NUM_NODES) - 0.85 * share, np.full(NUM_NODES, 0.15 / NUM_NODES))


@pytest.mark.parametrize("kind", ["degree", "pagerank", "eigenvector"])
def test_gca_drops_what_is_less_central_more_often(kind):
    case = case_of("gca", centrality=kind, edges=[0.4, 0.1], features=[0.2, 0.3], most_dropped=0.5)
    scores = slow_centrality(EDGES, kind)
    both = sorted([*EDGES, *((v, u) for u, v in EDGES)])
    of_edges = [np.log((scores[u] + scores[v]) / 2 + 1) for u, v in both]
    features = random_features(NUM_NODES, FEATURES)
    of_columns = [np.log(sum(abs(features[u, i]) * scores[u] for u in range(NUM_NODES)) + 1) for i in range(FEATURES)]
    for view, edges, columns in zip(case.objective.views, (0.4, 0.1), (0.2, 0.3), strict=True):
        found = view.shares()
        assert found[0] == pytest.approx(slow_gca_chances(of_edges, edges, 0.5), rel=1e-6, abs=1e-12)
        assert found[1] == pytest.approx(slow_gca_chances(of_columns, columns, 0.5), rel=1e-6, abs=1e-12)


def test_gca_has_the_loss_of_grace_over_its_views():
    case = case_of("gca", temperature=0.3)
    one, other = (case.model.project(rows).detach().numpy().astype(np.float64) for rows in case.hidden)
    expected = np.mean(slow_grace(one, other, range(NUM_NODES), 0.3) + slow_grace(other, one, range(NUM_NODES), 0.3))
    assert case.loss() == pytest.approx(expected, rel=1e-6)


def test_gca_drops_alike_where_everything_is_as_central():
    weights = case_of("gca").objective.views[0].weights
    assert gca._relative(np.full(3, 2.0)).tolist() == [1, 1, 1]
    assert weights.edges.mean() == pytest.approx(1)
    assert gca.centrality(graph_of([(0, 1), (0, 2)], random_features(3, 2), False), "degree").tolist() == [0, 1, 1]


def test_bgrl_predicts_the_other_view_of_the_target_encoder():
    case = case_of("bgrl", predictor=5)
    target = case.rows([case.objective.target(view, 5) for view in case.views])
    parts = weights(case.objective.predictor)
    predicted = []
    for rows in case.rows():
        inner = rows @ parts["0.weight"].T + parts["0.bias"]
        inner = np.where(inner > 0, inner, inner * parts["1.weight"])
        predicted.append(inner @ parts["2.weight"].T + parts["2.bias"])
    pairs = [(predicted[0], target[1]), (predicted[1], target[0])]
    expected = 2 - sum(np.mean([cosine(a, b) for a, b in zip(*pair, strict=True)]) for pair in pairs)
    assert case.loss() == pytest.approx(expected, rel=1e-5)


def test_bgrl_leaves_the_target_without_gradient_and_lets_it_follow_ever_more_slowly():
    case = case_of("bgrl")
    objective, online = case.objective, case.model.encoder.layers[0].weight
    target = objective.target.layers[0].weight
    objective.loss(case.model, case.views, case.hidden, 5).backward()
    assert all(parameter.grad is None for parameter in objective.target.parameters())
    first = target.clone()
    assert not torch.equal(first, online)
    objective.after_step(case.model, 0.5)  # half way: 1 - 0.01 / 2
    torch.testing.assert_close(target, 0.995 * first + 0.005 * online)
    after = target.clone()
    objective.after_step(case.model, 1.0)
    assert torch.equal(after, target)


def test_bgrl_warms_up_for_a_tenth_and_then_goes_down_along_a_cosine():
    rate = case_of("bgrl").objective.rate
    assert [rate(done) for done in (0, 0.05, 0.1, 0.55, 1)] == pytest.approx([0, 0.5, 1, 0.5, 0])


def test_blnn_predicts_nodes_from_themselves_and_from_neighbors_that_agree():
    case = case_of("blnn", predictor=5, temperature=0.7)
    parts = weights(case.objective.predictor)
    target, predicted = case.rows([case.objective.target(view, KEY) for view in case.views]), []
    for rows in case.rows():
        inner = rows @ parts["0.weight"].T + parts["0.bias"]
        inner = np.where(inner > 0, inner, inner * parts["1.weight"])
        predicted.append(inner @ parts["2.weight"].T + parts["2.bias"])
    expected = 2.0
    for v in range(NUM_NODES):
        expected -= (cosine(predicted[0][v], target[1][v]) + cosine(predicted[1][v], target[0][v])) / NUM_NODES
        around = [u for u in range(NUM_NODES) if linked(u, v) and u != v]
        scores = [np.exp(cosine(target[0][u], target[1][v]) / 0.7) for u in around]
        for u, score in zip(around, scores, strict=True):
            both = cosine(predicted[0][u], target[1][v]) + cosine(predicted[1][u], target[0][v])
            expected -= score / sum(scores) * both / NUM_NODES
    assert case.loss() == pytest.approx(expected, rel=1e-6)


def test_cca_ssg_correlates_columns_of_two_views_and_decorrelates_those_of_each():
    case = case_of("cca-ssg", decorrelation=0.2)
    one, other = ((rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1) for rows in case.rows())
    expected = 0.0
    for a in range(WIDTH):
        expected -= one[:, a] @ other[:, a] / NUM_NODES
        for b in range(WIDTH):
            for rows in (one, other):
                expected += 0.2 * (rows[:, a] @ rows[:, b] / NUM_NODES - (a == b)) ** 2
    assert case.loss() == pytest.approx(expected, rel=1e-4)


def test_cca_ssg_gives_a_column_without_variance_no_gradient():
    case = case_of("cca-ssg")
    hidden = [(rows.detach() * torch.tensor([1.0, 0.0, 1.0, 1.0])).requires_grad_() for rows in case.hidden]
    loss = case.objective.loss(case.model, case.views, hidden, 5)
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(rows.grad).all() for rows in hidden)


@pytest.mark.parametrize("decorrelation", [None, 0.3])
def test_g_bt_brings_the_cross_correlation_of_two_views_close_to_the_identity(decorrelation):
    case = case_of("g-bt", decorrelation=decorrelation)
    one, other = (rows - rows.mean(axis=0) for rows in case.rows())
    expected = 0.0
    for a in range(WIDTH):
        for b in range(WIDTH):
            correlation = cosine(one[:, a], other[:, b])
            weight = 1 / WIDTH if decorrelation is None else decorrelation
            expected += (1 - correlation) ** 2 if a == b else weight * correlation**2
    assert case.loss() == pytest.approx(expected, rel=1e-6)


def test_the_first_columns_of_a_supervised_encoder_are_scores_of_the_classes_that_it_was_given():
    case = case_of("supervised")
    (rows,) = case.rows()
    shares = [np.exp(row[target]) / np.exp(row[:3]).sum() for row, target in zip(rows, TARGETS, strict=True)]
    assert case.loss() == pytest.approx(-np.log(np.array(shares)[TARGETS >= 0]).mean(), rel=1e-5)


def test_a_supervised_encoder_needs_a_column_for_each_class():
    with pytest.raises(ConfigError, match=r"needs a column for each of 3 classes, got 2; set it to 3 or more"):
        case_of("supervised", width=2)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_first_weights_of_an_objective_depend_on_the_seed_alone(name):
    one = case_of(name).objective.state_dict()
    torch.rand(1)
    again = case_of(name).objective.state_dict()
    assert all(torch.equal(one[key], again[key]) for key in one)


def test_shapes_of_the_heads_are_those_of_the_papers():
    bgrl, dgi = case_of("bgrl").objective, case_of("dgi").objective
    assert [layer.weight.shape for layer in (bgrl.predictor[0], bgrl.predictor[2])] == [(512, WIDTH), (WIDTH, 512)]
    assert bgrl.target.layers[0].weight.shape == (FEATURES, WIDTH)
    assert dgi.weight.shape == (WIDTH, WIDTH)
