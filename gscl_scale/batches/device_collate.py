"""The batches of `collate`, bit for bit, made in plain torch from a round that lies on the device.

Shapes as in `collate`: A anchors, C candidates, U distinct nodes; and L levels (k rings, then beyond), Z lists of these
anchors (A x L, anchor by anchor), S stored members of these lists, P members in use. C1 is C + 1: tables of candidates
have a last column for nodes that are none, and N1 is N + 1.

The host draws the candidates and computes what depends on the lengths of lists, in few numbers per anchor or list: each
operation on the device costs the host more than the numbers of a whole batch do in a kernel of numba. They travel in
one copy. Only the number of distinct nodes is asked of the device, and not even this where a batch may name each node
of the graph and all of them are encoded anyway: then it has all nodes.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gscl_scale.batches.collate import Batch, Pairs, asked_negatives, draw_candidates, member_key
from gscl_scale.batches.host_part import (
    HostPart,
    Numbers,
    empty,
    fill_anchors,
    fill_candidates,
    fill_keys,
    fill_lists,
    layout_of,
)
from gscl_scale.config.loss import LossConfig
from gscl_scale.config.sections import RingsConfig, TrainConfig
from gscl_scale.model.keyed_random import mix
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sample import offsets_of, parse_per_ring
from gscl_scale.rings.sketch.level import near_words
from gscl_scale.shards.reader import RoundReader

_HIGHEST_BIT = -(1 << 63)
_NO_OFFSETS = np.zeros(0, np.int64)


@dataclass(frozen=True)
class DeviceRound:
    """The samples of all N nodes of a round: members and words on a device, the rest on the host.

    members            of all lists, level by level, each in the order of the anchors
    offsets [N1, L]    where the lists of each anchor begin in `members`, and those of the anchor before it end
    ring_size [N, k]
    decided [N]        as in `RingSample`
    near               offsets [N1], and words as signed numbers; None where samples do not have them
    """

    members: Tensor
    offsets: npt.NDArray[np.int64]
    ring_size: npt.NDArray[np.int64]
    decided: npt.NDArray[np.float64]
    near: tuple[npt.NDArray[np.int64], Tensor] | None
    priorities: Priorities | None

    @classmethod
    def of(cls, reader: RoundReader, device: torch.device) -> "DeviceRound":
        """Copy a round, part by part."""
        parts, first = reader.parts, reader.parts[0]
        levels = range(len(first.lists))
        lengths = np.concatenate([np.stack([lists.lengths() for lists in part.lists], axis=1) for part in parts])
        begins = offsets_of(lengths.sum(axis=0))
        near = None
        if first.near is not None:
            words = [part.near for part in parts if part.near is not None]
            offsets = offsets_of(np.concatenate([lists.lengths() for lists in words]))
            near = (offsets, _joined([_of(lists.offsets, lists.members).view(np.int64) for lists in words], device))
        return cls(
            members=_joined([_of(p.lists[n].offsets, p.lists[n].members) for n in levels for p in parts], device),
            offsets=np.cumsum(np.concatenate([begins[None, :-1], lengths]), axis=0),
            ring_size=np.concatenate([part.ring_size for part in parts]),
            decided=np.concatenate([part.decided for part in parts]),
            near=near,
            priorities=reader.priorities,
        )

    @staticmethod
    def bytes_of(reader: RoundReader) -> int:
        """Bytes that a round takes on a device."""
        lists = [one for part in reader.parts for one in (*part.lists, part.near) if one is not None]
        return sum(int(one.offsets[-1] - one.offsets[0]) * one.members.itemsize for one in lists)

    def collate(
        self,
        anchors: npt.NDArray[np.int64],
        decided_of_all: npt.NDArray[np.float64],
        rings: RingsConfig,
        train: TrainConfig,
        loss: LossConfig,
        epoch: int,
        step: int,
        all_encoded: bool = False,
    ) -> Batch:
        """`collate` of the samples of these anchors; `all_encoded` if each step encodes the whole graph."""
        host = self.host_part(anchors, decided_of_all, rings, train, loss, epoch, step)
        there = host.on(self.members.device)
        num_nodes, levels = self.ring_size.shape[0], len(host.widths)
        every = torch.arange(there.nodes.shape[0] + host.num_stored + 1, dtype=torch.int32, device=there.nodes.device)

        list_S, at_S = _entries(there.stored_end, there.stored_shift, every[: host.num_stored])
        row_S, member_S = list_S // levels, self.members.index_select(0, at_S)
        column_N = _columns(there.nodes[anchors.size :], every, num_nodes)
        decided = self._decide(there, row_S, column_N.index_select(0, member_S))
        if train.members == "random":
            member_S = _shuffled(there.key, levels, list_S, row_S, member_S)
        list_P, at_P = _entries(there.used_end, there.used_shift, every[: host.num_used], out_int32=True)
        member_P, row_P = member_S.index_select(0, at_P), list_P // levels
        nodes, number, places, place_P = None, num_nodes, there.nodes, member_P.int()
        if not all_encoded or places.shape[0] + host.num_used < num_nodes:
            nodes, place_N = _distinct([there.nodes, member_P.long()], num_nodes)
            number, places = nodes.shape[0], place_N.index_select(0, there.nodes).long()
            place_P = place_N.index_select(0, member_P)
        own, candidates = places.split_with_sizes([anchors.size, decided.shape[1]])
        return Batch(
            nodes=nodes,
            anchors=own,
            pairs=_pairs(there.indptr, row_P, place_P, every[: number + 1]),
            present=[
                every[:width] < count_A[:, None]
                for width, count_A in zip(host.widths, there.count.view(-1, levels).unbind(dim=1), strict=True)
            ],
            candidates=candidates,
            decided=decided,
            log_weight=_log_weight(there, levels, decided) if loss.weighting == "size" else None,
            whole_size=decided_of_all.size,
            asked=asked_negatives(self.priorities, train, num_nodes),
        )

    def host_part(
        self,
        anchors: npt.NDArray[np.int64],
        decided_of_all: npt.NDArray[np.float64],
        rings: RingsConfig,
        train: TrainConfig,
        loss: LossConfig,
        epoch: int,
        step: int,
    ) -> HostPart:
        """What the host computes for a batch."""
        num_nodes, levels = self.ring_size.shape[0], self.ring_size.shape[1] + 1
        words = 0 if self.near is None else near_words(rings.width, num_nodes)
        drawn = draw_candidates(decided_of_all, self.priorities, 64 * words, train, step)
        random, sized = train.members == "random", loss.weighting == "size"
        layout = layout_of(anchors.size, drawn.nodes.size, levels, self.near is not None, random, sized)
        packed, numbers = empty(layout, self.members.device)

        near_offsets = _NO_OFFSETS if self.near is None else self.near[0]
        fill_anchors(anchors, drawn.nodes, self.decided, near_offsets, words, numbers.nodes, numbers.own,
                     numbers.decided, numbers.near_first, numbers.near_whole)  # fmt: skip
        fill_candidates(drawn.nodes, drawn.ranks, drawn.priority, words, numbers.nodes[anchors.size :],
                        numbers.priority, numbers.word, numbers.bit)  # fmt: skip
        if random:
            fill_keys(member_key(train, epoch), anchors, numbers.key)
        if sized:
            sizes_AK, whole_AL = self.ring_size[anchors], numbers.whole.reshape(-1, levels)
            whole_AL[:, :-1], whole_AL[:, -1] = sizes_AK, num_nodes - 1 - sizes_AK.sum(axis=1)
        widths = np.ones(levels, np.int64)
        stored, used = fill_lists(
            anchors, self.offsets, self.ring_size, train.members == "stored", *parse_per_ring(rings.per_ring),
            numbers.stored_shift, numbers.stored_end, numbers.used_shift, numbers.used_end, numbers.count,
            numbers.indptr, widths,
        )  # fmt: skip
        return HostPart(packed, layout, stored, used, widths.tolist())

    def _decide(self, there: Numbers[Tensor], row_S: Tensor, column_S: Tensor) -> Tensor:
        """Which candidates are below the priority of an anchor, or far by its bits, and not it or stored [A, C]."""
        decided = there.priority < there.decided[:, None]
        if self.near is not None and self.near[1].shape[0]:
            at = there.near_whole[:, None] + there.word
            known = at >= there.near_first[:, None]
            bit = self.near[1].take(at.clamp_(min=0)) & there.bit
            decided = torch.where(known, bit == 0, decided)
        columns = decided.shape[1]
        decided.view(-1).index_fill_(0, there.own, False)
        decided.view(-1).index_fill_(0, torch.add(column_S, row_S, alpha=columns), False)
        return decided[:, :-1].contiguous()


def _joined(arrays: list[npt.NDArray[Any]], device: torch.device) -> Tensor:
    """Arrays one after another on the device; of mapped ones only one is in memory at a time."""
    kind = torch.from_numpy(np.empty(0, arrays[0].dtype)).dtype
    out = torch.empty(sum(array.size for array in arrays), dtype=kind, device=device)
    for part, array in zip(torch.split(out, [array.size for array in arrays]), arrays, strict=True):
        part.copy_(torch.from_numpy(np.array(array)))
    return out


def _of(offsets: npt.NDArray[np.int64], members: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return members[offsets[0] : offsets[-1]]


def _entries(end_Z: Tensor, shift_Z: Tensor, every: Tensor, out_int32: bool = False) -> tuple[Tensor, Tensor]:
    """The list of each of these entries of lists that follow each other, and its place where the shift leads."""
    which = torch.searchsorted(end_Z, every, right=True, out_int32=out_int32)
    return which, shift_Z.index_select(0, which) + every


def _columns(candidates: Tensor, every: Tensor, num_nodes: int) -> Tensor:
    """The column of each node in a table of candidates [N]; of others the last one."""
    number = candidates.shape[0]
    column_N = torch.full((num_nodes,), number, dtype=every.dtype, device=every.device)
    return column_N.index_copy_(0, candidates, every[:number])


def _shuffled(key_A: Tensor, levels: int, list_S: Tensor, row_S: Tensor, member_S: Tensor) -> Tensor:
    """The members with each ring in an order keyed by (key, anchor, member); far nodes stay as they are.

    Keys are distinct within a list, since `mix` loses nothing, so every sort gives the order of `collate`. It compares
    unsigned numbers, which are in the order of signed ones once their highest bit is turned.
    """
    drawn_S = mix(key_A.index_select(0, row_S) ^ mix(member_S.long() + 1)) ^ _HIGHEST_BIT
    in_order_S = torch.arange(list_S.shape[0], device=list_S.device)
    by_key = torch.where(list_S % levels == levels - 1, in_order_S, drawn_S).argsort()
    return member_S[by_key[list_S[by_key].argsort(stable=True)]]


def _distinct(nodes: list[Tensor], num_nodes: int) -> tuple[Tensor, Tensor]:
    """Distinct nodes, ascending, and the place of each node of the graph among them (int32): how many are lower."""
    used_N1 = torch.zeros(num_nodes + 1, dtype=torch.bool, device=nodes[0].device)
    used_N = used_N1[1:]
    for part in nodes:
        used_N.index_fill_(0, part, True)
    return used_N.nonzero().squeeze(1), used_N1[:-1].cumsum(0, dtype=torch.int32)


def _pairs(indptr: Tensor, row_P: Tensor, place_P: Tensor, every_U1: Tensor) -> Pairs:
    """The pattern of pairs and its transpose, whose entries of a node stay in the order of the pairs."""
    ascending_P, order_P = place_P.sort(stable=True)
    back_indptr = torch.searchsorted(ascending_P, every_U1, out_int32=True)
    return Pairs(indptr, place_P, back_indptr, row_P.index_select(0, order_P), order_P.int())


def _log_weight(there: Numbers[Tensor], levels: int, decided: Tensor) -> Tensor:
    """`collate`'s log of |ring| / members in use, in the same order of operations."""
    used_AL, whole_AL = there.count.view(-1, levels).double(), there.whole.view(-1, levels)
    used_A, beyond_A = used_AL[:, -1].add_(decided.sum(dim=1)), whole_AL[:, -1]
    torch.maximum(beyond_A, used_A, out=beyond_A)
    ratio_AL = (whole_AL / used_AL).masked_fill_(used_AL == 0, 1.0)
    return ratio_AL.clamp_(min=1e-30).log_().float()
