"""Skip-gram with negative sampling (Mikolov et al., 2013) on random walks: DeepWalk and node2vec.

One thread trains on one walk after the other, so the rows depend on the seed alone. A walk is a function of the seed,
its number and its first node: a first pass counts how often nodes are visited, and the second walks again and trains.
Walks are never in memory together.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gscl_scale import seeding
from gscl_scale.kernels.kernel import kernel
from gscl_scale.runtime.console import Console
from gscl_scale.studies.peers.factorisation import Rows
from gscl_scale.studies.peers.walks import random_below, running_sums, walk

_FIRST_RATE, _LAST_RATE = 0.025, 0.0001  # falling evenly, as in word2vec
_NOISE = 0.75  # exponent of how often a node is visited
_PLACES = 64  # places of a node in the table of negatives, on average
_WALKS_AT_ONCE = 1024


class Walking(NamedTuple):
    """Walks per node and nodes per walk; p and q as in node2vec."""

    walks: int
    length: int
    p: float
    q: float


class SkipGram(NamedTuple):
    """Nodes before and after a node that are its contexts, at most; negatives per pair of a node and a context."""

    window: int
    negatives: int


def embed_walks(
    adjacency: sp.csr_array, width: int, seed: int, walking: Walking, training: SkipGram, console: Console
) -> Rows:
    """Rows [N, width] of the nodes as centres of their contexts; nodes without neighbours keep random rows."""
    num_nodes = adjacency.shape[0]
    indptr, indices, sums = adjacency.indptr.astype(np.int64), adjacency.indices, running_sums(adjacency)
    starts = np.flatnonzero(np.diff(indptr))
    total = walking.walks * starts.size
    pairs = total * walking.length * (training.window + 1)  # windows of 1 to `window` nodes, on both sides
    console.say(f"  {total:,} walks of {walking.length} nodes, about {pairs:,} pairs of a node and a context")
    blocks = [
        (seeding.key("walks", seed, number), some)
        for number in range(walking.walks)
        for some in _in_parts(seeding.generator("order of walks", seed, number).permutation(starts))
    ]
    visits = np.zeros(num_nodes, np.int64)
    for key, some in blocks:
        _count(indptr, indices, sums, some, key, walking, visits)
    table = negatives_table(visits)
    rows = seeding.generator("skip-gram", seed).random((num_nodes, width), np.float32)
    rows = (rows - np.float32(0.5)) / np.float32(width)
    others = np.zeros_like(rows)
    done = 0
    with console.progress("walks", total, "walks") as advance:
        for key, some in blocks:
            _train(
                indptr, indices, sums, some, key, walking, training, table, done / max(1, total), total, rows, others
            )
            done += some.size
            advance(some.size)
    return rows


def negatives_table(visits: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Nodes in places of a table, in proportion to visits^0.75: a random place holds a negative."""
    share = visits.astype(np.float64) ** _NOISE
    ends = np.rint(np.cumsum(share) / max(share.sum(), 1e-300) * _PLACES * np.count_nonzero(visits)).astype(np.int64)
    return np.repeat(np.arange(visits.size, dtype=np.int32), np.diff(ends, prepend=0))


def _in_parts(nodes: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    return [nodes[low : low + _WALKS_AT_ONCE] for low in range(0, nodes.size, _WALKS_AT_ONCE)]


@kernel
def _count(indptr, indices, sums, starts, key, walking, visits):
    nodes = np.empty(walking.length, np.int64)
    state = np.empty(1, np.uint64)
    for start in starts:
        state[0] = seeding.mix(np.uint64(start) ^ key)
        walk(indptr, indices, sums, start, walking.p, walking.q, state, nodes)
        for v in nodes:
            visits[v] += 1


@kernel(fastmath=True)
def _train(indptr, indices, sums, starts, key, walking, training, table, done, total, rows, others):
    """Train on a walk from each start; `done` is the share of all walks before them."""
    nodes = np.empty(walking.length, np.int64)
    targets = np.empty(1 + training.negatives, np.int64)
    gradient = np.empty(rows.shape[1], np.float32)
    state, choice = np.empty(1, np.uint64), np.empty(1, np.uint64)
    for number in range(starts.size):
        state[0] = seeding.mix(np.uint64(starts[number]) ^ key)
        choice[0] = seeding.mix(~state[0])  # of windows and negatives: the walk is that which was counted
        walk(indptr, indices, sums, starts[number], walking.p, walking.q, state, nodes)
        rate = np.float32(max(_LAST_RATE, _FIRST_RATE * (1.0 - done - number / total)))
        for place in range(nodes.size):
            reach = 1 + random_below(training.window, choice)  # near contexts count more, as in word2vec
            for other in range(max(0, place - reach), min(nodes.size, place + reach + 1)):
                if other != place:
                    targets[0] = nodes[other]
                    for negative in range(1, targets.size):
                        targets[negative] = table[random_below(table.size, choice)]
                    train_pair(rows[nodes[place]], others, targets, rate, gradient)


@kernel(fastmath=True)
def train_pair(row, others, targets, rate, gradient):
    """A step down -ln s(v.u_0) - sum ln s(-v.u_i), s the sigmoid, v the row and u_i the row of `targets[i]`.

    Negatives equal to the context are left out. `gradient` is room for a row.
    """
    gradient[:] = 0
    for i in range(targets.size):
        if i > 0 and targets[i] == targets[0]:
            continue
        other = others[targets[i]]
        score = np.float32(0)
        for c in range(row.size):
            score += row[c] * other[c]
        label = np.float32(1) if i == 0 else np.float32(0)
        step = rate * (label - np.float32(1) / (np.float32(1) + np.exp(-score)))
        for c in range(row.size):
            gradient[c] += step * other[c]
            other[c] += step * row[c]
    for c in range(row.size):
        row[c] += gradient[c]
