import numpy as np
import pytest

from gscl_scale.rings.exact.recount import RowChanges, last_ring_growth
from tests.oracles import csr_of


@pytest.mark.parametrize(
    ("now", "changes", "growth"),
    [
        ([(0, 1), (0, 2), (1, 3)], [(1, 3, True), (2, 3, False)], 0),  # 3 is two hops away by another way
        ([(0, 1), (0, 2), (2, 3)], [(1, 3, False), (2, 3, True)], 0),
        ([(0, 1), (0, 2), (1, 3), (2, 3)], [(1, 3, True)], 0),  # and now by two
        ([(0, 1), (0, 2), (1, 3), (2, 3)], [(1, 3, True), (2, 3, True)], 1),
        ([(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)], [(1, 3, True), (2, 3, True)], 1),
        ([(0, 1), (0, 2)], [(1, 3, False), (2, 3, False)], -1),
        ([(0, 1), (0, 2), (1, 2)], [(1, 2, True)], 0),  # within the ball
    ],
)
def test_a_node_comes_to_a_ring_or_goes_once_whatever_the_ways_to_it(now, changes, growth):
    indptr, indices = csr_of(now, 5)
    both = sorted(
        [*changes, *((x, u, won) for u, x, won in changes)], key=lambda change: (change[0], change[2], change[1])
    )
    node, other, won = (np.array(column) for column in zip(*both, strict=True))
    known = RowChanges.of(5, node, other, won)
    assert last_ring_growth(indptr, indices, np.array([0]), 2, known).tolist() == [growth]


def test_a_node_that_is_gone_went_from_the_ring_once():
    indptr, indices = csr_of([(0, 1), (0, 2)], 3)
    known = RowChanges.of(3, np.array([1, 2]), np.array([3 + 3, 3 + 3]), np.array([False, False]))
    assert last_ring_growth(indptr, indices, np.array([0]), 2, known).tolist() == [-1]
