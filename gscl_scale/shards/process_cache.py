"""What the tasks of one process share, each opened once: the graph, the round, the level that a pass reads."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gscl_scale.errors import FolderError
from gscl_scale.graph.graph import Graph
from gscl_scale.io.arrow import map_array
from gscl_scale.kernels.kernel import read_only
from gscl_scale.machine import expect_random_reads, trim_heap
from gscl_scale.rings.exact.workspace import free_buffers
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sketch.level import Level
from gscl_scale.shards.drawing import ranks_path
from gscl_scale.shards.format import map_priorities, priorities_path, weights_path
from gscl_scale.shards.incremental import Changes
from gscl_scale.shards.levels import LevelFiles, levels_folder
from gscl_scale.shards.reader import RoundReader, Samples, flaw_of_priorities

Thing = TypeVar("Thing")

_LOCK = threading.RLock()
_OPEN: dict[str, tuple[Any, Any]] = {}


@dataclass(frozen=True)
class OpenRound:
    """The priorities of a round, the rank of each node [N], and the weights they were drawn with (None: uniform)."""

    priorities: Priorities
    rank: npt.NDArray[Any]
    weights: npt.NDArray[np.float64] | None


def open_graph(folder: Path) -> Graph:
    """The graph of a folder."""
    return _keep("graph", (folder, _stamp(folder / "manifest.json")), lambda: Graph.open(folder))


def open_round(samples: Path, round_number: int, num_nodes: int) -> OpenRound:
    """A round of a samples folder."""
    path = priorities_path(samples, round_number)

    def opened() -> OpenRound:
        priorities = map_priorities(path)
        if flaw := flaw_of_priorities(priorities, num_nodes):
            raise FolderError(f"{path} is damaged: {flaw}; delete {path.parent} and run gscl-scale precompute again")
        ranks = ranks_path(samples, round_number)
        if not ranks.exists():
            return OpenRound(priorities, read_only(priorities.rank()), open_weights(samples))
        rank = np.memmap(ranks, priorities.order.dtype, "r")
        for folder in (path.parent, ranks.parent):
            expect_random_reads(folder)
        return OpenRound(priorities, read_only(rank), open_weights(samples))

    return _keep("round", (path, _stamp(path)), opened)


def open_weights(samples: Path) -> npt.NDArray[np.float64] | None:
    """The weights of the nodes in a samples folder, None where sampling is uniform."""
    path = weights_path(samples)
    return map_array(path, "weight", "double") if path.exists() else None


def open_level(files: LevelFiles, in_memory: bool) -> Level:
    """All rows of a level: a copy that the threads of this process share, or mapped for all processes of a machine."""
    key = (files, (files.folder / "table.raw").stat().st_ino, in_memory)
    return _keep("level", key, files.load if in_memory else files.map)


def open_old_round(samples: Samples, round_number: int) -> RoundReader:
    """A round of an earlier samples folder, verified."""
    return _keep("old round", (samples.folder, round_number), lambda: samples.round(round_number))


def open_changes(samples: Path, round_number: int) -> Changes:
    """The changes since the samples that a round builds on."""
    stamp = _stamp(levels_folder(samples, round_number) / "depths.arrow")
    return _keep("changes", (samples, round_number, stamp), lambda: Changes.map(samples, round_number))


def close_round() -> None:
    """Close the files of a round, so that the disk of removed ones is free again, and free its memory."""
    free_buffers()
    with _LOCK:
        for kind in ("round", "level", "old round", "changes"):
            _OPEN.pop(kind, None)
    trim_heap()


def _keep(kind: str, key: Any, opened: Callable[[], Thing]) -> Thing:
    """The thing of a kind that was opened last, if it has this key; else another one is opened in its place."""
    with _LOCK:
        if kind not in _OPEN or _OPEN[kind][0] != key:
            _OPEN.pop(kind, None)
            _OPEN[kind] = (key, opened())
        return _OPEN[kind][1]


def _stamp(path: Path) -> tuple[int, int, int]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size
