"""How many entries of a graph each ring kernel reads: the kernels run as plain Python, and the arrays count.

`NUMBA_DISABLE_JIT=1 python -m tests.rings.visits` prints it as JSON, with what the kernels return.
"""

import json
import sys
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

from gscl_scale.config.sections import RingsConfig
from gscl_scale.rings import choose_engine as choice_module
from gscl_scale.rings.choose_engine import choose_engine
from gscl_scale.rings.exact import frontier, hubs, multi_source
from gscl_scale.rings.exact.bfs import exact_rings
from gscl_scale.rings.exact.recount import RowChanges, last_ring_growth
from gscl_scale.rings.exact.ring_sizes import ring_profile
from gscl_scale.rings.exact.twins import twins
from gscl_scale.rings.exact.workspace import borrow_buffers
from gscl_scale.rings.kernels import BITS
from gscl_scale.rings.pilot import pilot_search
from gscl_scale.rings.priorities import Priorities
from gscl_scale.rings.short_lists import complete_short_lists
from gscl_scale.rings.sketch.join import first_level, level_zero, next_level
from gscl_scale.rings.sketch.level import head_words
from gscl_scale.rings.sketch.read import read_rings
from tests.oracles import csr_of, distances

SHAPES = ("star", "hub joined to all", "dense", "path")
SIZES = (202, 404)  # more than the head has; and the last of the words has few anchors
HOPS = 3
NARROW = RingsConfig(hops=HOPS, width=4, per_ring=3, beyond=8)  # many rings are short, and much of what is beyond
PILOT_BUDGET = 1  # edges of the graph


class Counted(np.ndarray):
    """An array that counts each entry that is read of it or of a slice of it."""

    __array_ufunc__ = None  # what would read all at once is refused: nothing escapes the count

    def __array_finalize__(self, other):
        self.reads = getattr(other, "reads", [0])

    def __getitem__(self, key):
        got = super().__getitem__(key)
        if not isinstance(got, np.ndarray):
            self.reads[0] += 1
        elif not isinstance(key, slice):
            self.reads[0] += got.size
        return got


def counted(array):
    """The array, with a count that begins at zero."""
    view = array.view(Counted)
    view.reads = [0]
    return view


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph with the priorities of a round."""

    indptr: np.ndarray
    indices: np.ndarray
    priorities: Priorities

    @property
    def anchors(self):
        """All nodes."""
        return np.arange(self.indptr.size - 1)

    @property
    def some(self):
        """Few enough to search from each of them in plain Python."""
        return self.anchors[::20]

    @property
    def degrees(self):
        """Entries of each node."""
        return np.diff(self.indptr)

    @cache  # noqa: B019
    def distances(self):
        """All-pairs hop distances."""
        return distances(self.indptr, self.indices)


@cache
def graph_of(shape, num_nodes):
    """A connected graph; node 0 is the hub, if there is one."""
    rng = np.random.default_rng(num_nodes)
    edges = [(0, v) for v in range(1, num_nodes)]
    if shape == "hub joined to all":
        edges += rng.integers(1, num_nodes, (num_nodes, 2)).tolist()
    elif shape == "dense":
        edges = rng.integers(0, num_nodes, (num_nodes**2 // 16, 2)).tolist()
    elif shape == "path":
        edges = [(v, v + 1) for v in range(num_nodes - 1)]
    order, priority = rng.permutation(num_nodes).astype(np.int32), np.sort(rng.exponential(size=num_nodes))
    return Graph(*csr_of(edges, num_nodes), Priorities(order, priority))


# --- the kernels: of a graph, and of its indices and its order, which may count; each returns a list of arrays --------


def _arrays(sample):
    lists = [*sample.rings, sample.beyond, sample.near]
    return [array for some in lists for array in (some.offsets, some.members)] + [
        sample.decided, sample.ring_size, sample.ring_size_exact,
    ]  # fmt: skip


def _exact(graph, indices, order, anchors, together):
    priorities = Priorities(order, graph.priorities.priority)
    with patch.object(multi_source, "is_sharing_cheaper", lambda *_: together):
        return _arrays(exact_rings(graph.indptr, indices, anchors, priorities, graph.priorities.rank(), NARROW))


def exact_one_by_one(graph, indices, order):
    return _exact(graph, indices, order, graph.some, False)


def exact_64_at_once(graph, indices, order):
    return _exact(graph, indices, order, graph.anchors, True)


def first_pass(graph, indices, _order):
    level = first_level(
        graph.indptr, indices, graph.priorities.rank(), 0, graph.anchors.size, NARROW.width, _words(graph)
    )
    return _level_arrays(level)


def next_pass(graph, indices, _order):
    before = _levels(graph, 1)[-1]
    return _level_arrays(
        next_level(graph.indptr, indices, graph.priorities.rank(), before, 0, graph.anchors.size, undirected=True)
    )


def _words(graph):
    return head_words(NARROW.width, graph.anchors.size)


def _level_arrays(level):
    heads, tails = level.used()
    return [level.table, level.heads[:heads], level.tails[:tails]]


@cache
def _levels(graph, hops):
    num_nodes, rank = graph.anchors.size, graph.priorities.rank()
    levels = [level_zero(rank, graph.anchors, NARROW.width, _words(graph))]
    levels.append(first_level(graph.indptr, graph.indices, rank, 0, num_nodes, NARROW.width, _words(graph)))
    while len(levels) <= hops:
        levels.append(next_level(graph.indptr, graph.indices, rank, levels[-1], 0, num_nodes, undirected=True))
    return levels


@cache
def told(graph, hops):
    """What the sketch tells of all anchors, and which of its lists are short."""
    return _read(graph, graph.priorities, hops)


def _read(graph, priorities, hops):
    rows = [level.rows(graph.anchors) for level in _levels(graph, hops)]
    return read_rings(rows, graph.anchors, priorities, None, NARROW.per_ring, NARROW.beyond)


def read_lists(graph, _indices, order):
    sample, short = _read(graph, Priorities(order, graph.priorities.priority), HOPS)
    return [*_arrays(sample), short]


def _complete(graph, indices, order, hops):
    config = NARROW.model_copy(update={"hops": hops})
    priorities = Priorities(order, graph.priorities.priority)
    rank = graph.priorities.rank()
    return _arrays(
        complete_short_lists(graph.indptr, indices, *told(graph, hops), priorities, rank, config, undirected=True)
    )


def complete_2_hops(graph, indices, order):
    return _complete(graph, indices, order, 2)


def complete_3_hops(graph, indices, order):
    return _complete(graph, indices, order, 3)


def find_twins(graph, indices, _order):
    return [twins(graph.indptr, indices, graph.anchors, np.zeros(graph.anchors.size, np.bool_))]


def _shortcuts(graph, indices):
    with (
        borrow_buffers(graph.anchors.size) as mine,
        hubs.shortcuts(graph.indptr, indices, graph.anchors, HOPS, BITS, mine) as known,
    ):
        return [array.copy() for array in known]


def find_shortcuts(graph, indices, _order):
    return _shortcuts(graph, indices)


def find_every_shortcut(graph, indices, _order):
    with patch.multiple(hubs, _DEGREE=0, _EDGES=0, _SAVED=0):
        return _shortcuts(graph, indices)


def search_pilot(graph, indices, _order):
    found = pilot_search(graph.indptr, indices, graph.anchors[::4], HOPS, PILOT_BUDGET * indices.size)
    return [found.whole, found.sizes, found.visits, found.edges, found.nodes]


def choose(graph, indices, _order):
    with patch.object(choice_module, "_TO_CHOOSE", PILOT_BUDGET * indices.size):
        choice = choose_engine(graph.indptr, indices, NARROW)
    return [choice.engine, choice.reason]


def profile(graph, indices, _order):
    return list(ring_profile(graph.indptr, indices, graph.some, HOPS, graph.anchors % 3))


def growth(graph, indices, _order):
    anchors, changes = change(graph)
    return [last_ring_growth(graph.indptr, indices, anchors, HOPS, changes)]


@cache
def change(graph):
    """An edge that came and one that went, no hub at either, and the anchors to which they are not too near."""
    first, second = graph.anchors.size // 3, graph.anchors.size // 2
    distance = graph.distances()
    lost = (first, np.flatnonzero(distance[first] > 1)[-1])
    beside = np.flatnonzero(distance[second] == 1)
    won = [(second, beside[-1], True)] if beside[-1] > 0 else []  # all edges of a star are its hub's
    both = sorted((u, w, v) for a, b, w in [(*lost, False), *won] for u, v in ((a, b), (b, a)))
    node, is_won, other = (np.array(column) for column in zip(*both, strict=True))
    anchors = np.flatnonzero((distance[node] >= HOPS - 1).all(axis=0))
    return anchors, RowChanges.of(graph.anchors.size, node, other, is_won)


KERNELS = {
    kernel.__name__: kernel
    for kernel in (
        exact_one_by_one, exact_64_at_once, first_pass, next_pass, read_lists, complete_2_hops, complete_3_hops,
        find_twins, find_shortcuts, find_every_shortcut, search_pilot, choose, profile, growth,
    )
}  # fmt: skip


def result_of(kernel, graph):
    """What a kernel returns, as plain lists."""
    return _run(kernel, graph, graph.indices, graph.priorities.order)


def count(kernel, graph):
    """Entries that a kernel reads of `indices` and of `order`, and what it returns."""
    indices, order = counted(graph.indices), counted(graph.priorities.order)
    returned = _run(kernel, graph, indices, order)
    return indices.reads[0], order.reads[0], returned


def _run(kernel, graph, indices, order):
    returned = KERNELS[kernel](graph, indices, order)
    return [array.tolist() if isinstance(array, np.ndarray) else array for array in returned]


def stand_in_for_compiler():
    """Plain Python for what only numba understands."""
    plain = {
        "ones": lambda word: int(word).bit_count(),
        "lowest_bit": lambda word: (int(word) & -int(word)).bit_length() - 1 if word else 64,
        "prefetch": lambda *_: None,
    }
    for module in [module for name, module in sys.modules.items() if name.startswith("gscl_scale.rings.")]:
        for name in plain.keys() & vars(module).keys():
            setattr(module, name, plain[name])
    frontier.np = SimpleNamespace(uint8=int)  # numba adds it to an integer of 64 bits, numpy to one of 8


if __name__ == "__main__":
    stand_in_for_compiler()
    with np.errstate(over="ignore"):  # hashes wrap around
        counts = {repr((k, s, n)): count(k, graph_of(s, n)) for k in KERNELS for s in SHAPES for n in SIZES}
    json.dump(counts, sys.stdout)
