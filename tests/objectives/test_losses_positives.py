"""The losses of masked autoencoders and of methods with positives of their own, beside a slow computation."""

import numpy as np
import pytest
import torch

from gscl_scale import seeding
from gscl_scale.train.objectives import afgrl, costa
from gscl_scale.train.objectives.grace import draw_nodes
from gscl_scale.train.objectives.k_means import k_means
from tests.model.graphs import NUM_NODES, random_features, random_sparse_features
from tests.objectives.cases import FEATURES, KEY, case_of
from tests.objectives.slow import cosine, linked, slow_adjacency, weights


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


@pytest.mark.parametrize(("pool", "nearest"), [(NUM_NODES, 3), (3, 5)])
def test_af_gcl_is_close_to_the_most_similar_nodes_of_a_pool_and_orthogonal_to_drawn_ones(pool, nearest):
    case = case_of("af-gcl", pool=pool, nearest=nearest, negatives=4)
    nodes, parts = case.objective._draw(KEY), weights(case.objective.head)
    assert 2 <= len(set(nodes.tolist())) == len(nodes) <= pool
    inner = np.maximum(case.rows()[0][nodes], 0) @ parts["0.weight"].T + parts["0.bias"]
    inner = np.where(inner > 0, inner, inner * parts["1.weight"])
    rows = inner @ parts["2.weight"].T + parts["2.bias"]
    drawn = seeding.generator("negatives", KEY).integers(0, len(nodes), (len(nodes), 4))
    losses = []
    for i in range(len(nodes)):
        similar = sorted((cosine(rows[i], rows[p]) for p in range(len(nodes))), reverse=True)[:nearest]
        losses.append(sum(cosine(rows[i], rows[n]) ** 2 for n in drawn[i]) - 2 * np.mean(similar))
    assert case.loss() == pytest.approx(np.mean(losses), rel=1e-6)


def test_af_gcl_drops_values_of_the_last_layer_by_the_key():
    case = case_of("af-gcl", pool=NUM_NODES)
    case.objective._dropout = 0.5
    assert case.loss() == case.loss() != case_of("af-gcl", pool=NUM_NODES).loss()


def test_af_gcl_draws_its_pool_within_two_hops_of_drawn_nodes():
    hops = slow_adjacency() > 0
    near = hops @ hops
    drawn = [set(case_of("af-gcl", pool=1).objective._draw(key)) for key in range(40)]
    assert {len(pool) for pool in drawn} == {1}
    assert set().union(*drawn) == set(range(NUM_NODES))
    for key in range(20):
        seeds = seeding.generator("pool", key).choice(NUM_NODES, 2, replace=False, shuffle=False)
        assert set(case_of("af-gcl", pool=2).objective._draw(key)) <= set(np.flatnonzero(near[seeds].any(axis=0)))


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
