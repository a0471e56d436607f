"""Tasks of a round and what they report: plain values, cheap to send anywhere."""

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from gscl_scale.config.sections import RingsConfig


@dataclass(frozen=True)
class PassTask:
    """The balls of radius `radius` around the vertices first..end: plain values, cheap to send anywhere.

    since     an earlier samples folder, where only the vertices that `map_depths` names are needed
    threads   whether all tasks run in one process, which then keeps a level in its memory
    """

    graph_folder: Path
    folder: Path
    round_number: int
    radius: int
    first: int
    end: int
    config: RingsConfig
    since: Path | None = None
    threads: bool = False


@dataclass(frozen=True)
class PassRecord:
    """What is reported of a finished pass over a range of vertices."""

    round_number: int
    radius: int
    first: int
    end: int
    checksum: int

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class PartTask:
    """The samples of a range of anchors: plain values, cheap to send anywhere.

    since     an earlier samples folder, from which anchors are taken that have no other lists now
    threads   whether all tasks run in one process, which then keeps a level in its memory
    """

    graph_folder: Path
    folder: Path
    round_number: int
    part: int
    first_anchor: int
    end_anchor: int
    config: RingsConfig
    since: Path | None = None
    threads: bool = False


@dataclass(frozen=True)
class PartRecord:
    """What is reported of a finished part: a few bytes for the manifest.

    members   entries of each ring and of beyond
    short     lists of each that the exact engine finished for the sketch, of the anchors that were sampled now
    """

    round_number: int
    part: int
    anchors: tuple[int, int]
    rows: int
    bytes: int
    sha256: str
    members: list[int]
    ring_size_sum: list[int]
    short: list[int] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def for_manifest(self) -> dict[str, Any]:
        """What is the same however the part was made."""
        return {name: value for name, value in self.to_json().items() if name != "short"}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "PartRecord":
        """From plain values."""
        known = {one.name: values[one.name] for one in fields(cls) if one.name in values}
        return cls(**{**known, "anchors": tuple(values["anchors"])})
