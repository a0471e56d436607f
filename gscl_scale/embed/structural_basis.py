"""Structural features of another graph as the encoder knows them.

They are determined up to a rotation, which drifts when a graph grows: the nodes that both graphs have show it.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from gscl_scale.embed.rotation import best_rotation
from gscl_scale.errors import GraphError
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.types import SparseFeatures
from gscl_scale.model.scaling import Scaling

_MOST = 32_768  # nodes: 16 MiB in a pickled estimator


@dataclass(frozen=True)
class StructuralBasis:
    """Structural features of some nodes of the graph that an encoder was trained on.

    identities [n]     of the nodes, ascending
    rows [n, width]    their structural features
    """

    identities: npt.NDArray[np.uint64]
    rows: npt.NDArray[np.float32]

    @classmethod
    def of(cls, graph: Graph) -> "StructuralBasis | None":
        """Of the nodes with the lowest identities, whatever their order; None for a graph without such features."""
        if not graph.num_structural:
            return None
        identities = graph.identities()
        nodes = np.argsort(identities, kind="stable")[:_MOST]
        return cls(identities[nodes], _structural(graph, nodes))

    def scaling_for(self, graph: Graph, scaling: Scaling) -> Scaling:
        """The scaling of the training with the rotation of another graph's structural features into these."""
        identities = graph.identities()
        places = np.searchsorted(self.identities, identities).clip(max=self.identities.size - 1)
        known = np.flatnonzero(self.identities[places] == identities)
        if not known.size:
            raise GraphError(
                f"{graph.folder} has no node of the graph that the encoder was trained on, and structural features of "
                "such graphs cannot be compared; bring old nodes too, or train with graph.structure none"
            )
        rows, target = _structural(graph, known), self.rows[places[known]]
        if np.array_equal(rows, target):
            return scaling
        return replace(scaling, rotation=best_rotation(rows, target))


def _structural(graph: Graph, nodes: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    assert not isinstance(graph.features, SparseFeatures)
    return np.array(graph.features[nodes, -graph.num_structural :])
