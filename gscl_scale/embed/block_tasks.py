"""A block of rows as a task: plain values for another process, which writes the rows into the shared folder."""

import functools
from dataclasses import dataclass, field
from pathlib import Path

import torch

from gscl_scale.embed.blocks import Blocks, single_threaded
from gscl_scale.embed.scratch import write_rows
from gscl_scale.graph.graph import Graph
from gscl_scale.model.encoder import Encoder
from gscl_scale.model.scaling import Scaling


@dataclass(frozen=True)
class SharedEncoding:
    """What all tasks of one encoding have in common; the folders are seen by all machines.

    folder      of the files between the steps
    made_from   fingerprint of weights and graph: with the folder it tells encodings apart
    """

    folder: Path
    made_from: str
    graph: Path
    device: str
    memory_gb: float
    threads: int
    rows: int | None
    tiled: bool
    encoder: Encoder = field(compare=False)
    scaling: Scaling = field(compare=False)


@dataclass(frozen=True)
class BlockTask:
    """The rows first..end of the step with this number."""

    encoding: SharedEncoding
    step: int
    first: int
    end: int


def compute_block(task: BlockTask) -> tuple[int, int, int]:
    """Compute and write a block; returns its rows first..end and the CRC-32 of their bytes."""
    blocks = _opened(task.encoding)
    step = blocks.steps[task.step]
    with single_threaded(task.encoding.threads) as in_pieces:
        rows = blocks.compute(step, task.first, task.end, in_pieces)
    return task.first, task.end, write_rows(task.encoding.folder / step.file, task.first, rows)


@functools.lru_cache(maxsize=1)
def _opened(encoding: SharedEncoding) -> Blocks:
    """What computes the blocks of an encoding, kept for its next task in this process."""
    graph, device = Graph.open(encoding.graph), torch.device(encoding.device)
    return Blocks(
        encoding.encoder, graph, encoding.scaling, encoding.folder, device, encoding.memory_gb, encoding.threads,
        encoding.rows, encoding.tiled,
    )  # fmt: skip
