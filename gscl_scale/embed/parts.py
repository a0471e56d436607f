"""Embeddings as a folder of Parquet files, each for a range of nodes, written side by side."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gscl_scale.embed.scratch import map_rows
from gscl_scale.embed.vector_file import PARTS, Rows, rotated_blocks, write_parquet
from gscl_scale.graph.graph import Graph
from gscl_scale.io.checksum import sha256_of
from gscl_scale.machine import num_cores
from gscl_scale.runtime.local import LocalRunner
from gscl_scale.runtime.runner import Runner

_MOST_THREADS = 4  # each holds a row group and what it is encoded to: 90 MB


@dataclass(frozen=True)
class PartTask:
    """The rows first..end of a file of vectors, and the Parquet file that they go to; all machines see both."""

    path: Path
    graph: Path
    vectors: Path
    width: int
    first: int
    end: int
    rotation: Rows | None = field(compare=False)


def write_parts(
    folder: Path, graph: Graph, vectors: "np.memmap[Any, Any]", rotation: Rows | None, rows: int, runner: Runner | None
) -> dict[str, str]:
    """Publish parts of so many rows; returns the SHA-256 of each by its name, in the order of the nodes."""
    folder.mkdir(parents=True)
    count, width = vectors.shape
    tasks = [
        PartTask(
            folder.absolute() / PARTS.replace("*", f"{number:05}"), graph.folder.absolute(),
            Path(str(vectors.filename)), width, first, min(first + rows, count), rotation,
        )
        for number, first in enumerate(range(0, count, rows))
    ]  # fmt: skip
    if runner:
        return dict(sorted(runner.run(write_part, tasks)))
    with LocalRunner(min(num_cores(), len(tasks), _MOST_THREADS)) as threads:
        return dict(sorted(threads.run(write_part, tasks)))


def write_part(task: PartTask) -> tuple[str, str]:
    """Write a part; returns its name and the SHA-256 of its bytes."""
    ids = Graph.open(task.graph).ids[task.first : task.end]
    rows = map_rows(task.vectors, task.width)[task.first : task.end]
    blocks = ((ids[part], block) for part, block in rotated_blocks(rows, task.rotation))
    write_parquet(task.path, ids.type, task.width, blocks)
    return task.path.name, sha256_of(task.path)
