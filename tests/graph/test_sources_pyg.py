"""Data sets and Data objects of torch-geometric."""

import json
import pickle
import urllib.error
import warnings

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch

from gscl_scale.config.graphs import MemoryGraph, PygGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import write_graph
from gscl_scale.graph.sources.pyg import draft_from_data, import_geometric
from gscl_scale.graph.sources.read import read

Data, HeteroData = (getattr(import_geometric("torch_geometric.data"), name) for name in ("Data", "HeteroData"))
EDGE_INDEX = torch.tensor([[0, 1, 3], [1, 2, 2]])


def data_of(**changes):
    values = {"x": torch.eye(4), "edge_index": EDGE_INDEX, "y": torch.tensor([0, 1, 1, 0])}
    return Data(**{key: value for key, value in (values | changes).items() if value is not None})


def rows_of(draft, tmp_path, **options):
    graph = write_graph(draft, MemoryGraph(**options), tmp_path / "graph")
    return [graph.indices[a:b].tolist() for a, b in zip(graph.indptr, graph.indptr[1:], strict=False)]


def write_planetoid(folder, num_nodes=540):
    """The raw files of Planetoid: 20 nodes to train, the last 10 to test, in a shuffled order."""
    folder.mkdir(parents=True)
    features = sp.csr_matrix((np.arange(num_nodes)[:, None] == np.arange(num_nodes)).astype(np.float32)[:, :8])
    classes = np.eye(3, dtype=np.int32)[np.arange(num_nodes) % 3]
    first_test = num_nodes - 10
    order = [*range(first_test + 1, num_nodes), first_test]
    graph = {v: [(v + 1) % num_nodes, (v - 1) % num_nodes, v] for v in range(num_nodes)}
    pieces = {
        "x": features[:20],
        "tx": features[order],
        "allx": features[:first_test],
        "y": classes[:20],
        "ty": classes[order],
        "ally": classes[:first_test],
        "graph": graph,
    }
    for name, piece in pieces.items():
        (folder / f"ind.cora.{name}").write_bytes(pickle.dumps(piece))
    (folder / "ind.cora.test.index").write_text("\n".join(map(str, order)) + "\n")


@pytest.fixture
def offline(monkeypatch):
    def refuse(*_, **__):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    monkeypatch.setattr("torch_geometric.io.fs.cp", refuse)


@pytest.mark.filterwarnings("ignore:.*`scipy.sparse.csr` name.*:DeprecationWarning")
@pytest.mark.parametrize("below", ["Planetoid/Cora/raw", "Cora/raw"])
def test_planetoid_is_read_from_its_raw_files_and_then_from_its_cache(tmp_path, offline, below):
    write_planetoid(tmp_path / below)
    config = PygGraph(source="pyg", dataset="Planetoid/Cora", path=tmp_path)
    first, again = (write_graph(read(config), config, tmp_path / name) for name in ("first", "again"))
    assert first.fingerprint == again.fingerprint
    assert first.name == "planetoid-cora"
    assert first.labels.tolist() == [v % 3 for v in range(540)]
    assert np.diff(first.indptr).tolist() == [2] * 540
    assert np.bincount(first.splits["split_0"]).tolist() == [10, 20, 500, 10]
    np.testing.assert_array_equal(first.features[:9], np.eye(9, 8))


def test_a_data_object_becomes_a_draft(tmp_path):
    draft = draft_from_data(data_of(), "mine")
    assert (draft.name, draft.num_nodes, draft.labels.tolist()) == ("mine", 4, [0, 1, 1, 0])
    assert rows_of(draft, tmp_path) == [[1], [0, 2], [1, 3], [2]]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")  # the warning of making one
def test_the_rows_of_adj_t_are_targets(tmp_path):
    target, source = EDGE_INDEX.flip(0)
    pairs = torch.stack([target, source])
    adj_t = torch.sparse_coo_tensor(pairs, torch.ones(3), (4, 4), check_invariants=True).coalesce().to_sparse_csr()
    draft = draft_from_data(data_of(edge_index=None, adj_t=adj_t), "mine")
    assert rows_of(draft, tmp_path, undirected=False) == [[1], [2], [], [2]]


def test_the_adjacency_of_the_package_torch_sparse_is_understood(tmp_path):
    class SparseTensor:
        def coo(self):
            return EDGE_INDEX[1], EDGE_INDEX[0], None

        def sparse_sizes(self):
            return (4, 4)

    data = Data(x=torch.eye(4))
    data.adj_t = SparseTensor()
    assert rows_of(draft_from_data(data, "mine"), tmp_path, undirected=False) == [[1], [2], [], [2]]


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_features_stay_sparse(layout):
    x = torch.tensor([[0.0, 2.0], [0, 0], [3, 0], [0, 0]]).to_sparse(layout=layout)
    features = draft_from_data(data_of(x=x), "mine").features
    assert sp.issparse(features)
    assert features.toarray().tolist() == [[0, 2], [0, 0], [3, 0], [0, 0]]


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.int64, torch.bool])
def test_features_of_every_kind_are_welcome(tmp_path, kind):
    x = torch.eye(4).to(kind).requires_grad_(kind.is_floating_point)
    draft = draft_from_data(data_of(x=x), "mine")
    graph = write_graph(draft, MemoryGraph(), tmp_path / "graph")
    assert graph.features.tolist() == np.eye(4).tolist()


@pytest.mark.parametrize(("changes", "number"), [({}, 4), ({"num_nodes": 9}, 9), ({"y": torch.zeros(6)}, 6)])
def test_without_features_the_number_of_nodes_follows_from_the_rest(changes, number):
    assert draft_from_data(data_of(**{"x": None, "y": None} | changes), "mine").num_nodes == number


def test_masks_of_one_and_of_many_splits_go_together():
    train = torch.tensor([[1, 0], [0, 1], [0, 0], [0, 0]], dtype=torch.bool)
    test = torch.tensor([0, 0, 0, 1], dtype=torch.bool)
    data = data_of(train_mask=train, val_mask=train.flip(1), test_mask=test, stopping_mask=train)
    splits = draft_from_data(data, "mine").splits
    assert {name: codes.tolist() for name, codes in splits.items()} == {
        "split_0": [1, 2, 0, 3],
        "split_1": [2, 1, 0, 3],
    }


@pytest.mark.parametrize("kind", [torch.float32, torch.int64, torch.bool])
def test_zeros_and_ones_are_many_labels_per_node(tmp_path, kind):
    y = torch.tensor([[1, 0, 1], [0, 0, 1], [1, 0, 0], [0, 0, 0]], dtype=kind)
    graph = write_graph(draft_from_data(data_of(y=y), "mine"), MemoryGraph(), tmp_path / "graph")
    assert graph.classes == ["0", "2"]
    assert graph.label_sets.of(np.arange(4)).tolist() == y[:, [0, 2]].bool().tolist()


def test_some_masks_alone_and_values_that_are_no_labels_are_left_out_with_a_note():
    draft = draft_from_data(data_of(train_mask=torch.ones(4, dtype=torch.bool), y=torch.full((4, 3), 0.5)), "mine")
    assert (draft.splits, draft.labels) == ({}, None)
    assert "y has 3 values per node that are not 0 or 1: they are not used" in draft.notes[0]
    assert draft.notes[1:] == ["no val_mask and no test_mask: the other masks are not used"]


def test_n_id_gives_the_ids_of_a_part_of_a_graph():
    assert draft_from_data(data_of(n_id=torch.tensor([7, 5, 3, 1])), "mine").ids.equals(pa.array([7, 5, 3, 1]))


OVERLAP = dict.fromkeys(("train_mask", "val_mask", "test_mask"), torch.ones(4, dtype=torch.bool))
REFUSED = {
    "no edges": (Data(x=torch.eye(4)), "mine: no edges; expected edge_index or adj_t"),
    "several kinds": (HeteroData(), "one kind of nodes, got HeteroData"),
    "something else": ({"x": 1}, "got dict"),
    "edges of floats": (data_of(edge_index=torch.zeros(2, 3)), "edge_index is torch.float32"),
    "edges in columns": (data_of(edge_index=EDGE_INDEX.T), r"of shape \(3, 2\), expected integers"),
    "masks that overlap": (data_of(**OVERLAP), "node 0 is in val and in another part"),
    "short masks": (data_of(**OVERLAP | {"val_mask": torch.zeros(3)}), "masks have shapes"),
    "ids of floats": (data_of(n_id=torch.rand(4)), "n_id has shape"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_data_that_is_no_graph_of_one_kind_is_refused(case):
    data, sentence = REFUSED[case]
    with pytest.raises(GraphError, match=sentence):
        draft_from_data(data, "mine")


@pytest.mark.parametrize(
    ("dataset", "sentence"),
    [
        ("Planetoit/Cora", "no data set 'Planetoit'; did you mean Planetoid"),
        ("Path", "no data set 'Path'"),
        ("Planetoid", "needs a name, such as Planetoid/Cora"),
        ("Actor/film", "Actor takes no name; leave out '/film'"),
        ("WikipediaNetwork/crocodil", "torch-geometric refuses WikipediaNetwork/crocodil"),
    ],
)
def test_names_that_do_not_exist_are_refused(tmp_path, offline, dataset, sentence):
    with pytest.raises(GraphError, match=sentence):
        read(PygGraph(source="pyg", dataset=dataset, path=tmp_path))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("dataset", ["Planetoid/Cora", "WikiCS", "Amazon/Photo", "Actor"])
def test_without_network_the_cure_is_said(tmp_path, offline, dataset):
    with pytest.raises(GraphError, match=r"cannot be downloaded \(.*no network.*copy its raw files there"):
        read(PygGraph(source="pyg", dataset=dataset, path=tmp_path))


@pytest.mark.filterwarnings("ignore:.*`scipy.sparse.csr` name.*:DeprecationWarning")
def test_damaged_raw_files_are_refused(tmp_path, offline):
    write_planetoid(tmp_path / "Cora" / "raw")
    path = tmp_path / "Cora" / "raw" / "ind.cora.allx"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(GraphError, match=r"cannot be read: .*delete its files"):
        read(PygGraph(source="pyg", dataset="Planetoid/Cora", path=tmp_path))


def test_wikics_is_read_from_its_raw_file(tmp_path, offline):
    raw = tmp_path / "WikiCS" / "raw"
    raw.mkdir(parents=True)
    data = {
        "features": np.eye(8).tolist(),
        "labels": [v % 2 for v in range(8)],
        "links": [[(v + 1) % 8] for v in range(8)],
        "test_mask": [v % 4 == 3 for v in range(8)],
    }
    for at, part in enumerate(("train", "val", "stopping")):
        data[f"{part}_masks"] = [[v % 4 == at for v in range(8)] for _ in range(2)]
    (raw / "data.json").write_text(json.dumps(data))
    config = PygGraph(source="pyg", dataset="WikiCS", path=tmp_path, undirected=False)
    draft = read(config)
    assert sorted(draft.splits) == ["split_0", "split_1"]
    assert draft.splits["split_1"].tolist() == [1, 2, 0, 3, 1, 2, 0, 3]
    assert rows_of(draft, tmp_path, undirected=False) == [[(v + 1) % 8] for v in range(8)]


BOTH_WAYS = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def weights_of(tmp_path, **values):
    draft = draft_from_data(Data(x=torch.eye(3), **values), "mine")
    graph = write_graph(draft, MemoryGraph(structure="none"), tmp_path / "graph")
    found = None if graph.edge_weights is None else graph.edge_weights.tolist()
    return found, " ".join(graph.manifest["notes"])


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int64, torch.bfloat16])
def test_edge_weight_is_read_and_counts_once_where_both_directions_have_it(tmp_path, shape, kind):
    given = torch.tensor([2, 2, 3, 3], dtype=kind).reshape(shape)
    assert weights_of(tmp_path, edge_index=BOTH_WAYS, edge_weight=given)[0] == [2, 2, 3, 3]


def test_an_edge_attr_of_positive_fractions_is_read_as_weights_and_noted(tmp_path):
    found, notes = weights_of(tmp_path, edge_index=BOTH_WAYS, edge_attr=torch.tensor([[2.0], [2], [3], [3]]))
    assert found == [2, 2, 3, 3]
    assert "edge_attr is a column of positive numbers and is read as edge weights" in notes


@pytest.mark.parametrize(
    "given", [torch.tensor([1, 2, 1, 2]), torch.tensor([1.0, -1, 1, 1]), torch.zeros(4, 1), torch.ones(4, 2)], ids=str
)
def test_any_other_edge_attr_is_left_out_with_a_note(tmp_path, given):
    found, notes = weights_of(tmp_path, edge_index=BOTH_WAYS, edge_attr=given)
    assert found is None
    assert "edge_attr is not used" in notes


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (torch.ones(3), r"mine: edge_weight has shape \(3,\), expected one for each edge"),
        (torch.tensor([1.0, 1.0, -2.0, 1.0]), "mine: the weight of edge 2 is -2; expected a number above 0"),
    ],
)
def test_an_edge_weight_that_is_none_is_refused(tmp_path, weights, sentence):
    with pytest.raises(GraphError, match=sentence):
        weights_of(tmp_path, edge_index=BOTH_WAYS, edge_weight=weights)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_values_of_adj_t_are_weights_unless_all_are_one(tmp_path, layout):
    for values, expected in (([2.0, 2, 3, 3], [2, 2, 3, 3]), ([1.0, 1, 1, 1], None)):
        matrix = torch.sparse_coo_tensor(BOTH_WAYS, torch.tensor(values), (3, 3), check_invariants=True).coalesce()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # sparse CSR is young
            adj_t = matrix if layout == torch.sparse_coo else matrix.to_sparse_csr()
        assert weights_of(tmp_path / str(values), adj_t=adj_t)[0] == expected
