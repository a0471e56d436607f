"""What the samples of a folder depend on, and how the work is cut into parts and passes."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired

from typing_extensions import TypedDict

from gscl_scale.config.identity import deciding_in
from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import FolderError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.json import read_json, read_json_lines
from gscl_scale.io.validate import Count, FileEntry, Number, of_kind
from gscl_scale.rings.choose_engine import Choice, choose_engine
from gscl_scale.shards import levels
from gscl_scale.text import quoted

FORMAT = 2  # 1 has no column `near`
_READABLE = (1, FORMAT)
MANIFEST = "manifest.json"
JOURNAL = "progress.jsonl"


class PartEntry(FileEntry):
    """A finished part, of a manifest or of a journal."""

    round_number: Count
    part: Count
    members: list[Count]
    ring_size_sum: list[Count]
    short: NotRequired[list[Count]]
    rows: Count
    anchors: list[Count]


class _Round(TypedDict):
    parts: list[PartEntry]
    priorities: NotRequired[FileEntry]


class JournalHead(TypedDict):
    """The first line of a journal: what its folder is made from. Format 1 does not say so."""

    format: NotRequired[Count]
    graph_fingerprint: str
    rings: dict[str, Any]


class Manifest(JournalHead):
    """What a samples folder says of itself, as far as it is read; a round that is not there is null."""

    num_nodes: Count
    rounds_asked: Count
    mean_ring_size: list[Number]
    mean_stored: list[Number]
    rounds: list[_Round | None]
    weights: NotRequired[FileEntry]


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a samples folder, checked as far as it is read."""
    manifest = read_json(folder / MANIFEST)
    if manifest.get("format") not in _READABLE:
        raise FolderError(
            f"{folder}: expected samples format {FORMAT}, got {quoted(manifest.get('format'))}; sample again"
        )
    if hindrance := of_kind(Manifest, manifest) or _flaw_of_ranges(manifest):
        raise FolderError(f"{folder / MANIFEST} is damaged: {hindrance}; delete {folder} and sample again")
    return manifest


def _flaw_of_ranges(manifest: dict[str, Any]) -> str:
    """Whether the parts of every round follow each other from the first node to the last."""
    rounds = [entry for entry in manifest["rounds"] if entry]
    if not rounds or not manifest["rounds"][0] or len({len(entry["parts"]) for entry in rounds}) > 1:
        return "expected the first round, and as many parts in each"
    for entry in rounds:
        ends = [0, *(part["anchors"][-1] for part in entry["parts"] if len(part["anchors"]) == 2)]
        spans = [[low, high] for low, high in itertools.pairwise(ends)]
        given = [part["anchors"] for part in entry["parts"]]
        rows = [part["rows"] for part in entry["parts"]]
        if given != spans or ends[-1] != manifest["num_nodes"] or rows != [high - low for low, high in spans]:
            return "expected parts that follow each other from the first node to the last"
        if not all(rows) or ("priorities" in entry) != ("priorities" in rounds[0]):
            return "expected parts with rows, and priorities for all rounds or none"
    return ""


@dataclass(frozen=True)
class Plan:
    """A graph and the settings of its samples; a folder made by another plan is refused.

    config   the settings with the engine that was chosen: ring sizes are exact by one and estimates by the other
    """

    graph_fingerprint: str
    num_nodes: int
    config: RingsConfig

    @property
    def rings(self) -> dict[str, Any]:
        """What decides the content of a round."""
        return deciding_in(self.config, "samples", "ring sizes", begun=0)

    @property
    def num_parts(self) -> int:
        """Parts of a round."""
        return -(-self.num_nodes // self.config.part_anchors)

    @property
    def radii(self) -> range:
        """Radii of the levels that are written before the parts; these compute the last one themselves."""
        return range(1, self.config.hops if self.config.engine == "sketch" else 1)

    @property
    def steps(self) -> int:
        """Tasks of a round."""
        return self.num_parts + len(self.radii) * len(self.ranges())

    def ranges(self) -> list[tuple[int, int]]:
        """Vertices first..end of each task of a pass."""
        block = 1 << levels.PASS_SHIFT
        return [(first, min(first + block, self.num_nodes)) for first in range(0, self.num_nodes, block)]

    def anchors(self, part: int) -> tuple[int, int]:
        """Anchors first..end of a part."""
        first = part * self.config.part_anchors
        return first, min(first + self.config.part_anchors, self.num_nodes)

    def refuse_other_format(self, found: dict[str, Any], folder: Path) -> None:
        """Refuse to add to what an earlier version has written."""
        if found.get("format") != FORMAT:
            raise FolderError(
                f"{folder} was begun by an earlier version of gscl-scale, whose samples can be read but not added to; "
                "choose another --run, or delete this folder to sample again"
            )

    def refuse_other(self, found: dict[str, Any], folder: Path) -> None:
        """Refuse what another plan has written."""
        if found.get("graph_fingerprint") != self.graph_fingerprint:
            raise FolderError(
                f"{folder} holds samples of another graph; choose another --run, or delete this folder to sample again"
            )
        theirs = found["rings"]
        for name, value in self.rings.items():
            if theirs.get(name) != value:
                raise FolderError(
                    f"{folder} was made with rings.{name} = {quoted(theirs.get(name))}, now it is "
                    f"{value!r}; choose another --run, or delete this folder to sample again"
                )


def make_plan(graph: Graph, folder: Path, config: RingsConfig, since: Path | None = None) -> tuple[Plan, Choice]:
    """The plan for a samples folder; `rings.engine: auto` keeps to the engine of the folder, or of `since`."""
    earlier = None
    if config.engine == "auto":
        earlier = _engine_of(folder) or (_engine_of(since) if since else None)
    choice = Choice(earlier, "as before") if earlier else choose_engine(graph.indptr, graph.indices, config)
    settled = config.model_copy(update={"engine": choice.engine})
    return Plan(graph.fingerprint, graph.num_nodes, settled), choice


def _engine_of(folder: Path) -> str | None:
    """The engine that a folder was begun with, if it was begun."""
    if (folder / MANIFEST).exists():
        known: dict[str, Any] | None = read_manifest(folder)["rings"]
    else:
        known = next((line["rings"] for line in read_json_lines(folder / JOURNAL, JournalHead)[:1]), None)
    return _engine_in(known) if known is not None else None


def _engine_in(rings: dict[str, Any]) -> str | None:
    engine = rings.get("engine")
    return engine if engine in ("exact", "sketch") else None
