"""A seeded graph with communities within classes within groups, and power-law degrees."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.config import SyntheticGraph
from gscl_scale.graph.draft import Draft, Edges
from gscl_scale.graph.scratch import RowFile

_CHUNK_EDGES = 1 << 21
_CHUNK_ROWS = 1 << 16
_EXPONENT = 2.5  # of the power law of the degrees
_LEVELS = (0.45, 0.75, 0.92)  # an edge ends in the same community, class, group of classes with these shares, summed
_SIGNAL = 0.25  # deviation of the classes' centroids; that of the noise is 1


@dataclass(frozen=True)
class _Preset:
    num_nodes: int
    mean_degree: float
    num_classes: int
    width: int


_PRESETS = {
    "tiny": _Preset(300, 8, 5, 64),
    "small": _Preset(3000, 10, 10, 64),
    "arxiv": _Preset(169_343, 15.3, 40, 128),
    "large": _Preset(10_000_000, 20, 50, 32),
}


@dataclass(frozen=True)
class _Plan:
    """Nodes stand in a line, cut into communities; neighbouring communities form a class, and classes a group.

    weights [N + 1]    running sum of the weights along the line
    levels             bounds of community, class and group as positions on the line
    node_at [N]        the node that stands at a position
    labels [N]         class of each node
    """

    weights: npt.NDArray[np.float64]
    levels: tuple[npt.NDArray[np.int64], ...]
    node_at: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    group_of_class: npt.NDArray[np.int64]


def read(config: SyntheticGraph) -> Draft:
    """Draw the graph of a preset; equal seeds give equal bytes, whatever the machine."""
    preset = _PRESETS[config.preset]
    num_nodes = config.num_nodes or preset.num_nodes
    num_edges = round(num_nodes * (config.mean_degree or preset.mean_degree) / 2)
    plan = _plan(config.seed, num_nodes, preset.num_classes)
    return Draft(
        name=f"synthetic-{config.preset}",
        origin=f"synthetic {config.preset}",
        num_nodes=num_nodes,
        edges=_edges(config.seed, plan, num_edges),
        features=_features(config.seed, plan, preset.width),
        labels=plan.labels,
    )


def _plan(seed: int, num_nodes: int, num_classes: int) -> _Plan:
    draw = seeding.generator("synthetic-plan", seed, num_nodes)
    per_class = max(2, round(num_nodes / num_classes / min(500.0, 3 * num_nodes**0.4)))
    sizes = draw.gamma(2.0, size=num_classes * per_class)
    communities = np.concatenate([[0], np.round(np.cumsum(sizes) / sizes.sum() * num_nodes)]).astype(np.int64)
    classes = communities[::per_class]
    group_of_class = np.arange(num_classes) // round(num_classes**0.5)
    groups = classes[np.concatenate([[0], np.flatnonzero(np.diff(group_of_class)) + 1, [num_classes]])]

    weights = np.zeros(num_nodes + 1)
    heaviest = num_nodes ** (1 / (_EXPONENT - 1))
    np.cumsum(np.minimum((1 - draw.random(num_nodes)) ** (-1 / (_EXPONENT - 1)), heaviest), out=weights[1:])
    node_at = draw.permutation(num_nodes)
    labels = np.empty(num_nodes, np.int64)
    labels[node_at] = np.repeat(np.arange(num_classes), np.diff(classes))
    return _Plan(weights, (communities, classes, groups), node_at, labels, group_of_class)


def _edges(seed: int, plan: _Plan, num_edges: int) -> Iterator[Edges]:
    for chunk, low in enumerate(range(0, num_edges, _CHUNK_EDGES)):
        draw = seeding.generator("synthetic-edges", seed, chunk)
        source, target = _draw_edges(draw, plan, min(_CHUNK_EDGES, num_edges - low))
        yield plan.node_at[source], plan.node_at[target]


def _draw_edges(draw: np.random.Generator, plan: _Plan, count: int) -> Edges:
    """Positions of both ends: the source by weight, the target by weight within a part of the line around it."""
    source = _positions(plan, np.zeros(count), np.full(count, plan.weights[-1]), draw)
    level = np.searchsorted(_LEVELS, draw.random(count), side="right")
    low, high = np.zeros(count), np.full(count, plan.weights[-1])
    for number, bounds in enumerate(plan.levels):
        chosen = np.flatnonzero(level == number)
        part = np.searchsorted(bounds, source[chosen], side="right") - 1
        low[chosen], high[chosen] = plan.weights[bounds[part]], plan.weights[bounds[part + 1]]
    return source, _positions(plan, low, high, draw)


def _positions(
    plan: _Plan, low: npt.NDArray[np.float64], high: npt.NDArray[np.float64], draw: np.random.Generator
) -> npt.NDArray[np.int64]:
    at = low + (high - low) * draw.random(low.size)
    return np.clip(np.searchsorted(plan.weights, at, side="right") - 1, 0, plan.node_at.size - 1)


def _features(seed: int, plan: _Plan, width: int) -> npt.NDArray[np.float32] | None:
    """The centroid of the class, half of it shared by the group, and noise; the rows live in a file."""
    draw = seeding.generator("synthetic-centroids", seed)
    groups = draw.standard_normal((plan.group_of_class.max() + 1, width))
    classes = draw.standard_normal((plan.group_of_class.size, width))
    centroids = (_SIGNAL * (groups[plan.group_of_class] + classes) / np.sqrt(2)).astype(np.float32)
    with RowFile() as rows:
        for chunk, low in enumerate(range(0, plan.labels.size, _CHUNK_ROWS)):
            labels = plan.labels[low : low + _CHUNK_ROWS]
            draw = seeding.generator("synthetic-features", seed, chunk)
            rows.append(centroids[labels] + draw.standard_normal((labels.size, width), np.float32))
        return rows.mapped()
