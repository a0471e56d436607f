"""Every form in which a Python program may give a graph: how it is recognized, and which function reads it."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.graph.graph import MANIFEST, Graph
from gscl_scale.graph.sources.given import Beside, GivenGraph
from gscl_scale.graph.sources.object_arrays import from_dgl, from_draft, from_edge_index, from_pyg, from_sparse
from gscl_scale.graph.sources.object_attributes import from_igraph, from_networkx
from gscl_scale.graph.sources.object_tables import cure_of_kind, from_path, from_tables, is_table

_NOTHING = Beside()
_ROWS, _NAMED = {"labels", "features"}, {"labels", "features", "weights", "names"}


@dataclass(frozen=True)
class _Form:
    """A form of graphs.

    words    what it is, for messages
    accepts  whether an object is one: by its class, so that no library is imported that the user has not imported
    read     reads one
    takes    what may be given beside it; `names`: also as names of columns or attributes
    """

    words: str
    accepts: Callable[[object], bool]
    read: Callable[[Any, Beside], GivenGraph]
    takes: set[str]


def _is_a(package: str, *classes: str) -> Callable[[object], bool]:
    """Whether the class of an object, or one that it extends, is one of these of a package."""
    return lambda given: any(
        base.__module__.partition(".")[0] == package and base.__name__ in classes for base in type(given).__mro__
    )


def _is_folder_of_graph(given: object) -> bool:
    return isinstance(given, (str, Path)) and _graph_folder(Path(given)) is not None


def _graph_folder(place: Path) -> Path | None:
    return next((folder for folder in (place / "graph", place) if (folder / MANIFEST).exists()), None)


def _from_folder(place: Any, beside: Beside) -> GivenGraph:
    folder = _graph_folder(Path(place))
    assert folder is not None
    return GivenGraph(opened=Graph.open(folder))


_FORMS = (
    _Form("a networkx Graph or DiGraph", _is_a("networkx", "Graph"), from_networkx, _NAMED),
    _Form("an igraph Graph", _is_a("igraph", "Graph"), from_igraph, _NAMED),
    _Form("a scipy sparse adjacency", sp.issparse, from_sparse, _ROWS),
    _Form(
        "an edge_index [2, E] of numpy or torch",
        lambda given: _is_a("numpy", "ndarray")(given) or _is_a("torch", "Tensor")(given),
        from_edge_index,
        _ROWS | {"weights"},
    ),
    _Form("an edge table of pandas, polars or pyarrow", is_table, from_tables, _NAMED | {"nodes"}),
    _Form("a Data or HeteroData of torch_geometric", _is_a("torch_geometric", "Data", "HeteroData"), from_pyg, _NAMED),
    _Form("a DGL graph", _is_a("dgl", "DGLGraph", "DGLHeteroGraph"), from_dgl, _NAMED),
    _Form("the folder of a run or a graph", _is_folder_of_graph, _from_folder, set()),
    _Form(
        "the path of an edge file (.csv, .parquet, .npz)",
        lambda given: isinstance(given, (str, Path)),
        from_path,
        _NAMED | {"nodes"},
    ),
    _Form(
        "a gscl_scale Graph", lambda given: isinstance(given, Graph), lambda graph, _: GivenGraph(opened=graph), set()
    ),
    _Form("a gscl_scale GraphDraft", lambda given: isinstance(given, GraphDraft), from_draft, _ROWS),
)


def given_graph(graph: object, beside: Beside = _NOTHING) -> GivenGraph:
    """How a graph in any of the forms is read; GraphError with all forms for an object of none."""
    form = next((form for form in _FORMS if form.accepts(graph)), None)
    if form is None:
        *others, last = (form.words for form in _FORMS)
        cure = cure_of_kind(graph) or f"give {', '.join(others)}, or {last}"
        raise GraphError(f"expected a graph, got {type(graph).__name__}; {cure}")
    _refuse_beside(form, beside)
    given = form.read(graph, beside)
    return given.without_weights() if beside.unweighted else given


def _refuse_beside(form: _Form, beside: Beside) -> None:
    for name in (field.name for field in fields(Beside) if field.name != "settings"):
        drops_weights = name == "weights" and beside.weights is False and form.takes
        if getattr(beside, name) is not None and name not in form.takes and not drops_weights:
            cure = "only an edge table does" if name == "nodes" else "give the graph in another form (docs/python.md)"
            raise GraphError(f"{name}: {form.words} takes no {name} beside it; {cure}")
    names = [
        name for name in (beside.label_name, beside.weight_name, *(beside.feature_names or ())) if name is not None
    ]
    if names and "names" not in form.takes:
        raise GraphError(f"{form.words} has no column or attribute {names[0]!r}; give an array of rows")
