"""Reading ring samples: only what the manifest names, verified when first opened."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from gscl_scale.errors import FolderError
from gscl_scale.io.arrow import map_array
from gscl_scale.io.checksum import sha256_of
from gscl_scale.io.validate import FileEntry, size_of
from gscl_scale.io.verdicts import Verdicts
from gscl_scale.kernels.kernel import kernel
from gscl_scale.machine import expect_random_reads, num_cores, release_mapped_pages
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sample import Lists, RingSample, copy_lists, offsets_of
from gscl_scale.shards.format import map_part, map_priorities, part_path, priorities_path, weights_path
from gscl_scale.shards.plan import MANIFEST, read_manifest
from gscl_scale.shards.records import Manifest, PartRecord, RoundEntry

_Place = tuple[RingSample, npt.NDArray[np.int64], npt.NDArray[np.int64]]  # of anchors: a part, rows there, and which

VERDICTS = Verdicts()  # of this process
_FEW, _KEPT = 0.25, 256 << 20  # the most anchors, of all, and bytes that a training keeps in memory
_MAPPED = 4 << 30  # bytes of mapped files in memory above which a reader gives back its own


@dataclass(frozen=True)
class Samples:
    """A finished samples folder."""

    folder: Path
    manifest: Manifest
    verdicts: Verdicts = field(default=VERDICTS, compare=False)

    @classmethod
    def open(cls, folder: Path, verdicts: Verdicts = VERDICTS) -> "Samples":
        """Read the manifest; nothing else is trusted. Other files are checked once as `verdicts` remember it."""
        if not (folder / MANIFEST).exists():
            raise FolderError(f"{folder} holds no finished samples; run gscl-scale precompute first")
        return cls(folder, read_manifest(folder), verdicts)

    def identity(self) -> dict[str, object]:
        """What the samples depend on: equal identities mean equal samples, whatever is on disk at the moment."""
        return {"graph_fingerprint": self.manifest["graph_fingerprint"], "rings": self.manifest["rings"]}

    @property
    def num_rounds(self) -> int:
        """Rounds on disk."""
        return len(self.manifest["rounds"])

    @property
    def num_parts(self) -> int:
        """Parts of each round."""
        return len(self._entry(0)["parts"])

    def entry(self, number: int) -> RoundEntry | None:
        """A round in the manifest, if it is on disk."""
        return self.manifest["rounds"][number] if number < self.num_rounds else None

    def _entry(self, number: int) -> RoundEntry:
        if (entry := self.entry(number)) is None:
            raise FolderError(f"{self.folder} does not hold round {number}; run gscl-scale precompute again")
        return entry

    def part_record(self, number: int, part: int) -> PartRecord:
        """A part of a round in the manifest."""
        return self._entry(number)["parts"][part]

    def round(self, number: int) -> "RoundReader":
        """Map a round, after comparing its files with the manifest's checksums."""
        shared = "priorities" in self._entry(number)
        with ThreadPoolExecutor(num_cores()) as pool:
            parts = list(pool.map(lambda part: self.part(number, part), range(self.num_parts)))
        priorities = self.priorities(number) if shared else None
        return RoundReader(self.folder, parts, priorities, self.weights(), number)

    def of_epoch(self, epoch: int) -> "RoundReader":
        """The round of an epoch: rounds are used in turn."""
        return self.round(epoch % self.num_rounds)

    def part(self, number: int, part: int, verify: bool = True) -> RingSample:
        """Map a part of a round, after comparing it with its checksum."""
        path, record = part_path(self.folder, number, part), self.part_record(number, part)
        _refuse(self._verdict_on_part(path, record) if verify else self._flaw_of_part(path, record))
        return map_part(path)

    def priorities(self, number: int) -> Priorities:
        """Map the priorities of a round, after comparing them with their checksum."""
        path = priorities_path(self.folder, number)
        _refuse(self._verdict_on_priorities(path, self._entry(number)["priorities"]))
        return map_priorities(path)

    def check(self, number: int) -> Iterator[str]:
        """The verdicts on the files of a round, one after the other: once all are known, the round opens at once."""
        entry = self._entry(number)
        for part, record in enumerate(entry["parts"]):
            yield self._verdict_on_part(part_path(self.folder, number, part), record)
        if "priorities" in entry:
            yield self._verdict_on_priorities(priorities_path(self.folder, number), entry["priorities"])

    def weights(self) -> npt.NDArray[np.float64] | None:
        """Map the weights of the nodes, after comparing them with their checksum; None where sampling is uniform."""
        if "weights" not in self.manifest:
            return None
        path, entry = weights_path(self.folder), self.manifest["weights"]
        _refuse(self.verdicts.of(path, entry, lambda: _difference(path, entry)))
        weights = map_array(path, "weight", "double")
        if weights.size != self.manifest["num_nodes"]:
            raise FolderError(_damage(path, "expected a weight for each node"))
        return weights

    def _verdict_on_part(self, path: Path, record: PartRecord) -> str:
        expected = [record, self.manifest["num_nodes"]]
        return self.verdicts.of(path, expected, lambda: _difference(path, record) or self._flaw_of_part(path, record))

    def _flaw_of_part(self, path: Path, record: PartRecord) -> str:
        flaw = flaw_of_part(map_part(path), record["anchors"][0], record["rows"], self.manifest["num_nodes"])
        return _damage(path, flaw) if flaw else ""

    def _verdict_on_priorities(self, path: Path, entry: FileEntry) -> str:
        def find() -> str:
            if difference := _difference(path, entry):
                return difference
            flaw = flaw_of_priorities(map_priorities(path), self.manifest["num_nodes"])
            return _damage(path, flaw) if flaw else ""

        return self.verdicts.of(path, [entry, self.manifest["num_nodes"]], find)


class RoundSource(Protocol):
    """Rounds by number, however they come to be."""

    @property
    def num_rounds(self) -> int:
        """The number of rounds; later epochs use them in turn."""
        ...

    def of_epoch(self, epoch: int) -> "RoundReader":
        """The round of an epoch, counted from 0."""
        ...


@dataclass(frozen=True)
class RoundReader:
    """The samples of one round, mapped from `folder`; priorities are None where every anchor drew its own.

    weights [N]   the priorities were drawn with these; None: sampling was uniform
    number        of the round
    gaps          whether the parts have only some of the anchors
    """

    folder: Path
    parts: list[RingSample]
    priorities: Priorities | None
    weights: npt.NDArray[np.float64] | None = None
    number: int = 0
    gaps: bool = False

    def check_nodes(self, num_nodes: int) -> None:
        """FolderError where these are the samples of a graph with another number of nodes."""
        if (ours := sum(part.anchors.size for part in self.parts)) != num_nodes:
            raise FolderError(f"{self.folder} holds samples of {ours:,} nodes, expected {num_nodes:,}; sample again")

    def in_any_order(self, anchors: npt.NDArray[np.int64] | None) -> "RoundReader":
        """The reader for ascending anchors, None for all, that will be asked for in no order.

        Few are kept in memory, for which each part is read once; of many, pages are read as they are asked for, without
        those around.
        """
        if anchors is not None and self.keeps(anchors):
            return self.in_memory(anchors)
        expect_random_reads(self.folder)
        return self

    def keeps(self, anchors: npt.NDArray[np.int64]) -> bool:
        """Whether these anchors are few."""
        return are_few(anchors.size, sum(part.anchors.size for part in self.parts), self._anchor_bytes())

    def bytes_of(self, anchors: npt.NDArray[np.int64]) -> float:
        """About how many bytes the samples of some anchors take in memory."""
        return anchors.size * self._anchor_bytes()

    def in_memory(self, anchors: npt.NDArray[np.int64]) -> "RoundReader":
        """The samples of ascending anchors, read once, part by part."""
        part_of = np.searchsorted(self._starts(), anchors, side="right") - 1
        numbers = np.unique(part_of) if anchors.size else [0]
        return replace(self, parts=[self._some(part, anchors[part_of == part]) for part in numbers], gaps=True)

    def _some(self, part: int, anchors: npt.NDArray[np.int64]) -> RingSample:
        """The samples of some anchors of a part, which is read whole."""
        whole = map_part(part_path(self.folder, self.number, part), whole=True)
        return replace(self, parts=[whole]).take(anchors)

    def _starts(self) -> npt.NDArray[np.int64]:
        """The first anchor of each part."""
        return np.array([part.anchors[0] for part in self.parts])

    def _anchor_bytes(self) -> float:
        """Bytes of the samples of an anchor, on average over the first part."""
        part = self.parts[0]
        lists = sum(each.members.nbytes + each.offsets.nbytes for each in (*part.lists, part.near) if each)
        columns = (part.anchors, part.decided, part.ring_size, part.ring_size_exact)
        return (lists + sum(column.nbytes for column in columns)) / part.anchors.size

    def decided(self, anchors: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The column `decided` of some anchors."""
        decided = np.empty(anchors.size, np.float64)
        for part, rows, places in self._where(anchors):
            decided[places] = part.decided[rows]
        return decided

    def take(self, anchors: npt.NDArray[np.int64]) -> RingSample:
        """The samples of some anchors, in the order asked for."""
        release_mapped_pages(_MAPPED, self.folder)
        where, first = list(self._where(anchors)), self.parts[0]
        columns = [
            _take_lists([part.lists[level] for part, _, _ in where], where, anchors.size, first.beyond.members.dtype)
            for level in range(len(first.lists))
        ]
        decided = np.empty(anchors.size, np.float64)
        sizes = np.empty((anchors.size, len(first.rings)), first.ring_size.dtype)
        exact = np.empty(anchors.size, np.bool_)
        for part, rows, places in where:
            decided[places] = part.decided[rows]
            sizes[places] = part.ring_size[rows]
            exact[places] = part.ring_size_exact[rows]
        words = [part.near for part, _, _ in where if part.near is not None]
        near = _take_lists(words, where, anchors.size, np.uint64) if first.near is not None else None
        return RingSample(anchors, columns[:-1], columns[-1], decided, sizes, exact, near)

    def _where(self, anchors: npt.NDArray[np.int64]) -> Iterator[_Place]:
        """The parts that hold anchors, with their rows there and their places among the anchors."""
        if not anchors.size:
            return
        part_of = np.searchsorted(self._starts(), anchors, side="right") - 1
        order = np.argsort(part_of, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(part_of[order])) + 1):
            part, some = self.parts[part_of[places[0]]], anchors[places]
            yield part, np.searchsorted(part.anchors, some) if self.gaps else some - part.anchors[0], places


def are_few(anchors: int, num_nodes: int, anchor_bytes: float) -> bool:
    """Whether a training reads the samples of its anchors once into memory."""
    return anchors <= _FEW * num_nodes and anchors * anchor_bytes <= _KEPT


def _take_lists(of_part: list[Lists], where: list[_Place], num_anchors: int, dtype: npt.DTypeLike) -> Lists:
    lengths = np.empty(num_anchors, np.int64)
    for lists, (_, rows, places) in zip(of_part, where, strict=True):
        lengths[places] = lists.offsets[rows + 1] - lists.offsets[rows]
    offsets = offsets_of(lengths)
    members = np.empty(offsets[-1], dtype)
    for lists, (_, rows, places) in zip(of_part, where, strict=True):
        copy_lists(lists.members, lists.offsets[rows], places, offsets, members)
    return Lists(offsets, members)


def _refuse(verdict: str) -> None:
    if verdict:
        raise FolderError(verdict)


def _damage(path: Path, flaw: str) -> str:
    return f"{path} is damaged: {flaw}; run gscl-scale precompute again"


def _difference(path: Path, entry: FileEntry) -> str:
    """In what a file differs from its entry in the manifest; "" where it does not."""
    size = size_of(path) if path.exists() else -1
    if size == entry["bytes"] and sha256_of(path) == entry["sha256"]:
        return ""
    got = "no file" if size < 0 else f"{size} bytes" if size != entry["bytes"] else "other content"
    return (
        f"{path}: expected {entry['bytes']} bytes with the checksum in the manifest, got {got}; "
        "run gscl-scale precompute again to repair it"
    )


def flaw_of_part(sample: RingSample, first: int, rows: int, num_nodes: int) -> str:
    """What is wrong with the samples of the anchors from `first` on; "" where nothing is."""
    if not np.array_equal(sample.anchors, np.arange(first, first + rows)):
        return f"expected the anchors {first:,} to {first + rows - 1:,} in ascending order"
    if not sample.rings or (sample.ring_size < 0).any() or sample.ring_size.shape != (rows, len(sample.rings)):
        return f"expected a size of each of {len(sample.rings)} rings"
    if len({lists.members.dtype for lists in sample.lists}) > 1 or np.isnan(sample.decided).any():
        return "columns are of different types, or have numbers that are none"
    names = [*(f"ring_{hop}" for hop in range(1, len(sample.rings) + 1)), "beyond", "near"]
    for name, lists in zip(names, (*sample.lists, sample.near), strict=True):
        if lists is None:
            continue
        offsets, members = lists.offsets, lists.members
        if offsets.size != rows + 1 or offsets[0] < 0 or offsets[-1] > members.size or (np.diff(offsets) < 0).any():
            return f"{name} has no {rows:,} lists"
        # as unsigned numbers, negative ones are the highest
        if name != "near" and members.size and members.view(f"u{members.itemsize}").max() >= num_nodes:
            return f"{name} names nodes outside 0 to {num_nodes - 1:,}"
    return ""


def flaw_of_priorities(priorities: Priorities, num_nodes: int) -> str:
    """What is wrong with the priorities of a round; "" where nothing is."""
    order, priority = priorities.order, priorities.priority
    if order.size != num_nodes or priority.size != num_nodes or not _is_permutation(order):
        return f"expected each of {num_nodes:,} nodes once"
    return "" if _ascend(priority) else "expected ascending priorities"


@kernel
def _is_permutation(order):
    seen = np.zeros((order.size + 63) >> 6, np.uint64)
    for node in order:
        if not 0 <= node < order.size:
            return False
        bit = np.uint64(1) << np.uint64(node & 63)
        if seen[node >> 6] & bit:
            return False
        seen[node >> 6] |= bit
    return True


@kernel
def _ascend(values):
    """Whether no value is below the one before it, and all are numbers."""
    ascend = values.size == 0 or not np.isnan(values[0])
    for i in range(1, values.size):
        ascend &= values[i] >= values[i - 1]
    return ascend
