"""AutoSSL: its tasks and the search over their weights, beside a slow, obvious computation."""

from collections import deque

import numpy as np
import pytest
import torch

from gscl_scale import seeding
from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError
from gscl_scale.train.objectives import autossl, pretexts
from gscl_scale.train.objectives.k_means import k_means
from gscl_scale.train.objectives.linked import edge_matrix
from gscl_scale.train.objectives.methods import OBJECTIVES, build_objective
from tests.graphs import random_edges
from tests.model.graphs import EDGES, NUM_NODES, graph_of, random_features, random_sparse_features
from tests.objectives.cases import FEATURES, KEY, WIDTH, case_of
from tests.objectives.slow import cosine, slow_adjacency, weights

RATE = 0.03


def hops_from(node, edges, num_nodes):
    found, queue = {node: 0}, deque([node])
    while queue:
        v = queue.popleft()
        for one, other in (*edges, *((v, u) for u, v in edges)):
            if one == v and other not in found:
                found[other] = found[v] + 1
                queue.append(other)
    return [found.get(u, np.inf) for u in range(num_nodes)]


def entropy(scores, truth):
    return np.log(np.exp(scores).sum()) - scores[truth]


def slow_tasks(case, features):
    parts, rows = weights(case.objective.tasks), case.rows()[0]
    cluster = k_means(torch.from_numpy(features), 10, 20, 0).tolist()
    seeds = seeding.generator("parts").permutation(NUM_NODES)[:400].tolist()

    def layer(name, row):
        return row @ parts[f"{name}.weight"].T + parts[f"{name}.bias"]

    def pairs(name, classes):
        return np.mean([entropy(layer(name, np.abs(rows[code // NUM_NODES] - rows[code % NUM_NODES])), truth)
                        for truth, codes in enumerate(classes) for code in codes])  # fmt: skip

    own, shuffled = case.rows()
    summary = 1 / (1 + np.exp(-own.mean(axis=0)))
    scores = [both @ parts["dgi.weight"] @ summary + parts["dgi.bias"] for both in (own, -shuffled)]
    scores[1] = -(shuffled @ parts["dgi.weight"] @ summary + parts["dgi.bias"])
    return [
        np.mean([entropy(layer("of_parts", rows[v]), seeds.index(v)) for v in range(NUM_NODES)]),
        np.mean([entropy(layer("of_clusters", rows[v]), cluster[v]) for v in range(NUM_NODES)]),
        np.mean([np.log(1 + np.exp(-score)) for both in scores for score in both]),
        pairs("of_hops", pretexts.pairs_by_hops(case.objective.tasks._edges, KEY)),
        pairs("of_alike", pretexts.pairs_alike(case.objective.tasks.alike_P, NUM_NODES, KEY)),
    ]


def test_autossl_is_the_weighted_sum_of_its_five_tasks(monkeypatch):
    monkeypatch.setattr(pretexts, "_ALIKE", 3)
    case, features = case_of("autossl"), random_features(NUM_NODES, FEATURES)
    expected = slow_tasks(case, features)
    assert case.objective.tasks(case.model, case.views, case.hidden, KEY).tolist() == pytest.approx(expected, rel=1e-5)
    assert case.loss() == pytest.approx(np.mean(expected), rel=1e-6)
    case.objective.weight_T.copy_(torch.tensor([0.5, 0, 0.2, 1, 0.1]))
    assert case.loss() == pytest.approx(np.dot([0.5, 0, 0.2, 1, 0.1], expected), rel=1e-6)
    alike = {v * NUM_NODES + u for v in range(NUM_NODES)
             for u in sorted(range(NUM_NODES), key=lambda u, v=v: -cosine(features[v], features[u]))[:3]}  # fmt: skip
    assert set(case.objective.tasks.alike_P.tolist()) == alike
    others, same = pretexts.pairs_alike(case.objective.tasks.alike_P, NUM_NODES, KEY)
    assert set(same) == alike
    assert set(others) == set(range(NUM_NODES**2)) - alike


def test_autossl_draws_pairs_of_each_number_of_hops(monkeypatch):
    edges = random_edges(40, 45, seed=2)
    matrix = edge_matrix(graph_of(edges, random_features(40, 2)))
    hops = np.array([hops_from(v, edges, 40) for v in range(40)]).flatten()
    classes = pretexts.pairs_by_hops(matrix, KEY)
    for number in (1, 2, 3):
        assert set(classes[number - 1]) == set(np.flatnonzero(hops == number))
    assert 100 < len(classes[3]) == len(set(classes[3]) & set(np.flatnonzero(hops > 3)))
    monkeypatch.setattr(pretexts, "_PER_HOP", 5)
    monkeypatch.setattr(pretexts, "_SOURCES", 6)
    few = pretexts.pairs_by_hops(matrix, KEY)
    assert [codes.size for codes in few[:3]] == [5, 5, 5]
    assert len({code // 40 for codes in few for code in codes}) <= 6
    monkeypatch.setattr(pretexts, "_ENTRIES", 80)
    assert len({code // 40 for codes in pretexts.pairs_by_hops(matrix, KEY) for code in codes}) <= 2


def test_parts_grow_from_drawn_nodes_to_the_nearest():
    edges = random_edges(40, 45, seed=2)
    parts = pretexts.grown_parts(graph_of(edges, random_features(40, 2)), 3)
    seeds = seeding.generator("parts").permutation(40)[:3]
    hops = np.array([hops_from(v, edges, 40) for v in seeds])
    reached = np.isfinite(hops).any(axis=0)
    assert (parts[~reached] == -1).all()
    assert 10 < reached.sum() < 40
    nearest = hops[parts[reached], np.flatnonzero(reached)]
    assert nearest.tolist() == hops.min(axis=0)[reached].tolist()


class SlowEncoder:
    """One layer of the gcn and H with fixed centers, by the encoder's weights in one row."""

    def __init__(self, case, features):
        self.propagated, self.objective = slow_adjacency() @ features, case.objective

    def rows(self, flat):
        weight, bias, slope = np.split(flat, [FEATURES * WIDTH, FEATURES * WIDTH + WIDTH])
        inner = self.propagated @ weight.reshape(FEATURES, WIDTH) + bias
        return np.where(inner > 0, inner, inner * slope)

    def centers(self, flat, clusters):
        rows = self.rows(flat)
        cluster = k_means(torch.from_numpy(rows).float(), clusters, 20, seeding.integer("homophily", KEY)).numpy()
        return [rows[cluster == c].mean(axis=0) for c in range(clusters)]

    def disagreement(self, flat, centers, softness):
        scores = [[-((row - center) ** 2).sum() / softness for center in centers] for row in self.rows(flat)]
        shares = [np.exp(np.array(one) - max(one)) / np.exp(np.array(one) - max(one)).sum() for one in scores]
        return np.mean([np.abs(shares[u] - shares[v]).mean() for u, v in EDGES])


def slow_adam(gradient, moments, number):
    first, second = 0.9 * moments[0] + 0.1 * gradient, 0.999 * moments[1] + 0.001 * gradient**2
    return first / (1 - 0.9**number) / (np.sqrt(second / (1 - 0.999**number)) + 1e-8)


@pytest.mark.parametrize("softness", [1.0, 1e-3])
def test_the_weights_of_the_tasks_follow_the_homophily_through_the_step_that_they_made(softness, monkeypatch):
    monkeypatch.setattr(autossl, "_SOFTNESS", softness)
    case = case_of("autossl", clusters=2)
    objective, generator = case.objective, np.random.default_rng(0)
    size = objective.encoder_moments.shape[1]
    moments = np.stack([0.02 * generator.normal(size=size), 1e-5 * generator.random(size) + 1e-6])
    objective.encoder_moments, objective.steps = torch.from_numpy(moments).float(), torch.tensor(2)
    tasks = torch.tensor([0.3, 0.1, 0.5, 0.2, 0.4])
    objective.weight_T.copy_(tasks)
    case.loss()
    gradients = objective._gradient_TW.numpy().astype(np.float64)
    start = torch.nn.utils.parameters_to_vector(case.model.encoder.parameters()).detach().numpy().astype(np.float64)
    slow = SlowEncoder(case, random_features(NUM_NODES, FEATURES))

    def after(chosen):
        return start - RATE * slow_adam(chosen @ gradients, moments, 3)

    landed = after(tasks.double().numpy())
    torch.nn.utils.vector_to_parameters(torch.from_numpy(landed).float(), case.model.encoder.parameters())
    centers = slow.centers(landed, 2)
    (rows,) = case.rows([case.model.encode(case.views[0])])
    assert rows == pytest.approx(slow.rows(landed), rel=1e-4, abs=1e-5)
    found = autossl.disagreement(torch.from_numpy(rows).float(), objective.edges, 2, objective._key)
    assert float(found) == pytest.approx(slow.disagreement(landed, centers, softness), rel=1e-3, abs=1e-6)
    objective.after_step(case.model, 0.5)
    assert case.model.encoder.training
    assert objective.encoder_moments[0].numpy() == pytest.approx(0.9 * moments[0] + 0.1 * tasks.numpy() @ gradients)
    if softness == 1.0:
        small = 1e-4 * np.eye(5)
        slopes = [(slow.disagreement(after(tasks.numpy() + d), centers, softness)
                   - slow.disagreement(after(tasks.numpy() - d), centers, softness)) / (2e-4 * RATE)
                  for d in small]  # fmt: skip
        assert np.abs(slopes).min() > 1e-6
        assert (10 * objective.task_moments[0]).tolist() == pytest.approx(slopes, rel=2e-3, abs=1e-8)
        step = slow_adam(np.array(slopes), np.zeros((2, 5)), 3)
        assert objective.weight_T.tolist() == pytest.approx(np.clip(tasks.numpy() - 0.05 * step, 0, 1), rel=2e-3)


@pytest.mark.parametrize("begin", [0.01, 0.99])
def test_weights_of_tasks_begin_alike_and_stay_between_zero_and_one(begin, monkeypatch):
    monkeypatch.setattr(autossl, "_SOFTNESS", 1.0)
    case = case_of("autossl", clusters=2)
    assert case.objective.weight_T.tolist() == pytest.approx([0.2] * 5)
    case.objective.weight_T.fill_(begin)
    for number in range(5):
        case.loss(key=number)
        case.objective.after_step(case.model, 0.5)
        assert 0 <= float(case.objective.weight_T.min()) < float(case.objective.weight_T.max()) <= 1
    assert float((case.objective.weight_T - begin).abs().max()) > 0.05


def test_autossl_reads_sparse_features_as_dense_ones():
    features = random_sparse_features(NUM_NODES, FEATURES, share=0.6)
    sparse, dense = case_of("autossl", given_features=features), case_of("autossl", given_features=features.toarray())
    assert sparse.loss() == pytest.approx(dense.loss(), rel=1e-5)
    assert OBJECTIVES["autossl"].step_bytes(graph_of(EDGES, features)) == 12 * NUM_NODES * FEATURES


def test_autossl_is_refused_on_a_graph_without_edges():
    graph = graph_of([], random_features(NUM_NODES, FEATURES))
    with pytest.raises(ConfigError, match=r"autossl searches along edges, but the graph has none"):
        build_objective(Config.parse({"train": {"objective": "autossl"}}), graph)
