"""Features of the structure: what they tell, what they do not depend on, and where they stand."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

from gscl_scale import seeding
from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph import features, structural_features
from gscl_scale.graph.features import feature_blocks
from gscl_scale.graph.row_file import RowStream
from gscl_scale.graph.step_files import StepFiles
from tests.graph.test_draft import write
from tests.graphs import random_weights

WIDTH = 16


@pytest.fixture(autouse=True)
def few_are_joined(features_as_they_are, monkeypatch):
    monkeypatch.setattr(features, "FEW", features_as_they_are)


def communities(size=60, inside=6, across=0.5, seed=0):
    """Edges and labels of four communities of nodes."""
    draw = np.random.default_rng(seed)
    labels = np.repeat(np.arange(4), size)
    source = np.repeat(np.arange(4 * size), inside)
    near = labels[source] * size + draw.integers(0, size, source.size)
    target = np.where(draw.random(source.size) < across / inside, draw.integers(0, 4 * size, source.size), near)
    return source, target, labels


def rows_of(source, target, identities, folder, width=WIDTH, threads=1, weights=None):
    num_nodes = len(identities)
    values = np.ones(source.size) if weights is None else weights
    both = sp.coo_array((np.tile(values, 2), (np.r_[source, target], np.r_[target, source])), (num_nodes,) * 2)
    matrix = both.tocsr()
    matrix.sum_duplicates()
    known = seeding.identities_of(pa.array(identities))
    indptr = matrix.indptr.astype(np.int64)
    files = StepFiles(folder, "these edges", (num_nodes, width))
    given = None if weights is None else matrix.data.astype(np.float32)
    return np.array(
        structural_features.structural_features(indptr, matrix.indices, known, files, threads, weights=given)
    )


def dense_reference(source, target, first, least_rank, weights=None):
    """The formula in plain double precision, and how often rows were averaged after the last whitening."""
    num_nodes = len(first)
    adjacency = np.zeros((num_nodes, num_nodes))
    if weights is None:
        adjacency[source, target] = adjacency[target, source] = 1
    else:
        np.add.at(adjacency, (np.r_[source, target], np.r_[target, source]), np.tile(weights, 2))
    rows = first.astype(np.float64)
    for step in range(1, 37):
        averaged = adjacency @ rows
        averaged /= np.linalg.norm(averaged, axis=1, keepdims=True)
        values, vectors = np.linalg.eigh(averaged.T @ averaged)
        if step <= 20 and step % 4 == 0:
            averaged = averaged @ (vectors / np.sqrt(values)) @ vectors.T
            averaged /= np.linalg.norm(averaged, axis=1, keepdims=True)
        shares = values.clip(1e-12) / values.sum()
        if step > 20 and np.exp(-(shares * np.log(shares)).sum()) < least_rank:
            return rows * np.sqrt(rows.shape[1]), step - 21
        rows = averaged
    return rows * np.sqrt(rows.shape[1]), 16


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("size", "inside", "across", "share", "averages"),
    [(60, 3, 0.5, 1 / 8, (9, 16)), (60, 6, 0.5, 1 / 4, (3, 8)), (60, 12, 6, 1 / 4, (1, 2))],
)
def test_rows_are_those_of_the_formula(tmp_path, monkeypatch, size, inside, across, share, averages, weighted):
    source, target, labels = communities(size, inside, across, seed=1)
    ends = np.arange(len(labels))  # a ring through all nodes, so that none is alone
    source, target = np.r_[source, ends], np.r_[target, (ends + 1) % len(labels)]
    weights = random_weights(source.size) if weighted else None
    found = rows_of(source, target, ends, tmp_path, weights=weights)
    monkeypatch.setattr(structural_features, "MOST_STEPS", 0)
    signs = rows_of(source, target, ends, tmp_path) / np.sqrt(WIDTH)
    assert set(np.unique(signs)) == {-1, 1}
    expected, times = dense_reference(source, target, signs, WIDTH * share, weights)
    np.testing.assert_allclose(found, expected, atol=0.02)
    assert averages[0] <= times <= averages[1]


def test_nodes_of_a_community_get_similar_rows(tmp_path):
    source, target, labels = communities()
    rows = rows_of(source, target, np.arange(labels.size), tmp_path)
    cosines = rows @ rows.T / WIDTH
    same = labels[:, None] == labels
    assert cosines[same].mean() > cosines[~same].mean() + 0.4


def test_weights_show_communities_that_edges_alone_do_not(tmp_path):
    draw = np.random.default_rng(0)
    labels, (source, target) = np.repeat(np.arange(4), 60), draw.integers(0, 240, (2, 3000))
    same = labels[:, None] == labels
    for weights, least, most in ((None, -0.1, 0.1), (np.where(same[source, target], 10.0, 0.3), 0.4, 1.0)):
        rows = rows_of(source, target, np.arange(240), tmp_path / str(least), weights=weights)
        cosines = rows @ rows.T / WIDTH
        assert least < cosines[same & ~np.eye(240, dtype=bool)].mean() - cosines[~same].mean() < most


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("weights", [None, *(np.array([scale, 1.0]) for scale in (1.1, 1e-3, 1e19))], ids=str)
def test_rows_belong_to_ids_to_the_bit_whatever_the_order_and_the_threads(tmp_path, monkeypatch, threads, weights):
    source, target, labels = communities(seed=2)
    source, target = np.r_[source, 5 + np.arange(200)], np.r_[target, np.zeros(200, int)]  # a hub
    if weights is not None:
        weights = random_weights(source.size) * weights[np.arange(source.size) % 2]
    first = rows_of(source, target, np.arange(labels.size), tmp_path / "first", weights=weights)
    place = np.random.default_rng(3).permutation(labels.size)  # of each old node
    monkeypatch.setattr(structural_features, "_ROWS_AT_ONCE", 7)
    ids = np.argsort(place)
    moved = rows_of(place[source], place[target], ids, tmp_path / "moved", threads=threads, weights=weights)
    np.testing.assert_array_equal(moved[place], first)


def test_weighted_sums_are_exact():
    """Neighbours in pairs of opposite rows and equal weights have a mean of zero, to the last bit, in any order."""
    draw = np.random.default_rng(0)
    rows = np.rint(draw.uniform(-1, 1, (500, WIDTH)) * 2**20) / 2**20
    rows, weights = np.r_[rows, -rows].astype(np.float32), np.tile(random_weights(500), 2).astype(np.float32)
    for unit in (1e-15, 1.0, 1e15):
        order, out = draw.permutation(1000), np.ones((1, WIDTH), np.float32)
        indptr, given = np.array([0, 1000]), (weights * unit).astype(np.float32)
        structural_features._average(indptr, order, given[order], rows, out)
        assert not out.any()


def test_the_scale_of_weights_does_not_depend_on_their_order():
    draw, weights = np.random.default_rng(0), random_weights(1000).astype(np.float32) ** 3
    found = {structural_features._whole_scale(draw.permutation(weights)) for _ in range(50)}
    assert len(found) == 1
    assert found.pop() * weights.sum(dtype=np.float64) == pytest.approx(2**32)


def test_equal_weights_are_none_and_their_unit_does_not_matter(tmp_path):
    source, target, labels = communities(seed=2)
    source, target = np.unique(np.sort(np.c_[source, target][source != target], axis=1), axis=0).T
    ids, weights = np.arange(labels.size), random_weights(source.size)
    plain = rows_of(source, target, ids, tmp_path / "plain")
    equal = rows_of(source, target, ids, tmp_path / "equal", weights=np.full(source.size, 0.3))
    np.testing.assert_allclose(equal, plain, atol=1e-3)
    grams, tons = (rows_of(source, target, ids, tmp_path / f"{unit}", weights=weights * unit) for unit in (2**20, 1))
    np.testing.assert_array_equal(grams, tons)
    assert (grams * plain).sum(axis=1).mean() / WIDTH < 0.99


@pytest.mark.parametrize("num_nodes", [1, 2, 5])
def test_tiny_graphs_and_nodes_without_neighbours_have_finite_rows(tmp_path, num_nodes):
    edges = np.array(list(pairwise(range(num_nodes))), np.int64).reshape(-1, 2)
    rows = rows_of(edges[:, 0], edges[:, 1], np.arange(num_nodes + 1), tmp_path)
    assert np.isfinite(rows).all()
    assert (rows[num_nodes] == 0).all()


def test_a_new_edge_far_away_moves_rows_little(tmp_path):
    """Rows of a graph that has grown a little can be read by the encoder of the graph before."""
    source, target, labels = communities(size=100, seed=4)
    ids = np.arange(labels.size)
    before = rows_of(source, target, ids, tmp_path / "before")
    after = rows_of(np.r_[source, 0], np.r_[target, 7], ids, tmp_path / "after")
    far = labels == 3
    assert (before[far] * after[far]).sum(axis=1).mean() / WIDTH > 0.99


def standard(columns):
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


@pytest.mark.parametrize("form", [np.asarray, lambda rows: RowStream(rows.shape, iter([rows[:2], rows[2:]]))])
def test_few_features_are_scaled_and_joined_by_those_of_the_structure(tmp_path, form):
    own = np.array([[1e9, 1, 7], [3e9, 0, 7], [5e9, 1, 7], [7e9, 0, 7], [9e9, 1, 7]], np.float32)
    config = MemoryGraph(structural_features=WIDTH)
    graph = write(tmp_path, config, features=form(own))
    assert graph.feature_blocks == (3, 3, WIDTH)
    scaled = standard(own[:, :2])
    np.testing.assert_allclose(graph.features[:, :2], scaled, atol=1e-6)
    means = [scaled[graph.indices[graph.indptr[v] : graph.indptr[v + 1]]].mean(axis=0) for v in range(len(own))]
    np.testing.assert_allclose(graph.features[:, 3:5], standard(np.stack(means)), atol=1e-5)
    assert (graph.features[:, [2, 5]] == 0).all()
    alone = write(tmp_path, config, "alone", features=None)
    np.testing.assert_array_equal(graph.features[:, 6:], alone.features)
    assert alone.num_structural == alone.num_features == WIDTH
    assert any(
        "3; fewer than 64, so the means of its own over neighbours and 16 of the structure stand beside them" in note
        for note in graph.manifest["notes"]
    )


def test_a_value_far_from_all_others_does_not_outweigh_them(tmp_path):
    own = np.zeros((400, 1), np.float32)
    own[0] = 1e18
    edges = [(np.arange(399), np.arange(1, 400))]
    graph = write(tmp_path, MemoryGraph(), features=own, num_nodes=400, edges=edges)
    assert graph.features[0, 0] == 8
    assert abs(graph.features[1:, 0]).max() < 0.1


@pytest.mark.parametrize(
    ("width", "setting", "means", "structural"),
    [
        (3, "auto", 3, 8),
        (3, "none", 0, 0),
        (3, "always", 3, 8),
        (63, "auto", 63, 8),
        (64, "auto", 0, 0),
        (64, "always", 0, 8),
    ],
)
def test_which_graphs_get_structural_features(tmp_path, width, setting, means, structural):
    own = np.random.default_rng(0).normal(size=(5, width)).astype(np.float32)
    config = MemoryGraph(structure=setting, structural_features=8)
    graph = write(tmp_path, config, features=own)
    assert graph.feature_blocks == (width, means, structural) == feature_blocks(width, config)
    if not structural:
        np.testing.assert_array_equal(graph.features, own)


@pytest.mark.parametrize(
    ("own", "setting", "expected"),
    [
        (None, "none", "the graph has no features, and graph.structure is none; set it to auto, or bring features"),
        (sp.csr_array(np.eye(5)), "always", "the features are sparse, and graph.structure is always"),
    ],
)
def test_settings_that_do_not_fit_the_graph_are_refused(tmp_path, own, setting, expected):
    with pytest.raises(GraphError, match=expected):
        write(tmp_path, MemoryGraph(structure=setting), features=own)
    assert not (tmp_path / "graph").exists()


@pytest.mark.parametrize("own", [None, np.eye(5, 70), sp.csr_array(np.eye(5))], ids=["none", "dense", "sparse"])
def test_the_structure_takes_the_place_of_all_other_features(tmp_path, own):
    alone = write(tmp_path / "alone", MemoryGraph(structural_features=8), features=None)
    only = write(tmp_path / "only", MemoryGraph(structural_features=8, structure="only"), features=own)
    assert (only.num_features, only.num_own, only.num_structural) == (8, 0, 8)
    np.testing.assert_array_equal(only.features, alone.features)
    others = "" if own is None else f"; the {own.shape[1]} that it brings are not used"
    assert f"graph.structure is only: 8 features were computed from the structure{others}" in only.manifest["notes"]


def test_few_sparse_features_stay_as_they_are(tmp_path):
    graph = write(tmp_path, MemoryGraph(), features=sp.csr_array(np.eye(5)))
    assert (graph.num_features, graph.num_structural) == (5, 0)


@pytest.mark.parametrize("junk", ["no columns", "two columns", "odd columns"])
def test_customers_are_told_apart_whatever_numbers_stand_in_their_table(tmp_path, junk):
    """2,000 customers of four segments, most of whose links are within one: a probe on 200 of them finds the others."""
    source, target, labels = communities(size=500, inside=5, across=0.75, seed=6)
    draw = np.random.default_rng(7)
    income, age = np.exp(draw.normal(10, 1, labels.size)), draw.integers(18, 90, labels.size)
    odd = [np.exp(draw.normal(0, 6, labels.size)) * 1e9, np.ones(labels.size), draw.permutation(labels.size)]
    cauchy = list(draw.standard_cauchy((37, labels.size)))
    columns = {"no columns": [], "two columns": [income, age], "odd columns": [*odd, *cauchy]}[junk]
    own = np.column_stack(columns).astype(np.float32) if columns else None
    graph = write(tmp_path, MemoryGraph(), num_nodes=labels.size, edges=[(source, target)], features=own)
    known = draw.random(labels.size) < 0.1
    probe = LogisticRegression(C=1.0, max_iter=300).fit(graph.features[known], labels[known])
    assert probe.score(graph.features[~known], labels[~known]) > 0.95
