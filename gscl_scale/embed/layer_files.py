"""Steps of an encoder and sizes of their blocks, from the numbers of a graph alone: without torch, before it is there.

Shapes: N nodes, E edges (loops included), F features.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gscl_scale.errors import ConfigError

Features = Literal["read", "scaled", "sparse"]

_MOST_ROWS = 1 << 17  # of a block: more are no faster, and a kill would lose more
_PIECES_PER_THREAD = 8  # at least, where there are many threads: hubs make some pieces much longer than others
_MOST_PIECE = 4096  # rows
_PIECE_NUMBERS = 1 << 22
_PIECE_ENTRIES = 1 << 20
_SMALL = 128 << 20  # bytes: statistics of columns, row groups of the Parquet file, buffers of libraries


@dataclass(frozen=True)
class Step:
    """One pass over all nodes that writes a file of rows [N, width].

    kind       scale: features as the encoder reads them; multiply: what nodes send; gather: a layer's output; join:
               that output with the structural features beside it
    layer      its number
    below      the file of the layer below; None: the features of the graph
    gathered   gather: the file whose rows are gathered; `below` itself where rows are multiplied afterwards
    """

    kind: Literal["scale", "multiply", "gather", "join"]
    file: str
    width: int
    layer: int
    below: str | None
    gathered: str | None = None


@dataclass(frozen=True)
class Sizes:
    """Sizes of the parts of the computation.

    block       rows that are written and recorded together
    piece       rows of a block that a thread computes together
    entries     most neighbours of a piece, or values of its features, that are copied
    threads     threads that compute pieces
    tile        rows that are read together where gathered rows are read in tiles; 0: they are mapped
    allocated   most bytes that are allocated, beside the program and the files that it maps
    """

    block: int
    piece: int
    entries: int
    threads: int
    allocated: int
    tile: int = 0

    def block_for(self, rows: int, tasks: int) -> int:
        """Rows of a block so that there are so many tasks, each with whole pieces and no larger than it may be."""
        return min(self.block, -(-rows // (tasks * self.piece)) * self.piece)


def steps_of(
    widths: Sequence[int], heads: int, joined: int, num_nodes: int, entries: int, features: Features
) -> list[Step]:
    """The steps, each reading what an earlier one wrote; the last one writes the embeddings.

    widths     of the features and of each layer
    heads      of attention; 0 without
    joined     width of the embeddings where features stand beside the output; 0: they do not
    features   whether they are read as they are, scaled first, or sparse rows
    """
    steps: list[Step] = []
    below: str | None = None
    for number, (width_in, width) in enumerate(itertools.pairwise(widths)):
        gathered = below
        sparse = below is None and features == "sparse"
        if sparse or heads or multiplies_first(num_nodes, entries, width_in, width):
            gathered = f"messages-{number}.raw"
            steps.append(Step("multiply", gathered, width + 2 * heads, number, below))
        elif below is None and features == "scaled":
            gathered = below = "features.raw"
            steps.append(Step("scale", below, width_in, number, None))
        output = f"layer-{number}.raw"
        steps.append(Step("gather", output, width, number, below, gathered))
        below = output
    if joined:
        steps.append(Step("join", "joined.raw", joined, len(widths) - 2, below))
    return steps


def multiplies_first(num_nodes: int, entries: int, width_in: int, width: int) -> bool:
    """Whether fewer bytes move if rows are multiplied into a file that is gathered from.

    Gathering reads a row per edge, so narrower rows save entries * (width_in - width) numbers; the file costs
    num_nodes * (width_in + width) numbers: all rows are read in order and written again.
    """
    return entries * (width_in - width) > num_nodes * (width_in + width)


def gathered_width(steps: Sequence[Step], num_features: int) -> int:
    """The most columns of rows that a step gathers."""
    widths = {step.file: step.width for step in steps}
    return max(widths[step.gathered] if step.gathered else num_features for step in steps if step.kind == "gather")


def block_sizes(
    num_nodes: int,
    undirected: bool,
    width: int,
    widest: int,
    memory_gb: float,
    threads: int,
    rows: int | None = None,
    tiled: int = 0,
) -> Sizes:
    """The largest blocks that the memory allows, or blocks of `rows` rows.

    Memory holds the scales of all nodes, the rows of two blocks (one is written while the next is computed), and per
    thread the input and output of a piece (in double precision while it is scaled). In tiles, it holds the sums of a
    block besides, and two tiles (one is read while the other is used): a block takes half of it, for fewest tiles.

    width    of the widest file that is written
    widest   of the widest dense rows that are read or written
    tiled    columns of the rows that are gathered in tiles; 0: they are mapped
    """
    piece = max(16, min(_MOST_PIECE, _PIECE_NUMBERS // widest))
    piece = 1 << (piece.bit_length() - 1)
    in_degrees = 0 if undirected else 28
    per_thread = piece * (24 * widest + 24 * width) + 48 * _PIECE_ENTRIES
    fixed = _SMALL + (8 + in_degrees) * num_nodes + threads * per_thread
    per_row = 2 * 4 * width + (2 * 4 * tiled + 8) * (tiled > 0)
    tile, left = rows or 0, int(memory_gb * (1 << 30)) - fixed
    if rows is None:
        whole = -(-num_nodes // piece) * piece
        most = whole if tiled else max(_MOST_ROWS, _PIECES_PER_THREAD * threads * piece)
        rows = min(most, left // (1 + (tiled > 0)) // per_row)
        rows = rows // piece * piece or rows
        tile = min(whole, max(piece, left // 4 // (4 * max(1, tiled))))
    if rows < 1:
        raise ConfigError(
            f"runtime.embed_memory_gb: {num_nodes:,} nodes of width {width:,} need at least "
            f"{(fixed + (1 + (tiled > 0)) * per_row) / (1 << 30):.2f}, got {memory_gb:g}; raise it"
        )
    tile *= tiled > 0
    return Sizes(rows, piece, _PIECE_ENTRIES, threads, fixed + rows * per_row + 8 * tile * tiled, tile)
