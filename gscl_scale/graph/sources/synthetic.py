"""A seeded graph with communities within classes within groups, and power-law degrees."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.config.graphs import SyntheticGraph
from gscl_scale.graph.csr import index_dtype
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.graph.edge_rows import Edges
from gscl_scale.graph.row_file import RowStream
from gscl_scale.graph.types import SourceSize
from gscl_scale.kernels.kernel import kernel
from gscl_scale.runtime.threads import map_in_order, num_threads

_CHUNK_EDGES = 1 << 21
_CHUNK_ROWS = 1 << 16
_STEP = 64
_EXPONENT = 2.5  # of the power law of the degrees
_LEVELS = (0.45, 0.75, 0.92)  # an edge ends in the same community, class, group of classes with these shares, summed
_SIGNAL = 0.25  # deviation of the classes' centroids; that of the noise is 1


class _Preset(NamedTuple):
    num_nodes: int
    mean_degree: float
    num_classes: int
    num_features: int


PRESETS = {
    "tiny": _Preset(300, 8, 5, 64),
    "small": _Preset(3000, 10, 10, 64),
    "arxiv": _Preset(169_343, 15.3, 40, 128),
    "large": _Preset(10_000_000, 22, 50, 32),
}


class _Plan(NamedTuple):
    """Nodes in a line, cut into communities; adjacent communities form a class, and adjacent classes a group.

    weights [N + 1]       running sum of the weights along the line
    guide                 for steps of equal weight, the position that holds the beginning of each
    starts [C + 1]        position where each community begins
    community_guide       for steps of _STEP positions, the community that holds the beginning of each
    spans [C, 3, 2]       weight before and after the community, class and group of each community
    node_at [N]           node at each position
    labels [N]            class of each node
    """

    weights: npt.NDArray[np.float64]
    guide: npt.NDArray[Any]
    starts: npt.NDArray[np.int64]
    community_guide: npt.NDArray[Any]
    spans: npt.NDArray[np.float64]
    node_at: npt.NDArray[Any]
    labels: npt.NDArray[np.int64]
    group_of_class: npt.NDArray[np.int64]


def read(config: SyntheticGraph) -> GraphDraft:
    """Draw the graph of a preset; equal seeds give equal bytes on every machine."""
    preset = PRESETS[config.preset]
    num_nodes, num_edges, width = shape_of(config)
    plan = _plan(config.seed, num_nodes, preset.num_classes)
    return GraphDraft(
        name=f"synthetic-{config.preset}",
        origin=f"synthetic {config.preset}",
        num_nodes=num_nodes,
        edges=_edges(config.seed, plan, num_edges),
        features=_features(config.seed, plan, width),
        labels=plan.labels,
    )


def size(config: SyntheticGraph) -> SourceSize:
    """The shape, and the memory of the plan and of the chunks that are drawn at once."""
    num_nodes, num_edges, width = shape_of(config)
    item = np.dtype(index_dtype(num_nodes)).itemsize
    chunks = min(num_edges, _CHUNK_EDGES) * (num_threads() * (3 * 8 + 2 * item) + 2 * item)  # a finished one waits
    return SourceSize(num_nodes, num_edges, width, reading=3 * 8 + 2 * item, resident=2 * 8 + 2 * item, chunks=chunks)


def shape_of(config: SyntheticGraph) -> tuple[int, int, int]:
    """Nodes, edges drawn, and width of the features."""
    preset = PRESETS[config.preset]
    num_nodes = config.num_nodes or preset.num_nodes
    num_edges = round(num_nodes * (config.mean_degree or preset.mean_degree) / 2)
    return num_nodes, num_edges, config.num_features or preset.num_features


def _plan(seed: int, num_nodes: int, num_classes: int) -> _Plan:
    draw = seeding.generator("synthetic-plan", seed, num_nodes)
    per_class = max(2, round(num_nodes / num_classes / min(500.0, 3 * num_nodes**0.4)))
    sizes = draw.gamma(2.0, size=num_classes * per_class)
    starts = np.concatenate([[0], np.round(np.cumsum(sizes) / sizes.sum() * num_nodes)]).astype(np.int64)
    group_of_class = np.arange(num_classes) // round(num_classes**0.5)
    classes = starts[::per_class]

    weights = _running_weights(draw, num_nodes)
    node_at = draw.permutation(num_nodes)
    labels = np.empty(num_nodes, np.int64)
    for label, (low, high) in enumerate(itertools.pairwise(classes.tolist())):
        labels[node_at[low:high]] = label
    dtype = index_dtype(num_nodes)
    guide = np.empty(num_nodes, dtype)
    _fill_guide(weights, weights[-1] / num_nodes, guide)
    community_guide = np.empty(num_nodes // _STEP + 1, dtype)
    _fill_guide(starts, _STEP, community_guide)
    spans = _spans(weights, starts, per_class, group_of_class)
    return _Plan(
        weights, guide, starts, community_guide, spans, node_at.astype(dtype, copy=False), labels, group_of_class
    )


def _running_weights(draw: np.random.Generator, num_nodes: int) -> npt.NDArray[np.float64]:
    """Running sum [N + 1] of weights that follow a power law, cut where one node would outweigh all others."""
    weights = np.zeros(num_nodes + 1)
    own = weights[1:]
    draw.random(out=own)
    np.subtract(1, own, out=own)
    np.power(own, -1 / (_EXPONENT - 1), out=own)
    np.minimum(own, num_nodes ** (1 / (_EXPONENT - 1)), out=own)
    np.cumsum(own, out=own)
    return weights


def _spans(
    weights: npt.NDArray[np.float64],
    starts: npt.NDArray[np.int64],
    per_class: int,
    group_of_class: npt.NDArray[np.int64],
) -> npt.NDArray[np.float64]:
    community = np.arange(starts.size - 1)
    class_of = community // per_class
    first_class = np.searchsorted(group_of_class, group_of_class)  # of the group of each class
    end_class = np.searchsorted(group_of_class, group_of_class, side="right")
    low = (community, class_of * per_class, first_class[class_of] * per_class)
    high = (community + 1, (class_of + 1) * per_class, end_class[class_of] * per_class)
    columns = [np.stack([weights[starts[a]], weights[starts[b]]], axis=1) for a, b in zip(low, high, strict=True)]
    return np.stack(columns, axis=1)


def _edges(seed: int, plan: _Plan, num_edges: int) -> Iterator[Edges]:
    """Chunks of edges in order; each has its own generator, so threads change nothing."""

    def draw_chunk(chunk: int) -> Edges:
        draw = seeding.generator("synthetic-edges", seed, chunk)
        return _draw_edges(draw, plan, min(_CHUNK_EDGES, num_edges - chunk * _CHUNK_EDGES))

    return map_in_order(draw_chunk, range(-(-num_edges // _CHUNK_EDGES)), num_threads())


def _draw_edges(draw: np.random.Generator, plan: _Plan, count: int) -> Edges:
    """Draw sources by weight, and targets by weight within a part of the line around their source."""
    uniform = draw.random((3, count))  # source, level, target
    source, target = np.empty((2, count), plan.node_at.dtype)
    _find_ends(uniform, np.array(_LEVELS), plan, source, target)
    return source, target


def _features(seed: int, plan: _Plan, width: int) -> RowStream:
    """The centroid of the class, half of it shared by the group, and noise."""
    draw = seeding.generator("synthetic-centroids", seed)
    groups = draw.standard_normal((plan.group_of_class.max() + 1, width))
    classes = draw.standard_normal((plan.group_of_class.size, width))
    centroids = (_SIGNAL * (groups[plan.group_of_class] + classes) / np.sqrt(2)).astype(np.float32)

    def draw_rows(chunk: int) -> npt.NDArray[np.float32]:
        labels = plan.labels[chunk * _CHUNK_ROWS : (chunk + 1) * _CHUNK_ROWS]
        rows = seeding.generator("synthetic-features", seed, chunk).standard_normal((labels.size, width), np.float32)
        rows += centroids[labels]
        return rows

    chunks = range(-(-plan.labels.size // _CHUNK_ROWS))
    return RowStream((plan.labels.size, width), map_in_order(draw_rows, chunks, num_threads()))


@kernel
def _fill_guide(bounds, step, guide):
    """For each multiple of `step`, the last i with bounds[i] <= it; bounds ascend from 0."""
    i = 0
    for cell in range(guide.size):
        while i + 2 < bounds.size and bounds[i + 1] <= cell * step:
            i += 1
        guide[cell] = i


@kernel(inline="always")
def _find(bounds, guide, cell, value):
    """The last i with bounds[i] <= value, below the last bound; `cell` is where the guide is looked up."""
    i = guide[min(cell, guide.size - 1)]
    while i + 2 < bounds.size and bounds[i + 1] <= value:
        i += 1
    while i > 0 and bounds[i] > value:
        i -= 1
    return i


@kernel
def _find_ends(uniform, levels, plan, source, target):
    # three passes over the edges: positions of sources, positions of targets, nodes; each reads few arrays
    total = plan.weights[-1]
    per_cell = plan.guide.size / total
    for e in range(source.size):
        at = total * uniform[0, e]
        source[e] = _find(plan.weights, plan.guide, int(at * per_cell), at)
    for e in range(source.size):
        level = 0
        while level < levels.size and levels[level] <= uniform[1, e]:
            level += 1
        low, high = 0.0, total
        if level < levels.size:
            position = source[e]
            community = _find(plan.starts, plan.community_guide, position // _STEP, position)
            low, high = plan.spans[community, level, 0], plan.spans[community, level, 1]
        at = low + (high - low) * uniform[2, e]
        target[e] = _find(plan.weights, plan.guide, int(at * per_cell), at)
    for e in range(source.size):
        source[e] = plan.node_at[source[e]]
        target[e] = plan.node_at[target[e]]
