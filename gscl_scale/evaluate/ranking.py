"""Ranking accuracy: how often a nearer node is more similar to an anchor than a farther one."""

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.evaluate.schema import Ranking
from gscl_scale.evaluate.similarity import RingLists
from gscl_scale.evaluate.vectors import Vectors, cosines
from gscl_scale.rings.sample import Lists

PAIRS_PER_HOP = 50_000


def ring_ranking(vectors: Vectors, rings: RingLists, seed: int = 0, most: int = PAIRS_PER_HOP) -> Ranking:
    """`by_hop`: per hop, the share of pairs in which its member is more similar to the anchor than a farther node.

    A pair is a member of the hop's ring and a node of a farther ring, or beyond, of the same anchor, drawn with the
    seed. Equal similarity counts half, so 0.5 is chance. `accuracy` is the mean over the hops that have pairs.
    """
    shares = [_share(vectors, rings, hop, seed, most) for hop in range(len(rings.levels) - 1)]
    known = [share for share in shares if share is not None]
    return {"accuracy": float(np.mean(known)) if known else None, "by_hop": shares}


def _share(vectors: Vectors, rings: RingLists, hop: int, seed: int, most: int) -> float | None:
    draw = seeding.generator("ranking pairs", seed, hop)
    anchors, near, farther = rings.anchors, rings.levels[hop], rings.levels[hop + 1 :]
    sizes = np.stack([np.diff(lists.offsets) for lists in farther])
    members = np.repeat(np.arange(anchors.size), np.diff(near.offsets))
    places = np.flatnonzero(sizes.sum(axis=0)[members])  # whose anchor has anything farther
    if not places.size:
        return None
    places = places[draw.integers(0, places.size, most)] if places.size > most else places
    who = members[places]
    far = _drawn(farther, sizes, who, draw)
    nearer = cosines(vectors, anchors[who], near.members[places].astype(np.int64))
    return float(np.mean(np.sign(nearer - cosines(vectors, anchors[who], far)) / 2 + 0.5))


def _drawn(
    farther: list[Lists], sizes: npt.NDArray[np.int64], who: npt.NDArray[np.int64], draw: np.random.Generator
) -> npt.NDArray[np.int64]:
    """For each anchor one node of its farther rings: a ring that has some, each alike, then a node of it."""
    some = sizes[:, who] > 0
    chosen = np.where(some, draw.random(some.shape), -1).argmax(axis=0)
    far = np.empty(who.size, np.int64)
    for level, lists in enumerate(farther):
        mine = np.flatnonzero(chosen == level)
        of = who[mine]
        far[mine] = lists.members[lists.offsets[of] + draw.integers(0, sizes[level][of])]
    return far
