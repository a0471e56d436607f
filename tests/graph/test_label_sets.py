"""Graphs whose nodes have many labels."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from gscl_scale.errors import FolderError
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.label_sets import LabelSets, is_indicator, sets_from_matrix, sets_from_pairs
from gscl_scale.io.arrow_writer import write_column
from tests.graphs import make_graph

EDGES = [(0, 1), (1, 2), (2, 3)]
LABELS = np.array([[1, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0, 1]])


def everyone(labels: LabelSets) -> np.ndarray:
    return labels.of(np.arange(labels.shape[0]))


@given(arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=6)))
def test_a_matrix_becomes_the_labels_that_it_shows(matrix: np.ndarray) -> None:
    labels = sets_from_matrix(matrix, "a test")
    used = np.flatnonzero(matrix.any(axis=0))
    assert labels.names == [str(column) for column in used]
    assert (everyone(labels) == matrix[:, used]).all()
    assert (labels.counts == matrix.sum(axis=1)).all()
    assert labels.flaw(matrix.shape[0]) == ""


@given(arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=6)), st.integers(0, 3))
def test_the_most_common_label_of_a_node_is_one_of_its_own(matrix: np.ndarray, new: int) -> None:
    labels = sets_from_matrix(matrix, "a test").with_nodes(new)
    often = everyone(labels).sum(axis=0)
    expected = [max(np.flatnonzero(row), key=lambda one: often[one], default=-1) for row in everyone(labels)]
    assert labels.most_common().tolist() == expected
    assert expected[matrix.shape[0] :] == [-1] * new


def test_a_pair_that_is_given_twice_counts_once() -> None:
    labels = sets_from_pairs(np.array([1, 1, 0]), np.array([0, 0, 1]), 3, ["a", "b"])
    assert everyone(labels).tolist() == [[False, True], [True, False], [False, False]]


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        ([[0.0, 1.0]], True),
        ([[True, False]], True),
        ([[0.0, 0.5]], False),
        ([[0.0, np.nan]], False),
        ([[2, 1]], False),
        ([0, 1], False),
        ([["a", "b"]], False),
    ],
)
def test_only_zeros_and_ones_tell_which_labels_a_node_has(matrix: list, expected: bool) -> None:
    assert is_indicator(np.array(matrix)) is expected


def test_a_graph_folder_keeps_many_labels_per_node(tmp_path: Path) -> None:
    graph = make_graph(tmp_path / "graph", EDGES, 4, labels=LABELS)
    assert graph.labels is None
    assert graph.label_sets is not None
    assert (graph.classes, everyone(graph.label_sets).tolist()) == (["0", "2"], (LABELS[:, [0, 2]] > 0).tolist())
    assert graph.labelled.tolist() == [True, True, False, True]
    other = make_graph(tmp_path / "other", EDGES, 4, labels=LABELS[::-1])
    assert other.fingerprint != graph.fingerprint


def test_nodes_with_at_most_one_label_each_have_classes(tmp_path: Path) -> None:
    graph = make_graph(tmp_path / "graph", EDGES, 4, labels=np.array([[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 0, 1]]))
    assert graph.label_sets is None
    assert graph.labels is not None
    assert (graph.labels.tolist(), graph.classes) == ([1, 0, -1, 1], ["0", "2"])


def test_labels_that_no_node_has_are_none(tmp_path: Path) -> None:
    graph = make_graph(tmp_path / "graph", EDGES, 4, labels=np.zeros((4, 3)))
    assert (graph.labels, graph.label_sets, graph.classes) == (None, None, [])


@pytest.mark.parametrize(
    ("name", "column", "values"),
    [
        ("label_indices", "label", np.array([0, 1, 2, 1], np.int32)),
        ("label_indices", "label", np.array([0, 0, 1, 1], np.int32)),
        ("label_indptr", "indptr", np.array([0, 2, 1, 3, 4])),
        ("label_indptr", "indptr", np.array([0, 2, 3, 3, 5])),
    ],
    ids=["a label that is none", "a label twice", "rows that go back", "more labels than there are"],
)
def test_damaged_labels_are_refused(tmp_path: Path, name: str, column: str, values: np.ndarray) -> None:
    folder = make_graph(tmp_path / "graph", EDGES, 4, labels=LABELS).folder
    write_column(folder / f"{name}.arrow", column, values)
    with pytest.raises(FolderError, match=r"label.* delete .* and ingest the graph again$"):
        Graph.open(folder)
