"""The order of the computation and the sizes of its blocks: pure functions of graph, encoder and memory.

Shapes: N nodes, E edges (loops included), F features.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy.typing as npt

from gscl_scale.errors import ConfigError
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SparseFeatures, cut_rows
from gscl_scale.model.encoder import Encoder, GatLayer
from gscl_scale.model.scaling import Scaling

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
    allocated   most bytes that are allocated, beside the program and the files that it maps
    """

    block: int
    piece: int
    entries: int
    threads: int
    allocated: int

    def block_for(self, rows: int, tasks: int) -> int:
        """Rows of a block so that there are so many tasks, each with whole pieces and no larger than it may be."""
        return min(self.block, -(-rows // (tasks * self.piece)) * self.piece)


def plan_steps(encoder: Encoder, graph: Graph, adjacency: NormalisedAdjacency, scaling: Scaling) -> list[Step]:
    """The steps, each reading what an earlier one wrote; the last one writes the embeddings."""
    entries = adjacency.indices.size + adjacency.loops * adjacency.num_nodes
    steps: list[Step] = []
    below: str | None = None
    for number, layer in enumerate(encoder.layers):
        width_in, width = encoder.widths[number : number + 2]
        heads = layer.conv.heads if isinstance(layer, GatLayer) else 0
        sparse = below is None and stays_sparse(graph, scaling)
        gathered = below
        if sparse or heads or multiplies_first(graph.num_nodes, entries, width_in, width):
            gathered = f"messages-{number}.raw"
            steps.append(Step("multiply", gathered, width + 2 * heads, number, below))
        elif below is None and (scaling.changes or isinstance(graph.features, SparseFeatures)):
            gathered = below = "features.raw"
            steps.append(Step("scale", below, width_in, number, None))
        output = f"layer-{number}.raw"
        steps.append(Step("gather", output, width, number, below, gathered))
        below = output
    if encoder.beside:
        steps.append(Step("join", "joined.raw", encoder.width, len(encoder.layers) - 1, below))
    return steps


def stays_sparse(graph: Graph, scaling: Scaling) -> bool:
    """Whether features are read as sparse rows; they are dense once a mean is subtracted."""
    return isinstance(graph.features, SparseFeatures) and scaling.mean is None


def multiplies_first(num_nodes: int, entries: int, width_in: int, width: int) -> bool:
    """Whether fewer bytes move if rows are multiplied into a file that is gathered from.

    Gathering reads a row per edge, so narrower rows save entries * (width_in - width) numbers; the file costs
    num_nodes * (width_in + width) numbers: all rows are read in order and written again.
    """
    return entries * (width_in - width) > num_nodes * (width_in + width)


def sizes_of(
    graph: Graph, scaling: Scaling, steps: list[Step], memory_gb: float, threads: int, rows: int | None = None
) -> Sizes:
    """The largest blocks that the memory allows, or blocks of `rows` rows.

    Memory holds the scales of all nodes, the rows of two blocks (one is written while the next is computed), and per
    thread the input and output of a piece (in double precision while it is scaled).
    """
    width = max(step.width for step in steps)
    widest = width if stays_sparse(graph, scaling) else max(width, graph.num_features)
    piece = max(16, min(_MOST_PIECE, _PIECE_NUMBERS // widest))
    piece = 1 << (piece.bit_length() - 1)
    in_degrees = 0 if graph.undirected else 28
    per_thread = piece * (24 * widest + 24 * width) + 48 * _PIECE_ENTRIES
    fixed = _SMALL + (8 + in_degrees) * graph.num_nodes + threads * per_thread
    per_row = 2 * 4 * width
    if rows is None:
        most = max(_MOST_ROWS, _PIECES_PER_THREAD * threads * piece)
        rows = min(most, (int(memory_gb * (1 << 30)) - fixed) // per_row)
        rows = rows // piece * piece or rows
    if rows < 1:
        raise ConfigError(
            f"runtime.embed_memory_gb: {graph.num_nodes:,} nodes of width {width:,} need at least "
            f"{(fixed + per_row) / (1 << 30):.2f}, got {memory_gb:g}; raise it"
        )
    return Sizes(rows, piece, _PIECE_ENTRIES, threads, fixed + rows * per_row)


def pieces_of(indptr: npt.NDArray[Any] | None, sizes: Sizes, first: int, end: int) -> Iterator[tuple[int, int]]:
    """Parts of first..end that are computed together, each with at most `sizes.entries` entries of `indptr` (if given).

    They meet at multiples of `sizes.piece`: a row is in the same part whatever the blocks, so the same product gives
    the same bytes.
    """
    for low, high in aligned(first, end, sizes.piece):
        if indptr is None:
            yield low, high
        else:
            yield from cut_rows(indptr, low, high, sizes.entries)


def aligned(first: int, end: int, size: int) -> Iterator[tuple[int, int]]:
    """Ranges from first to end that meet at multiples of `size`.

    >>> list(aligned(3, 10, 4))
    [(3, 4), (4, 8), (8, 10)]
    """
    while first < end:
        until = min(end, (first // size + 1) * size)
        yield first, until
        first = until
