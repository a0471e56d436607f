"""All peers alike: settings, rows without neighbours, directed graphs."""

import numpy as np
import pytest
import scipy.sparse as sp

from gscl_scale.config.config import Config
from gscl_scale.errors import ConfigError
from gscl_scale.runtime.console import Console
from gscl_scale.studies.peers.measure import embed_peer, peer_note, structure_of
from gscl_scale.studies.peers.table import PEERS, Structure, combinations, peer_settings
from tests.graphs import make_graph
from tests.peers.test_formulas import SPARSE

QUIET = Console(quiet=True)
IDS = np.arange(20, dtype=np.uint64)


def set_for(name, *settings):
    (found,) = choices_of(name, *settings)
    return found


def choices_of(name, *settings):
    return combinations(peer_settings(Config.parse({"compare": {"settings": {name: list(settings)}}}), name))


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("width", [5, 40])
def test_rows_have_the_width_asked_for_and_are_zero_where_a_node_has_no_neighbours(name, width):
    settings = set_for(name, f"width={width}")
    rows, again, other = (embed_peer(name, Structure(SPARSE, IDS), settings, seed, QUIET) for seed in (3, 3, 4))
    assert (rows.shape, rows.dtype) == ((20, width), np.float32)
    assert np.isfinite(rows).all()
    assert (rows[:19] != 0).any(axis=1).all()
    assert not rows[19].any()
    assert (rows == again).all()
    assert (rows != other).any()


@pytest.mark.parametrize("name", PEERS)
def test_a_graph_without_edges_has_zero_rows(name):
    nothing = Structure(sp.csr_array((20, 20), dtype=np.float32), IDS)
    assert not embed_peer(name, nothing, PEERS[name].settings, 0, QUIET).any()


def test_edges_of_a_directed_graph_are_followed_both_ways_and_that_is_noted(tmp_path):
    edges = [(0, 2), (0, 1), (1, 0), (3, 0)]
    directed, undirected = (make_graph(tmp_path / str(both), edges, 5, undirected=both) for both in (False, True))
    expected = [[0, 1, 1, 1, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
    for graph in (directed, undirected):
        structure = structure_of(graph)
        assert structure.adjacency.toarray().tolist() == expected
        assert structure.adjacency.has_sorted_indices
    assert "both ways" in peer_note(directed)
    assert "both ways" not in peer_note(undirected)


def test_edges_have_their_weights_and_those_of_both_directions_are_added(tmp_path):
    edges, weights = [(0, 2), (0, 1), (1, 0), (3, 0)], [2, 3, 5, 7]
    directed, undirected = (
        make_graph(tmp_path / str(both), edges, 5, undirected=both, weights=weights) for both in (False, True)
    )
    expected = [[0, 8, 2, 7, 0], [8, 0, 0, 0, 0], [2, 0, 0, 0, 0], [7, 0, 0, 0, 0], [0, 0, 0, 0, 0]]
    for graph in (directed, undirected):
        assert structure_of(graph).adjacency.toarray().tolist() == expected


def test_settings_are_the_defaults_and_those_of_compare_settings():
    assert set_for("cleora") == {"width": 128, "iterations": 8}
    assert set_for("node2vec", "q=2", "walks = 3") == {
        "width": 128, "walks": 3, "length": 80, "window": 10, "negatives": 5, "p": 0.25, "q": 2.0,
    }  # fmt: skip


def test_several_values_are_all_combinations():
    expected = [{"width": width, "iterations": number} for width in (64, 128) for number in (4, 8)]
    assert choices_of("cleora", "iterations=[4, 8]", "width = [64,128]") == expected


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("hops=2", r"^compare\.settings: node2vec: there is no setting 'hops'; node2vec reads width, walks, length,"),
        ("walks=0", r"node2vec: walks: expected a whole number from 1, got '0'"),
        ("walks=1.5", "expected a whole number from 1, got '1.5'"),
        ("walks", "expected a whole number from 1, got ''"),
        ("p=-1", "node2vec: p: expected a number above 0, got '-1'"),
        ("p=nan", "expected a number above 0"),
        ("walks=[3, x]", "expected a whole number from 1, got 'x'"),
        ("walks=[]", "expected a whole number from 1, got ''"),
        ("p=inf", "expected a number above 0"),
    ],
)
def test_a_setting_that_a_peer_cannot_read_is_refused(setting, says):
    with pytest.raises(ConfigError, match=says):
        set_for("node2vec", setting)
