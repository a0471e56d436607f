import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.preprocessing import StandardScaler

from gscl_scale.config.sections import ModelConfig
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.model.inputs import MappedFeatures, prepare_features, prepare_inputs
from gscl_scale.model.propagation import SparseInput, SparsePair
from gscl_scale.model.scaling import Scaling, notes_on
from tests.model.graphs import EDGES, NUM_NODES, graph_of, random_features, random_sparse_features

CPU = torch.device("cpu")
MAKERS = [random_features, random_sparse_features]


def scaled(matrix, kind):
    """The features of a graph, scaled, as a dense matrix."""
    features = prepare_features(graph_of(EDGES, matrix), kind)
    return (features.dense() if isinstance(features, SparseInput) else features).numpy()


def dense_of(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


@pytest.mark.parametrize("make", MAKERS)
def test_unscaled_features_are_a_copy_of_the_graphs(make):
    matrix = make(NUM_NODES, 5)
    np.testing.assert_array_equal(scaled(matrix, "none"), dense_of(matrix))


@pytest.mark.parametrize("make", MAKERS)
def test_scaled_rows_have_absolute_sum_one_and_zero_rows_stay_zero(make):
    matrix = make(NUM_NODES, 5)
    if make is random_features:
        matrix[0] = 0  # as it is in the sparse ones
    before, after = (np.abs(rows).sum(axis=1) for rows in (dense_of(matrix), scaled(matrix, "row")))
    np.testing.assert_allclose(after, before > 0, rtol=1e-6)
    assert 0 < after.sum() < NUM_NODES


def test_a_row_that_stores_only_zeros_stays_zero():
    matrix = sp.csr_array((np.array([0.0, 2.0], np.float32), ([0, 1], [1, 0])), shape=(8, 2))
    assert matrix.nnz == 2
    np.testing.assert_array_equal(scaled(matrix, "row")[:2], [[0, 0], [1, 0]])


def test_standardised_columns_are_those_of_scikit_learn():
    matrix = random_features(50, 4) * [1, 10, 0.1, 1] + [0, 1000, 5, -3]
    expected = StandardScaler().fit_transform(matrix.astype(np.float32).astype(np.float64))
    np.testing.assert_allclose(scaled(matrix, "standard"), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_a_constant_column_standardises_to_zero(value):
    matrix = np.column_stack([np.full(1000, value), random_features(1000, 1)[:, 0]])
    np.testing.assert_allclose(scaled(matrix, "standard")[:, 0], 0, atol=1e-6)


def test_standardised_sparse_features_are_divided_by_the_deviation_and_stay_sparse():
    dense = random_sparse_features(40, 6).toarray()
    dense[:, 5] = 0.1
    assert isinstance(prepare_features(graph_of(EDGES, sp.csr_array(dense)), "standard"), SparseInput)
    expected = dense / np.r_[dense[:, :5].astype(np.float64).std(axis=0), 1]
    np.testing.assert_allclose(scaled(sp.csr_array(dense), "standard"), expected, rtol=1e-5)


def test_messages_go_from_the_neighbour_to_the_node_whose_row_names_it():
    graph = graph_of([(0, 1), (0, 2), (2, 1)], random_features(3, 2), undirected=False)
    for encoder, loops in (("sage", 0), ("gat", 1)):
        (layer,) = prepare_inputs(graph, ModelConfig(encoder=encoder, layers=1), CPU).layers
        expected = torch.tensor([[loops, 1, 1], [0, loops, 0], [0, 1, loops]])
        assert torch.equal((layer.edges.matrix.to_dense() > 0).long(), expected)
        assert torch.equal((layer.edges.transposed.to_dense() > 0).long(), expected.T)


def test_features_are_propagated_beforehand_only_where_nothing_changes_them_and_they_are_narrow():
    narrow, wide = (graph_of(EDGES, random_features(NUM_NODES, width)) for width in (4, 9))
    sparse = graph_of(EDGES, random_sparse_features(NUM_NODES, 4))
    config = ModelConfig(width=8)
    inputs = prepare_inputs(narrow, config, CPU)
    edges = inputs.layers[0].edges
    assert isinstance(edges, SparsePair)
    torch.testing.assert_close(inputs.propagated, edges.matrix.to_dense() @ inputs.features)
    dropping = config.model_copy(update={"feature_dropout": 0.1})
    assert prepare_inputs(narrow, dropping, CPU).propagated is None
    assert prepare_inputs(wide, config, CPU).propagated is None
    assert prepare_inputs(sparse, config, CPU).propagated is None


def test_gat_reads_dense_features_and_one_pattern_in_all_layers():
    graph = graph_of(EDGES, random_sparse_features(NUM_NODES, 4))
    inputs = prepare_inputs(graph, ModelConfig(encoder="gat", layers=2), CPU)
    assert isinstance(inputs.features, torch.Tensor)
    first, second = inputs.layers
    assert first.edges is second.edges
    assert first.edges.matrix is first.edges.transposed  # the graph is undirected


@pytest.mark.parametrize("factor", [1e-30, 1e-15, 1e15, 1e30])
@pytest.mark.parametrize("kind", ["none", "row", "standard"])
@pytest.mark.parametrize("make", MAKERS)
def test_the_encoder_reads_tiny_and_huge_features_as_it_reads_those_near_one(make, kind, factor):
    matrix = make(NUM_NODES, 5)
    far = matrix.astype(np.float64) * factor
    expected, found = scaled(matrix, kind), scaled(far, kind)
    read = MappedFeatures.of(graph_of(EDGES, far), ModelConfig(feature_scaling=kind)).rows(np.arange(3))  # by batches
    read = SparseInput.of(read, read.values).dense().numpy() if isinstance(read, SparseFeatures) else read
    np.testing.assert_array_equal(read, found[:3])
    if kind == "none":  # up to one factor, which is near one
        assert 1 <= np.abs(found).max() < 2
        expected, found = (rows / np.abs(rows).max() for rows in (expected, found))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("largest", [2.0**-4, 2.0**40])
def test_features_in_the_measured_range_are_read_as_they_are(largest):
    matrix = random_features(NUM_NODES, 5)
    matrix[0, 0] = np.float32(largest)
    matrix = np.clip(matrix, -largest, largest)
    np.testing.assert_array_equal(scaled(matrix, "none"), matrix)
    assert notes_on(matrix, "none") == []


def test_rows_of_very_different_sizes_all_have_absolute_sum_one():
    matrix = np.array([[3e38, 1e38], [1e-30, 3e-30], [0, 0]], np.float32)
    found = scaled(np.concatenate([matrix, np.zeros((5, 2), np.float32)]), "row")[:3]
    np.testing.assert_allclose(found, [[0.75, 0.25], [0.25, 0.75], [0, 0]], rtol=1e-6)


def test_a_note_says_what_the_encoder_reads_instead():
    [note] = notes_on(np.array([[1.0, -1e30]], np.float32), "none")
    assert "largest absolute value is 1e+30; the encoder reads them multiplied by 2^-99" in note
    assert notes_on(np.array([[1e30]], np.float32), "standard") == []


def test_rows_of_a_batch_are_in_memory_once():
    features = np.random.default_rng(0).normal(size=(100_000, 64)).astype(np.float32)
    mapped, nodes = MappedFeatures(features, Scaling.of(features, "none")), np.arange(0, 100_000, 2)
    tracemalloc.start()
    rows = mapped.rows(nodes)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows.nbytes <= most < 1.5 * rows.nbytes


@pytest.mark.parametrize("kind", ["none", "row", "standard"])
def test_rows_of_a_batch_are_scaled_as_all_rows(kind):
    features = np.random.default_rng(0).normal(size=(1000, 8)).astype(np.float32) * 1e-3
    mapped, nodes = MappedFeatures(features, Scaling.of(features, kind)), np.arange(0, 1000, 3)
    np.testing.assert_array_equal(mapped.rows(nodes), mapped.scaling.dense(features)[nodes])
    assert kind == "none" or not np.array_equal(mapped.rows(nodes), features[nodes])
