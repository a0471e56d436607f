"""What the host computes for a batch that is made on a device: few numbers per anchor and list, by kernels of numba.

Shapes as in `device_collate`. An operation on the device costs the host more than these kernels do, which also run
without the GIL, beside the thread that takes steps.
"""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gscl_scale import seeding
from gscl_scale.kernels.kernel import kernel
from gscl_scale.rings.sample import target_size

_NO_WORD = -(1 << 62)  # so far before the words of every anchor that none has it

ArrayT = TypeVar("ArrayT")  # arrays of the host, or tensors on the device
Layout = list[tuple[torch.dtype, list[int]]]  # kinds and sizes of arrays that lie one after another


@dataclass(frozen=True)
class Numbers(Generic[ArrayT]):
    """What the host computes for a batch, in arrays of one dimension.

    nodes [A + C]                  the anchors, then the candidates
    own [A]                        place of the anchor in its row of a table [A, C1]
    near_first, near_whole [A]     where the words of an anchor begin, and where they would if it had all of them
    word, bit [C1]                 which of all words has the bit of a candidate, and this bit
    key [A]                        of the order of random members
    stored_shift [Z]               what leads from places among the stored members of the batch to those in the round
    used_shift [Z]                 what leads from places among the members in use to those among the stored ones
    decided [A], priority [C1]     of the anchors, and of the candidates
    whole [Z]                      sizes of the rings of each anchor, and what they leave of all nodes
    stored_end, used_end [Z]       where each list ends among the stored members, and among those in use
    count [Z]                      how many of its members are in use
    indptr [A1]                    where the members in use of each anchor begin
    """

    nodes: ArrayT
    own: ArrayT
    near_first: ArrayT
    near_whole: ArrayT
    word: ArrayT
    bit: ArrayT
    key: ArrayT
    stored_shift: ArrayT
    used_shift: ArrayT
    decided: ArrayT
    priority: ArrayT
    whole: ArrayT
    stored_end: ArrayT
    used_end: ArrayT
    count: ArrayT
    indptr: ArrayT


def layout_of(num_anchors: int, num_candidates: int, levels: int, near: bool, random: bool, sized: bool) -> Layout:
    """Of `Numbers`; what a batch does not need has no entries. Numbers of 8 bytes come first, so all are aligned."""
    a, c1, z = num_anchors, num_candidates + 1, num_anchors * levels
    return [
        (torch.int64, [a + num_candidates, a, a * near, a * near, c1, c1, a * random, z, z]),
        (torch.float64, [a, c1, z * sized]),
        (torch.int32, [z, z, z, a + 1]),
    ]


@dataclass(frozen=True)
class HostPart:
    """`Numbers` as they travel, and on the host what decides the shapes of a batch.

    num_stored, num_used   S and P
    widths [L]             of padded rows
    """

    packed: Tensor
    layout: Layout
    num_stored: int
    num_used: int
    widths: list[int]

    def on(self, device: torch.device) -> Numbers[Tensor]:
        """In one copy, which nobody waits for."""
        return Numbers(*_views(self.packed.to(device, non_blocking=True), self.layout))


def empty(layout: Layout, device: torch.device) -> tuple[Tensor, Numbers[npt.NDArray[Any]]]:
    """Memory from which a copy to the device need not be waited for, and the numbers in it."""
    packed = _pinned(sum(kind.itemsize * sum(sizes) for kind, sizes in layout), device)
    return packed, Numbers(*(view.numpy() for view in _views(packed, layout)))


def _pinned(size: int, device: torch.device) -> Tensor:
    if device.type != "cuda":
        return torch.empty(size, dtype=torch.uint8)
    with torch.cuda.device(device):  # other threads of this process have another
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)


def _views(packed: Tensor, layout: Layout) -> list[Tensor]:
    kinds = packed.split_with_sizes([kind.itemsize * sum(sizes) for kind, sizes in layout])
    return [
        array
        for part, (kind, sizes) in zip(kinds, layout, strict=True)
        for array in part.view(kind).split_with_sizes(sizes)
    ]


@kernel
def fill_candidates(nodes, ranks, priority, words, out, out_priority, word, bit):
    """Of each candidate its number, priority and bit; about the last column, which is none, no anchor decides."""
    out_priority[-1], word[-1], bit[-1] = np.inf, _NO_WORD, 0
    for c in range(nodes.size):
        out[c], out_priority[c] = nodes[c], priority[c]
        word[c] = ranks[c] >> 6 if ranks[c] >> 6 < words else _NO_WORD
        bit[c] = np.int64(1) << (ranks[c] & 63)


@kernel
def fill_anchors(anchors, candidates, decided, near_offsets, words, nodes, own, out_decided, first, whole):
    """Of each anchor its number, its place among the candidates, until where it decides, and where its words are."""
    maybe = np.zeros(1 << 16, np.bool_)  # candidates by their last bits: few anchors are searched for among them
    for c in range(candidates.size):
        maybe[candidates[c] & 0xFFFF] = True
    for a in range(anchors.size):
        anchor, column = anchors[a], candidates.size
        nodes[a], out_decided[a] = anchor, decided[anchor]
        if maybe[anchor & 0xFFFF]:
            at = np.searchsorted(candidates, anchor)
            if at < candidates.size and candidates[at] == anchor:
                column = at
        own[a] = a * (candidates.size + 1) + column
        if near_offsets.size:
            first[a], whole[a] = near_offsets[anchor], near_offsets[anchor + 1] - words


@kernel
def fill_keys(key, anchors, out):
    """The key of an anchor in `collate`'s `_shuffle_lists`."""
    for a in range(anchors.size):
        out[a] = np.int64(key ^ seeding.mix(np.uint64(anchors[a]) + np.uint64(1)))


@kernel
def fill_lists(
    anchors, offsets, ring_size, all_stored, kind, value,
    stored_shift, stored_end, used_shift, used_end, count, indptr, widths,
):  # fmt: skip
    """The lists follow each other, those of an anchor by level. Returns how many members are stored, and in use."""
    levels = offsets.shape[1]
    stored, used, z = 0, 0, 0
    indptr[0] = 0
    for a in range(anchors.size):
        anchor = anchors[a]
        for level in range(levels):
            start = offsets[anchor, level]
            length = offsets[anchor + 1, level] - start
            wanted = length
            if not all_stored and level < levels - 1:  # `count_members`
                wanted = min(length, target_size(kind, value, np.int64(ring_size[anchor, level])))
            stored_shift[z], used_shift[z], count[z] = start - stored, stored - used, wanted
            stored += length
            used += wanted
            stored_end[z], used_end[z] = stored, used
            widths[level] = max(widths[level], wanted)
            z += 1
        indptr[a + 1] = used
    return stored, used
