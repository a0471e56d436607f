"""The order of the computation and the sizes of its blocks: pure functions of graph, encoder and memory."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy.typing as npt

from gscl_scale.embed.layer_files import Features, Sizes, Step, block_sizes, gathered_width, steps_of
from gscl_scale.graph.adjacency import NormalisedAdjacency
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SparseFeatures, cut_rows
from gscl_scale.machine import available_memory
from gscl_scale.model.encoder import Encoder, GatLayer
from gscl_scale.model.scaling import Scaling


def plan_steps(encoder: Encoder, graph: Graph, adjacency: NormalisedAdjacency, scaling: Scaling) -> list[Step]:
    """The steps, each reading what an earlier one wrote; the last one writes the embeddings."""
    entries = adjacency.indices.size + adjacency.loops * adjacency.num_nodes
    first = encoder.layer(0)
    heads = first.conv.heads if isinstance(first, GatLayer) else 0
    features: Features = "read"
    if stays_sparse(graph, scaling):
        features = "sparse"
    elif scaling.changes or isinstance(graph.features, SparseFeatures):
        features = "scaled"
    joined = encoder.width if encoder.beside else 0
    return steps_of(encoder.widths, heads, joined, graph.num_nodes, entries, features)


def stays_sparse(graph: Graph, scaling: Scaling) -> bool:
    """Whether features are read as sparse rows; they are dense once a mean is subtracted."""
    return isinstance(graph.features, SparseFeatures) and scaling.mean is None


def sizes_of(
    graph: Graph,
    scaling: Scaling,
    steps: list[Step],
    memory_gb: float,
    threads: int,
    rows: int | None = None,
    tiled: bool = False,
) -> Sizes:
    """The largest blocks that the memory allows, or blocks of `rows` rows."""
    width = max(step.width for step in steps)
    widest = width if stays_sparse(graph, scaling) else max(width, graph.num_features)
    gathered = gathered_width(steps, graph.num_features) if tiled else 0
    return block_sizes(graph.num_nodes, graph.undirected, width, widest, memory_gb, threads, rows, gathered)


def reads_tiles(
    setting: Literal["auto"] | bool, encoder: Encoder, graph: Graph, steps: list[Step], memory_gb: float
) -> bool:
    """Whether gathered rows are read in tiles: by default where the memory that is left has no room for them.

    Attention looks at all neighbours twice; its rows are mapped.
    """
    if isinstance(encoder.layer(0), GatLayer) or setting is False:
        return False
    rows = 4 * graph.num_nodes * gathered_width(steps, graph.num_features)
    return setting is True or rows > available_memory() - memory_gb * (1 << 30)


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
