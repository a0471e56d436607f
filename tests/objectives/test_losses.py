"""The loss of every method beside a slow, obvious computation on eight nodes."""

import numpy as np
import pytest
import torch

from gscl_scale import seeding
from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError
from gscl_scale.train.objectives import afgrl, costa, gca, grace, reconstruction
from gscl_scale.train.objectives.grace import contrast, draw_nodes
from gscl_scale.train.objectives.k_means import k_means
from gscl_scale.train.objectives.methods import OBJECTIVES, build_objective
from tests.model.graphs import EDGES, NUM_NODES, graph_of, random_features, random_sparse_features
from tests.objectives.cases import FEATURES, KEY, TARGETS, WIDTH, case_of


def cosine(a, b):
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


def slow_adjacency():
    """D^-1/2 (A + I) D^-1/2."""
    linked_both = np.array([[float(linked(u, v)) for u in range(NUM_NODES)] for v in range(NUM_NODES)])
    scale = 1 / np.sqrt(linked_both.sum(axis=0))
    return scale[:, None] * linked_both * scale


def weights(module):
    return {name: value.detach().numpy().astype(np.float64) for name, value in module.state_dict().items()}


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


def linked(u, v):
    return u == v or (u, v) in EDGES or (v, u) in EDGES


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


@pytest.mark.parametrize("nearest", [1, 3, 100])
def test_afgrl_predicts_similar_nodes_that_are_neighbors_or_in_its_cluster(nearest):
    case = case_of("afgrl", nearest=nearest, clusters=3, predictor=5)
    (rows,), (target,) = case.rows(), case.rows([case.objective.target(case.views[0], KEY)])
    unit = torch.nn.functional.normalize(torch.from_numpy(target).float())
    runs = [k_means(unit, 3, 20, seeding.integer("run", KEY, run)).tolist() for run in range(5)]
    parts = weights(case.objective.predictor)
    inner = rows @ parts["0.weight"].T + parts["0.bias"]
    inner = (inner - inner.mean(axis=0)) / np.sqrt(inner.var(axis=0) + 1e-5)
    inner = np.where(inner > 0, inner, inner * parts["2.weight"])
    predicted = inner @ parts["3.weight"].T + parts["3.bias"]
    losses = []
    for i in range(NUM_NODES):
        others = sorted(range(NUM_NODES), key=lambda j, i=i: (j != i, -cosine(rows[i], target[j])))[:nearest]
        for j in others:
            if linked(i, j) or any(run[i] == run[j] for run in runs):
                losses.append(4 - 2 * cosine(predicted[i], target[j]) - 2 * cosine(predicted[j], target[i]))
    assert NUM_NODES <= len(losses) <= NUM_NODES * min(nearest, NUM_NODES)
    assert case.loss() == pytest.approx(np.mean(losses), rel=1e-6)


def test_afgrl_compares_blocks_of_nodes_one_after_the_other(monkeypatch):
    rows, others = torch.rand(10, 4), torch.rand(10, 4)
    whole = afgrl.most_similar(rows, others, 3)
    monkeypatch.setattr(afgrl, "_NUMBERS_AT_ONCE", 3 * 10)
    assert torch.equal(afgrl.most_similar(rows, others, 3), whole)
    assert whole[:, 0].tolist() == list(range(10))


def test_k_means_is_lloyds_from_drawn_rows():
    rows = torch.from_numpy(np.random.default_rng(1).normal(size=(40, 2)))
    drawn = seeding.generator("clusters", 3).permutation(40)
    centers = rows.numpy()[drawn[:4]]
    for _ in range(6):
        nearest = [min(range(4), key=lambda c: ((row - centers[c]) ** 2).sum()) for row in rows.numpy()]
        centers = np.array([rows.numpy()[np.array(nearest) == c].mean(axis=0) for c in range(4)])
    expected = [min(range(4), key=lambda c: ((row - centers[c]) ** 2).sum()) for row in rows.numpy()]
    assert k_means(rows, 4, 6, key=3).tolist() == expected
    assert k_means(torch.zeros(3, 2), 5, 2, key=1).tolist() == [0, 0, 0]


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


@pytest.mark.parametrize(
    "features", [random_features(NUM_NODES, FEATURES), random_sparse_features(NUM_NODES, FEATURES)]
)
def test_graphmae_decodes_the_features_of_masked_nodes(features):
    case = case_of("graphmae", given_features=features, masked=0.5, replaced=0.3, sharpness=3)
    generator = seeding.generator("mask", KEY)
    masked, others = generator.permutation(NUM_NODES)[:4], generator.permutation(NUM_NODES)
    given = (features.toarray() if hasattr(features, "toarray") else features).astype(np.float64)
    token = torch.nn.init.normal_(case.objective.token).detach().numpy()
    expected = given.copy()
    expected[masked[1:]] = token
    expected[masked[0]] = given[others[0]]
    (read,) = case.objective.prepare(case.views, KEY)
    assert np.array_equal(read.features.detach().numpy(), expected)
    parts = weights(case.objective)
    (rows,) = case.rows()
    rows = rows @ parts["to_decoder.weight"].T
    rows[masked] = 0
    decoded = slow_adjacency() @ rows @ parts["decoder.weight"] + parts["decoder.bias"]
    errors = [(1 - (cosine(given[v], decoded[v]) if given[v].any() and decoded[v].any() else 0)) ** 3 for v in masked]
    assert case.loss() == pytest.approx(np.mean(errors), rel=1e-6)


def test_graphmae_learns_its_token_and_the_decoder():
    case = case_of("graphmae")
    case.objective.loss(case.model, case.views, case.hidden, KEY).backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in case.objective.parameters())


def test_sugrl_is_both_triplet_losses_and_the_upper_bound():
    case = case_of("sugrl", margin=0.4, bound=0.1, weight=3.0, negatives=2)
    own, structural = case.rows()
    around = [[u for u in range(NUM_NODES) if linked(v, u)] for v in range(NUM_NODES)]
    drawn = [case.objective._neighbours(KEY, number).tolist() for number in range(5)]
    assert all(drawn[n][v] in around[v] for n in range(5) for v in range(NUM_NODES))
    mean = np.mean([own[nodes] for nodes in drawn], axis=0)

    def distance(a, b):
        return np.sqrt(((a - b + 1e-6) ** 2).sum())  # as torch has it

    expected = 0.0
    for number in range(2):
        order = seeding.generator("negatives", KEY, number).permutation(NUM_NODES)
        for v in range(NUM_NODES):
            far = distance(own[v], own[order[v]])
            for positive in (structural[v], mean[v]):
                expected += 3 * max(0, distance(own[v], positive) - far + 0.4) / NUM_NODES
            expected += max(0, far - distance(own[v], structural[v]) - 0.4 - 0.1) / 2
    assert case.loss() == pytest.approx(expected, rel=1e-6)


def test_sugrl_draws_a_neighbor_or_the_node_itself_with_the_same_chance():
    objective = case_of("sugrl").objective
    drawn = np.array([objective._neighbours(key, 0).numpy() for key in range(2000)])
    for v in range(NUM_NODES):
        around = [u for u in range(NUM_NODES) if linked(v, u)]
        shares = [(drawn[:, v] == u).mean() for u in around]
        assert shares == pytest.approx([1 / len(around)] * len(around), abs=0.05)


def test_sugrl_has_rows_without_edges_which_the_adjacency_makes_rows_on_the_graph():
    case = case_of("sugrl")
    case.model.encoder.activations[0] = torch.nn.Identity()
    own, structural = case.rows([case.model.encode(view) for view in case.views])
    np.testing.assert_allclose(slow_adjacency() @ own, structural, rtol=1e-5, atol=1e-6)


def test_costa_contrasts_rows_of_one_sketch_of_both_views():
    case = case_of("costa", temperature=0.5, sketched=0.7)
    noise = seeding.generator("sketch", KEY, 0).standard_normal((5, NUM_NODES), "float32").astype(np.float64)
    mixed = [torch.from_numpy(noise / np.sqrt(5) @ rows).float() for rows in case.rows()]
    one, other = (case.model.project(rows).detach().numpy().astype(np.float64) for rows in mixed)
    expected = 0.0
    for i in range(5):
        scores = [np.exp(cosine(one[i], other[j]) / 0.5) for j in range(5)]
        back = [np.exp(cosine(one[j], other[i]) / 0.5) for j in range(5)]
        expected -= (np.log(scores[i] / sum(scores)) + np.log(back[i] / sum(back))) / 10
    assert case.loss() == pytest.approx(expected, rel=1e-6)
    assert case.loss(key=6) != case.loss(key=5)


def test_costa_sketches_blocks_of_nodes_one_after_the_other(monkeypatch):
    monkeypatch.setattr(costa, "_NUMBERS_AT_ONCE", 3 * 4)
    rows = torch.rand(10, 2, dtype=torch.float32).requires_grad_()
    noise = np.concatenate([seeding.generator("sketch", 1, n).standard_normal((4, size), "float32")
                            for n, size in enumerate((3, 3, 3, 1))], axis=1) / 2  # fmt: skip
    found = costa.sketch(rows, 4, key=1)
    found.sum().backward()
    torch.testing.assert_close(found, torch.from_numpy(noise) @ rows)
    torch.testing.assert_close(rows.grad[:, 0], torch.from_numpy(noise.sum(axis=0)))


@pytest.mark.parametrize("negatives", [None, 3])
def test_graphacl_predicts_neighbors_against_all_nodes_or_those_drawn(negatives):
    case = case_of("graphacl", temperature=0.5, negatives=negatives)
    parts = weights(case.objective)
    (rows,), (target,) = case.rows(), case.rows([case.objective.target(case.views[0], KEY)])
    predicted = rows @ parts["predictor.weight"].T + parts["predictor.bias"]
    drawn = draw_nodes(NUM_NODES, negatives, KEY).tolist()
    losses = []
    for v in range(NUM_NODES):
        others = NUM_NODES / len(drawn) * sum(np.exp(cosine(rows[v], rows[w]) / 0.5) for w in drawn)
        around = [np.exp(cosine(predicted[v], target[u]) / 0.5) for u in range(NUM_NODES) if linked(v, u)]
        losses.append(np.mean([-np.log(score / (score + others)) for score in around]))
    assert case.loss() == pytest.approx(np.mean(losses), rel=1e-6)


def test_graphacl_has_a_target_that_begins_with_the_weights_of_the_encoder_and_follows():
    case = case_of("graphacl", momentum=0.75)
    first, online = case.objective.target.layers[0].weight.clone(), case.model.encoder.layers[0].weight
    assert torch.equal(first, online)
    case.objective.loss(case.model, case.views, case.hidden, KEY).backward()
    assert all(parameter.grad is None for parameter in case.objective.target.parameters())
    with torch.no_grad():
        online += 1
    case.objective.after_step(case.model, 0.5)
    torch.testing.assert_close(case.objective.target.layers[0].weight, first + 0.25)


def test_graphmae2_decodes_rows_that_are_masked_at_random_and_predicts_the_rows_of_its_target():
    case = case_of("graphmae2", masked=0.5, sharpness=2, remasked=0.4, decodings=2, weight=0.3, momentum=0.75)
    given = random_features(NUM_NODES, FEATURES).astype(np.float64)
    masked = seeding.generator("mask", KEY).permutation(NUM_NODES)[:4]
    parts, (rows,) = weights(case.objective), case.rows()
    (target,) = case.rows([case.objective.target(case.views[0], KEY)])

    def project(rows, name):
        inner = rows @ parts[f"{name}.0.weight"].T + parts[f"{name}.0.bias"]
        inner = np.where(inner > 0, inner, inner * parts[f"{name}.1.weight"])
        return inner @ parts[f"{name}.2.weight"].T + parts[f"{name}.2.bias"]

    latent, target = project(rows, "projector"), project(target, "target_projector")
    latent = np.where(latent > 0, latent, latent * parts["predictor.0.weight"])
    latent = latent @ parts["predictor.1.weight"].T + parts["predictor.1.bias"]
    expected = 0.3 * np.mean([1 - cosine(a, b) for a, b in zip(latent, target, strict=True)])
    for number in range(2):
        decoded = rows @ parts["to_decoder.weight"].T
        decoded[seeding.generator("remask", KEY, number).permutation(NUM_NODES)[:3]] = parts["decoder_token"]
        decoded = slow_adjacency() @ decoded @ parts["decoder.weight"] + parts["decoder.bias"]
        expected += np.mean([(1 - cosine(given[v], decoded[v])) ** 2 for v in masked])
    assert case.loss() == pytest.approx(expected, rel=1e-6)
    case.objective.loss(case.model, case.views, case.hidden, KEY).backward()
    still = {name for name, parameter in case.objective.named_parameters() if parameter.grad is None}
    assert {name.partition(".")[0] for name in still} == {"target", "target_projector"}
    before, online = case.objective.target_projector[0].weight.clone(), case.objective.projector[0].weight
    assert torch.equal(before, online)
    with torch.no_grad():
        online += 1
    case.objective.after_step(case.model, 0.5)
    torch.testing.assert_close(case.objective.target_projector[0].weight, before + 0.25)


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
