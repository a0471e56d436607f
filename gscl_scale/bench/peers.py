"""Other tools that can list the rings of a node, each in the forms that suit it best."""

import contextlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from gscl_scale.bench.graphs import edges_of
from gscl_scale.graph.graph import Graph

Anchors = npt.NDArray[np.int64]
_FEW = 16  # fewer than 1 / _FEW of all nodes are made distinct by stamps, more by a sweep over a mark per node
_FRONT = 256  # up to so many rows are gathered by numpy, more by scipy: its row index costs 40 microseconds a call


@dataclass(frozen=True)
class Search:
    """A tool prepared for one graph and depth.

    find    what is timed: the whole rings of some anchors, in the tool's own form
    rings   converts them to sequences of members per anchor and hop
    """

    find: Callable[[Anchors], Any]
    rings: Callable[[Any], Sequence[Sequence[Any]]] = lambda found: found

    def members(self, anchors: Anchors) -> list[list[npt.NDArray[Any]]]:
        """The members per anchor and hop."""
        return [[np.asarray(ring, np.int64) for ring in rings] for rings in self.rings(self.find(anchors))]


@dataclass(frozen=True)
class Form:
    """One way to call a tool, with the number of anchors per call that suits it."""

    name: str
    batch: int
    build: Callable[[Graph, int], Search]


@dataclass(frozen=True)
class Peer:
    """A tool, the package it needs, and its forms; a bench takes the fastest on its graph.

    program   a search written for this comparison with what the package offers, rather than a call of a tool
    """

    name: str
    package: str
    forms: tuple[Form, ...]
    program: bool = False

    def is_installed(self) -> bool:
        """Whether its package can be imported."""
        return importlib.util.find_spec(self.package) is not None


def _one_by_one(rings_of: Callable[[int], Sequence[Any]]) -> Search:
    return Search(lambda anchors: [rings_of(anchor) for anchor in anchors.tolist()])


# --- igraph ----------------------------------------------------------------------------------------------------------


def _igraph(graph: Graph, directed: bool) -> Any:
    import igraph

    edges = np.stack(edges_of(graph, both_ways=directed), axis=1)
    return igraph.Graph(n=graph.num_nodes, edges=edges, directed=directed)


def _igraph_per_hop(graph: Graph, hops: int, directed: bool) -> Search:
    """One call per hop, so that igraph separates the rings; arcs both ways save it merging a node's lists of edges."""
    peer = _igraph(graph, directed or not graph.undirected)

    def find(anchors: Anchors) -> Any:
        nodes = anchors.tolist()
        return [peer.neighborhood(nodes, order=hop, mindist=hop, mode="out") for hop in range(1, hops + 1)]

    return Search(find, lambda found: list(zip(*found, strict=True)))


def _igraph_ball(graph: Graph, hops: int) -> Search:
    """One call for the ball, in the order of distance, and one per smaller hop for the sizes that cut it."""
    peer = _igraph(graph, True)

    def find(anchors: Anchors) -> Any:
        nodes = anchors.tolist()
        sizes = [peer.neighborhood_size(nodes, order=hop, mode="out") for hop in range(1, hops)]
        return peer.neighborhood(nodes, order=hops, mode="out"), sizes

    def rings(found: Any) -> list[list[Any]]:
        balls, sizes = found
        bounds = zip([1] * len(balls), *sizes, map(len, balls), strict=True)
        return [[ball[a:b] for a, b in pairwise(at)] for ball, at in zip(balls, bounds, strict=True)]

    return Search(find, rings)


# --- scipy -----------------------------------------------------------------------------------------------------------


def _matrix(graph: Graph, dtype: npt.DTypeLike) -> Any:
    import scipy.sparse as sp

    index = np.int32 if graph.indices.size < 2**31 else np.int64
    ones = np.ones(graph.indices.size, dtype)
    shape = (graph.num_nodes, graph.num_nodes)
    return sp.csr_matrix((ones, graph.indices.astype(index), graph.indptr.astype(index)), shape=shape)


def _scipy_products(graph: Graph, hops: int, batch: int, dtype: npt.DTypeLike) -> Search:
    """Frontiers [anchors, N] times the adjacency matrix, with a dense mark of seen nodes per anchor."""
    import scipy.sparse as sp

    matrix, num_nodes = _matrix(graph, dtype), graph.num_nodes
    seen = np.zeros(batch * num_nodes, bool)

    def step(front: Any) -> tuple[Any, npt.NDArray[Any]]:
        reached = front @ matrix
        cells = np.repeat(np.arange(front.shape[0]) * num_nodes, np.diff(reached.indptr)) + reached.indices
        new = ~seen[cells]
        offsets = np.concatenate([[0], np.cumsum(new)])[reached.indptr].astype(reached.indptr.dtype)
        members, cells = reached.indices[new], cells[new]
        seen[cells] = True
        return sp.csr_matrix((np.ones(members.size, dtype), members, offsets), shape=front.shape), cells

    def find(anchors: Anchors) -> Any:
        rows = np.arange(anchors.size)
        front = sp.csr_matrix((np.ones(anchors.size, dtype), (rows, anchors)), shape=(anchors.size, num_nodes))
        touched = [rows * num_nodes + anchors]
        seen[touched[0]] = True
        fronts = []
        for _ in range(hops):
            front, cells = step(front)
            fronts.append(front)
            touched.append(cells)
        for cells in touched:
            seen[cells] = False
        return fronts

    def rings(found: Any) -> list[Any]:
        return list(zip(*(np.split(front.indices, front.indptr[1:-1]) for front in found), strict=True))

    return Search(find, rings)


def rows_of_scipy(graph: Graph, hops: int) -> Search:
    """One anchor at a time: the rows of the frontier; then stamps or marks remove repeats and seen nodes."""
    matrix, num_nodes = _matrix(graph, np.int8), graph.num_nodes
    indptr, indices = np.array(graph.indptr), np.array(graph.indices)
    degree = np.diff(indptr)
    seen, marks = np.zeros(num_nodes, bool), np.zeros(num_nodes, bool)
    stamp = np.empty(num_nodes, np.int64)

    def neighbours(front: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if front.size > _FRONT:
            return matrix[front].indices
        ends = np.cumsum(degree[front])
        entries = np.repeat(indptr[front] - ends + degree[front], degree[front])
        entries += np.arange(entries.size)
        return indices[entries]

    def ring_after(front: npt.NDArray[Any]) -> npt.NDArray[Any]:
        near = neighbours(front)
        if near.size * _FEW < num_nodes:
            near = near[~seen[near]]
            own = np.arange(near.size)
            stamp[near] = own
            ring = near[stamp[near] == own]
        else:
            marks.fill(False)
            marks[near] = True
            np.greater(marks, seen, out=marks)
            ring = np.flatnonzero(marks)
        seen[ring] = True
        return ring

    def rings_of(anchor: int) -> list[npt.NDArray[Any]]:
        seen[anchor] = True
        front, rings = np.array([anchor]), []
        for _ in range(hops):
            front = ring_after(front)
            rings.append(front)
        seen.fill(False)
        return rings

    return _one_by_one(rings_of)


# --- networkit -------------------------------------------------------------------------------------------------------


def _networkit(graph: Graph) -> Any:
    import networkit

    networkit.setNumberOfThreads(1)
    sources, targets = edges_of(graph, both_ways=False)
    pairs = sources.astype(np.uint64), targets.astype(np.uint64)
    return networkit.GraphFromCoo(pairs, n=graph.num_nodes, directed=not graph.undirected)


def _networkit_traversal(graph: Graph, hops: int) -> Search:
    """A callback per node in the order of distance; only an error raised in it stops the search at a depth."""
    from networkit.graph import Traversal

    peer = _networkit(graph)

    def rings_of(anchor: int) -> list[list[int]]:
        rings: list[list[int]] = [[] for _ in range(hops + 1)]

        def visit(node: int, distance: int) -> None:
            if distance > hops:
                raise StopIteration
            rings[distance].append(node)

        with contextlib.suppress(RuntimeError):  # networkit's own, raised wherever a callback raises
            Traversal.BFSfrom(peer, anchor, visit)
        return rings[1:]

    return _one_by_one(rings_of)


def _networkit_neighbours(graph: Graph, hops: int) -> Search:
    """Its neighbour iterator and sets of Python."""
    peer = _networkit(graph)

    def rings_of(anchor: int) -> list[list[int]]:
        seen, front, rings = {anchor}, {anchor}, []
        for _ in range(hops):
            front = set().union(*(peer.iterNeighbors(node) for node in front)) - seen
            seen |= front
            rings.append(list(front))
        return rings

    return _one_by_one(rings_of)


def _networkit_distances(graph: Graph, hops: int) -> Search:
    """Its search of the whole graph, and the distances as a list: as an array (11.2.2) they come out wrong."""
    from networkit.distance import BFS

    peer = _networkit(graph)

    def rings_of(anchor: int) -> list[npt.NDArray[Any]]:
        search = BFS(peer, anchor, storePaths=False)
        search.run()
        distances = np.asarray(search.getDistances())
        return [np.flatnonzero(distances == hop) for hop in range(1, hops + 1)]

    return _one_by_one(rings_of)


# --- torch-geometric -------------------------------------------------------------------------------------------------


def _pyg_subgraphs(graph: Graph, hops: int) -> Search:
    """`k_hop_subgraph` per hop; a ring is what the next larger ball adds."""
    import torch
    from torch_geometric.utils import k_hop_subgraph

    torch.set_num_threads(1)
    num_nodes = graph.num_nodes
    sources, targets = edges_of(graph, both_ways=True)
    edge_index = torch.from_numpy(np.stack([targets.astype(np.int64), sources]))  # walked from second row to first

    def rings_of(anchor: int) -> list[Any]:
        seen = torch.zeros(num_nodes, dtype=torch.bool)
        seen[anchor] = True
        rings = []
        for hop in range(1, hops + 1):
            ball = k_hop_subgraph(anchor, hop, edge_index, num_nodes=num_nodes)[0]
            ring = ball[~seen[ball]]
            seen[ring] = True
            rings.append(ring)
        return rings

    return _one_by_one(rings_of)


# --- all -------------------------------------------------------------------------------------------------------------


def _products_form(batch: int, dtype: npt.DTypeLike) -> Form:
    name = f"{batch} anchors at once, {np.dtype(dtype).name}"
    return Form(name, batch, partial(_scipy_products, batch=batch, dtype=dtype))


_IGRAPH = (
    Form("a call per hop", 64, partial(_igraph_per_hop, directed=False)),
    Form("a call per hop, arcs both ways", 64, partial(_igraph_per_hop, directed=True)),
    Form("ball and sizes, arcs both ways", 64, _igraph_ball),
)
_PRODUCTS = tuple(_products_form(batch, dtype) for batch in (16, 64, 256) for dtype in (np.bool_, np.float32))
_NETWORKIT = (
    Form("BFSfrom, stopped at the depth", 1, _networkit_traversal),
    Form("iterNeighbors and sets", 1, _networkit_neighbours),
    Form("BFS of the whole graph", 1, _networkit_distances),
)
PEERS = (
    Peer("igraph neighborhood", "igraph", _IGRAPH),
    Peer("scipy frontier products", "scipy", _PRODUCTS),
    Peer("scipy rows and numpy marks", "scipy", (Form("an anchor at a time", 16, rows_of_scipy),), program=True),
    Peer("networkit", "networkit", _NETWORKIT),
    Peer("torch-geometric k_hop_subgraph", "torch_geometric", (Form("a call per hop", 1, _pyg_subgraphs),)),
)
