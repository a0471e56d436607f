"""The sample of a range of anchors, as every engine returns it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.kernel import kernel

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
    near                  a bit for each of the M lowest nodes of the round, set if it is within k hops: the last of
                          M / 64 words, from the one where the nodes end whose priority is below `decided`; no word
                          where these are all M. None: samples of an older version do not have them
    """

    anchors: npt.NDArray[np.int64]
    rings: list[Lists]
    beyond: Lists
    decided: npt.NDArray[np.float64]
    ring_size: npt.NDArray[np.int64]
    ring_size_exact: npt.NDArray[np.bool_]
    near: Lists | None


def near_lists(bits: npt.NDArray[np.uint64], first: npt.NDArray[np.int64]) -> Lists:
    """Of each row [A, M / 64] the words from the `first` on, as lists."""
    words = bits.shape[1]
    offsets = np.concatenate([[0], np.cumsum(words - first)]).astype(np.int64)
    return Lists(offsets, bits[np.arange(words) >= first[:, None]])


def rename_nodes(sample: RingSample, anchors: npt.NDArray[np.int64], name_of: npt.NDArray[np.int64]) -> RingSample:
    """The same samples where node u is called name_of[u], for anchors of these names."""
    return replace(
        sample,
        anchors=anchors,
        rings=[_rename(ring, name_of) for ring in sample.rings],
        beyond=_rename(sample.beyond, name_of),
    )


def _rename(lists: Lists, name_of: npt.NDArray[np.int64]) -> Lists:
    return Lists(lists.offsets, name_of[lists.members].astype(lists.members.dtype))


def replace_rows(sample: RingSample, rows: npt.NDArray[np.int64], other: RingSample) -> RingSample:
    """The sample with the anchors at `rows` as `other` has them, in the same order."""
    decided, sizes, exact = sample.decided.copy(), sample.ring_size.copy(), sample.ring_size_exact.copy()
    decided[rows], sizes[rows], exact[rows] = other.decided, other.ring_size, other.ring_size_exact
    return RingSample(
        sample.anchors,
        [replace_lists(mine, rows, theirs) for mine, theirs in zip(sample.rings, other.rings, strict=True)],
        replace_lists(sample.beyond, rows, other.beyond),
        decided,
        sizes,
        exact,
        None if sample.near is None or other.near is None else replace_lists(sample.near, rows, other.near),
    )


def replace_lists(lists: Lists, rows: npt.NDArray[np.int64], other: Lists) -> Lists:
    """The lists with those at `rows` as `other` has them, in the same order."""
    source = np.full(lists.offsets.size - 1, -1, np.int64)
    source[rows] = np.arange(rows.size)
    lengths = lists.lengths().copy()
    lengths[rows] = other.lengths()
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    members = np.empty(offsets[-1], lists.members.dtype)
    _copy_rows(lists.offsets, lists.members, other.offsets, other.members, source, offsets, members)
    return Lists(offsets, members)


@kernel
def _copy_rows(offsets, members, other_offsets, other_members, source, out_offsets, out):  # type: ignore[no-untyped-def]
    """Rows of their own in runs, those of the other one by one."""
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


def parse_per_ring(per_ring: int | str) -> tuple[int, float]:
    """The setting `rings.per_ring` as (kind, value) for kernels."""
    if isinstance(per_ring, int):
        return NUMBER, float(per_ring)
    return (ALL, 0.0) if per_ring == "all" else (RATIO, float(per_ring.removeprefix("ratio:")))


@kernel(inline="always")
def first_open_word(last, words, num_nodes):  # type: ignore[no-untyped-def]
    """The first of the words of the lowest nodes about which a list does not decide that ends at rank `last` (-1: all
    are decided); `words` where it decides about all of them.
    """
    return (last + 1) >> 6 if 0 <= last < min(64 * words, num_nodes) - 1 else words


@kernel
def wanted_of(kind, value, size):  # type: ignore[no-untyped-def]
    """How many members of a ring of `size` are asked for."""
    if kind == ALL:
        return size
    if kind == RATIO:
        # the small subtraction keeps 28 % of 25 at 7: in binary fractions it is a little more
        return min(size, np.int64(np.ceil(value * size - 1e-9)))
    return min(size, np.int64(value))


def wanted(per_ring: int | str, ring_size: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many members of rings of these sizes the setting `rings.per_ring` asks for.

    >>> wanted("ratio:0.2", np.array([0, 1, 11, 15]))
    array([0, 1, 3, 3])
    """
    kind, value = parse_per_ring(per_ring)
    if kind == RATIO:
        return np.minimum(ring_size, np.ceil(value * ring_size - 1e-9).astype(np.int64))
    return ring_size if kind == ALL else np.minimum(ring_size, int(value))
