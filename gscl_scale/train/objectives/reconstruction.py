"""How well products of rows tell linked pairs of nodes from all others.

Shapes: N nodes, D width, R rows at once, P linked pairs.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch.utils.checkpoint import checkpoint

from gscl_scale import seeding
from gscl_scale.graph.graph import Graph
from gscl_scale.model.pairs import Nodes, pair_products
from gscl_scale.train.objectives.linked import LinkedPairs, pattern_of

_ALL_UP_TO = 4096  # nodes
_NUMBERS_AT_ONCE = 1 << 24


class Reconstruction(nn.Module):
    """Cross entropy of edges and loops, and of other pairs: all of a small graph, else as many as are drawn.

    negatives   pairs to draw in a step; None: all up to 4,096 nodes, beyond them as many as there are edges and loops
    """

    def __init__(self, graph: Graph, negatives: int | None) -> None:
        super().__init__()
        self._num_nodes, self.pairs = graph.num_nodes, LinkedPairs(graph)
        default = None if self._num_nodes <= _ALL_UP_TO else self.pairs.codes.size
        self._negatives = negatives or default

    def forward(self, rows_ND: Tensor, key: int) -> tuple[Tensor, Tensor]:
        """The means of -log p over linked pairs and of -log (1 - p) over others, p the sigmoid of the product."""
        products_P = pair_products(rows_ND, rows_ND, self.pairs())
        if self._negatives is None:
            number = max(1, self._num_nodes**2 - products_P.shape[0])
            others = (_sum_of_all(rows_ND) - softplus(products_P).sum()) / number
        else:
            drawn = pattern_of(self._draw(self._negatives, key), self._num_nodes).to(rows_ND.device)
            others = softplus(pair_products(rows_ND, rows_ND, drawn)).sum() / max(1, drawn.indices.shape[0])
        return softplus(-products_P).mean(), others

    def _draw(self, number: int, key: int) -> Nodes:
        """Pairs drawn with replacement, without those that are linked, in ascending order."""
        drawn = np.sort(seeding.generator("negatives", key).integers(0, self._num_nodes**2, number))
        linked = self.pairs.codes
        return drawn[linked[np.searchsorted(linked, drawn).clip(max=linked.size - 1)] != drawn]


def _sum_of_all(rows_ND: Tensor) -> Tensor:
    """Sum of softplus over all pairs; the gradient computes blocks of rows again, which bounds the memory."""

    def block(part_RD: Tensor) -> Tensor:
        return softplus(part_RD @ rows_ND.T).sum()

    size = max(1, _NUMBERS_AT_ONCE // rows_ND.shape[0])
    if size >= rows_ND.shape[0]:
        return block(rows_ND)
    blocks = [checkpoint(block, part_RD, use_reentrant=False) for part_RD in rows_ND.split(size)]
    return torch.stack(blocks).sum()
