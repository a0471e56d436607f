"""Edge and node tables."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gscl_scale import seeding
from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources import tablefiles, tableids, textfiles
from gscl_scale.graph.sources.read import read
from tests.graph.tables import AB, NODES, NUMBERS, PAIR, SOURCES, TARGETS, ingest, named_rows, save, tables


@pytest.mark.parametrize("kind", [".parquet", ".csv", ".csv.gz"])
def test_the_node_table_sets_the_order_and_the_columns(tmp_path, kind):
    graph = ingest(tmp_path, nodes=NODES | {"p": [1, 2, 3, 4], "q": [0.5, 0.0, 0.25, -1.0]}, kind=kind)
    assert graph.ids.to_pylist() == ["d", "b", "a", "c"]
    assert named_rows(graph) == {"a": {"b", "c"}, "b": {"a", "d"}, "c": {"a"}, "d": {"b"}}
    assert graph.labels.tolist() == [0, -1, 1, 0]
    assert graph.classes == ["x", "y"]
    assert graph.splits["split"].tolist() == [1, 2, 0, 3]
    assert graph.features.tolist() == [[1, 0.5], [2, 0], [3, 0.25], [4, -1]]
    assert "features are the columns p, q (graph.feature_columns chooses others)" in graph.manifest["notes"]


@pytest.mark.parametrize("kind", [".parquet", ".csv"])
def test_ids_may_be_integers_in_any_order(tmp_path, kind):
    sources, targets, ids = ([NUMBERS[name] for name in names] for names in (SOURCES, TARGETS, NODES["id"]))
    graph = ingest(tmp_path, {"source": sources, "target": targets}, {"id": ids}, kind=kind)
    assert graph.ids.to_pylist() == [5, -7, 30, 1000]
    assert graph.ids.type == pa.int64()
    assert named_rows(graph) == {30: {-7, 1000}, -7: {30, 5}, 1000: {30}, 5: {-7}}


@pytest.mark.parametrize("kind", [".parquet", ".csv", ".csv.gz"])
def test_without_a_node_table_the_nodes_are_the_sorted_ids_of_the_edges(tmp_path, kind):
    graph = ingest(tmp_path, kind=kind)
    assert graph.ids.to_pylist() == ["a", "b", "c", "d"]
    assert graph.ids.type == pa.string()
    assert any("no features" in note for note in graph.manifest["notes"])


def test_the_order_of_the_edges_and_text_for_integers_change_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tablefiles, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(tableids, "_MERGE_AT", 5)
    draw = np.random.default_rng(0)
    ends = draw.integers(0, 40, (200, 2))
    first, other, text = (
        ingest(tmp_path / name, {"source": list(rows[:, 0]), "target": list(rows[:, 1])})
        for name, rows in (("a", ends), ("b", ends[draw.permutation(200)]), ("c", np.char.mod("n%d", ends)))
    )
    assert first.fingerprint == other.fingerprint
    assert first.ids.to_pylist() == sorted(set(ends.ravel().tolist()))
    assert {f"n{k}": {f"n{v}" for v in row} for k, row in named_rows(first).items()} == named_rows(text)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint32(), pa.int64(), pa.string(), pa.large_string()])
def test_the_type_of_the_ids_is_kept(tmp_path, kind):
    ids = pa.array([7, 3, 5]).cast(kind)
    edges = {"source": pa.array([3, 5]).cast(kind), "target": pa.array([5, 7]).cast(kind)}
    expected = pa.string() if kind == pa.large_string() else kind
    assert ingest(tmp_path / "a", edges, {"id": ids}).ids.type == expected
    assert ingest(tmp_path / "b", edges).ids.type == expected


def test_integers_of_different_widths_match(tmp_path):
    edges = {"source": pa.array([3], pa.int32()), "target": pa.array([7], pa.uint64())}
    assert named_rows(ingest(tmp_path, edges, {"id": [7, 3]})) == {7: {3}, 3: {7}}


def test_text_ids_may_come_as_categories(tmp_path):
    edges = {name: pa.array(values).dictionary_encode() for name, values in (("source", SOURCES), ("target", TARGETS))}
    nodes = {name: pa.array(values).dictionary_encode() for name, values in NODES.items()}
    graph = ingest(tmp_path, edges, nodes)
    assert graph.ids.type == pa.string()
    assert graph.classes == ["x", "y"]
    assert graph.splits["split"].tolist() == [1, 2, 0, 3]


@pytest.mark.parametrize("text", ["007", "+7", "-0", "7.0", "0x7", "9" * 19, f"{2**63}", f"{-(2**63) - 1}"])
def test_ids_of_csv_files_stay_text_unless_all_are_plain_integers(tmp_path, text):
    graph = ingest(tmp_path, f"source,target\n1,2\n{text},7\n", kind=".csv")
    assert graph.ids.to_pylist() == sorted(["1", "2", "7", text])


def test_ids_of_csv_files_are_integers_up_to_the_last_of_64_bits(tmp_path):
    ids = [-(2**63), -(10**18), -1, 0, 10**18 - 1, 10**18, 1790000000000000001, 2**63 - 1]
    edges = "".join(f"{one},{other}\n" for one, other in itertools.pairwise(ids))
    nodes = "id\n" + "".join(f"{each}\n" for each in ids)
    for kind in (None, nodes):
        graph = ingest(tmp_path / f"{kind is None}", "source,target\n" + edges, kind, kind=".csv")
        assert graph.ids.type == pa.int64()
        assert sorted(graph.ids.to_pylist()) == ids


def test_a_text_id_late_in_a_csv_file_makes_all_ids_text(tmp_path, monkeypatch):
    monkeypatch.setattr(textfiles, "_BLOCK", 64)
    rows = [f"{number},{number + 1}" for number in range(100)]
    graph = ingest(tmp_path, "\n".join(["source,target", *rows, "a17,5"]), kind=".csv")
    assert graph.ids.to_pylist() == sorted([str(number) for number in range(101)] + ["a17"])


def test_texts_with_equal_keys_are_still_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(seeding, "identities_of", lambda ids: np.zeros(len(ids), np.uint64))
    config = tables(tmp_path, nodes=NODES)
    (source, target), *rest = read(config).edges
    assert (source.tolist(), target.tolist(), rest) == ([3, 2, 1, 0], [2, 1, 0, 0], [])


def test_an_unknown_text_with_the_key_of_a_known_one_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(
        seeding, "identities_of", lambda ids: np.array([len(text) for text in ids.to_pylist()], np.uint64)
    )
    with pytest.raises(GraphError, match="source 'bb' is not an id"):
        ingest(tmp_path, {"source": ["a", "bb"], "target": ["aa", "a"]}, {"id": ["a", "aa"]})


def test_a_folder_of_files_is_one_table(tmp_path):
    save(tmp_path / "edges" / "b.parquet", {"source": ["c"], "target": ["d"]})
    save(tmp_path / "edges" / "deep" / "a.parquet", {"source": ["a"], "target": ["b"]})
    save(tmp_path / "edges" / "_SUCCESS", "")
    save(tmp_path / "edges" / ".part.crc", "x")
    save(tmp_path / "nodes" / "1.parquet", {"id": ["d", "c"], "x": [1, 2]})
    save(tmp_path / "nodes" / "2.parquet", {"id": ["b", "a"], "x": [3, 4]})
    config = TablesGraph(source="tables", edges=tmp_path / "edges", nodes=tmp_path / "nodes")
    graph = write_graph(read(config), config, tmp_path / "graph")
    assert named_rows(graph) == {"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c"}}
    assert graph.features.ravel().tolist() == [1, 2, 3, 4]


def test_lists_of_numbers_and_numbers_are_put_side_by_side(tmp_path):
    fixed = pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2))
    nodes = {"id": ["a", "b"], "one": [0.5, 1.5], "fixed": fixed, "free": [[9.0], [8.0]], "yes": [True, False]}
    assert ingest(tmp_path / "all", PAIR, nodes).features.tolist() == [[0.5, 1, 2, 9, 1], [1.5, 3, 4, 8, 0]]
    some = ingest(tmp_path / "some", PAIR, nodes, feature_columns=["free", "one"])
    assert some.features.tolist() == [[9, 0.5], [8, 1.5]]


def test_whole_numbers_in_a_csv_file_may_turn_into_fractions_late(tmp_path, monkeypatch):
    monkeypatch.setattr(textfiles, "_BLOCK", 64)
    rows = [f"{number},{number}{'.5' if number > 50 else ''}" for number in range(60)]
    config = tables(tmp_path, "source,target\n0,1\n", "\n".join(["id,x", *rows]), kind=".csv")
    assert list(read(config).features.parts)[-1][-1].tolist() == [59.5]


@pytest.mark.parametrize(
    ("labels", "classes", "codes"),
    [
        ([3, 1], ["1", "3"], [1, 0]),
        ([3, None], ["3"], [0, -1]),
        ([3.0, float("nan")], ["3"], [0, -1]),
        ([True, False], ["0", "1"], [1, 0]),
        (["NA", ""], ["NA"], [0, -1]),
        (["01", "1"], ["01", "1"], [0, 1]),
    ],
)
@pytest.mark.parametrize("kind", [".parquet", ".csv"])
def test_labels_may_be_numbers_or_names(tmp_path, labels, classes, codes, kind):
    if kind == ".csv" and labels[0] is True:
        classes = ["False", "True"]
    if kind == ".parquet" and "" in labels:
        labels = ["NA", None]
    graph = ingest(tmp_path, PAIR, AB | {"label": labels}, kind=kind)
    assert (graph.classes, graph.labels.tolist()) == (classes, codes)


def test_default_columns_may_be_absent_and_named_ones_may_not(tmp_path):
    assert ingest(tmp_path / "plain", PAIR, AB).labels is None
    for key in ("label_column", "split_column"):
        with pytest.raises(GraphError, match=rf"no column 'kind' \(graph.{key}\); it has id"):
            ingest(tmp_path / key, PAIR, AB, **{key: "kind"})


def test_a_split_column_that_is_empty_is_no_split(tmp_path):
    graph = ingest(tmp_path, PAIR, AB | {"split": pa.nulls(2)})
    assert graph.splits == {}
    assert "column split has no train, val or test: the graph has no split" in graph.manifest["notes"]


def test_columns_may_have_names_of_their_own(tmp_path):
    options = {"source_column": "u", "target_column": "v", "id_column": "key", "label_column": "y", "split_column": "s"}
    nodes = {"key": ["a", "b"], "y": [0, 1], "s": ["TRAIN", " test "]}
    graph = ingest(tmp_path, {"u": ["a"], "v": ["b"], "weight": [1.0]}, nodes, **options)
    assert graph.splits["s"].tolist() == [1, 3]


def test_edges_are_read_a_part_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(tablefiles, "ROWS_AT_ONCE", 10)
    config = tables(tmp_path, {"source": np.arange(205) % 40, "target": np.arange(205) % 7}, {"id": np.arange(40)})
    sizes = [source.size for source, _ in read(config).edges]
    assert (max(sizes), sum(sizes)) == (10, 205)


def test_a_parquet_file_is_never_whole_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(tablefiles, "ROWS_AT_ONCE", 1 << 16)
    draw = np.random.default_rng(0)
    table = pa.table({name: draw.integers(0, 2**62, 2_000_000) for name in ("source", "target")})
    pq.write_table(table, tmp_path / "edges.parquet", row_group_size=1 << 17)
    del table
    before, most = pa.total_allocated_bytes(), 0
    for _ in tablefiles.stream(tablefiles.TableFile(tmp_path / "edges.parquet"), ["source", "target"]):
        most = max(most, pa.total_allocated_bytes() - before)
    assert most < 12 << 20  # of 32


@pytest.mark.parametrize(("width", "at_once"), [(4, 50), (40, 6), (4000, 1)])
def test_few_long_rows_are_read_at_once(tmp_path, monkeypatch, width, at_once):
    monkeypatch.setattr(tablefiles, "ROWS_AT_ONCE", 50)
    monkeypatch.setattr(tablefiles, "_VALUES_AT_ONCE", 250)
    rows = [[float(v)] * width for v in range(60)]
    pq.write_table(pa.table({"id": range(60), "features": rows, "other": rows}), tmp_path / "nodes.parquet")
    parts = list(tablefiles.stream(tablefiles.TableFile(tmp_path / "nodes.parquet"), ["id", "features"]))
    assert parts[0].rows.num_rows == at_once
    assert pa.Table.from_batches([part.rows for part in parts]).column("features").to_pylist() == rows


@pytest.mark.parametrize("kind", [".parquet", ".csv"])
@pytest.mark.parametrize("weights", [[2, 3, 5, 7], [2.0, 3, 5, 7], ["2", " 3.0", "5e0", "7"]])
def test_a_weight_column_gives_each_edge_its_weight(tmp_path, kind, weights):
    graph = ingest(tmp_path, {"source": SOURCES, "target": TARGETS, "kg": weights}, kind=kind, weight_column="kg")
    assert graph.ids.to_pylist() == ["a", "b", "c", "d"]
    expected = {("a", "c"): 2, ("a", "b"): 3, ("b", "d"): 5}
    for (one, other), weight in expected.items():
        for v, u in ((one, other), (other, one)):
            row = slice(*graph.indptr["abcd".index(v) : "abcd".index(v) + 2])
            assert graph.edge_weights[row][graph.indices[row] == "abcd".index(u)].tolist() == [weight]


def test_dropped_edges_leave_with_their_weights(tmp_path):
    edges = {"source": ["a", "z", "a"], "target": ["b", "b", "b"], "kg": [1.0, 50.0, 2.0]}
    graph = ingest(tmp_path, edges, {"id": ["a", "b"]}, weight_column="kg", unknown_ids="drop")
    assert graph.edge_weights.tolist() == [3, 3]


def test_a_column_that_looks_like_weights_is_asked_about(tmp_path):
    edges = {"source": SOURCES, "target": TARGETS, "Weight": [1, 2, 3, 4], "when": [1, 2, 3, 4]}
    graph = ingest(tmp_path, edges)
    assert graph.edge_weights is None
    sentence = "the edges' column 'Weight' is not read: --set graph.weight_column=Weight makes it edge weights"
    assert sentence in graph.manifest["notes"]
    again = ingest(tmp_path / "again", edges, weight_column="Weight")
    assert not any("is not read" in note for note in again.manifest["notes"])
