"""What the samples of a folder depend on, and how the work is cut into parts and passes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gscl_scale.config import RingsConfig
from gscl_scale.errors import FolderError
from gscl_scale.files import read_json, read_json_lines
from gscl_scale.graph import Graph
from gscl_scale.rings import Choice, choose_engine
from gscl_scale.shards import levels

FORMAT = 1
MANIFEST = "manifest.json"
JOURNAL = "progress.jsonl"


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
        """What is in a round; rounds, disk_gb and ahead only say how many there are, and more can be added later."""
        return self.config.model_dump(mode="json", exclude={"rounds", "disk_gb", "ahead"})

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

    def refuse_other(self, found: dict[str, Any], folder: Path) -> None:
        """Refuse what another plan has written."""
        if found.get("graph_fingerprint") != self.graph_fingerprint:
            raise FolderError(
                f"{folder} holds samples of another graph; choose another --run, or delete this folder to sample again"
            )
        theirs = found.get("rings", {})
        for name, value in self.rings.items():
            if theirs.get(name) != value:
                raise FolderError(
                    f"{folder} was made with rings.{name} = {theirs.get(name)!r}, now it is {value!r}; "
                    "choose another --run, or delete this folder to sample again"
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
        return str(read_json(folder / MANIFEST).get("rings", {}).get("engine"))
    lines = read_json_lines(folder / JOURNAL)
    return str(lines[0].get("rings", {}).get("engine")) if lines else None
