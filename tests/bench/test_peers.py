import numpy as np
import pytest

from gscl_scale.bench.listing import wrong_rings
from gscl_scale.bench.peers import PEERS, Search
from tests.graphs import make_graph, random_edges
from tests.oracles import distances

FORMS = [pytest.param(peer, form, id=f"{peer.name}, {form.name}") for peer in PEERS for form in peer.forms]
GRAPHS = {
    "sparse": (random_edges(120, 130, seed=1), 120),  # with isolated nodes and several components
    "hubs": (random_edges(150, 600, seed=2, hubs=2), 150),
    "path": ([(v, v + 1) for v in range(24)], 26),
}


@pytest.mark.parametrize("undirected", [True, False], ids=["undirected", "directed"])
@pytest.mark.parametrize(("peer", "form"), FORMS)
def test_every_form_of_a_peer_lists_the_rings_that_all_distances_tell(tmp_path, peer, form, undirected):
    pytest.importorskip(peer.package)
    for name, (edges, num_nodes) in GRAPHS.items():
        graph = make_graph(tmp_path / name, edges, num_nodes, undirected=undirected)
        search = form.build(graph, 3)
        distance = distances(graph.indptr, graph.indices)
        anchors = np.random.default_rng(0).permutation(num_nodes)
        for first in range(0, num_nodes, form.batch):  # twice and more: what a call leaves behind must not matter
            part = anchors[first : first + form.batch]
            for anchor, rings in zip(part, search.members(part), strict=True):
                assert len(rings) == 3
                for hop, ring in enumerate(rings, start=1):
                    assert sorted(ring.tolist()) == np.flatnonzero(distance[anchor] == hop).tolist(), (
                        name,
                        anchor,
                        hop,
                    )


def test_rings_that_are_wrong_are_told_with_node_and_hop(tmp_path):
    graph = make_graph(tmp_path / "graph", [(v, v + 1) for v in range(5)] + [(5, 0)], 6)
    right = [[np.array([(v + d) % 6, (v - d) % 6]) for d in (1, 2)] for v in range(6)]

    def search(of):
        return Search(lambda anchors: [of[anchor] for anchor in anchors])

    assert wrong_rings(search(right), graph, 2) == ""
    for wrong, number in (([0], 1), ([0, 0], 2), ([0, 1, 1], 3)):
        changed = [*right[:4], [right[4][0], right[4][1][wrong]], right[5]]
        told = f"gives {number} nodes 2 hops from node 4, expected 2 different ones"
        assert wrong_rings(search(changed), graph, 2) == told
