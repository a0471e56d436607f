"""Each peer against the formulas of its paper, with dense matrices."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from scipy.special import iv

from gscl_scale import seeding
from gscl_scale.graph.structural_features import random_signs
from gscl_scale.studies.peers.cleora import cleora
from gscl_scale.studies.peers.factorisation import left_singular, symmetric_eigenpairs
from gscl_scale.studies.peers.prone import edge_matrix, prone, propagate
from gscl_scale.studies.peers.spectral import normalised_adjacency, spectral
from tests.graphs import random_edges


def dense_graph(num_nodes=20, num_edges=60, seed=1):
    """The adjacency [N, N] of a graph; the last node has no neighbour."""
    edges = random_edges(num_nodes - 1, num_edges, seed, hubs=2)
    dense = np.zeros((num_nodes, num_nodes))
    dense[edges[:, 0], edges[:, 1]] = dense[edges[:, 1], edges[:, 0]] = 1
    np.fill_diagonal(dense, 0)
    return dense


DENSE = dense_graph()
SPARSE = sp.csr_array(DENSE.astype(np.float32))
WEIGHTED = DENSE * np.exp(np.random.default_rng(3).normal(size=DENSE.shape))
WEIGHTED = WEIGHTED + WEIGHTED.T  # as edge weights are, the same in both directions
BOTH = pytest.mark.parametrize("dense", [DENSE, WEIGHTED], ids=["plain", "weighted"])


def sparse(dense):
    return sp.csr_array(dense.astype(np.float32))


def inverse_degrees(dense):
    degrees = dense.sum(1)
    return np.divide(1, degrees, where=degrees > 0, out=np.zeros_like(degrees))


def unit(rows):
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, where=lengths > 1e-6, out=np.zeros_like(rows))


def products(rows):
    """Inner products of rows: the same whatever the signs and the order of the columns."""
    return rows.astype(np.float64) @ rows.T.astype(np.float64)


def test_eigenvalues_of_the_largest_size_are_found_with_their_vectors():
    values, vectors = np.linalg.eigh(normalised_adjacency(SPARSE).toarray().astype(np.float64))
    chosen = np.argsort(-np.abs(values))[:3]
    assert (values[chosen] < 0).any()
    found = symmetric_eigenpairs(normalised_adjacency(SPARSE), 3, seeding.generator("test"), 8)
    assert found.values == pytest.approx(values[chosen], abs=1e-5)
    assert products(found.vectors) == pytest.approx(products(vectors[:, chosen]), abs=1e-3)


def test_left_singular_vectors_are_scaled_by_the_root_of_their_values():
    matrix = np.random.default_rng(0).normal(size=(60, 50)) * 0.8 ** np.arange(50)
    left, values, _ = np.linalg.svd(matrix)
    found = left_singular(sp.csr_array(matrix.astype(np.float32)), 4, seeding.generator("test"), 6)
    assert products(found) == pytest.approx(products(left[:, :4] * np.sqrt(values[:4])), abs=1e-2)


@BOTH
def test_spectral_rows_are_eigenvectors_of_the_normalised_adjacency_times_their_values(dense):
    root = np.sqrt(inverse_degrees(dense))
    normalised = root[:, None] * dense * root
    assert normalised_adjacency(sparse(dense)).toarray() == pytest.approx(normalised, abs=1e-6)
    assert products(spectral(sparse(dense), 32, 0, 2)) == pytest.approx(normalised @ normalised, abs=1e-5)  # V L^2 V'


@BOTH
def test_cleora_repeats_the_mean_of_neighbours_with_rows_of_length_one(dense):
    ids = np.arange(20, dtype=np.uint64) * np.uint64(7)
    rows = np.empty((20, 8), np.float32)
    random_signs(seeding.key("cleora", 3), ids, rows)
    assert set(np.unique(rows)) == {-1, 1}
    for _ in range(5):
        rows = unit((inverse_degrees(dense)[:, None] * dense) @ rows)
    assert cleora(sparse(dense), ids, 8, 3, 5) == pytest.approx(rows, abs=1e-5)


def test_cleora_rows_belong_to_the_ids_whatever_the_order_of_the_nodes():
    ids, order = np.arange(20, dtype=np.uint64), np.random.default_rng(2).permutation(20)
    rows = cleora(SPARSE, ids, 8, 0, 3)
    assert cleora(SPARSE[order][:, order].tocsr(), ids[order], 8, 0, 3) == pytest.approx(rows[order], abs=1e-6)


def dense_edge_matrix(dense=DENSE):
    p = inverse_degrees(dense)[:, None] * dense
    noise = p.sum(0) ** 0.75 / (p.sum(0) ** 0.75).sum()
    return np.where(dense > 0, np.log(np.where(dense > 0, p, 1)) - np.log(np.where(noise > 0, noise, 1)), 0)


def dense_filter(rows, mu, theta, dense=DENSE):
    with_loops = dense + np.eye(20)
    laplacian = np.eye(20) - with_loops / with_loops.sum(1, keepdims=True)
    shifted = laplacian - mu * np.eye(20)
    g = scipy.linalg.expm(-theta * (shifted @ shifted / 2 - np.eye(20)))
    return with_loops @ (rows - g @ rows)


@BOTH
def test_prone_factorises_the_logarithms_of_edges_over_noise(dense):
    assert edge_matrix(sparse(dense)).toarray() == pytest.approx(dense_edge_matrix(dense), abs=1e-5)


@BOTH
@pytest.mark.parametrize(("mu", "theta"), [(0.2, 0.5), (0.5, 2.0)])
def test_prone_filters_rows_by_the_exponential_that_its_series_stands_for(mu, theta, dense):
    rows = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    expected = dense_filter(rows, mu, theta, dense)
    assert propagate(sparse(dense), rows, mu, theta, 12) == pytest.approx(expected, abs=1e-4)
    assert propagate(sparse(dense), rows, mu, theta, 2) != pytest.approx(expected, abs=iv(2, theta) / 10)


def test_prone_rows_are_the_filtered_factors_turned_to_their_strongest_directions():
    left, values, _ = np.linalg.svd(dense_edge_matrix())
    left, values, _ = np.linalg.svd(dense_filter(unit(left * np.sqrt(values)), 0.2, 0.5))
    rows = prone(SPARSE, 20, 0, 0.2, 0.5, 10)
    assert products(rows)[:19, :19] == pytest.approx(products(unit(left * np.sqrt(values)))[:19, :19], abs=1e-2)
