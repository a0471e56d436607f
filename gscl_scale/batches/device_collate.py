"""The batches of `collate`, bit for bit, made in plain torch from a round that lies on the device.

Shapes as in `collate`: A anchors, C candidates, U distinct nodes; and L levels (k rings, then beyond), Z lists of these
anchors (A x L, anchor by anchor), S stored members of these lists, P members in use.

What decides the shapes (lengths of lists) and the draw of the candidates is computed on the host, by the functions of
`collate`; only the number of distinct nodes is asked of the device. All numbers travel in one copy.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gscl_scale.batches.collate import (
    Batch,
    Candidates,
    Pairs,
    asked_negatives,
    count_members,
    draw_candidates,
    member_key,
)
from gscl_scale.config.loss import LossConfig
from gscl_scale.config.sections import RingsConfig, TrainConfig
from gscl_scale.model.keyed_random import mix, signed
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sample import offsets_of
from gscl_scale.rings.sketch.level import near_words
from gscl_scale.shards.reader import RoundReader

_HIGHEST_BIT = -(1 << 63)


@dataclass(frozen=True)
class DeviceRound:
    """The samples of all N nodes of a round on a device, and on the host what decides the shapes of batches.

    members              of all lists, level by level, each in the order of the anchors
    starts [N, L]        where each list begins in `members`
    lengths [N, L]       of the lists, on the host
    ring_size [N, k]     on the host; `ring_size_there` on the device
    decided [N]          as in `RingSample`
    near                 offsets [N + 1], and words as signed numbers; None where samples do not have them
    """

    members: Tensor
    starts: Tensor
    lengths: npt.NDArray[np.int64]
    ring_size: npt.NDArray[np.int64]
    ring_size_there: Tensor
    decided: Tensor
    near: tuple[Tensor, Tensor] | None
    priorities: Priorities | None

    @classmethod
    def of(cls, reader: RoundReader, device: torch.device) -> "DeviceRound":
        """Copy a round, part by part."""
        parts, first = reader.parts, reader.parts[0]
        lengths = np.concatenate([np.stack([lists.lengths() for lists in part.lists], axis=1) for part in parts])
        lengths = lengths.astype(np.int64)  # offsets of mapped parts are shorter
        starts = offsets_of(lengths.T.ravel())[:-1].reshape(lengths.T.shape).T
        levels = range(len(first.lists))
        ring_size = np.concatenate([part.ring_size for part in parts])
        near = None
        if first.near is not None:
            words = [part.near for part in parts if part.near is not None]
            offsets = offsets_of(np.concatenate([lists.lengths() for lists in words]))
            bits = _joined([_of(lists.offsets, lists.members).view(np.int64) for lists in words], device)
            near = (torch.from_numpy(offsets).to(device), bits)
        return cls(
            members=_joined([_of(p.lists[n].offsets, p.lists[n].members) for n in levels for p in parts], device),
            starts=torch.from_numpy(np.ascontiguousarray(starts)).to(device),
            lengths=lengths,
            ring_size=ring_size,
            ring_size_there=torch.from_numpy(ring_size).to(device),
            decided=_joined([part.decided for part in parts], device),
            near=near,
            priorities=reader.priorities,
        )

    @staticmethod
    def bytes_of(reader: RoundReader) -> int:
        """Bytes that a round takes on a device."""
        lists = [one for part in reader.parts for one in (*part.lists, part.near) if one is not None]
        entries = sum(int(one.offsets[-1] - one.offsets[0]) * one.members.itemsize for one in lists)
        columns = [len(part.lists) + 1 + part.ring_size.shape[1] + (part.near is not None) for part in reader.parts]
        rows = sum(8 * part.anchors.size * number for part, number in zip(reader.parts, columns, strict=True))
        return entries + rows + 8 * (reader.parts[0].near is not None)

    def collate(
        self,
        anchors: npt.NDArray[np.int64],
        decided_of_all: npt.NDArray[np.float64],
        rings: RingsConfig,
        train: TrainConfig,
        loss: LossConfig,
        epoch: int,
        step: int,
    ) -> Batch:
        """`collate` of the samples of these anchors."""
        num_nodes, words = self.lengths.shape[0], self._words(rings)
        host = self.host_part(anchors, decided_of_all, rings, train, step)
        stored_AL, count_AL = host.stored_AL, host.count_AL
        on_device = _Travelled.of(host, self.decided.device)

        list_S, member_S = self._stored(on_device, int(stored_AL.sum()))
        row_S = list_S // stored_AL.shape[1]
        decided = _without_stored(self._decide(on_device, words), on_device.candidates, row_S, member_S, num_nodes)
        if train.members == "random":
            member_S = _shuffled(member_key(train, epoch), on_device, list_S, member_S)
        list_P, within_P = _entries(on_device.count_AL, int(count_AL.sum()))
        member_P = member_S[_begins(on_device.stored_AL)[list_P] + within_P]
        nodes, place_N = _distinct([on_device.anchors, on_device.candidates, member_P], num_nodes)
        widths = np.maximum(count_AL.max(axis=0, initial=0), 1)
        return Batch(
            nodes=nodes,
            anchors=place_N[on_device.anchors].long(),
            pairs=_pairs(on_device.count_AL, list_P, place_N[member_P], nodes.shape[0]),
            present=[
                torch.arange(int(width), device=nodes.device) < count_A[:, None]
                for width, count_A in zip(widths, on_device.count_AL.unbind(dim=1), strict=True)
            ],
            candidates=place_N[on_device.candidates].long(),
            decided=decided,
            log_weight=self._log_weight(on_device, decided) if loss.weighting == "size" else None,
            whole_size=decided_of_all.size,
            asked=asked_negatives(self.priorities, train, num_nodes),
        )

    def host_part(
        self,
        anchors: npt.NDArray[np.int64],
        decided_of_all: npt.NDArray[np.float64],
        rings: RingsConfig,
        train: TrainConfig,
        step: int,
    ) -> "HostPart":
        """What decides the shapes of a batch."""
        drawn = draw_candidates(decided_of_all, self.priorities, 64 * self._words(rings), train, step)
        stored_AL, sizes_AK = self.lengths[anchors], self.ring_size[anchors]
        count_AL = stored_AL.copy()
        for hop in range(sizes_AK.shape[1]):
            count_AL[:, hop] = count_members(stored_AL[:, hop], sizes_AK[:, hop], rings, train)
        return HostPart(anchors, stored_AL, count_AL, drawn)

    def _words(self, rings: RingsConfig) -> int:
        return 0 if self.near is None else near_words(rings.width, self.lengths.shape[0])

    def _stored(self, on_device: "_Travelled", number: int) -> tuple[Tensor, Tensor]:
        """All stored members of the anchors, list after list: which list [S], and the node [S]."""
        list_S, within_S = _entries(on_device.stored_AL, number)
        start_Z = self.starts[on_device.anchors].view(-1)
        return list_S, self.members[start_Z[list_S] + within_S].long()

    def _decide(self, on_device: "_Travelled", words: int) -> Tensor:
        """Which candidates are below the priority of an anchor, or far by its bits, and not the anchor [A, C]."""
        anchors, ranks = on_device.anchors, on_device.ranks
        decided = on_device.priority < self.decided[anchors][:, None]
        if self.near is not None and self.near[1].shape[0] and ranks.shape[0]:
            offsets, bits = self.near
            first, end, word = offsets[anchors][:, None], offsets[anchors + 1][:, None], ranks >> 6
            at = end - words + word
            known = (word < words) & (at >= first)
            bit = bits[torch.where(known, at, 0)] >> (ranks & 63)
            decided = torch.where(known, (bit & 1) == 0, decided)
        return decided & (on_device.candidates != anchors[:, None])

    def _log_weight(self, on_device: "_Travelled", decided: Tensor) -> Tensor:
        """`collate`'s log of |ring| / members in use, in the same order of operations."""
        size_AK = self.ring_size_there[on_device.anchors]
        used_AL = on_device.count_AL.clone()
        used_AL[:, -1] += decided.sum(dim=1)
        beyond_A = torch.maximum(self.lengths.shape[0] - 1 - size_AK.sum(dim=1), used_AL[:, -1])
        whole_AL = torch.cat([size_AK, beyond_A[:, None]], dim=1).double()
        ratio_AL = torch.where(used_AL > 0, whole_AL / used_AL.double(), 1.0)
        return ratio_AL.clamp(min=1e-30).log().float()


@dataclass(frozen=True)
class HostPart:
    """What is computed on the host for a batch, and travels to the device.

    anchors [A]
    stored_AL, count_AL   lengths of the lists, and how many of their members are in use
    drawn                 the candidates
    """

    anchors: npt.NDArray[np.int64]
    stored_AL: npt.NDArray[np.int64]
    count_AL: npt.NDArray[np.int64]
    drawn: Candidates


@dataclass(frozen=True)
class _Travelled:
    """A `HostPart` on the device: candidates, their ranks and priority [C]."""

    anchors: Tensor
    stored_AL: Tensor
    count_AL: Tensor
    candidates: Tensor
    ranks: Tensor
    priority: Tensor

    @classmethod
    def of(cls, host: HostPart, device: torch.device) -> "_Travelled":
        """In one copy from pinned memory, which nobody waits for."""
        drawn, shape = host.drawn, host.stored_AL.shape
        lists = (host.stored_AL.ravel(), host.count_AL.ravel())
        parts = [host.anchors, *lists, drawn.nodes, drawn.ranks, drawn.priority.view(np.int64)]
        packed = torch.from_numpy(np.concatenate([part.astype(np.int64, copy=False) for part in parts]))
        if device.type == "cuda":
            with torch.cuda.device(device):  # other threads of this process have another
                packed = packed.pin_memory()
        there = torch.split(packed.to(device, non_blocking=True), [part.size for part in parts])
        stored, count = (lengths.view(shape) for lengths in there[1:3])
        return cls(there[0], stored, count, there[3], there[4], there[5].view(torch.float64))


def _joined(arrays: list[npt.NDArray[Any]], device: torch.device) -> Tensor:
    """Arrays one after another on the device; of mapped ones only one is in memory at a time."""
    kind = torch.from_numpy(np.empty(0, arrays[0].dtype)).dtype
    out = torch.empty(sum(array.size for array in arrays), dtype=kind, device=device)
    for part, array in zip(torch.split(out, [array.size for array in arrays]), arrays, strict=True):
        part.copy_(torch.from_numpy(np.array(array)))
    return out


def _of(offsets: npt.NDArray[np.int64], members: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return members[offsets[0] : offsets[-1]]


def _begins(length_AL: Tensor) -> Tensor:
    """Where lists that follow each other begin [Z]."""
    return length_AL.view(-1).cumsum(0) - length_AL.view(-1)


def _entries(length_AL: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """The list of each of so many entries of lists that follow each other, and its place within the list."""
    every_Z = torch.arange(length_AL.numel(), device=length_AL.device)
    which = torch.repeat_interleave(every_Z, length_AL.view(-1), output_size=number)
    return which, torch.arange(number, device=which.device) - _begins(length_AL)[which]


def _shuffled(key: np.uint64, on_device: _Travelled, list_S: Tensor, member_S: Tensor) -> Tensor:
    """The members with each ring in an order keyed by (key, anchor, member); far nodes stay as they are.

    Keys are distinct within a list, since `mix` loses nothing, so every sort gives the order of `collate`. It compares
    unsigned numbers, which are in the order of signed ones once their highest bit is turned.
    """
    levels = on_device.stored_AL.shape[1]
    own_S = signed(int(key)) ^ mix(on_device.anchors[list_S // levels] + 1)
    drawn_S = mix(own_S ^ mix(member_S + 1)) ^ _HIGHEST_BIT
    in_order_S = torch.arange(list_S.shape[0], device=list_S.device)
    by_key = torch.where(list_S % levels == levels - 1, in_order_S, drawn_S).argsort()
    return member_S[by_key[list_S[by_key].argsort(stable=True)]]


def _without_stored(decided: Tensor, candidates: Tensor, row_S: Tensor, member_S: Tensor, num_nodes: int) -> Tensor:
    """`decided` without the candidates that an anchor stores. Nodes that are none have a column, which is cut off."""
    rows, columns = decided.shape
    column_N = torch.full((num_nodes,), columns, device=candidates.device)
    column_N[candidates] = torch.arange(columns, device=candidates.device)
    padded = torch.cat([decided, decided.new_zeros(rows, 1)], dim=1)
    padded.view(-1).index_fill_(0, row_S * (columns + 1) + column_N[member_S], False)
    return padded[:, :columns].contiguous()


def _distinct(nodes: list[Tensor], num_nodes: int) -> tuple[Tensor, Tensor]:
    """Distinct nodes, ascending, and the place of each node of the graph among them (int32)."""
    used_N = torch.zeros(num_nodes, dtype=torch.bool, device=nodes[0].device)
    for part in nodes:
        used_N.index_fill_(0, part, True)
    return used_N.nonzero().squeeze(1), used_N.cumsum(0, dtype=torch.int32) - 1


def _pairs(count_AL: Tensor, list_P: Tensor, place_P: Tensor, num_nodes: int) -> Pairs:
    """The pattern of pairs and its transpose, whose entries of a node stay in the order of the pairs."""
    count_A = count_AL.sum(dim=1)
    indptr = torch.cat([count_A.new_zeros(1), count_A.cumsum(0)]).int()
    ascending_P, order_P = place_P.sort(stable=True)
    every_U1 = torch.arange(num_nodes + 1, dtype=torch.int32, device=place_P.device)
    back_indptr = torch.searchsorted(ascending_P, every_U1, out_int32=True)
    row_P = (list_P // count_AL.shape[1]).int()
    return Pairs(indptr, place_P, back_indptr, row_P[order_P], order_P.int())
