"""Pairs of linked nodes, of which an objective takes products."""

from dataclasses import fields

import numpy as np
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
