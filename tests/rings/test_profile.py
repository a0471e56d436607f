import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gscl_scale.rings.exact.ring_sizes import ring_profile
from tests.graphs import awkward_graphs
from tests.oracles import csr_of, distances


@given(graph=awkward_graphs(), undirected=st.booleans(), classes=st.integers(1, 4))
def test_sizes_and_agreement_equal_a_count_over_all_pairs(graph, undirected, classes):
    edges, num_nodes = graph
    indptr, indices = csr_of(edges, num_nodes, undirected)
    labels = np.random.default_rng(num_nodes).integers(-1, classes, num_nodes)
    sizes, same, known = ring_profile(indptr, indices, np.arange(num_nodes), 4, labels)
    distance = distances(indptr, indices)
    for hop in range(4):
        ring = distance == hop + 1
        agree = ring & (labels[:, None] == labels) & (labels >= 0)
        assert sizes[:, hop].tolist() == ring.sum(axis=1).tolist()
        assert same[:, hop].tolist() == agree.sum(axis=1).tolist()
        both = ring & (labels[:, None] >= 0) & (labels >= 0)
        assert known[:, hop].tolist() == both.sum(axis=1).tolist()
