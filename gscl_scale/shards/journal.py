"""What is finished: a line each while the work goes on, and the manifest once all is there."""

import json
from pathlib import Path
from typing import Any, NotRequired

from pydantic import ConfigDict
from typing_extensions import TypedDict

from gscl_scale.io.atomic import naming, write_text
from gscl_scale.io.checksum import sha256_of
from gscl_scale.io.json import read_json_lines
from gscl_scale.io.validate import Count, of_kind, size_of
from gscl_scale.shards.format import part_path, priorities_path
from gscl_scale.shards.levels import LevelFiles
from gscl_scale.shards.plan import FORMAT, JOURNAL, MANIFEST, JournalHead, PartEntry, Plan, read_manifest
from gscl_scale.shards.records import PartRecord, PassRecord


class _Pass(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    round_number: Count
    radius: Count
    first: Count
    end: Count
    checksum: Count


class Weights(TypedDict):
    """Which weights the nodes have: those of an earlier run, or of the graph; a manifest does not say which."""

    sha256: str
    earlier: NotRequired[bool]


_Line = TypedDict(
    "_Line", {"part": NotRequired[PartEntry], "pass": NotRequired[_Pass], "weights": NotRequired[Weights]}
)


class Journal:
    """Finished parts and passes of a samples folder; gone once the manifest tells it all."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder = folder
        self._path = folder / JOURNAL
        self._hops = int(plan.rings["hops"])
        self.manifest = read_manifest(folder) if (folder / MANIFEST).exists() else None
        if self.manifest is not None:
            plan.refuse_other(self.manifest, folder)
            plan.refuse_other_format(self.manifest, folder)
        head = {"format": FORMAT, "graph_fingerprint": plan.graph_fingerprint, "rings": plan.rings}
        lines = read_json_lines(self._path, _Line)
        if lines and not of_kind(JournalHead, lines[0]):
            plan.refuse_other(lines[0], folder)
            plan.refuse_other_format(lines[0], folder)
        else:
            lines = [head]
        self._lines = lines

    def begin(self) -> None:
        """Write what was found again: a kill may have left half a line."""
        write_text(self._path, "".join(_as_text(line) for line in self._lines))

    def parts(self) -> dict[tuple[int, int], PartRecord]:
        """The parts that were finished, whose files are still what was recorded."""
        lines: list[Any] = [line["part"] for line in self._lines[1:] if "part" in line]
        if self.manifest is not None:
            lines += [part for entry in self.manifest["rounds"] if entry for part in entry["parts"]]
        records = [PartRecord.from_json(line) for line in lines]
        return {(record.round_number, record.part): record for record in records if self._is_whole(record)}

    def passes(self, round_number: int, radius: int, files: LevelFiles) -> set[int]:
        """First vertices of the finished ranges of a pass whose rows are still what was recorded."""
        lines = [line["pass"] for line in read_json_lines(self._path, _Line)[1:] if "pass" in line]
        records = [PassRecord(**line) for line in lines]
        return {
            record.first
            for record in records
            if (record.round_number, record.radius) == (round_number, radius)
            and files.checksum(record.first, record.end) == record.checksum
        }

    def has_priorities(self, round_number: int) -> bool:
        """Whether the priorities of a round are what a manifest says they are; without one they are not trusted."""
        path = priorities_path(self._folder, round_number)
        recorded = self.manifest["rounds"] if self.manifest is not None else []
        if not path.exists() or round_number >= len(recorded) or recorded[round_number] is None:
            return False
        return bool(sha256_of(path) == recorded[round_number].get("priorities", {}).get("sha256"))

    def weights(self) -> Weights | None:
        """What is recorded of the weights of the nodes."""
        if self.manifest is not None:
            return {"sha256": self.manifest["weights"]["sha256"]} if "weights" in self.manifest else None
        lines = read_json_lines(self._path, _Line)[1:]
        return next((line["weights"] for line in lines if "weights" in line), None)

    def append_weights(self, weights: Weights) -> None:
        """Record the weights of the nodes."""
        self._append({"weights": weights})

    def append(self, record: PartRecord | PassRecord) -> None:
        """Record a finished part or pass."""
        self._append({"part" if isinstance(record, PartRecord) else "pass": record.to_json()})

    def close(self) -> None:
        """Remove the journal: the manifest tells everything now."""
        self._path.unlink(missing_ok=True)

    def _append(self, line: dict[str, Any]) -> None:
        with naming(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(_as_text(line))

    def _is_whole(self, record: PartRecord) -> bool:
        path = part_path(self._folder, record.round_number, record.part)
        if (len(record.ring_size_sum), len(record.members)) != (self._hops, self._hops + 1):
            return False
        return path.exists() and size_of(path) == record.bytes and sha256_of(path) == record.sha256


def _as_text(line: dict[str, Any]) -> str:
    return json.dumps(line) + "\n"
