"""Graphs in memory whose nodes are numbers: edge_index arrays, sparse matrices, objects of torch-geometric and DGL."""

import copy
from typing import Any

import numpy.typing as npt
import scipy.sparse as sp

from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.graph.edge_rows import Edges
from gscl_scale.graph.sources.given import Beside, GivenGraph, array_of
from gscl_scale.graph.sources.pyg import draft_from_data, import_geometric
from gscl_scale.graph.types import SPLIT_CODES
from gscl_scale.text import join_names, quoted

# names that graphs of DGL have by convention
_DGL_FEATURES, _DGL_LABELS, _DGL_WEIGHTS = ("feat", "x"), ("label", "y"), ("weight", "edge_weight", "w")


def from_draft(draft: GraphDraft, beside: Beside) -> GivenGraph:
    """A draft that the caller has made."""
    return GivenGraph(lambda *_: beside.put_into(draft))


def from_edge_index(array: Any, beside: Beside) -> GivenGraph:
    """An array or tensor of integers [2, E]: sources above targets; or a sparse tensor, read as a sparse matrix is."""
    if "sparse" in str(getattr(array, "layout", "")):
        matrix = array.detach().cpu().to_sparse_coo().coalesce()
        return from_sparse(
            sp.coo_array((matrix.values(), tuple(matrix.indices().numpy())), tuple(matrix.shape)), beside
        )
    ends = array_of(array, "edge_index")
    if ends.ndim != 2 or ends.shape[0] != 2 or ends.dtype.kind not in "iu":
        raise GraphError(
            f"edge_index is {ends.dtype} of shape {ends.shape}, expected integers of shape [2, E]; {_cure(ends.shape)}"
        )
    return _numbered("edge_index", (ends[0], ends[1], *_weights(beside, ends.shape[1])), 0, beside)


def _cure(shape: tuple[int, ...]) -> str:
    if len(shape) == 2 and shape[1] == 2:
        return "transpose it with .T"
    if len(shape) == 2 and shape[0] == shape[1]:
        return "give an adjacency matrix as scipy.sparse.csr_array(matrix)"
    return "give the sources of the edges in the first row and the targets in the second"


def from_sparse(matrix: Any, beside: Beside) -> GivenGraph:
    """An adjacency matrix of scipy: a value in row i and column j is the weight of an edge from i to j."""
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"the adjacency has shape {matrix.shape}, expected [N, N]: a row and a column for each node")
    entries = sp.coo_array(matrix)
    kept = entries.data != 0
    source, target, values = (part[kept] for part in (entries.row, entries.col, entries.data))
    weights = [] if (values == 1).all() else [values]
    return _numbered("adjacency", (source, target, *weights), matrix.shape[0], beside)


def _numbered(name: str, edges: Edges, least: int, beside: Beside) -> GivenGraph:
    """A graph of numbered nodes: as many as rows are given beside it, else as edges name, and at least `least`."""
    named = max((int(ends.max()) + 1 for ends in edges[:2] if ends.size), default=0)
    draft = GraphDraft(name=name, origin=name, num_nodes=least or beside.num_rows or named, edges=[edges])
    return GivenGraph(lambda *_: beside.put_into(draft))


def _weights(beside: Beside, num_edges: int) -> list[npt.NDArray[Any]]:
    weights = beside.weight_rows()
    if weights is None:
        return []
    if weights.shape not in ((num_edges,), (num_edges, 1)) or weights.dtype.kind not in "iuf":
        raise GraphError(
            f"weights are {weights.dtype} of shape {weights.shape}, expected a number for each of {num_edges:,} edges"
        )
    return [weights.reshape(-1)]


def from_pyg(data: Any, beside: Beside) -> GivenGraph:
    """A Data of torch-geometric, or a HeteroData with one type of nodes and one of edges."""
    if hasattr(data, "node_types"):
        data = _homogeneous(data)
    names = beside.feature_names
    if names is not None and len(names) != 1:
        raise GraphError(
            f"features: expected the name of one attribute, got {join_names(names)}; join them in one array"
        )
    data = copy.copy(data)
    for key, name in (("x", names and names[0]), ("y", beside.label_name), ("edge_weight", beside.weight_name)):
        if name is not None:
            if data.get(name) is None:
                raise GraphError(f"the graph has no attribute {quoted(name)}; it has {join_names(list(data.keys()))}")
            data[key] = data.get(name)
    if beside.weight_rows() is not None:
        import torch

        data["edge_weight"] = torch.from_numpy(_weights(beside, data.num_edges)[0].copy())
    return GivenGraph(lambda *_: beside.put_into(draft_from_data(data, "data")))


def _homogeneous(data: Any) -> Any:
    """The Data of a HeteroData."""
    nodes, edges = data.node_types, data.edge_types
    if len(nodes) != 1 or len(edges) != 1:
        kinds = join_names(["-".join(kind) for kind in edges])
        raise GraphError(
            f"the HeteroData has {len(nodes)} types of nodes ({join_names(nodes)}) and {len(edges)} of edges "
            f"({kinds}), expected one of each; keep one, or give data.to_homogeneous()"
        )
    stores = {**data[nodes[0]].to_dict(), **data[edges[0]].to_dict()}
    return import_geometric("torch_geometric.data").Data(**stores)


def from_dgl(graph: Any, beside: Beside) -> GivenGraph:
    """A graph of DGL with one type of nodes and one of edges."""
    if len(graph.ntypes) != 1 or len(graph.canonical_etypes) != 1:
        raise GraphError(
            f"the DGL graph has {len(graph.ntypes)} types of nodes and {len(graph.canonical_etypes)} of edges, "
            "expected one of each; give one relation of it, as by graph[etype], or dgl.to_homogeneous(graph)"
        )
    import torch

    columns = {**graph.ndata, **graph.edata}
    wanted = {"x": _DGL_FEATURES, "y": _DGL_LABELS, "edge_weight": _DGL_WEIGHTS}
    wanted |= {f"{part}_mask": (f"{part}_mask",) for part in SPLIT_CODES}
    found = {key: next((name for name in names if name in columns), None) for key, names in wanted.items()}
    named = {key: columns[name] for key, name in found.items() if name is not None}
    ends = torch.stack(graph.edges()).long()
    data = import_geometric("torch_geometric.data").Data(
        **{**columns, **named}, edge_index=ends, num_nodes=graph.num_nodes()
    )
    return from_pyg(data, beside)
