"""Pairs of linked nodes, of which an objective takes products, and nodes within a few hops of others."""

from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import scipy.sparse as sp
from torch import nn

from gscl_scale.graph.graph import Graph
from gscl_scale.model.pairs import Nodes, PairPattern


class LinkedPairs(nn.Module):
    """Each node with its neighbors and, with `loops`, itself; they move with the module and are part of no checkpoint.

    codes [P]   first * N + second of each pair, in ascending order
    """

    def __init__(self, graph: Graph, loops: bool = True) -> None:
        super().__init__()
        self.codes = linked_codes(graph, loops)
        pattern = pattern_of(self.codes, graph.num_nodes)
        for part in fields(pattern):
            self.register_buffer(part.name, getattr(pattern, part.name), persistent=False)

    def forward(self) -> PairPattern:
        """The pattern of the pairs."""
        return PairPattern(*(getattr(self, part.name) for part in fields(PairPattern)))


def linked_codes(graph: Graph, loops: bool = True) -> Nodes:
    """first * N + second of each node with its neighbors and, with `loops`, itself, in ascending order."""
    nodes = np.arange(graph.num_nodes)
    codes = np.repeat(nodes, np.diff(graph.indptr)) * graph.num_nodes + graph.indices
    return np.sort(np.concatenate([codes, nodes * (graph.num_nodes + 1)])) if loops else codes


def pattern_of(codes: Nodes, num_nodes: int) -> PairPattern:
    """The pattern of pairs by their codes, in ascending order."""
    return PairPattern.of(*np.divmod(codes, num_nodes), num_nodes)


def edge_matrix(graph: Graph) -> sp.csr_array:
    """A one where a node has a neighbor."""
    ones = np.ones(graph.indices.size, np.float32)
    return sp.csr_array((ones, graph.indices, graph.indptr), (graph.num_nodes, graph.num_nodes))


def neighborhoods(edges: sp.csr_array, nodes: Nodes, hops: int) -> Iterator[sp.csr_array]:
    """For 1, 2 .. hops, a row for each of some nodes: entries at the nodes that are as near, in ascending order."""
    near = sp.csr_array(
        (np.ones(nodes.size, np.float32), nodes, np.arange(nodes.size + 1)), (nodes.size, edges.shape[1])
    )
    for _ in range(hops):
        near = (near + near @ edges).sorted_indices()
        near.data[:] = 1
        yield near
