"""Data sets in OGB's own layout."""

import builtins
import gzip
import io
import sys
import threading
import urllib.error
import zipfile

import numpy as np
import pandas as pd
import pytest

from gscl_scale.config.graphs import OgbGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources import archive, ogb
from gscl_scale.graph.sources.read import read

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ogb", "ignore::FutureWarning:ogb")

EDGES = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 0]])
LABELS = np.array([0, 1, 2, np.nan, 1, 0])


def csv_gz(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(values).to_csv(path, index=False, header=False, compression="gzip")


def make(root, dataset="ogbn-arxiv", split="time", labels=LABELS, features=True, edge_features=False):
    folder = root / dataset.replace("-", "_")
    tables = {"edge": EDGES, "node-label": labels, "num-node-list": [6], "num-edge-list": [6]}
    if features:
        tables["node-feat"] = np.arange(12).reshape(6, 2) / 4
    if edge_features:
        tables["edge-feat"] = np.ones((6, 3))
    for name, values in tables.items():
        csv_gz(folder / "raw" / f"{name}.csv.gz", values)
    for name, rows in {"train": [0, 1], "valid": [2], "test": [4, 5]}.items():
        csv_gz(folder / "split" / split / f"{name}.csv.gz", rows)
    (folder / "RELEASE_v1.txt").touch()
    return folder


def config_of(root, dataset="ogbn-arxiv", **options):
    return OgbGraph(source="ogb", dataset=dataset, path=root, **options)


def neighbours(graph, node):
    return graph.indices[graph.indptr[node] : graph.indptr[node + 1]].tolist()


@pytest.fixture(autouse=True)
def no_questions(monkeypatch):
    def ask(*_):
        raise AssertionError("nobody is there to answer")

    monkeypatch.setattr(builtins, "input", ask)


@pytest.fixture
def offline(monkeypatch):
    def refuse(*_, **__):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr("urllib.request.urlopen", refuse)


def test_a_data_set_is_read_from_its_raw_files_again_and_again(tmp_path, offline):
    make(tmp_path)
    config = config_of(tmp_path)
    first, again = (write_graph(read(config), config, tmp_path / name) for name in ("first", "again"))
    assert first.fingerprint == again.fingerprint
    assert first.name == "ogbn-arxiv"
    assert first.labels.tolist() == [0, 1, 2, -1, 1, 0]
    assert first.splits["official"].tolist() == [1, 1, 2, 0, 3, 3]
    assert first.features.tolist() == [[0, 0.25], [0.5, 0.75], [1, 1.25], [1.5, 1.75], [2, 2.25], [2.5, 2.75]]
    assert neighbours(first, 0) == [1, 3, 5]


def test_a_cache_of_the_ogb_package_does_not_disturb(tmp_path, offline):
    csv_gz(make(tmp_path) / "raw" / "node_year.csv.gz", range(6))
    config = config_of(tmp_path)
    before = read(config)
    (tmp_path / "ogbn_arxiv" / "processed").mkdir()  # as in the archive that OGB hands out
    dataset = ogb._ogb("ogb.nodeproppred.dataset").NodePropPredDataset("ogbn-arxiv", root=str(tmp_path))
    assert (tmp_path / "ogbn_arxiv" / "processed" / "data_processed").exists()
    after = read(config)
    np.testing.assert_array_equal(np.stack(after.edges[0]), dataset[0][0]["edge_index"])
    np.testing.assert_array_equal(after.features, before.features)
    for code, part in enumerate(("train", "valid", "test"), start=1):
        assert dataset.get_idx_split()[part].tolist() == np.flatnonzero(after.splits["official"] == code).tolist()


def test_edges_that_ogb_stores_once_count_both_ways(tmp_path, offline):
    make(tmp_path, "ogbn-products", "sales_ranking")
    config = config_of(tmp_path, "ogbn-products", undirected=False)
    graph = write_graph(read(config), config, tmp_path / "graph")
    assert neighbours(graph, 0) == [1, 3, 5]


def test_many_labels_per_node_are_read_and_features_of_edges_are_left_out_with_a_note(tmp_path, offline):
    labels = np.random.default_rng(0).integers(0, 2, (6, 112))
    make(tmp_path, "ogbn-proteins", "species", labels=labels, features=False, edge_features=True)
    draft = read(config_of(tmp_path, "ogbn-proteins"))
    np.testing.assert_array_equal(draft.labels, labels)
    assert draft.features is None
    assert "the edges' features are not used" in draft.notes


def test_many_values_per_node_that_are_no_labels_are_left_out_with_a_note(tmp_path, offline):
    make(tmp_path, "ogbn-proteins", "species", labels=np.full((6, 112), 2), features=False)
    draft = read(config_of(tmp_path, "ogbn-proteins"))
    assert draft.labels is None
    assert "112 labels per node are not used: some are not 0 or 1" in draft.notes


def make_binary(root, save=np.savez, **arrays):
    folder = make(root, "ogbn-papers100M")
    arrays = {"edge_index": EDGES.T, "num_nodes_list": [6], "num_edges_list": [6], **arrays}
    save(folder / "raw" / "data.npz", node_feat=np.arange(12, dtype=np.float16).reshape(6, 2), **arrays)
    save(folder / "raw" / "node-label.npz", node_label=LABELS[:, None])
    return config_of(root, "ogbn-papers100M")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_binary_data_set_is_read_as_by_the_package_and_its_large_arrays_are_mapped(
    tmp_path, offline, monkeypatch, save
):
    config = make_binary(tmp_path, save, edge_feat=np.ones((6, 1)), node_year=np.ones(6))
    raw = str(tmp_path / "ogbn_papers100M" / "raw")
    theirs = ogb._ogb("ogb.io.read_graph_raw").read_binary_graph_raw(raw)[0]
    fingerprints = []
    for least in (1 << 20, 0):
        monkeypatch.setattr(archive, "LEAST_MAPPED", least)
        draft = read(config, scratch=tmp_path / "scratch")
        assert isinstance(draft.features, np.memmap) == (least == 0)
        np.testing.assert_array_equal(np.stack(draft.edges[0]), theirs["edge_index"])
        np.testing.assert_array_equal(draft.features, theirs["node_feat"])
        np.testing.assert_array_equal(draft.labels, LABELS)
        assert (draft.num_nodes, draft.notes) == (6, ["the edges' features are not used"])
        fingerprints.append(write_graph(draft, config, tmp_path / "graph").fingerprint)
    assert fingerprints[0] == fingerprints[1]


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"num_edges_list": [7]}, r"edge_index has shape \(2, 6\), num_edges_list says \[7\]"),
        ({"num_nodes_list": [3, 3]}, r"too many values to unpack \(expected 1\)"),
        ({"edge_index": EDGES}, r"edge_index has shape \(6, 2\), num_edges_list says \[6\]"),
    ],
)
def test_a_binary_data_set_that_does_not_fit_together_is_refused(tmp_path, offline, arrays, sentence):
    with pytest.raises(GraphError, match=rf"papers100M is damaged or not complete: {sentence}; delete it"):
        read(make_binary(tmp_path, **arrays))


@pytest.mark.parametrize("name", ["data", "node-label"])
def test_a_binary_data_set_that_is_truncated_is_refused(tmp_path, offline, name):
    config, path = make_binary(tmp_path), tmp_path / "ogbn_papers100M" / "raw" / f"{name}.npz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(GraphError, match=rf"{name}.npz is truncated or not a .npz file: .*; delete .* to download"):
        read(config)
    path.unlink()
    with pytest.raises(GraphError, match=rf"papers100M is damaged or not complete: no {name}.npz in raw; delete it"):
        read(config)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ogbn-arxhiv", "did you mean ogbn-arxiv"),
        ("x", "ogbn-products"),
        ("ogbn-mag", "ogbn-mag has several kinds of nodes, expected one kind"),
    ],
)
def test_unknown_names_and_several_kinds_of_nodes_are_refused(tmp_path, name, sentence):
    with pytest.raises(GraphError, match=sentence):
        read(config_of(tmp_path, name))


def test_without_folder_and_network_the_cure_is_said_and_nothing_is_left(tmp_path, offline):
    with pytest.raises(GraphError, match=r"cannot be downloaded from http.*no network.*or set graph.path"):
        read(config_of(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_download_is_unpacked_whole_and_read(tmp_path, monkeypatch):
    make(tmp_path / "far")
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for path in (tmp_path / "far" / "ogbn_arxiv").rglob("*"):
            file.write(path, "arxiv" / path.relative_to(tmp_path / "far" / "ogbn_arxiv"))
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: io.BytesIO(archive.getvalue()))
    assert read(config_of(tmp_path / "near")).num_nodes == 6
    assert [path.name for path in (tmp_path / "near").iterdir()] == ["ogbn_arxiv"]

    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: io.BytesIO(archive.getvalue()[:500]))
    with pytest.raises(GraphError, match="cannot be downloaded"):
        read(config_of(tmp_path / "broken"))
    assert not list((tmp_path / "broken").iterdir())


def test_another_release_is_refused_and_nobody_is_asked(tmp_path, offline):
    folder = make(tmp_path)
    (folder / "RELEASE_v1.txt").rename(folder / "RELEASE_v0.txt")
    with pytest.raises(GraphError, match=r"expected RELEASE_v1.txt, got RELEASE_v0.txt; delete the folder"):
        read(config_of(tmp_path))


@pytest.mark.parametrize("name", ["edge", "node-feat", "node-label", "num-node-list"])
def test_a_truncated_file_is_refused(tmp_path, offline, name):
    path = make(tmp_path) / "raw" / f"{name}.csv.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(GraphError, match=r"ogbn_arxiv is damaged or not complete: .*delete it to download it again"):
        read(config_of(tmp_path))


@pytest.mark.parametrize("name", ["raw/edge.csv.gz", "raw/node-label.csv.gz", "split/time/test.csv.gz"])
def test_a_missing_file_is_refused(tmp_path, offline, name):
    (make(tmp_path) / name).unlink()
    with pytest.raises(GraphError, match=r"ogbn_arxiv is .*not complete"):
        read(config_of(tmp_path))


def test_a_split_past_the_last_node_is_refused(tmp_path, offline):
    (make(tmp_path) / "split" / "time" / "test.csv.gz").write_bytes(gzip.compress(b"6\n"))
    with pytest.raises(GraphError, match="the test split names nodes outside 0 to 5"):
        read(config_of(tmp_path))


def test_the_package_never_asks_the_network_for_its_newest_version(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] in ("ogb", "outdated")]:
        monkeypatch.delitem(sys.modules, name)
    started = []
    monkeypatch.setattr(threading.Thread, "start", lambda thread: started.append(thread))
    assert ogb._ogb("ogb.version").check_outdated is None
    assert not started
    assert "outdated" not in sys.modules


def test_a_table_whose_values_do_not_fit_into_memory_is_refused_before_it_is_read(tmp_path, offline, monkeypatch):
    csv_gz(make(tmp_path) / "raw" / "node-feat.csv.gz", np.zeros((6, 1 << 16), np.int8))  # 768 KiB of text
    monkeypatch.setattr(ogb, "available_memory", lambda: 2 << 20)
    with pytest.raises(GraphError, match=r"node-feat\.csv\.gz unpacks to more than the 512 KiB of text"):
        read(config_of(tmp_path))
