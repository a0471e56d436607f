"""Our import format."""

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gscl_scale.config.graphs import NpzGraph, TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources.read import read
from gscl_scale.graph.types import SparseFeatures

EDGES = np.array([[0, 1, 2], [1, 2, 3]])
PIECES = {"x_data": np.ones(2), "x_indices": np.array([0, 2]), "x_indptr": np.array([0, 1, 2]), "x_shape": [2, 3]}


def save(tmp_path, **arrays):
    path = tmp_path / "few.npz"
    np.savez(path, **arrays)
    return NpzGraph(source="npz", path=path)


def ingest(tmp_path, **arrays):
    config = save(tmp_path, **arrays)
    return write_graph(read(config), config, tmp_path / "graph")


def test_all_arrays_find_their_place(tmp_path):
    masks = {f"{part}_mask": np.eye(3, 4, dtype=bool)[row] for row, part in enumerate(("train", "val", "test"))}
    graph = ingest(
        tmp_path, edge_index=EDGES, x=np.eye(4), y=np.array([0, 1, 1, 0]), ids=np.array(list("abcd")), **masks
    )
    assert graph.name == "few"
    assert graph.indices.tolist() == [1, 0, 2, 1, 3, 2]
    assert graph.labels.tolist() == [0, 1, 1, 0]
    assert graph.splits["split_0"].tolist() == [1, 2, 3, 0]
    assert graph.ids.to_pylist() == list("abcd")


def test_sparse_features_come_as_pieces(tmp_path):
    graph = ingest(tmp_path, edge_index=np.array([[0], [1]]), **PIECES)
    assert isinstance(graph.features, SparseFeatures)
    assert graph.features.indices.tolist() == [0, 2]


def test_masks_of_many_splits_become_many_splits(tmp_path):
    train = np.array([[1, 0], [0, 1], [0, 0]], bool)
    masks = {"train_mask": train, "val_mask": train[::-1] & ~train, "test_mask": np.zeros((3, 2), bool)}
    graph = ingest(tmp_path, edge_index=EDGES[:, :2], **masks)
    assert {name: codes.tolist() for name, codes in graph.splits.items()} == {
        "split_0": [1, 0, 2],
        "split_1": [0, 1, 0],
    }


@pytest.mark.parametrize(
    ("arrays", "num_nodes"),
    [({"num_nodes": 9}, 9), ({"y": np.zeros(6)}, 6), ({"x": np.ones((5, 2))}, 5), ({}, 4)],
)
def test_the_number_of_nodes_is_said_or_follows_from_the_arrays(tmp_path, arrays, num_nodes):
    assert ingest(tmp_path, edge_index=EDGES, **arrays).num_nodes == num_nodes


REFUSED = {
    "no edges": ({}, "no array edge_index"),
    "flat edges": ({"edge_index": np.arange(4)}, r"edge_index has shape \(4,\)"),
    "edges of floats": ({"edge_index": EDGES * 1.0}, "type float64, expected integers"),
    "an edge past the end": ({"edge_index": EDGES, "num_nodes": 3}, "edge 2 names node 3, expected 0 to 2"),
    "an edge of 64 bits": ({"edge_index": EDGES.astype(np.uint64) + np.uint64(2**63)}, "check the number of nodes"),
    "few features": ({"edge_index": EDGES, "x": np.ones((3, 1)), "y": np.zeros(4)}, "features has 3 rows"),
    "flat features": ({"edge_index": EDGES, "x": np.ones(4)}, r"x has shape \(4,\), expected \[N, F\]"),
    "one feature": ({"edge_index": EDGES, "x": np.array(1.0)}, r"x has shape \(\), expected"),
    "one label": ({"edge_index": EDGES, "y": np.array(1)}, "y is a single value"),
    "an empty graph": ({"edge_index": np.zeros((2, 0), int)}, "the graph is empty"),
    "half a node": ({"edge_index": EDGES, "num_nodes": 4.5}, "num_nodes expected one integer"),
    "some pieces": ({"edge_index": EDGES, "x_data": np.ones(3)}, "lack x_indices, x_indptr, x_shape"),
    "a negative shape": ({"edge_index": EDGES} | PIECES | {"x_shape": [-1, 3]}, "not the arrays of a CSR matrix"),
    "pieces of two rows": ({"edge_index": EDGES} | PIECES | {"x_data": np.ones((2, 1))}, "not the arrays"),
    "rows that go back": (
        {"edge_index": EDGES} | PIECES | {"x_indptr": np.array([0, 3, 2], np.uint64)},
        "do not fit together",
    ),
    "pieces that do not fit": ({"edge_index": EDGES} | PIECES | {"x_shape": [2, 2]}, "do not fit together"),
    "one mask": ({"edge_index": EDGES, "train_mask": np.ones(4, bool)}, "splits lack val_mask, test_mask"),
    "masks of numbers": (
        {"edge_index": EDGES} | {f"{part}_mask": np.zeros(4) for part in ("train", "val", "test")},
        "masks are not boolean",
    ),
    "masks that overlap": (
        {"edge_index": EDGES} | {f"{part}_mask": np.eye(1, 4, 2, dtype=bool)[0] for part in ("train", "val", "test")},
        "node 2 is in val and in another part",
    ),
    "ids of floats": ({"edge_index": EDGES, "ids": np.arange(4.0)}, "ids are float64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_arrays_are_refused_in_one_sentence(tmp_path, case):
    arrays, sentence = REFUSED[case]
    with pytest.raises(GraphError, match=sentence) as caught:
        ingest(tmp_path, **arrays)
    assert str(caught.value).startswith(str(tmp_path / "few.npz"))
    assert [path.name for path in tmp_path.iterdir()] == ["few.npz"]


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.98])
def test_a_truncated_file_is_refused(tmp_path, kept):
    config = save(tmp_path, edge_index=np.arange(2000).reshape(2, 1000))
    content = config.path.read_bytes()
    config.path.write_bytes(content[: int(kept * len(content)) if kept < 1 else kept])
    with pytest.raises(GraphError, match=r"few.npz is truncated or not a .npz file"):
        read(config)


def test_a_file_with_flipped_bytes_is_refused(tmp_path):
    config = save(tmp_path, edge_index=np.arange(2000).reshape(2, 1000))
    content = config.path.read_bytes()
    config.path.write_bytes(content[:4000] + b"\xff" * 10 + content[4010:])
    with pytest.raises(GraphError, match=r"truncated or not a .npz file"):
        read(config)


def test_an_archive_of_something_else_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "few.npz", "w") as file:
        file.writestr("readme.txt", "hello")
    with pytest.raises(GraphError, match=r"few.npz: readme.txt is not an array in numpy's format"):
        read(NpzGraph(source="npz", path=tmp_path / "few.npz"))


def test_a_single_array_is_no_graph(tmp_path):
    np.save(tmp_path / "one.npy", EDGES)
    with pytest.raises(GraphError, match=r"expected a .npz file of named arrays"):
        read(NpzGraph(source="npz", path=tmp_path / "one.npy"))


@pytest.mark.parametrize(("name", "sentence"), [("none.npz", "does not exist"), (".", "is a folder")])
def test_a_path_to_no_file_is_refused(tmp_path, name, sentence):
    with pytest.raises(GraphError, match=sentence):
        read(NpzGraph(source="npz", path=tmp_path / name))


@pytest.mark.parametrize(
    "config",
    [NpzGraph(source="npz", path="g.npz"), TablesGraph(source="tables", edges="g.csv")],
    ids=lambda one: one.source,
)
def test_where_a_relative_path_begins_is_told(tmp_path, monkeypatch, config):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        GraphError, match=rf"^g\.\w+ does not exist in {tmp_path}, where relative paths begin; check graph\."
    ):
        read(config)


def test_a_note_names_the_arrays_that_are_not_read_and_those_that_are(tmp_path):
    graph = ingest(tmp_path, edge_index=EDGES, labels=np.zeros(4), edge_attr=np.ones((3, 2)))
    assert graph.labels is None
    (note,) = [note for note in graph.manifest["notes"] if "not read" in note]
    assert note.startswith("arrays that are not read: labels, edge_attr; those that are: edge_index, edge_weight, x, ")
    assert " y, train_mask, val_mask, test_mask, ids, num_nodes" in note


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "num_nodes", "num_entries", "num_splits"),
    [("cora", 2708, 10556, 1), ("photo", 7650, 238162, 0), ("actor", 7600, None, 10), ("citeseer", 3327, 9104, 1)],
)
def test_real_graphs_have_the_published_numbers(tmp_path, name, num_nodes, num_entries, num_splits):
    config = NpzGraph(source="npz", path=Path(os.environ["GSCL_DATA"]) / f"{name}.npz")
    graph = write_graph(read(config), config, tmp_path / "graph")
    assert (graph.num_nodes, len(graph.splits)) == (num_nodes, num_splits)
    assert num_entries in (None, graph.indices.size)


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_edge_weight_gives_the_weights(tmp_path, shape):
    graph = ingest(tmp_path, edge_index=EDGES, edge_weight=np.array([2, 3, 5]).reshape(shape), x=np.eye(4))
    assert graph.edge_weights.tolist() == [2, 2, 3, 3, 5, 5]
    assert "edges have weights from 2 to 5, on average 3.333" in graph.manifest["notes"]


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (np.ones(2), r"few.npz: edge_weight is float64 of shape \(2,\), expected numbers of shape \[3\]"),
        (np.ones((3, 2)), r"edge_weight is float64 of shape \(3, 2\)"),
        (np.array(["1", "2", "3"]), "edge_weight is <U1 of shape"),
        (np.array([1.0, 0.0, 2.0]), "few.npz: the weight of edge 1 is 0; expected a number above 0"),
    ],
)
def test_an_edge_weight_that_does_not_fit_is_refused(tmp_path, weights, sentence):
    with pytest.raises(GraphError, match=sentence):
        ingest(tmp_path, edge_index=EDGES, edge_weight=weights, x=np.eye(4))
