"""A graph on disk: compressed sparse rows, features, labels, splits and the user's ids, memory-mapped."""

from gscl_scale.graph.draft import Draft, write_graph
from gscl_scale.graph.graph import SPLIT_CODES, Graph, SparseFeatures

__all__ = ["SPLIT_CODES", "Draft", "Graph", "SparseFeatures", "write_graph"]
