"""Sampling again only what changed since an earlier run: matched by the user's ids, equal to samples from nothing."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import FolderError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.arrow import map_array, write_arrow
from gscl_scale.rings.exact.recount import RowChanges
from gscl_scale.rings.priorities import Priorities
from gscl_scale.shards.graph_diff import (
    Change,
    Matching,
    anchors_to_sample,
    by_node,
    changed_rows,
    depths_needed,
    match_nodes,
    reach_of,
)
from gscl_scale.shards.levels import scratch_folder
from gscl_scale.shards.plan import FORMAT, Plan
from gscl_scale.shards.reader import Samples

_SAME_GRAPH = ("graph_fingerprint", "num_nodes")
_READ = ("indptr.arrow", "indices.arrow", "ids.arrow")  # of the earlier graph


@dataclass(frozen=True)
class Found:
    """How many anchors of a round are sampled again, or have ring k counted again, and how many rows have changed."""

    again: int
    counted: int
    rows: int


@dataclass(frozen=True)
class Since:
    """An earlier run: its graph, its samples, and which of its nodes is which."""

    graph: Graph
    samples: Samples
    matching: Matching

    @classmethod
    def open(cls, old_graph: Path, old_samples: Path, graph: Graph, plan: Plan) -> "Since":
        """Open an earlier run; one with other settings is refused."""
        samples = Samples.open(old_samples)
        for name, value in plan.rings.items():
            if (theirs := samples.manifest["rings"].get(name)) != value:
                raise FolderError(
                    f"--since: {old_samples} was made with rings.{name} = {theirs!r}, now it is {value!r}; "
                    "set it back, or leave --since out to sample from nothing"
                )
        before = Graph.open(old_graph)
        if (before.fingerprint, before.num_nodes) != tuple(samples.manifest[key] for key in _SAME_GRAPH):
            raise FolderError(f"--since: {old_samples} was not made from {old_graph}; give the folder of a whole run")
        before.verify(_READ)
        return cls(before, samples, match_nodes(before, graph))

    def has(self, round_number: int) -> bool:
        """Whether this round can build on the earlier run: it is there, of our format, and with shared priorities."""
        if self.samples.manifest["format"] != FORMAT:
            return False
        rounds = self.samples.manifest["rounds"]
        entry = rounds[round_number] if round_number < len(rounds) else None
        return entry is not None and "priorities" in entry

    def weights(self) -> npt.NDArray[np.float64] | None:
        """The earlier weights of the nodes; a new node counts like the mean of the old ones."""
        old = self.samples.weights()
        if old is None:
            return None
        known = self.matching.old_of_new >= 0
        weights = np.full(known.size, old.mean())
        weights[known] = old[self.matching.old_of_new[known]]
        return weights

    def prepare(
        self, folder: Path, round_number: int, graph: Graph, priorities: Priorities, config: RingsConfig
    ) -> "Found":
        """Find what is to be done again in a round, and tell its tasks."""
        old_priorities = self.samples.priorities(round_number)
        countable = self.graph.undirected and graph.undirected and config.engine == "exact" and config.sketchable()
        change = changed_rows(
            self.graph, graph, self.matching, by_node(priorities), by_node(old_priorities),
            graph.num_nodes if countable else 0,
        )  # fmt: skip
        reach = reach_of(graph, change.lowest, config.hops)
        parts = range(self.samples.num_parts)
        old = [self.samples.part(round_number, part, verify=False) for part in parts]  # their readers verify them
        again, counted = anchors_to_sample(
            self.matching, reach, old, old_priorities, priorities, config, countable and change.listed
        )
        write_changes(folder, round_number, depths_needed(graph, again, config.hops), counted, change, self.matching)
        return Found(int(again.sum()), int(counted.sum()), int(np.isfinite(change.lowest).sum()))


def write_changes(
    folder: Path,
    round_number: int,
    depths: npt.NDArray[np.uint8],
    counted: npt.NDArray[np.bool_],
    change: Change,
    matching: Matching,
) -> None:
    """Publish for the tasks of a round what is needed how deep, where ring k is counted, and which node is which."""
    place = scratch_folder(folder, round_number)
    write_arrow(place / "depths.arrow", {"depth": pa.array(depths)})
    write_arrow(place / "counted.arrow", {"counted": pa.array(counted.view(np.uint8))})
    write_arrow(place / "change.arrow", {
        "node": pa.array(change.node), "other": pa.array(change.other), "won": pa.array(change.won.view(np.uint8)),
    })  # fmt: skip
    write_arrow(place / "old_of_new.arrow", {"node": pa.array(matching.old_of_new)})
    write_arrow(place / "new_of_old.arrow", {"node": pa.array(matching.new_of_old)})


def map_depths(folder: Path, round_number: int) -> npt.NDArray[np.uint8]:
    """The largest radius at which each vertex is needed; the anchors to sample again are those of the last."""
    return map_array(scratch_folder(folder, round_number) / "depths.arrow", "depth", "uint8")


def map_counted(folder: Path, round_number: int) -> npt.NDArray[np.bool_]:
    """The anchors of which only the size of ring k may differ, by what `map_row_changes` tells."""
    return map_array(scratch_folder(folder, round_number) / "counted.arrow", "counted", "uint8").view(np.bool_)


def map_row_changes(folder: Path, round_number: int, num_nodes: int) -> RowChanges:
    """Who won or lost whom as a neighbour."""
    path = scratch_folder(folder, round_number) / "change.arrow"
    node, other = (map_array(path, name, "int64") for name in ("node", "other"))
    return RowChanges.of(num_nodes, node, other, map_array(path, "won", "uint8").view(np.bool_))


def map_matching(folder: Path, round_number: int) -> Matching:
    """Which node of the earlier graph is which."""
    place = scratch_folder(folder, round_number)
    return Matching(
        map_array(place / "old_of_new.arrow", "node", "int64"), map_array(place / "new_of_old.arrow", "node", "int64")
    )
