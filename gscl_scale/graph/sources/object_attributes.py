"""Graphs of networkx and igraph: ids, and attributes of nodes and edges. They are read as tables are."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from gscl_scale.config.graphs import GraphConfig, TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.graph.sources.explain import explained
from gscl_scale.graph.sources.given import GIVEN_WEIGHT, Beside, Encodings, GivenGraph
from gscl_scale.graph.sources.object_tables import EDGES, NODES, UNREADABLE
from gscl_scale.graph.sources.tablefiles import TableFile
from gscl_scale.graph.sources.tables import read_files
from gscl_scale.text import join_names, quoted

_NODE_ID = "node id"  # the column of the ids
_DIRECTED = "the graph is directed; edges are followed in both directions (graph.undirected: false: only in their own)"


@dataclass(frozen=True)
class _Attributed:
    """A graph with attributes: ids [N], ends [2, E] as row numbers, and attributes by name."""

    kind: str
    ids: Sequence[object]
    ends: npt.NDArray[np.int64]
    node_attributes: dict[str, list[Any]]
    edge_attributes: dict[str, list[Any]]
    directed: bool


def from_networkx(graph: Any, beside: Beside) -> GivenGraph:
    """A graph of networkx: its nodes are the ids."""
    nodes, edges = list(graph.nodes(data=True)), list(graph.edges(data=True))
    row = {node: number for number, (node, _) in enumerate(nodes)}
    ends = np.array([(row[source], row[target]) for source, target, _ in edges], np.int64).reshape(-1, 2).T
    return _from_attributed(
        _Attributed(
            "networkx graph",
            [node for node, _ in nodes],
            ends,
            _by_name([data for _, data in nodes]),
            _by_name([data for *_, data in edges]),
            graph.is_directed(),
        ),
        beside,
    )


def _by_name(attributes: list[dict[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for data in attributes for name in data)
    return {name: [data.get(name) for data in attributes] for name in names}


def from_igraph(graph: Any, beside: Beside) -> GivenGraph:
    """A graph of igraph: the attribute `name` holds the ids, else they are the numbers of the vertices."""
    nodes = {name: graph.vs[name] for name in graph.vs.attributes()}
    ids = nodes.pop("name", range(graph.vcount()))
    ends = np.array(graph.get_edgelist(), np.int64).reshape(-1, 2).T
    edges = {name: graph.es[name] for name in graph.es.attributes()}
    return _from_attributed(_Attributed("igraph graph", ids, ends, nodes, edges, graph.is_directed()), beside)


def _from_attributed(graph: _Attributed, beside: Beside) -> GivenGraph:
    if not len(graph.ids):
        raise GraphError(f"the {graph.kind} is empty; expected at least one node")
    label = _attribute(graph, beside.label_name, "y")
    features = beside.feature_names
    if features is None:
        features = ["x"] if "x" in graph.node_attributes else []
    for name in features:
        _attribute(graph, name, "")
    taken = dict.fromkeys([*([label] if label else []), *features])
    ids, notes = _plain_ids(graph)
    nodes = _frame(graph.kind, {_NODE_ID: ids, **{name: graph.node_attributes[name] for name in taken}})
    edges = pa.table({"source": nodes[_NODE_ID].take(graph.ends[0]), "target": nodes[_NODE_ID].take(graph.ends[1])})
    weights = _weights_of(graph, beside)
    settings = {
        "source": "tables", "edges": EDGES, "nodes": NODES, "source_column": "source", "target_column": "target",
        "id_column": _NODE_ID, "label_column": label, "split_column": None, "feature_columns": features,
        "weight_column": None if weights is None else GIVEN_WEIGHT,
    }  # fmt: skip
    if weights is not None:
        edges = edges.append_column(GIVEN_WEIGHT, pa.array(weights))
    if others := [name for name in graph.node_attributes if name not in taken]:
        notes.append(
            f"node attributes that are not read: {join_names(others)}; features=[...] reads those that it names"
        )

    def draft(section: GraphConfig, known: Encodings) -> GraphDraft:
        assert isinstance(section, TablesGraph)
        files, node_files = ([TableFile(Path(name), table=table)] for name, table in ((EDGES, edges), (NODES, nodes)))
        found = beside.put_into(read_files(section, files, node_files, known or ()))
        found.name = graph.kind
        found.notes += [*notes, *([_DIRECTED] if graph.directed and section.undirected else [])]
        return found

    return GivenGraph(draft, settings=settings)


def _attribute(graph: _Attributed, name: str | None, usual: str) -> str | None:
    """The attribute of nodes with a name; that with the usual name, if there is one, where none is given."""
    if name is None:
        return usual if usual in graph.node_attributes else None
    if name not in graph.node_attributes:
        raise _no_attribute(graph.kind, "node", name, graph.node_attributes)
    return name


def _plain_ids(graph: _Attributed) -> tuple[list[object], list[str]]:
    """Ids that are all integers or all text; others are written as text, with a note."""
    numbers = [isinstance(node, (int, np.integer)) and not isinstance(node, bool) for node in graph.ids]
    if all(numbers) or all(isinstance(node, str) for node in graph.ids):
        return list(graph.ids), []
    by_text: dict[str, object] = {}
    for node in graph.ids:
        if (other := by_text.setdefault(str(node), node)) is not node:
            raise GraphError(
                f"{graph.kind}: the nodes {quoted(other)} and {quoted(node)} both become the text {quoted(str(node))}; "
                "give one of them another name, such as by networkx.relabel_nodes"
            )
    example = next(node for node, number in zip(graph.ids, numbers, strict=True) if not number)
    return [str(node) for node in graph.ids], [
        f"nodes are not all integers or text: ids are their text, as {quoted(str(example))}"
    ]


def _frame(kind: str, columns: dict[str, list[Any]]) -> pa.Table:
    """Attributes as a table; those with several numbers per node as lists."""
    arrays = {}
    for name, values in columns.items():
        with explained(_unreadable(kind, name), *UNREADABLE):
            plain = [value if np.ndim(value) == 0 else np.ravel(value) for value in values]
            arrays[name] = pa.array(plain, from_pandas=True)  # NaN is a gap, also among text
    return pa.table(arrays)


def _unreadable(kind: str, name: str) -> Any:
    return lambda error: f"{kind}: {quoted(name)} cannot be read: {error}; expected numbers or text of one kind"


def _weights_of(graph: _Attributed, beside: Beside) -> npt.NDArray[Any] | list[Any] | None:
    """Weights that are given or named, else the attribute `weight`; an edge without it has weight 1, as in networkx."""
    if beside.unweighted:
        return None
    if (rows := beside.weight_rows()) is not None:
        if rows.shape != (graph.ends.shape[1],):
            raise GraphError(f"weights: expected a number for each of {graph.ends.shape[1]:,} edges, got {rows.shape}")
        return rows
    name = beside.weight_name or "weight"
    if name not in graph.edge_attributes:
        if beside.weight_name is not None:
            raise _no_attribute(graph.kind, "edge", name, graph.edge_attributes)
        return None
    found = [_weight(value) for value in graph.edge_attributes[name]]
    if None in found:
        at = found.index(None)
        source, target = (quoted(graph.ids[row]) for row in graph.ends[:, at])
        raise GraphError(
            f"{graph.kind}: {quoted(name)} of the edge from {source} to {target} is "
            f"{quoted(graph.edge_attributes[name][at])}, expected a number; correct it, give a number per edge: "
            "weights=[...], or leave all weights out: weights=False"
        )
    return found


def _weight(value: Any) -> float | None:
    """An attribute as a number, 1 where an edge has none; None for what is no number."""
    if value is None or isinstance(value, (int, float)):
        return 1.0 if value is None else value
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _no_attribute(kind: str, of: str, name: str, known: dict[str, list[Any]]) -> GraphError:
    return GraphError(f"the {kind} has no {of} attribute {quoted(name)}; it has {join_names(list(known)) or 'none'}")
