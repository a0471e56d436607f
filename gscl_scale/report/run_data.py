"""Everything that a page shows of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gscl_scale.evaluate.graph_statistics import SavedStatistics
from gscl_scale.evaluate.schema import Metrics
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources.node_cells import NodeCells
from gscl_scale.report.node_map import NodeMap


@dataclass(frozen=True)
class RunData:
    """What a run has left in its folder.

    metrics, statistics   of metrics.json and statistics.json
    curve                 the training steps of log.jsonl, events its other lines
    record                run.json: configuration, versions, fingerprints
    samples               the manifest of the ring samples; None where there are none
    notes                 sentences about the graph
    graph, nodes          for the map; None where none is drawn
    cells                 the user's own columns for the nodes of the map, with sentences about what is not there
    """

    metrics: Metrics
    statistics: SavedStatistics
    curve: Sequence[Mapping[str, Any]] = ()
    events: Sequence[Mapping[str, Any]] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    samples: Mapping[str, Any] | None = None
    notes: Sequence[str] = ()
    graph: Graph | None = None
    nodes: NodeMap | None = None
    cells: Sequence[NodeCells] = ()
    notes_on_cells: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self.statistics["name"]

    @property
    def config(self) -> Mapping[str, object]:
        """The settings."""
        config: Mapping[str, object] = self.record.get("config", {})
        return config

    def last(self, stage: str, event: str) -> Mapping[str, Any]:
        """The last event of a kind."""
        return next((one for one in reversed(self.events) if (one["stage"], one["event"]) == (stage, event)), {})

    def stage_seconds(self) -> dict[str, float]:
        """How long the last attempt at each stage took, as far as the log says."""
        began: dict[str, datetime] = {}
        took: dict[str, float] = {}
        for one in self.events:
            at = datetime.fromisoformat(one["time"])
            if one["event"] == "started":
                began[one["stage"]] = at
            elif one["event"] == "done" and one["stage"] in began:
                took[one["stage"]] = (at - began[one["stage"]]).total_seconds()
        return took
