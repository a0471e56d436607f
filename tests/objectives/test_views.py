import numpy as np
import pytest
import torch

from gscl_scale import seeding
from gscl_scale.config.config import Config
from gscl_scale.model.inputs import prepare_features, prepare_inputs
from gscl_scale.train.objectives.views import DropWeights, View, ViewStream, drop_edges
from tests.graphs import make_graph, random_edges
from tests.model.graphs import graph_of, random_features, random_sparse_features

NUM_NODES = 200
EDGES = random_edges(NUM_NODES, 2000, seed=1, hubs=5)
CPU = torch.device("cpu")


def random_graph(undirected=True, sparse=False, width=12):
    make = random_sparse_features if sparse else random_features
    return graph_of(EDGES, make(NUM_NODES, width), undirected)


def entries(graph):
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return set(zip(rows.tolist(), graph.indices.tolist(), strict=True))


def stream_of(graph, *views, seed=0, encoder="gcn"):
    sections = {"train": {"seed": seed, "objective": "grace"}, "model": {"width": 8, "encoder": encoder}}
    config = Config.parse({"graph": {"source": "memory"}, **sections})
    return ViewStream(graph, prepare_inputs(graph, config.model, CPU), config, views)


@pytest.mark.parametrize("undirected", [True, False])
def test_about_the_share_of_edges_is_dropped_and_no_other_edge_appears(undirected):
    graph = random_graph(undirected)
    edges = graph.indices.size // (1 + undirected)
    dropped = drop_edges(graph, np.array([0.3]), seeding.key("edges", 0))
    left = dropped.indices.size // (1 + undirected)
    assert abs(left - 0.7 * edges) < 4 * np.sqrt(0.21 * edges)
    assert entries(dropped) < entries(graph)
    rows = np.split(dropped.indices, dropped.indptr[1:-1])
    assert all((np.diff(row) > 0).all() for row in rows)


def test_edges_and_columns_have_chances_of_their_own_where_a_view_has_weights():
    graph = random_graph()
    of_edges, of_columns = np.zeros(graph.indices.size), np.zeros(12)
    first = np.repeat(np.arange(NUM_NODES), np.diff(graph.indptr))
    of_edges[(first < 100) & (graph.indices < 100)] = 2.0
    of_columns[::2] = 9.0
    (view,) = stream_of(graph, View(0.4, 0.4, weights=DropWeights(of_edges, of_columns, most=0.999999))).views(1)
    assert (view.features == 0).all(dim=0).tolist() == [True, False] * 6
    left = entries(
        drop_edges(graph, View(0.4, weights=DropWeights(of_edges, of_columns, 1.0)).shares()[0], np.uint64(3))
    )
    gone = entries(graph) - left
    assert gone == {(v, u) for u, v in gone}
    assert all(u < 100 and v < 100 for u, v in gone)
    assert len(gone) == pytest.approx(0.8 * (of_edges > 0).sum(), rel=0.1)


@pytest.mark.parametrize(("undirected", "least", "most"), [(True, 1, 1), (False, 0.3, 0.7)])
def test_both_directions_of_an_edge_go_together_where_it_is_undirected_and_one_by_one_elsewhere(
    undirected, least, most
):
    graph = graph_of([(u, v) for u in range(20) for v in range(20) if u != v], random_features(20, 3), undirected)
    left = entries(drop_edges(graph, np.array([0.5]), seeding.key("edges", 0)))
    assert least <= sum((v, u) in left for u, v in left) / len(left) <= most


@pytest.mark.parametrize("undirected", [True, False])
@pytest.mark.parametrize("encoder", ["gcn", "sage"])
def test_a_view_is_normalised_as_a_graph_of_its_own(tmp_path, undirected, encoder):
    graph = random_graph(undirected)
    (view,) = stream_of(graph, View(edges=0.4), encoder=encoder).views(7)
    left = drop_edges(graph, np.array([0.4]), seeding.key("edges", 0, 7, 0))
    features = np.array(graph.features)
    alone = make_graph(tmp_path / "g", sorted(entries(left)), NUM_NODES, features=features, undirected=undirected)
    (expected,) = stream_of(alone, View(), encoder=encoder).views(0)
    for side in ("matrix", "transposed"):
        ours, theirs = (getattr(inputs.layers[0].edges, side).to_dense() for inputs in (view, expected))
        torch.testing.assert_close(ours, theirs)


def test_views_depend_on_seed_step_and_number_alone():
    graph = random_graph()
    view = View(edges=0.4, features=0.4)
    stream = stream_of(graph, view, view)
    later = list(stream.batches(0, 6))[5]
    again = stream_of(graph, view, view).views(5)

    def same(one, other):
        edges = (inputs.layers[0].edges.matrix.to_dense() for inputs in (one, other))
        return torch.equal(*edges) and torch.equal(one.features, other.features)

    assert all(same(one, other) for one, other in zip(later, again, strict=True))
    assert not same(*later)
    assert not same(later[0], stream.views(4)[0])
    assert not same(later[0], stream_of(graph, view, view, seed=1).views(5)[0])


def test_whole_columns_are_masked_and_the_others_stay_as_they_are():
    graph = random_graph(width=300)
    (view,) = stream_of(graph, View(features=0.25)).views(2)
    features = torch.from_numpy(np.array(graph.features))
    masked = (view.features == 0).all(dim=0)
    assert 0.1 < masked.float().mean() < 0.4
    assert torch.equal(view.features[:, ~masked], features[:, ~masked])
    assert view.propagated is None


def test_sparse_features_are_changed_as_dense_ones_are():
    sparse = random_graph(sparse=True)
    dense = graph_of(EDGES, prepare_features(sparse, "none").dense().numpy())
    for view in (View(features=0.5), View(shuffled=True)):
        (one,), (other,) = stream_of(sparse, view).views(1), stream_of(dense, view).views(1)
        assert torch.equal(one.features.dense(), other.features)
        assert torch.equal(one.features.pair.transposed.to_dense(), other.features.T)


def test_nothing_is_made_for_a_view_that_changes_nothing():
    stream = stream_of(random_graph(), View())
    assert stream.views(0)[0] is stream.views(1)[0]
