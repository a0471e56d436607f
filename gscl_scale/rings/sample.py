"""The sample of a range of anchors, as every engine returns it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.kernels.kernel import kernel

NUMBER, ALL, RATIO = 0, 1, 2


@dataclass(frozen=True)
class Lists:
    """A list of nodes per anchor: anchor a has members[offsets[a]:offsets[a + 1]]."""

    offsets: npt.NDArray[np.int64]
    members: npt.NDArray[Any]

    def lengths(self) -> npt.NDArray[np.int64]:
        """Length of each list."""
        return np.diff(self.offsets)


@dataclass(frozen=True)
class RingSample:
    """What is stored for the A anchors of a part.

    anchors [A]           ascending
    rings                 k Lists: members of each ring, in priority order
    beyond                the lowest nodes farther than k hops, in priority order
    decided [A]           below this priority, a node in none of the rings is certainly beyond
    ring_size [A, k]      size of each whole ring
    ring_size_exact [A]   False where ring_size is an estimate
    near                  a bit for each of the M lowest nodes of the round, set if it is within k hops; of their
                          M / 64 words only those from where the nodes end whose priority is below `decided`. None:
                          samples of an older version do not have them
    """

    anchors: npt.NDArray[np.int64]
    rings: list[Lists]
    beyond: Lists
    decided: npt.NDArray[np.float64]
    ring_size: npt.NDArray[np.int64]
    ring_size_exact: npt.NDArray[np.bool_]
    near: Lists | None

    @property
    def lists(self) -> tuple[Lists, ...]:
        """The rings, and beyond."""
        return (*self.rings, self.beyond)


def offsets_of(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where lists of these lengths begin, one after the other, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def near_lists(bits: npt.NDArray[np.uint64], first: npt.NDArray[np.int64]) -> Lists:
    """The words of each row [A, M / 64] from the `first` on, as lists."""
    words = bits.shape[1]
    return Lists(offsets_of(words - first), bits[np.arange(words) >= first[:, None]])


def rename_nodes(sample: RingSample, anchors: npt.NDArray[np.int64], name_of: npt.NDArray[np.int64]) -> RingSample:
    """The same samples with node u renamed to name_of[u], for anchors of these names."""
    *rings, beyond = (
        Lists(lists.offsets, name_of[lists.members].astype(lists.members.dtype)) for lists in sample.lists
    )
    return replace(sample, anchors=anchors, rings=rings, beyond=beyond)


def replace_rows(sample: RingSample, rows: npt.NDArray[np.int64], other: RingSample) -> RingSample:
    """The sample with the anchors at `rows` replaced by those of `other`, in this order."""
    decided, sizes, exact = sample.decided.copy(), sample.ring_size.copy(), sample.ring_size_exact.copy()
    decided[rows], sizes[rows], exact[rows] = other.decided, other.ring_size, other.ring_size_exact
    *rings, beyond = (replace_lists(old, rows, new) for old, new in zip(sample.lists, other.lists, strict=True))
    near = None if sample.near is None or other.near is None else replace_lists(sample.near, rows, other.near)
    return RingSample(sample.anchors, rings, beyond, decided, sizes, exact, near)


def replace_lists(lists: Lists, rows: npt.NDArray[np.int64], other: Lists) -> Lists:
    """The lists with those at `rows` replaced by those of `other`, in this order."""
    source = np.full(lists.offsets.size - 1, -1, np.int64)
    source[rows] = np.arange(rows.size)
    lengths = lists.lengths().copy()
    lengths[rows] = other.lengths()
    offsets = offsets_of(lengths)
    members = np.empty(offsets[-1], lists.members.dtype)
    _copy_rows(lists.offsets, lists.members, other.offsets, other.members, source, offsets, members)
    return Lists(offsets, members)


@kernel
def _copy_rows(offsets, members, other_offsets, other_members, source, out_offsets, out):
    """Copy rows that stay in runs, and rows of `other` one by one."""
    a = 0
    while a < source.size:
        run = a
        while run < source.size and source[run] < 0:
            run += 1
        out[out_offsets[a] : out_offsets[run]] = members[offsets[a] : offsets[run]]
        if run < source.size:
            row = source[run]
            out[out_offsets[run] : out_offsets[run + 1]] = other_members[other_offsets[row] : other_offsets[row + 1]]
        a = run + 1


@kernel
def copy_lists(source, starts, targets, offsets, members):
    """Fill list targets[i] of (offsets, members) from `source`, where it begins at starts[i]."""
    for i in range(starts.size):
        first = offsets[targets[i]]
        for j in range(offsets[targets[i] + 1] - first):
            members[first + j] = source[starts[i] + j]


def parse_per_ring(per_ring: int | str) -> tuple[int, float]:
    """The setting `rings.per_ring` as (kind, value) for kernels."""
    if isinstance(per_ring, int):
        return NUMBER, float(per_ring)
    return (ALL, 0.0) if per_ring == "all" else (RATIO, float(per_ring.removeprefix("ratio:")))


@kernel(inline="always")
def first_undecided_word(last, words, num_nodes):
    """The first word of the lowest nodes that a list which ends at rank `last` does not decide.

    `words` where it decides all of them; `last` is -1 where the list is the whole ball.
    """
    return (last + 1) >> 6 if 0 <= last < min(64 * words, num_nodes) - 1 else words


@kernel
def target_size(kind, value, size):
    """How many members of a ring of this size are wanted."""
    if kind == ALL:
        return size
    if kind == RATIO:
        # the small subtraction keeps 28 % of 25 at 7: in binary fractions it is a little more
        return min(size, np.int64(np.ceil(value * size - 1e-9)))
    return min(size, np.int64(value))


def target_sizes(per_ring: int | str, ring_size: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many members of rings of these sizes `rings.per_ring` asks for.

    >>> wanted("ratio:0.2", np.array([0, 1, 11, 15]))
    array([0, 1, 3, 3])
    """
    kind, value = parse_per_ring(per_ring)
    if kind == RATIO:
        return np.minimum(ring_size, np.ceil(value * ring_size - 1e-9).astype(np.int64))
    return ring_size if kind == ALL else np.minimum(ring_size, int(value))
