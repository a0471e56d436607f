"""Sampling again only what changed since an earlier run, whose nodes are matched by the user's ids."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from gscl_scale.config.sections import RingsConfig
from gscl_scale.errors import FolderError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.arrow import arrow_of, map_array, write_arrow
from gscl_scale.rings.exact.recount import RowChanges
from gscl_scale.rings.priorities import Priorities
from gscl_scale.shards.graph_diff import (
    Matching,
    anchors_to_sample,
    changed_rows,
    depths_needed,
    kind_of_ids,
    match_nodes,
    priority_by_node,
    reach_of,
)
from gscl_scale.shards.levels import levels_folder
from gscl_scale.shards.plan import FORMAT, Plan
from gscl_scale.shards.reader import Samples

_READ = ("indptr.arrow", "indices.arrow", "ids.arrow")  # of the earlier graph
_COLUMNS = {
    "depths": "uint8", "recount": "uint8", "old_of_new": "int64", "new_of_old": "int64", "node": "int64",
    "other": "int64", "won": "uint8",
}  # fmt: skip


@dataclass(frozen=True)
class Changes:
    """What the tasks of a round need to know of the changes since the earlier run; flags are 1 where they are set.

    depths [N]                        the largest radius at which the ball of each vertex is needed; an anchor is
                                      sampled again where this is k hops
    recount [N]                       flag: only the size of ring k may differ, and is counted again
    old_of_new [N], new_of_old [O]    which node of the earlier graph is which, -1 where there is none
    node, other, won [P]              which nodes won (flag) or lost which neighbours, as `RowChanges` has them
    """

    depths: npt.NDArray[np.uint8]
    recount: npt.NDArray[np.uint8]
    old_of_new: npt.NDArray[np.int64]
    new_of_old: npt.NDArray[np.int64]
    node: npt.NDArray[np.int64]
    other: npt.NDArray[np.int64]
    won: npt.NDArray[np.uint8]

    @property
    def matching(self) -> Matching:
        """Which node of the earlier graph is which."""
        return Matching(self.old_of_new, self.new_of_old)

    @cached_property
    def rows(self) -> RowChanges:
        """The neighbours that nodes won or lost."""
        return RowChanges.of(self.depths.size, self.node, self.other, self.won.view(np.bool_))

    def write(self, samples: Path, round_number: int) -> None:
        """Publish the changes for the tasks of a round."""
        for name in _COLUMNS:
            path = levels_folder(samples, round_number) / f"{name}.arrow"
            write_arrow(path, {name: arrow_of(getattr(self, name))})

    @classmethod
    def map(cls, samples: Path, round_number: int) -> "Changes":
        """Map the changes that a round builds on."""
        place = levels_folder(samples, round_number)
        return cls(**{name: map_array(place / f"{name}.arrow", name, kind) for name, kind in _COLUMNS.items()})


@dataclass(frozen=True)
class ChangeCounts:
    """Anchors of a round that are sampled again, anchors whose ring k is counted again, and rows that changed."""

    again: int
    counted: int
    rows: int


@dataclass(frozen=True)
class EarlierSamples:
    """An earlier run: its graph, its samples, and which of its nodes is which."""

    graph: Graph
    samples: Samples
    matching: Matching

    @classmethod
    def open(cls, old_graph: Path, old_samples: Path, graph: Graph, plan: Plan) -> "EarlierSamples":
        """Open an earlier run; one with other settings is refused."""
        samples = Samples.open(old_samples)
        if difference := plan.difference(samples.manifest):
            raise FolderError(
                f"--since: {old_samples} was made with {difference}; "
                "set it back, or leave --since out to sample from nothing"
            )
        before = Graph.open(old_graph)
        made_from = samples.manifest["graph_fingerprint"], samples.manifest["num_nodes"]
        if (before.fingerprint, before.num_nodes) != made_from:
            raise FolderError(f"--since: {old_samples} was not made from {old_graph}; give the folder of a whole run")
        if (was := kind_of_ids(before)) != (now := kind_of_ids(graph)):
            raise FolderError(
                f"--since: the node ids of {old_graph} are {was}, those of this graph are {now}, so all priorities "
                "differ; write the ids as before, or leave --since out to sample from nothing"
            )
        before.verify(_READ)
        return cls(before, samples, match_nodes(before, graph))

    def has(self, round_number: int) -> bool:
        """Whether a round can build on the earlier run, which has it in our format and with shared priorities."""
        entry = self.samples.entry(round_number)
        return self.samples.manifest.get("format") == FORMAT and entry is not None and "priorities" in entry

    def weights(self) -> npt.NDArray[np.float64] | None:
        """The earlier weights of the nodes; a new node gets the mean of the old ones."""
        old = self.samples.weights()
        if old is None:
            return None
        known = self.matching.old_of_new >= 0
        weights = np.full(known.size, old.mean())
        weights[known] = old[self.matching.old_of_new[known]]
        return weights

    def prepare(
        self, folder: Path, round_number: int, graph: Graph, priorities: Priorities, config: RingsConfig
    ) -> ChangeCounts:
        """Find what is to be done again in a round, and publish it for the tasks."""
        old_priorities = self.samples.priorities(round_number)
        countable = self.graph.undirected and graph.undirected and config.engine == "exact" and config.sketchable()
        rows = changed_rows(
            self.graph, graph, self.matching, priority_by_node(priorities), priority_by_node(old_priorities),
            graph.num_nodes if countable else 0,
        )  # fmt: skip
        parts = range(self.samples.num_parts)
        old = [self.samples.part(round_number, part, verify=False) for part in parts]  # their readers verify them
        again, recount = anchors_to_sample(
            self.matching, reach_of(graph, rows.lowest, config.hops), old, old_priorities, priorities, config,
            countable and rows.listed,
        )  # fmt: skip
        Changes(
            depths_needed(graph, again, config.hops), recount.view(np.uint8), self.matching.old_of_new,
            self.matching.new_of_old, rows.node, rows.other, rows.won.view(np.uint8),
        ).write(folder, round_number)  # fmt: skip
        return ChangeCounts(int(again.sum()), int(recount.sum()), int(np.isfinite(rows.lowest).sum()))
