"""What the samples of a folder depend on, and how the work is cut into parts and passes."""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from gscl_scale.config.identity import deciding_values
from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import FolderError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.json import read_json, read_json_lines
from gscl_scale.io.validate import schema_error
from gscl_scale.rings.choose_engine import Choice, choose_engine
from gscl_scale.shards import levels
from gscl_scale.shards.records import Manifest, SamplesHead
from gscl_scale.text import quoted

FORMAT = 2  # 1 has no column `near`
_READABLE = (1, FORMAT)
MANIFEST = "manifest.json"
JOURNAL = "progress.jsonl"


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a samples folder, checked as far as it is read."""
    values = read_json(folder / MANIFEST)
    if values.get("format") not in _READABLE:
        raise FolderError(
            f"{folder}: expected samples format {FORMAT}, got {quoted(values.get('format'))}; sample again"
        )
    flaw = schema_error(Manifest, values)
    manifest = cast(Manifest, values)
    if flaw := flaw or _flaw_of_parts(manifest):
        raise FolderError(f"{folder / MANIFEST} is damaged: {flaw}; delete {folder} and sample again")
    return manifest


def _flaw_of_parts(manifest: Manifest) -> str:
    """What is wrong with the ranges of the parts, which have to cover all nodes in order; "" where nothing is."""
    rounds = [entry for entry in manifest["rounds"] if entry]
    if not rounds or not manifest["rounds"][0] or len({len(entry["parts"]) for entry in rounds}) > 1:
        return "expected the first round, and as many parts in each"
    for entry in rounds:
        ends = [0, *(part["anchors"][-1] for part in entry["parts"] if len(part["anchors"]) == 2)]
        ranges = [[first, end] for first, end in itertools.pairwise(ends)]
        rows = [part["rows"] for part in entry["parts"]]
        if (
            [part["anchors"] for part in entry["parts"]] != ranges
            or ends[-1] != manifest["num_nodes"]
            or rows != [end - first for first, end in ranges]
        ):
            return "expected parts that follow each other from the first node to the last"
        if not all(rows) or ("priorities" in entry) != ("priorities" in rounds[0]):
            return "expected parts with rows, and priorities for all rounds or none"
    return ""


@dataclass(frozen=True)
class Plan:
    """A graph and the settings of its samples; a folder made by another plan is refused.

    config   the settings with the engine that was chosen: the exact engine counts rings, the sketch estimates some
    memory   bytes that a task may take for levels of the sketch; 0: it reads the level before whole
    """

    graph_fingerprint: str
    num_nodes: int
    config: RingsConfig
    memory: int = 0

    @property
    def rings(self) -> dict[str, object]:
        """The settings that decide the content of a round."""
        return deciding_values(self.config, "samples", "ring sizes", first_revision=0)

    @property
    def num_parts(self) -> int:
        """Parts of a round."""
        return -(-self.num_nodes // self.config.part_anchors)

    @property
    def radii(self) -> range:
        """Radii of the levels that are written before the parts; these compute the last one themselves.

        In bounded memory the last one is written too.
        """
        last = self.config.hops - (not self.tiled) if self.config.engine == "sketch" else 0
        return range(1, last + 1)

    @property
    def tiled(self) -> bool:
        """Whether tasks read levels in tiles; the first level has none below it."""
        return self.memory > 0 and self.config.engine == "sketch" and self.config.hops > 1

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

    def refuse_other_format(self, found: SamplesHead, folder: Path) -> None:
        """Refuse to add to samples of an earlier format."""
        if found.get("format") != FORMAT:
            raise FolderError(
                f"{folder} was begun by an earlier version of gscl-scale, whose samples can be read but not added to; "
                "choose another --run, or delete this folder to sample again"
            )

    def refuse_other(self, found: SamplesHead, folder: Path) -> None:
        """Refuse samples of another plan."""
        if found["graph_fingerprint"] != self.graph_fingerprint:
            raise FolderError(
                f"{folder} holds samples of another graph; choose another --run, or delete this folder to sample again"
            )
        if difference := self.difference(found):
            raise FolderError(
                f"{folder} was made with {difference}; choose another --run, or delete this folder to sample again"
            )

    def difference(self, found: SamplesHead) -> str:
        """The first setting that samples were made with and this plan has not; "" where there is none."""
        for name, value in self.rings.items():
            if (theirs := found["rings"].get(name)) != value:
                return f"rings.{name} = {quoted(theirs)}, now it is {value!r}"
        return ""


def make_plan(
    graph: Graph, folder: Path, config: RingsConfig, since: Path | None = None, memory: int = 0
) -> tuple[Plan, Choice]:
    """The plan for a samples folder; `rings.engine: auto` keeps the engine of the folder, or of `since`."""
    earlier = None
    if config.engine == "auto":
        earlier = _engine_of(folder) or (_engine_of(since) if since else None)
    choice = Choice(earlier, "as before") if earlier else choose_engine(graph.indptr, graph.indices, config)
    settled = config.model_copy(update={"engine": choice.engine})
    return Plan(graph.fingerprint, graph.num_nodes, settled, memory), choice


def _engine_of(folder: Path) -> str | None:
    """The engine that a folder was begun with, if it was begun."""
    heads: list[SamplesHead] = (
        [read_manifest(folder)] if (folder / MANIFEST).exists() else read_json_lines(folder / JOURNAL, SamplesHead)
    )
    engine = heads[0]["rings"].get("engine") if heads else None
    return str(engine) if engine in ("exact", "sketch") else None
