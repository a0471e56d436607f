"""Structural features of another graph as the encoder knows them.

They are determined up to a rotation, which drifts when a graph grows: the nodes that both graphs have show it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gscl_scale.embed.rotation import LEAST, agreement, best_rotation
from gscl_scale.errors import GraphError
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.model.scaling import Scaling
from gscl_scale.text import counted

_MOST = 32_768  # nodes: 16 MiB in a pickled estimator
# agreement: permuted ids have 0.00 ± 0.06, a graph that grew by a tenth 0.8 to 1.0, one that doubled 0.3 to 0.8
_CHANCE, _GOOD = 0.1, 0.7
_SURE = 30  # nodes: of fewer, the agreement of two graphs may be low by chance
_CURE = "embed the whole graph with its new nodes, not a part of it, or train on this graph"

Rows = npt.NDArray[np.float32]


@dataclass(frozen=True)
class StructuralBasis:
    """Structural features of some nodes of the graph that an encoder was trained on.

    identities [n]     of the nodes, ascending
    rows [n, width]    their structural features
    """

    identities: npt.NDArray[np.uint64]
    rows: Rows

    @classmethod
    def of(cls, graph: Graph) -> "StructuralBasis | None":
        """Of the nodes with the lowest identities, whatever their order; None for a graph without such features."""
        if not graph.num_structural:
            return None
        identities = graph.identities()
        nodes = np.argsort(identities, kind="stable")[:_MOST]
        return cls(identities[nodes], _structural(graph, nodes))

    def scaling_for(self, graph: Graph, scaling: Scaling, subject: str, warn: Callable[[str], object]) -> Scaling:
        """The scaling of the training with the rotation of another graph's structural features into these.

        subject   what the messages call the graph
        warn      is called with a sentence where the two graphs can hardly be compared
        """
        identities = graph.identities()
        places = np.searchsorted(self.identities, identities).clip(max=self.identities.size - 1)
        known = np.flatnonzero(self.identities[places] == identities)
        if not known.size:
            raise GraphError(
                f"{subject} has no node of the graph that the encoder was trained on, and structural features of "
                "such graphs cannot be compared; bring old nodes too, or train with graph.structure none"
            )
        rows, target = _structural(graph, known), self.rows[places[known]]
        if np.array_equal(rows, target):
            return scaling
        self._compare(rows, target, subject, warn)
        return replace(scaling, rotation=best_rotation(rows, target))

    def _compare(self, rows: Rows, target: Rows, subject: str, warn: Callable[[str], object]) -> None:
        common = f"{subject} and the graph of the training have {counted(len(rows), 'node', 'nodes')} in common"
        if len(rows) < LEAST:
            warn(f"{common}, too few to compare their structural features; {_CURE}")
        if (found := agreement(rows, target)) is None:
            return
        agree = f"{common}, whose structural features agree by {max(found, 0):.2f} (1 is the same, 0 is chance)"
        if found < _CHANCE and len(rows) >= _SURE:
            raise GraphError(
                f"{agree}, expected at least {_CHANCE}; check that an id means the same node in both graphs, bring all "
                "nodes and edges, or train on this graph"
            )
        if found < _GOOD:
            warn(f"{agree}, so that its embeddings are only roughly those of the training; {_CURE}")


def _structural(graph: Graph, nodes: npt.NDArray[np.int64]) -> Rows:
    assert not isinstance(graph.features, SparseFeatures)
    return np.array(graph.features[nodes, -graph.num_structural :])
