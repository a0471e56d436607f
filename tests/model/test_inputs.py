import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.preprocessing import StandardScaler

from gscl_scale.config import ModelConfig
from gscl_scale.graph import Messages
from gscl_scale.model import prepare_inputs
from gscl_scale.model.inputs import edge_index, prepare_features
from gscl_scale.model.propagation import Propagation, SparseInput
from tests.model.graphs import EDGES, NUM_NODES, graph_of, random_features, random_sparse_features

CPU = torch.device("cpu")


def dense_of(features):
    return (features.dense() if isinstance(features, SparseInput) else features).numpy()


@pytest.mark.parametrize("make", [random_features, random_sparse_features])
def test_unscaled_features_are_a_copy_of_the_graphs(make):
    matrix = make(NUM_NODES, 5)
    found = dense_of(prepare_features(graph_of(EDGES, matrix), "none"))
    np.testing.assert_array_equal(found, matrix if make is random_features else matrix.toarray())


@pytest.mark.parametrize("make", [random_features, random_sparse_features])
def test_scaled_rows_have_absolute_sum_one_and_zero_rows_stay_zero(make):
    matrix = make(NUM_NODES, 5)
    if make is random_features:
        matrix[0] = 0  # as it is in the sparse ones
    before = np.abs(matrix if make is random_features else matrix.toarray()).sum(axis=1)
    after = np.abs(dense_of(prepare_features(graph_of(EDGES, matrix), "row"))).sum(axis=1)
    np.testing.assert_allclose(after, before > 0, rtol=1e-6)
    assert 0 < after.sum() < NUM_NODES


def test_a_row_that_stores_only_zeros_stays_zero():
    matrix = sp.csr_array((np.array([0.0, 2.0], np.float32), ([0, 1], [1, 0])), shape=(2, 2))
    assert matrix.nnz == 2
    found = dense_of(prepare_features(graph_of([(0, 1)], matrix), "row"))
    np.testing.assert_array_equal(found, [[0, 0], [1, 0]])


def test_standardised_columns_are_those_of_scikit_learn():
    matrix = random_features(50, 4) * [1, 10, 0.1, 1] + [0, 1000, 5, -3]
    found = dense_of(prepare_features(graph_of([(0, 1)], matrix), "standard"))
    expected = StandardScaler().fit_transform(matrix.astype(np.float32).astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_a_constant_column_standardises_to_zero(value):
    matrix = np.column_stack([np.full(1000, value), random_features(1000, 1)[:, 0]])
    found = dense_of(prepare_features(graph_of([(0, 1)], matrix), "standard"))
    np.testing.assert_allclose(found[:, 0], 0, atol=1e-6)


def test_standardised_sparse_features_are_divided_by_the_deviation_and_stay_sparse():
    dense = random_sparse_features(40, 6).toarray()
    dense[:, 5] = 0.1
    features = prepare_features(graph_of([(0, 1)], sp.csr_array(dense)), "standard")
    assert isinstance(features, SparseInput)
    expected = dense / np.r_[dense[:, :5].astype(np.float64).std(axis=0), 1]
    np.testing.assert_allclose(dense_of(features), expected, rtol=1e-5)


def test_messages_go_from_the_neighbour_to_the_node_whose_row_names_it():
    graph = graph_of([(0, 1), (0, 2), (2, 1)], random_features(3, 2), undirected=False)
    assert edge_index(Messages.of(graph, "sage")).tolist() == [[1, 2, 1], [0, 0, 2]]
    assert edge_index(Messages.of(graph, "gat")).tolist() == [[1, 2, 1, 0, 1, 2], [0, 0, 2, 0, 1, 2]]


def test_features_are_propagated_beforehand_only_where_nothing_changes_them_and_they_are_narrow():
    narrow, wide = (graph_of(EDGES, random_features(NUM_NODES, width)) for width in (4, 9))
    sparse = graph_of(EDGES, random_sparse_features(NUM_NODES, 4))
    config = ModelConfig(width=8)
    inputs = prepare_inputs(narrow, config, CPU)
    edges = inputs.layers[0].edges
    assert isinstance(edges, Propagation)
    torch.testing.assert_close(inputs.propagated, edges.matrix.to_dense() @ inputs.features)
    dropping = config.model_copy(update={"feature_dropout": 0.1})
    assert prepare_inputs(narrow, dropping, CPU).propagated is None
    assert prepare_inputs(wide, config, CPU).propagated is None
    assert prepare_inputs(sparse, config, CPU).propagated is None


def test_gat_reads_dense_features_and_edges():
    graph = graph_of(EDGES, random_sparse_features(NUM_NODES, 4))
    inputs = prepare_inputs(graph, ModelConfig(encoder="gat", layers=2), CPU)
    assert isinstance(inputs.features, torch.Tensor)
    assert len(inputs.layers) == 2
    assert all(torch.equal(layer.edges, edge_index(Messages.of(graph, "gat"))) for layer in inputs.layers)
