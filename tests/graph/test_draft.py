"""From a draft to a graph folder."""

import json

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from gscl_scale.config.graphs import MemoryGraph
from gscl_scale.errors import FolderError, GraphError
from gscl_scale.graph import draft, labels, structural_features
from gscl_scale.graph import features as features_of_graphs
from gscl_scale.graph.draft import GraphDraft, write_graph
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.labels import encode_labels
from gscl_scale.graph.row_file import RowStream
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.io.arrow_writer import ColumnFile

EDGES = (np.array([0, 1, 2, 2, 4]), np.array([1, 0, 3, 2, 3]))
UNDIRECTED, DIRECTED = MemoryGraph(), MemoryGraph(undirected=False)


def make(**changes):
    values = {"name": "five", "origin": "five.npz", "num_nodes": 5, "edges": [EDGES], "features": np.eye(5)}
    return GraphDraft(**(values | changes))


def write(tmp_path, config=UNDIRECTED, name="graph", **changes):
    return write_graph(make(**changes), config, tmp_path / name)


def test_a_draft_becomes_a_graph_that_is_read_back(tmp_path):
    labels, codes = np.array([2, 2, -1, 7, 7]), np.array([1, 2, 3, 0, 1], np.int8)
    graph = write(tmp_path, labels=labels, splits={"split_0": codes}, ids=pa.array(["e", "d", "c", "b", "a"]))
    assert (graph.indptr.tolist(), graph.indices.tolist()) == ([0, 1, 2, 3, 5, 6], [1, 0, 3, 2, 4, 3])
    assert graph.labels.tolist() == [0, 0, -1, 1, 1]
    assert graph.classes == ["2", "7"]
    assert graph.splits["split_0"].tolist() == codes.tolist()
    assert graph.ids.to_pylist() == ["e", "d", "c", "b", "a"]
    assert graph.ids.type == pa.string()
    np.testing.assert_array_equal(graph.features, np.eye(5, dtype=np.float32))
    assert graph.num_features == graph.num_nodes == 5


def test_a_directed_graph_keeps_the_direction_of_its_edges(tmp_path):
    graph = write(tmp_path, DIRECTED)
    assert graph.indptr.tolist() == [0, 1, 2, 3, 3, 4]
    assert graph.indices.tolist() == [1, 0, 3, 3]
    assert not graph.undirected


def test_nodes_without_neighbours_are_counted(tmp_path):
    star = (np.zeros(3, np.int64), np.arange(1, 4))
    notes = write(tmp_path, edges=[star]).manifest["notes"]
    assert any(note.startswith("1 node has no neighbours: its rings are empty") for note in notes)


def test_labels_are_numbered_a_part_at_a_time(monkeypatch):
    given = np.array([7, -1, 3, 3, 9, -1, 7, 0, 2, 1])
    expected = encode_labels(given)
    monkeypatch.setattr(labels, "_AT_ONCE", 3)
    codes, names = encode_labels(given)
    assert (codes.tolist(), names) == (expected[0].tolist(), expected[1])
    assert codes.tolist() == [4, -1, 3, 3, 5, -1, 4, 0, 2, 1]


def test_notes_tell_what_was_done_to_the_edges_and_the_draft_stays_as_it_was(tmp_path):
    brought = make(edges=[(np.array([0, 1, 1, 2, 2, 2]), np.array([1, 0, 2, 1, 1, 2]))], notes=["brought along"])
    notes = write_graph(brought, UNDIRECTED, tmp_path / "graph").manifest["notes"]
    assert brought.notes == ["brought along"]
    assert notes == [
        "brought along",
        "1 self-loop dropped",
        "3 repeated edges merged (both directions count)",
        "2 nodes have no neighbours: their rings are empty, and others sample them only as far nodes",
    ]


def test_a_graph_without_features_gets_some_that_belong_to_ids_and_not_to_rows(tmp_path):
    ids, config = pa.array(list("abcde")), MemoryGraph(structural_features=16)
    order = np.array([3, 0, 4, 1, 2])  # row of each old node
    first = write(tmp_path, config, "first", features=None, ids=ids)
    ids, edges = ids.take(pa.array(np.argsort(order))), [tuple(order[e] for e in EDGES)]
    moved = write(tmp_path, config, "moved", features=None, ids=ids, edges=edges)
    assert first.features.shape == (5, 16)
    assert any("no features: 16 were computed from its structure" in note for note in first.manifest["notes"])
    np.testing.assert_array_equal(moved.features[order], first.features)


def test_sparse_features_stay_sparse_and_what_was_brought_stays_as_it_is(tmp_path):
    brought = sp.csr_matrix(([1.0, 2.0, 3.0], [3, 0, 0], [0, 3, 3, 3, 3, 3]), shape=(5, 4))
    graph = write(tmp_path, features=brought)
    assert isinstance(graph.features, SparseFeatures)
    assert (graph.num_features, graph.features.indices.tolist()) == (4, [0, 3])
    assert graph.features.values.tolist() == [5, 1]
    assert brought.indices.tolist() == [3, 0, 0]


@pytest.mark.parametrize("kind", [np.float64, np.float16, ">f4", np.int8, bool])
def test_features_of_every_kind_are_written_a_part_at_a_time_as_32_bit_floats(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(features_of_graphs, "_ROWS_AT_ONCE", 2)
    features = np.memmap(tmp_path / "x", kind, "w+", shape=(5, 3))
    features[:] = np.arange(15).reshape(5, 3) % 3
    seen = []
    append = ColumnFile.append
    monkeypatch.setattr(ColumnFile, "append", lambda self, rows: seen.append(rows.shape) or append(self, rows))
    np.testing.assert_array_equal(write(tmp_path, features=features).features, features.astype(np.float32))
    assert [shape for shape in seen if len(shape) == 2] == [(2, 3), (2, 3), (1, 3)]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_stream_of_rows_is_taken_as_features_and_threads_change_no_byte(tmp_path, monkeypatch, threads):
    monkeypatch.setattr(draft, "num_threads", lambda: threads)
    stream = RowStream((5, 2), iter([np.ones((3, 2), np.float32), np.zeros((2, 2), np.float32)]))
    graph, rows = write(tmp_path, features=stream), [[1, 1]] * 3 + [[0, 0]] * 2
    assert graph.features.tolist() == rows
    assert graph.fingerprint == write(tmp_path, name="whole", features=np.array(rows)).fingerprint


def test_features_of_the_structure_do_not_depend_on_threads_or_parts(tmp_path, monkeypatch):
    config = MemoryGraph(structural_features=16)
    first = write(tmp_path, config, "first", features=None)
    monkeypatch.setattr(draft, "num_threads", lambda: 2)
    monkeypatch.setattr(structural_features, "_ROWS_AT_ONCE", 2)
    assert write(tmp_path, config, "again", features=None).fingerprint == first.fingerprint


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_features_that_are_not_finite_are_refused_with_the_row(tmp_path, monkeypatch, form, bad):
    monkeypatch.setattr(features_of_graphs, "_ROWS_AT_ONCE", 2)
    features = np.eye(5)
    features[3, 1] = bad
    with pytest.raises(GraphError, match=r"five.npz: features of node 3 are not finite"):
        write(tmp_path, features=form(features))


REFUSED = {
    "no nodes": ({"num_nodes": 0}, "the graph is empty; expected at least one node"),
    "negative nodes": ({"num_nodes": -1}, "the graph is empty"),
    "more nodes than memory": ({"num_nodes": 10**15, "features": None}, "check the number of nodes"),
    "edge past the end": ({"edges": [(np.array([0]), np.array([5]))]}, "edge 0 names node 5, expected 0 to 4"),
    "edges of floats": ({"edges": [(np.array([0.0]), np.array([1.0]))]}, "expected two equally long rows of integers"),
    "few features": ({"features": np.eye(4)}, "features has 4 rows, expected one per node"),
    "features of one number": ({"features": np.array(1.0)}, "features has 0 rows"),
    "flat features": ({"features": np.ones(5)}, r"features have shape \(5,\)"),
    "features without columns": ({"features": np.ones((5, 0))}, r"features have shape \(5, 0\)"),
    "complex features": ({"features": np.eye(5) * 1j}, "features are of type complex128, expected numbers"),
    "complex sparse features": ({"features": sp.csr_array(np.eye(5) * 1j)}, "of type complex128, expected numbers"),
    "features of text": ({"features": np.full((5, 1), "x")}, "expected numbers"),
    "few labels": ({"labels": np.zeros(4)}, "labels has 4 rows"),
    "one label": ({"labels": np.array(1)}, "labels has 0 rows"),
    "labels of two columns": (
        {"labels": np.full((5, 2), 2)},
        r"labels have shape \(5, 2\), and some are not 0 or 1; expected one class per node",
    ),
    "complex labels": ({"labels": np.zeros(5, complex)}, "labels are of type complex128"),
    "dates as labels": ({"labels": np.zeros(5, "M8[s]")}, "expected integers or names"),
    "fractions as labels": ({"labels": np.full(5, 0.5)}, "labels are fractions, .*leave the labels out .*del data.y"),
    "infinite labels": ({"labels": np.full(5, np.inf)}, "labels are fractions"),
    "labels that are lists": ({"labels": np.array([None, [1], 2, 3, 4], object)}, "label of node 1 is a list"),
    "few ids": ({"ids": pa.array([1, 2])}, "2 ids for 5 nodes"),
    "missing ids": ({"ids": pa.array([1, 2, None, 4, 5])}, "1 nodes have no id, such as row 3"),
    "repeated integers": ({"ids": pa.array([7, 3, 5, 3, 7])}, "2 node ids are repeated, such as 7"),
    "repeated ids": ({"ids": pa.array(["a", "b", "a", "c", "d"])}, "1 node id is repeated, such as 'a'"),
    "ids of floats": ({"ids": pa.array([1.0, 2, 3, 4, 5])}, "node ids are of type double"),
    "few codes": ({"splits": {"split_0": np.zeros(3, np.int8)}}, "split_0 has 3 rows"),
    "unknown codes": ({"splits": {"split_0": np.full(5, 4, np.int8)}}, "split_0 is not an array of codes"),
    "codes of floats": ({"splits": {"split_0": np.zeros(5)}}, "split_0 is not an array of codes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_sentence_and_nothing_is_left_behind(tmp_path, case):
    changes, sentence = REFUSED[case]
    with pytest.raises(GraphError, match=sentence) as caught:
        write(tmp_path, **changes)
    assert str(caught.value).startswith("five.npz: ")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_source_that_breaks_in_the_middle_leaves_nothing_and_the_old_graph_stays(tmp_path):
    def broken():
        yield EDGES
        raise GraphError("the file ends early")

    old = write(tmp_path)
    with pytest.raises(GraphError, match="the file ends early"):
        write(tmp_path, edges=broken())
    assert Graph.open(tmp_path / "graph").fingerprint == old.fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


@pytest.mark.parametrize(
    "changes",
    [
        {"edges": [(EDGES[0][1:], EDGES[1][1:]), (np.array([0]), np.array([4]))]},
        {"features": 2 * np.eye(5)},
        {"labels": np.arange(5)},
        {"splits": {"split_0": np.ones(5, np.int8)}},
        {"ids": pa.array([1, 2, 3, 4, 5])},
        {"config": DIRECTED},
    ],
)
def test_every_change_changes_the_fingerprint(tmp_path, changes):
    assert write(tmp_path, name="before").fingerprint != write(tmp_path, name="after", **changes).fingerprint


def test_the_name_and_the_memory_do_not_change_the_fingerprint(tmp_path):
    config = MemoryGraph(name="another", memory_mb=16)
    assert write(tmp_path, name="before").fingerprint == write(tmp_path, config, "after").fingerprint


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.uint64(), pa.string(), pa.large_string()])
def test_the_type_of_the_ids_is_kept(tmp_path, kind):
    ids = pa.array([9, 7, 5, 3, 1]).cast(kind)
    assert write(tmp_path, ids=pa.chunked_array([ids[:2], ids[2:]])).ids.equals(ids)


@pytest.mark.parametrize(
    ("labels", "codes", "classes"),
    [
        (np.array([7, -1, 3]), [1, -1, 0], ["3", "7"]),
        (np.array([2.0, np.nan, -3.0]), [0, -1, -1], ["2"]),
        (np.array(["b", None, "a"], object), [1, -1, 0], ["a", "b"]),
        (np.array(["b", float("nan"), "a"], object), [1, -1, 0], ["a", "b"]),
        (np.array(["b", "a", "b"]), [1, 0, 1], ["a", "b"]),
        (np.array([True, False, True]), [1, 0, 1], ["0", "1"]),
        (np.array([2**63 + 1, 0, 1], np.uint64), [2, 0, 1], ["0", "1", "9223372036854775809"]),
        (np.array([-1, -1, -1]), [-1, -1, -1], []),
        (np.array([3, 1, -1, 3, -7], np.int8), [1, 0, -1, 1, -1], ["1", "3"]),
        (np.array([3, 1, 0, 3], np.uint8), [2, 1, 0, 2], ["0", "1", "3"]),
    ],
)
def test_classes_are_numbered_in_sorted_order_and_unknown_ones_are_minus_one(labels, codes, classes):
    assert [part if isinstance(part, list) else part.tolist() for part in encode_labels(labels)] == [codes, classes]


@pytest.mark.parametrize(
    ("labels", "codes", "classes"),
    [
        (np.arange(5)[:, None], [0, 1, 2, 3, 4], list("01234")),
        (np.array(["é".encode()] * 5), [0] * 5, ["é"]),
        (np.full(5, np.nan), None, []),
    ],
)
def test_labels_may_be_a_column_or_bytes_and_are_none_if_all_are_unknown(tmp_path, labels, codes, classes):
    graph = write(tmp_path, labels=labels)
    assert (graph.labels if graph.labels is None else graph.labels.tolist(), graph.classes) == (codes, classes)


def test_a_truncated_or_missing_file_is_refused_with_the_cure(tmp_path):
    folder = tmp_path / "graph"
    write(tmp_path)
    path = folder / "indices.arrow"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(FolderError, match=r"indices.arrow: expected \d+ bytes, got \d+; delete .* and ingest"):
        Graph.open(folder)
    path.unlink()
    with pytest.raises(FolderError, match="got no file"):
        Graph.open(folder)


@pytest.mark.parametrize(
    ("manifest", "sentence"), [({"format": 9}, "expected graph format 1, got 9"), ({"format": 1}, "it lacks name")]
)
def test_a_manifest_of_another_kind_is_refused(tmp_path, manifest, sentence):
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(FolderError, match=f"{sentence}.*; delete {tmp_path} and ingest the graph again$"):
        Graph.open(tmp_path)


def test_a_folder_without_a_manifest_is_no_graph(tmp_path):
    with pytest.raises(FolderError, match="does not exist"):
        Graph.open(tmp_path)
