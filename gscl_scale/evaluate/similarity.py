"""How similar anchors are to the members of their rings, and whether the vectors have collapsed."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.config.evaluate import EvaluateConfig
from gscl_scale.evaluate.schema import RingLevel, Spread
from gscl_scale.evaluate.vectors import Vectors, cosines, num_rows, take, unit, width
from gscl_scale.graph.graph import Graph
from gscl_scale.rings.sample import Lists, RingSample

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
BINS = 40
PAIRS_PER_HOP = 100_000
_MOST_ANCHORS = 5_000
_SPREAD_ROWS = 5_000
_SPREAD_WIDTH = 2_048
_SPREAD_PAIRS = 50_000


@dataclass(frozen=True)
class RingLists:
    """Anchors [A] ascending, and for every hop, then beyond the last, the members of each anchor's ring.

    held_out   whether none of these anchors was trained on
    """

    anchors: npt.NDArray[np.int64]
    levels: list[Lists]
    held_out: bool = False


class _Samples(Protocol):
    def take(self, anchors: npt.NDArray[np.int64]) -> RingSample: ...


def ring_lists(
    samples: _Samples, graph: Graph, config: EvaluateConfig, held_out: npt.NDArray[np.int64] | None = None
) -> RingLists:
    """The stored rings of a seeded sample of anchors, or of all where there are few: of those held out if there are."""
    some = held_out if held_out is not None and held_out.size else None
    anchors = np.arange(graph.num_nodes, dtype=np.int64) if some is None else some
    anchors = seeding.sample(anchors, min(config.sample, _MOST_ANCHORS), "ring anchors", config.seed)
    taken = samples.take(anchors)
    return RingLists(anchors, [*taken.rings, taken.beyond], some is not None)


def ring_similarity(vectors: Vectors, rings: RingLists, seed: int = 0, most: int = PAIRS_PER_HOP) -> list[RingLevel]:
    """Per hop, then beyond the last: mean cosine of anchors and members, quantiles, and a histogram over [-1, 1].

    At most `most` pairs per hop, drawn with the seed; a hop without any member has mean None.
    """
    return [_level(vectors, rings.anchors, lists, hop, seed, most) for hop, lists in enumerate(rings.levels, start=1)]


def _level(vectors: Vectors, anchors: npt.NDArray[np.int64], lists: Lists, hop: int, seed: int, most: int) -> RingLevel:
    places = seeding.sample(np.arange(lists.members.size), most, "ring pairs", seed, hop)
    if not places.size:
        return {"pairs": 0, "mean": None, "quantiles": [], "histogram": []}
    left = anchors[np.searchsorted(lists.offsets, places, side="right") - 1]
    values = cosines(vectors, left, lists.members[places].astype(np.int64))
    counts, _ = np.histogram(values, bins=BINS, range=(-1.0, 1.0))
    return {
        "pairs": int(values.size),
        "mean": float(values.mean()),
        "quantiles": [float(value) for value in np.quantile(values, QUANTILES)],
        "histogram": [int(count) for count in counts],
    }


def spread(vectors: Vectors, seed: int = 0) -> Spread:
    """Signs of collapse that need no label.

    mean_cosine     of random pairs of nodes; near 1 when all vectors point the same way
    effective_rank  exp of the entropy of the singular values of rows of length one (RankMe, Garrido et al. 2023);
                    None for rows too wide to measure
    """
    draw, total = seeding.generator("spread", seed), num_rows(vectors)
    left = draw.integers(0, total, _SPREAD_PAIRS)
    right = (left + draw.integers(1, max(2, total), _SPREAD_PAIRS)) % total  # never the node itself
    rank = None
    if width(vectors) <= _SPREAD_WIDTH:
        nodes = np.sort(draw.choice(total, min(total, _SPREAD_ROWS), replace=False))
        rank = _effective_rank(unit(take(vectors, nodes)))
    return {"mean_cosine": float(cosines(vectors, left, right).mean()), "effective_rank": rank}


def _effective_rank(rows: Any) -> float:
    product = rows.T @ rows
    gram = np.asarray(product.toarray() if hasattr(product, "toarray") else product, np.float64)
    singular = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0))
    # below float32's precision a value is noise: a collapsed matrix must come out at 1
    share = singular[singular > 1e-3 * singular.max()] / max(singular.sum(), 1e-30)
    return float(np.exp(-(share * np.log(share)).sum())) if share.size else 0.0
