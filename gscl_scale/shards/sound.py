"""Whether the arrays of a samples folder are samples: kernels trust their indices, whoever wrote the folder."""

from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.rings import Lists, Priorities, RingSample


def flaw_of_part(sample: RingSample, first: int, rows: int, num_nodes: int) -> str:
    """What is wrong with the samples of the anchors from `first` on; "" where nothing is."""
    if not np.array_equal(sample.anchors, np.arange(first, first + rows)):
        return f"expected the anchors {first:,} to {first + rows - 1:,} in ascending order"
    if not sample.rings or (sample.ring_size < 0).any() or sample.ring_size.shape != (rows, len(sample.rings)):
        return f"expected a size of each of {len(sample.rings)} rings"
    kinds = {lists.members.dtype for lists in (*sample.rings, sample.beyond)}
    if len(kinds) > 1 or np.isnan(sample.decided).any():
        return "columns are of different types, or have numbers that are none"
    for name, lists in [
        *((f"ring_{hop}", ring) for hop, ring in enumerate(sample.rings, 1)),
        ("beyond", sample.beyond),
    ]:
        if flaw := _flaw_of_lists(lists, rows, num_nodes):
            return f"{name} {flaw}"
    if sample.near is not None and (flaw := _flaw_of_offsets(sample.near, rows)):
        return f"near {flaw}"
    return ""


def flaw_of_priorities(priorities: Priorities, num_nodes: int) -> str:
    """What is wrong with the priorities of a round; "" where nothing is."""
    order, priority = priorities.order, priorities.priority
    if order.size != num_nodes or priority.size != num_nodes or not _is_permutation(order):
        return f"expected each of {num_nodes:,} nodes once"
    if np.isnan(priority).any() or (priority[1:] < priority[:-1]).any():
        return "expected ascending priorities"
    return ""


def _flaw_of_lists(lists: Lists, rows: int, num_nodes: int) -> str:
    members = lists.members
    if flaw := _flaw_of_offsets(lists, rows):
        return flaw
    if members.size and members.view(f"u{members.itemsize}").max() >= num_nodes:  # negative ones are the highest
        return f"names nodes outside 0 to {num_nodes - 1:,}"
    return ""


def _flaw_of_offsets(lists: Lists, rows: int) -> str:
    offsets, members = lists.offsets, lists.members
    if offsets.size != rows + 1 or offsets[0] < 0 or offsets[-1] > members.size or (np.diff(offsets) < 0).any():
        return f"has no {rows:,} lists"
    return ""


def _is_permutation(order: npt.NDArray[Any]) -> bool:
    if order.size and (order.min() < 0 or order.max() >= order.size):
        return False
    seen = np.zeros(order.size, np.bool_)
    seen[order] = True
    return bool(seen.all())
