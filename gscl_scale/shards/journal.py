"""The journal of a samples folder: a line for each finished part or pass, until the manifest names all of them.

Why a killed run ends with the same bytes: every draw is keyed by seed, round and id (`seeding`), so a part is the same
whoever makes it, and when. A file gets its name when it is whole (`io.atomic`). The journal records it with its
checksum, and a record counts only while the checksum fits. Parts are fixed ranges of anchors; the manifest comes last.
"""

import json
from pathlib import Path
from typing import NotRequired

from typing_extensions import TypedDict

from gscl_scale.io.atomic import explain_disk_errors, write_text
from gscl_scale.io.checksum import sha256_of
from gscl_scale.io.json import read_json_lines
from gscl_scale.io.validate import schema_error, size_of
from gscl_scale.shards.format import part_path, priorities_path
from gscl_scale.shards.levels import LevelFiles
from gscl_scale.shards.plan import FORMAT, JOURNAL, MANIFEST, Plan, read_manifest
from gscl_scale.shards.records import PartRecord, PassRecord, SamplesHead, Weights

_Line = TypedDict(
    "_Line", {"part": NotRequired[PartRecord], "pass": NotRequired[PassRecord], "weights": NotRequired[Weights]}
)


class Journal:
    """Finished parts and passes of a samples folder; a folder that another plan has begun is refused."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self._folder, self._path, self._hops = folder, folder / JOURNAL, plan.config.hops
        self.manifest = read_manifest(folder) if (folder / MANIFEST).exists() else None
        lines = read_json_lines(self._path, _Line)
        begun = bool(lines) and not schema_error(SamplesHead, lines[0])
        for head in (self.manifest, lines[0] if begun else None):
            if head is not None:
                plan.refuse_other(head, folder)
                plan.refuse_other_format(head, folder)
        own: SamplesHead = {"format": FORMAT, "graph_fingerprint": plan.graph_fingerprint, "rings": plan.rings}
        self._head: SamplesHead = lines[0] if begun else own
        self._lines: list[_Line] = lines[1:] if begun else []

    def begin(self) -> None:
        """Write again what is known: a kill may have left half a line."""
        write_text(self._path, "".join(json.dumps(line) + "\n" for line in (self._head, *self._lines)))

    def parts(self) -> dict[tuple[int, int], PartRecord]:
        """The finished parts, by round and part, whose files are still what was recorded."""
        records = [line["part"] for line in self._lines if "part" in line]
        if self.manifest is not None:
            records += [part for entry in self.manifest["rounds"] if entry for part in entry["parts"]]
        return {(record["round_number"], record["part"]): record for record in records if self._is_intact(record)}

    def passes(self, round_number: int, radius: int, files: LevelFiles) -> set[int]:
        """First vertices of the finished ranges of a pass whose rows are still what was recorded."""
        records = [line["pass"] for line in self._lines if "pass" in line]
        return {
            record["first"]
            for record in records
            if (record["round_number"], record["radius"]) == (round_number, radius)
            and files.checksum(record["first"], record["end"]) == record["checksum"]
        }

    def has_priorities(self, round_number: int) -> bool:
        """Whether the priorities of a round are those that the manifest names; others are not trusted."""
        path = priorities_path(self._folder, round_number)
        rounds = self.manifest["rounds"] if self.manifest is not None else []
        entry = rounds[round_number] if round_number < len(rounds) else None
        if entry is None or "priorities" not in entry or not path.exists():
            return False
        return sha256_of(path) == entry["priorities"]["sha256"]

    def weights(self) -> Weights | None:
        """What is recorded of the weights of the nodes."""
        if self.manifest is not None:
            return {"sha256": self.manifest["weights"]["sha256"]} if "weights" in self.manifest else None
        return next((line["weights"] for line in self._lines if "weights" in line), None)

    def append(self, line: _Line) -> None:
        """Record a finished part or pass, or the weights of the nodes."""
        self._lines.append(line)
        with explain_disk_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Remove the journal: the manifest names everything now."""
        self._path.unlink(missing_ok=True)

    def _is_intact(self, record: PartRecord) -> bool:
        path = part_path(self._folder, record["round_number"], record["part"])
        if (len(record["ring_size_sum"]), len(record["members"])) != (self._hops, self._hops + 1):
            return False
        return path.exists() and size_of(path) == record["bytes"] and sha256_of(path) == record["sha256"]
