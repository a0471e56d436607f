"""One batch: distinct nodes once, and for each anchor the positions of its ring members among them.

Shapes: A anchors, U distinct nodes, M members of a level (padded), C candidates shared by the batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from gscl_scale import seeding
from gscl_scale.batches.sampled_subgraph import SampledSubgraph, transpose_pattern
from gscl_scale.config.loss import LossConfig
from gscl_scale.config.sections import RingsConfig, TrainConfig
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.kernels.kernel import kernel
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.sample import Lists, RingSample, target_sizes
from gscl_scale.rings.sketch.level import near_words

_UNDECIDED = 4  # candidates are drawn where at most one anchor in so many cannot decide
Array = npt.NDArray[Any] | Tensor  # a tensor where the batch is made on a device


@dataclass(frozen=True)
class Pairs:
    """Which nodes each anchor is compared with: a pattern of compressed sparse rows, and its transpose.

    indptr [A + 1], indices [P]   positions of the nodes in the batch; rings then beyond, nearest first
    back_indptr [U + 1], back_indices [P], order [P]   by node: which anchors, and which of the P pairs
    """

    indptr: Array
    indices: Array
    back_indptr: Array
    back_indices: Array
    order: Array

    @classmethod
    def of(cls, positions: npt.NDArray[np.int64], present: npt.NDArray[np.bool_], num_nodes: int) -> "Pairs":
        """From padded rows."""
        indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int32)
        indices = positions[present].astype(np.int32)
        return cls(indptr, indices, *transpose_pattern(indptr, indices, num_nodes))


@dataclass(frozen=True)
class Batch:
    """What a step needs of its A anchors, which may be a share or a micro-batch of a larger batch.

    Its arrays are tensors on the device where the round lies there (`device_collate`).

    nodes [U]            distinct nodes, ascending; None where these are all nodes of the graph
    anchors [A]          positions of the anchors
    pairs                the members of all levels: k rings, then each anchor's own far nodes
    present              k + 1 masks [A, M]: which entries of padded rows are members
    candidates [C]       positions of the far nodes drawn for the whole batch
    decided [A, C]       True where the candidate is certainly beyond the anchor's rings and not among its own far nodes
    log_weight [A, k+1]  log of |ring| / members in use, rings then beyond; None where sums are taken as they are
    whole_size           anchors of the whole batch
    subgraph             what the encoder reads to encode the nodes
    asked                candidates that were asked for; there are fewer where anchors cannot decide about so many nodes
    features             of the subgraph's inputs, where the features of all nodes are not in memory
    """

    nodes: Array | None
    anchors: Array
    pairs: Pairs
    present: Sequence[Array]
    candidates: Array
    decided: Array
    log_weight: Array | None
    whole_size: int
    asked: int = 0
    subgraph: SampledSubgraph | None = None
    features: npt.NDArray[np.float32] | SparseFeatures | None = None

    @property
    def num_nodes(self) -> int:
        """The number of nodes that are compared."""
        return int(self.pairs.back_indptr.shape[0]) - 1


def collate(
    sample: RingSample,
    decided_of_all: npt.NDArray[np.float64],
    priorities: Priorities | None,
    num_nodes: int,
    rings: RingsConfig,
    train: TrainConfig,
    loss: LossConfig,
    epoch: int,
    step: int,
) -> Batch:
    """The batch of a step, or a share of it, from the stored samples of its anchors.

    Depends on the seed, epoch and step alone. `decided_of_all` is the column `decided` of all anchors of the step.
    """
    key = member_key(train, epoch)
    lists = [_choose(sample, hop, rings, train, key) for hop in range(len(sample.rings))]
    lists.append(_pad(sample.beyond, sample.beyond.lengths()))
    words = 0 if sample.near is None else near_words(rings.width, num_nodes)
    drawn = draw_candidates(decided_of_all, priorities, 64 * words, train, step)
    decided = _decide(sample, drawn, words)

    used = [sample.anchors, drawn.nodes, *(nodes[present] for nodes, present in lists)]
    nodes = np.unique(np.concatenate([part.astype(np.int64) for part in used]))
    present = [mask for _, mask in lists]
    whole = np.concatenate(present, axis=1)
    members = np.concatenate([nodes for nodes, _ in lists], axis=1)
    return Batch(
        nodes=nodes,
        anchors=np.searchsorted(nodes, sample.anchors),
        pairs=Pairs.of(np.where(whole, np.searchsorted(nodes, members), 0), whole, nodes.size),
        present=present,
        candidates=np.searchsorted(nodes, drawn.nodes),
        decided=decided,
        log_weight=_log_weight(sample, present, decided, num_nodes) if loss.weighting == "size" else None,
        whole_size=decided_of_all.size,
        asked=asked_negatives(priorities, train, num_nodes),
    )


def member_key(train: TrainConfig, epoch: int) -> np.uint64:
    """The key of the random members of an epoch."""
    return seeding.key("members", train.seed, epoch)


def count_members(
    stored: npt.NDArray[np.int64], ring_size: npt.NDArray[np.int64], rings: RingsConfig, train: TrainConfig
) -> npt.NDArray[np.int64]:
    """How many of the stored members of rings of these sizes a batch uses [A]."""
    if train.members == "stored":
        return stored
    return np.minimum(stored, target_sizes(rings.per_ring, ring_size))


def asked_negatives(priorities: Priorities | None, train: TrainConfig, num_nodes: int) -> int:
    """How many candidates a batch asks for."""
    return 0 if priorities is None else min(train.negatives, num_nodes)


Padded = tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]


def _choose(sample: RingSample, hop: int, rings: RingsConfig, train: TrainConfig, key: np.uint64) -> Padded:
    """The members of a ring that a batch uses: all that are stored, the lowest, or a random choice of as many."""
    ring = sample.rings[hop]
    count = count_members(ring.lengths(), sample.ring_size[:, hop], rings, train)
    if train.members == "random":
        ring = Lists(ring.offsets, ring.members.copy())
        _shuffle_lists(key, sample.anchors, ring.offsets, ring.members)
    return _pad(ring, count)


def _pad(lists: Lists, count: npt.NDArray[np.int64]) -> Padded:
    """The first `count` members of each list as rows, and which entries are members."""
    present = np.arange(max(1, int(count.max(initial=0)))) < count[:, None]
    members = np.zeros(present.shape, lists.members.dtype)
    at = lists.offsets[:-1, None] + np.arange(present.shape[1])
    members[present] = lists.members[at[present]]
    return members, present


@kernel
def _shuffle_lists(key, anchors, offsets, members):
    """Bring each list into an order keyed by (key, anchor, member)."""
    for a in range(anchors.size):
        part = members[offsets[a] : offsets[a + 1]]
        drawn = np.empty(part.size, np.uint64)
        own = key ^ seeding.mix(np.uint64(anchors[a]) + np.uint64(1))
        for i in range(part.size):
            drawn[i] = seeding.mix(own ^ seeding.mix(np.uint64(part[i]) + np.uint64(1)))
        part[:] = part[np.argsort(drawn)]


@dataclass(frozen=True)
class Candidates:
    """The far nodes drawn for a batch.

    nodes [C]      ascending
    ranks [C]      their places in the order of priorities
    priority [C]   their priorities
    """

    nodes: npt.NDArray[Any]
    ranks: npt.NDArray[np.int64]
    priority: npt.NDArray[np.float64]


def draw_candidates(
    decided: npt.NDArray[np.float64], priorities: Priorities | None, known: int, train: TrainConfig, step: int
) -> Candidates:
    """Nodes drawn at random among those that most anchors can decide about.

    Most can decide about the nodes below a priority, and all of them about the `known` lowest nodes.
    """
    if priorities is None or train.negatives == 0:
        return Candidates(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
    lower = (decided.size - 1) // _UNDECIDED  # numpy's quantile by method "lower", in a third of the time
    bound = np.partition(decided, lower)[lower]
    pool = int(np.searchsorted(priorities.priority, bound, side="left"))
    pool = max(pool, min(known, priorities.order.size))
    generator = seeding.generator("candidates", train.seed, step)
    drawn = generator.choice(pool, min(train.negatives, pool), replace=False, shuffle=False)
    nodes = priorities.order[drawn]
    ascending = np.argsort(nodes)
    ranks = drawn[ascending]
    return Candidates(nodes[ascending], ranks, priorities.priority[ranks])


def _decide(sample: RingSample, drawn: Candidates, words: int) -> npt.NDArray[np.bool_]:
    """Which candidates are certainly beyond each anchor's rings, without its own far nodes, which it stores."""
    candidates = drawn.nodes.astype(sample.beyond.members.dtype)
    decided = drawn.priority < sample.decided[:, None]
    if sample.near is not None:
        _decide_by_bits(sample.near.offsets, sample.near.members, drawn.ranks, words, decided)
    decided &= candidates != sample.anchors[:, None]
    for lists in (*sample.rings, sample.beyond):
        _exclude_stored(candidates, lists.offsets, lists.members, decided)
    return decided


@kernel
def _decide_by_bits(offsets, bits, ranks, words, decided):
    """Decide about the candidates that an anchor has bits of, in the last of so many words: far if the bit is 0."""
    for a in range(decided.shape[0]):
        last = offsets[a + 1] - words  # where the first word would be
        for c in range(ranks.size if offsets[a + 1] > offsets[a] else 0):
            word = ranks[c] >> 6
            if word < words and last + word >= offsets[a]:
                decided[a, c] = (bits[last + word] >> np.uint64(ranks[c] & 63)) & np.uint64(1) == 0


@kernel
def _exclude_stored(candidates, offsets, members, decided):
    for a in range(decided.shape[0]):
        for i in range(offsets[a], offsets[a + 1]):
            at = np.searchsorted(candidates, members[i])
            if at < candidates.size and candidates[at] == members[i]:
                decided[a, at] = False


def _log_weight(
    sample: RingSample, present: list[npt.NDArray[np.bool_]], decided: npt.NDArray[np.bool_], num_nodes: int
) -> npt.NDArray[np.float32]:
    """log(|ring| / members in use) per anchor and level; 0 where none is in use."""
    used = np.stack([mask.sum(axis=1) for mask in present], axis=1)
    used[:, -1] += decided.sum(axis=1)
    beyond = num_nodes - 1 - sample.ring_size.sum(axis=1)
    beyond = np.maximum(beyond, used[:, -1])  # sizes may be estimates, whose sum may leave nothing; these are there
    whole = np.concatenate([sample.ring_size, beyond[:, None]], axis=1)
    ratio = np.divide(whole, used, out=np.ones(used.shape), where=used > 0)
    return np.log(np.maximum(ratio, 1e-30)).astype(np.float32)
