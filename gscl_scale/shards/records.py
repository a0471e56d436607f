"""Tasks of a round, the records of finished ones, and the manifest that names them: plain values."""

from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired

from typing_extensions import TypedDict

from gscl_scale.config.sections import RingsConfig
from gscl_scale.io.validate import Count, FileEntry, Number


@dataclass(frozen=True)
class _RoundTask:
    """The nodes first..end of a round.

    since     an earlier samples folder: only what changed since then is computed
    threads   whether all tasks run in one process, which then keeps a level in its memory
    """

    graph_folder: Path
    folder: Path
    round_number: int
    config: RingsConfig
    since: Path | None
    threads: bool
    first: int
    end: int


@dataclass(frozen=True)
class PassTask(_RoundTask):
    """The balls of one radius around a range of vertices.

    memory   bytes that the task may take for levels; 0: it reads the level before whole
    workers  threads that gather from a tile together
    """

    radius: int
    memory: int
    workers: int


@dataclass(frozen=True)
class PartTask(_RoundTask):
    """The samples of a range of anchors.

    memory   bytes that the task may take for searches; the last level of the sketch is then written too. 0: no bound
    """

    part: int
    memory: int


class PassRecord(TypedDict):
    """A finished pass over a block of vertices."""

    round_number: Count
    radius: Count
    first: Count
    end: Count
    checksum: Count


class PartRecord(FileEntry):
    """A finished part.

    members   entries of each ring and of beyond
    short     lists of each that the exact engine finished for the sketch; not in a manifest, nor for parts that were
              taken from an earlier run
    """

    round_number: Count
    part: Count
    members: list[Count]
    ring_size_sum: list[Count]
    short: NotRequired[list[Count]]
    rows: Count
    anchors: list[Count]


class RoundEntry(TypedDict):
    """A round in a manifest; it has no priorities where every anchor draws its own."""

    priorities: NotRequired[FileEntry]
    parts: list[PartRecord]


class SamplesHead(TypedDict):
    """What a samples folder is made from: the first line of a journal, and in every manifest. Format 1 is not named."""

    format: NotRequired[Count]
    graph_fingerprint: str
    rings: dict[str, object]


class Manifest(SamplesHead):
    """The manifest of a samples folder, as far as it is read; a round that is not on disk is null."""

    num_nodes: Count
    rounds_asked: Count
    mean_ring_size: list[Number]
    mean_stored: list[Number]
    rounds: list[RoundEntry | None]
    weights: NotRequired[FileEntry]


class Weights(TypedDict):
    """Which weights the nodes have: those of an earlier run, or of the graph; a manifest does not say which."""

    sha256: str
    earlier: NotRequired[bool]
