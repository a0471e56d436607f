"""Slow, obvious implementations that the fast ones are compared with."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import shortest_path

from gscl_scale.kernels.kernel import read_only


def csr_of(edges, num_nodes, undirected=True):
    """indptr and indices of a graph, built by scipy: no self-loops, no repeats, rows ascending."""
    rows, columns = np.array(edges, np.int64).reshape(-1, 2).T
    if undirected:
        rows, columns = np.concatenate([rows, columns]), np.concatenate([columns, rows])
    keep = rows != columns
    matrix = sp.coo_matrix((np.ones(keep.sum()), (rows[keep], columns[keep])), shape=(num_nodes, num_nodes)).tocsr()
    matrix.sum_duplicates()
    matrix.sort_indices()
    return read_only(matrix.indptr.astype(np.int64)), read_only(matrix.indices.astype(np.int32))


def distances(indptr, indices):
    """All-pairs hop distances; infinity where there is no path."""
    n = indptr.size - 1
    matrix = sp.csr_matrix((np.ones(indices.size), indices, indptr), shape=(n, n))
    return shortest_path(matrix, unweighted=True)


@dataclass
class ObviousSample:
    """The definition of a sample, one anchor at a time."""

    rings: list[list[int]]
    beyond: list[int]
    decided: float
    ring_size: list[int]


def obvious_sample(distance_row, anchor, order, priority_of, hops, width, per_ring, num_beyond):
    """Samples of one anchor from its row of distances and the nodes in priority order."""
    ball = [u for u in order if distance_row[u] == 0]
    rings, sizes = [], []
    for hop in range(1, hops + 1):
        ring = [u for u in order if distance_row[u] == hop]
        ball = [u for u in order if distance_row[u] <= hop]
        lowest = ball[:width]
        if per_ring == "all":
            asked = len(ring)
        elif isinstance(per_ring, str):
            asked = math.ceil(round(float(per_ring.removeprefix("ratio:")) * len(ring), 6))
        else:
            asked = min(per_ring, len(ring))
        in_lowest = [u for u in ring if u in set(lowest)]
        rings.append(max(ring[:asked], in_lowest, key=len))
        sizes.append(len(ring))
    decided = priority_of[ball[width - 1]] if len(ball) >= width else math.inf
    beyond = [u for u in order if not distance_row[u] <= hops][:num_beyond]
    return ObviousSample(rings, beyond, decided, sizes)


def dense_weights(edges, weights, num_nodes, undirected):
    """The weight of each pair of nodes [N, N]: the sum of what was given, without self-loops."""
    total = np.zeros((num_nodes, num_nodes))
    for (u, v), weight in zip(np.asarray(edges).tolist(), np.asarray(weights, float).tolist(), strict=True):
        if u != v:
            total[u, v] += weight
            total[v, u] += weight * undirected
    return total


def entries_of(graph):
    """What the rows of a graph hold as a matrix [N, N]: the weights of its neighbours, or ones."""
    out = np.zeros((graph.num_nodes, graph.num_nodes))
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    out[rows, graph.indices] = 1 if graph.edge_weights is None else graph.edge_weights
    return out
