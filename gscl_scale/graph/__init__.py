"""A graph on disk: compressed sparse rows, features, labels, splits and the user's ids, memory-mapped."""

from gscl_scale.graph.components import component_sizes
from gscl_scale.graph.draft import Draft, write_graph
from gscl_scale.graph.graph import SPLIT_CODES, Graph, SparseFeatures
from gscl_scale.graph.messages import Messages

__all__ = ["SPLIT_CODES", "Draft", "Graph", "Messages", "SparseFeatures", "component_sizes", "write_graph"]
