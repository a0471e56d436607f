"""A block of rows as a task: plain values for another process, which writes the rows into the shared folder."""

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch

from gscl_scale.embed.blocks import Blocks, single_threaded
from gscl_scale.embed.scratch import write_rows
from gscl_scale.embed.spread import MachineDisks, Place
from gscl_scale.graph.graph import Graph
from gscl_scale.model.encoder import Encoder
from gscl_scale.model.scaling import Scaling


class Written(NamedTuple):
    """The rows first..end were written, with this CRC-32 of their bytes; `node`: on its disk, not into the folder."""

    first: int
    end: int
    crc32: int
    node: str = ""


@dataclass(frozen=True)
class SharedEncoding:
    """What all tasks of one encoding have in common; the folders are seen by all machines.

    folder      of the files between the steps
    disks       where those before the last one are instead; None: in the folder too
    made_from   fingerprint of weights and graph: with the folder it tells encodings apart
    """

    folder: Path
    disks: MachineDisks | None
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
    """The rows first..end of the step with this number; `places` of the files on the disks of machines."""

    encoding: SharedEncoding
    step: int
    places: tuple[tuple[str, tuple[Place, ...]], ...]
    first: int
    end: int


def compute_block(task: BlockTask) -> Written:
    """Compute and write a block."""
    shared = task.encoding
    blocks = _opened(shared)
    blocks.read_from(shared.disks, task.places)
    step = blocks.steps[task.step]
    with single_threaded(shared.threads) as in_pieces:
        rows = blocks.compute(step, task.first, task.end, in_pieces)
    if shared.disks and step is not blocks.steps[-1]:
        return Written(task.first, task.end, *shared.disks.write(step.file, blocks.num_nodes, task.first, rows))
    return Written(task.first, task.end, write_rows(shared.folder / step.file, task.first, rows))


@functools.lru_cache(maxsize=1)
def _opened(encoding: SharedEncoding) -> Blocks:
    """What computes the blocks of an encoding, kept for its next task in this process."""
    graph, device = Graph.open(encoding.graph), torch.device(encoding.device)
    return Blocks(
        encoding.encoder, graph, encoding.scaling, encoding.folder, device, encoding.memory_gb, encoding.threads,
        encoding.rows, encoding.tiled,
    )  # fmt: skip
