"""Priorities to draw, searches to force, and samples to compare."""

import numpy as np
import pytest

from gscl_scale.rings.exact import hubs, multi_source
from gscl_scale.rings.exact.bfs import exact_rings
from gscl_scale.rings.priorities import draw_priorities


def identities(num_nodes):
    return np.arange(num_nodes).astype(np.uint64)


def drawn(num_nodes, seed=0, round_number=0, weights=None):
    return draw_priorities(identities(num_nodes), seed, round_number, weights, np.int32)


def exact(indptr, indices, priorities, config, anchors=None, together=None):
    """The exact engine on all nodes or some, 64 anchors `together` or one by one (None: as it decides itself)."""
    anchors = np.arange(indptr.size - 1) if anchors is None else anchors
    with pytest.MonkeyPatch.context() as patch:
        if together is not None:
            patch.setattr(multi_source, "is_sharing_cheaper", lambda *_: together)
        return exact_rings(indptr, indices, anchors, priorities, priorities.rank(), config)


def take_every_shortcut(patch):
    for name in ("_DEGREE", "_EDGES", "_SAVED"):
        patch.setattr(hubs, name, 0)


def list_of(lists, row):
    return lists.members[lists.offsets[row] : lists.offsets[row + 1]].tolist()


def assert_same_lists(one, other, near=False):
    """The same rings, beyond and decided; the same bits of near nodes where these are asked for."""
    pairs = list(zip(one.lists, other.lists, strict=True)) + [(one.near, other.near)] * near
    for mine, theirs in pairs:
        assert mine.offsets.tolist() == theirs.offsets.tolist()
        assert mine.members.tolist() == theirs.members.tolist()
    assert one.decided.tolist() == other.decided.tolist()


def assert_one_by_one_equals_64_at_once(indptr, indices, priorities, config, anchors=None):
    one, other = (exact(indptr, indices, priorities, config, anchors, together) for together in (True, False))
    assert_same_lists(one, other, near=True)
    assert one.ring_size.tolist() == other.ring_size.tolist()
