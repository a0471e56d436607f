import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score

from gscl_scale import seeding
from gscl_scale.evaluate import search
from gscl_scale.evaluate.clusters import cluster_nmi
from gscl_scale.evaluate.search import most_queries, nearest_nodes, sim_at_5
from gscl_scale.evaluate.vectors import stays_sparse
from tests.evaluate.test_probe import as_sparse


def made(nodes: int = 90) -> tuple[np.ndarray, np.ndarray]:
    draw = seeding.generator("made", 3)
    labels = draw.integers(-1, 3, nodes)
    vectors = draw.standard_normal((nodes, 12)) + 1.5 * np.eye(4, 12)[labels + 1]
    return vectors.astype(np.float32), labels


def brute_force(vectors: np.ndarray, labels: np.ndarray) -> float:
    known = np.flatnonzero(labels >= 0)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    shares = []
    for query in known:
        nearest = sorted(set(known) - {query}, key=lambda other: -float(unit[query] @ unit[other]))[:5]
        shares.append(np.mean(labels[nearest] == labels[query]))
    return float(np.mean(shares))


def test_sim_at_5_is_what_comparing_every_pair_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, labels = made()
    known = np.flatnonzero(labels >= 0)
    expected = brute_force(vectors, labels)
    assert sim_at_5(vectors, labels, known) == pytest.approx(expected)
    monkeypatch.setattr(search, "_QUERIES", 7)
    monkeypatch.setattr(search, "rows_per_block", lambda _: 3)  # fewer candidates than neighbours in every block
    assert sim_at_5(vectors, labels, known) == pytest.approx(expected)


def test_sim_at_5_of_sparse_vectors_is_that_of_dense_ones() -> None:
    draw = seeding.generator("sparse search", 1)
    dense = (draw.random((80, 200)) * (draw.random((80, 200)) < 0.06)).astype(np.float32)
    vectors = as_sparse(dense)
    assert stays_sparse(vectors)
    labels = draw.integers(0, 2, 80)
    everyone = np.arange(80)
    assert sim_at_5(vectors, labels, everyone) == pytest.approx(sim_at_5(dense, labels, everyone))


def test_a_query_never_finds_itself_even_among_equal_vectors() -> None:
    vectors = np.ones((8, 3), np.float32)
    nearest, _ = nearest_nodes(vectors, np.arange(8), np.arange(8))
    assert all(query not in found for query, found in enumerate(nearest.tolist()))
    assert nearest_nodes(vectors, np.array([0]), np.arange(3), 5)[0].tolist()[0][2:] == [-1, -1, -1]


def test_as_many_as_asked_for_are_found_with_their_cosines() -> None:
    vectors, _ = made(30)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = unit @ unit.T - 9 * np.eye(30)
    nearest, cosines = nearest_nodes(vectors, np.arange(30), np.arange(30), 7)
    assert nearest.tolist() == np.argsort(-expected, axis=1)[:, :7].tolist()
    np.testing.assert_allclose(cosines, -np.sort(-expected, axis=1)[:, :7], atol=1e-6)


def test_nmi_is_that_of_scikit_learn_on_rows_of_length_one() -> None:
    vectors, labels = made()
    nodes = np.flatnonzero(labels >= 0)
    unit = vectors[nodes] / np.linalg.norm(vectors[nodes], axis=1, keepdims=True)
    found = KMeans(3, n_init=10, random_state=seeding.integer("clusters", 0) % 2**32).fit_predict(unit)
    assert cluster_nmi(vectors, labels, nodes, 0) == pytest.approx(normalized_mutual_info_score(labels[nodes], found))


def test_nmi_is_one_for_separate_classes_and_zero_for_equal_vectors() -> None:
    _, labels = made()
    nodes = np.flatnonzero(labels >= 0)
    assert cluster_nmi(np.eye(4, dtype=np.float32)[labels + 1], labels, nodes, 0) == pytest.approx(1)
    assert cluster_nmi(np.ones((90, 3), np.float32), labels, nodes, 0) == 0


def test_samples_are_seeded_and_ascending() -> None:
    nodes = np.flatnonzero(np.arange(1000) % 3)
    one, again, other = (seeding.sample(nodes, 100, "test", seed) for seed in (0, 0, 1))
    assert one.tolist() == again.tolist() == sorted(set(one) & set(nodes))
    assert one.size == 100
    assert one.tolist() != other.tolist()
    assert seeding.sample(nodes, 5000, "test", 0) is nodes


def test_large_graphs_are_searched_with_fewer_queries() -> None:
    assert most_queries(10_000, 20_000) == 20_000
    assert most_queries(10_000_000, 20_000) == 400
