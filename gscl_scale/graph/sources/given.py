"""A graph that a Python program gives, and what it gives beside it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from gscl_scale.config.graphs import GraphConfig, MemoryGraph, TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.label_sets import LabelSets, has_lists, is_table_of_numbers
from gscl_scale.graph.sources.label_columns import sets_from_rows
from gscl_scale.graph.sources.row_order import in_order_of_edges, in_order_of_nodes
from gscl_scale.graph.types import ColumnEncoding
from gscl_scale.text import quoted, shortened

Encodings = Sequence[ColumnEncoding] | None  # of the node table that an encoder was trained on; None in training
Reader = Callable[[GraphConfig, Encodings], GraphDraft]
_ROWS_PER_CODE = 2  # at least: values that are all different have codes too, and are no classes
GIVEN_WEIGHT = "given weight"  # a column that is made of weights in memory
_OF_ALL_SOURCES = set(MemoryGraph.model_fields) - {"source"}


@dataclass(frozen=True)
class Beside:
    """What a caller gives beside a graph: rows in the order of its nodes or edges, or names of columns or attributes.

    A pandas index other than 0..N-1 says whose the rows are.

    nodes      a table of nodes, or its path
    labels     one class per node, a list of them, or 0 and 1 for each label [N, L]; or a dict by id
    features   [N, F] numbers, dense or sparse; or names
    weights    one number per edge; False: the graph without its weights
    settings   of the config's section `graph`, which say how a file is read
    """

    nodes: Any = None
    labels: Any = None
    features: Any = None
    weights: Any = None
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def label_name(self) -> str | None:
        """The column or attribute of the labels, if they are named."""
        return self.labels if isinstance(self.labels, str) else None

    @property
    def weight_name(self) -> str | None:
        """The column or attribute of the weights, if they are named."""
        return self.weights if isinstance(self.weights, str) else None

    @property
    def unweighted(self) -> bool:
        """Whether weights of the graph are left out."""
        return self.weights is False or (self.weights is None and self.settings.get("weight_column", "") is None)

    @property
    def feature_names(self) -> list[str] | None:
        """The columns or attributes of the features, if they are named."""
        if isinstance(self.features, str):
            return [self.features]
        named = isinstance(self.features, (list, tuple)) and all(isinstance(name, str) for name in self.features)
        return list(self.features) if named else None

    @property
    def num_rows(self) -> int:
        """How many rows labels and features have at most; 0 where they are named or a dict."""
        rows = (self.labels if self.label_name is None else None, self.features if self.feature_names is None else None)
        return max((_num_rows(part) for part in rows if part is not None and not isinstance(part, Mapping)), default=0)

    def weight_rows(self, table: object = None) -> npt.NDArray[Any] | None:
        """The weights in the order of the edges of a table, if they are given as rows."""
        if self.weights is None or isinstance(self.weights, (str, bool)):
            return None
        return array_of(in_order_of_edges(self.weights, "weights", table), "weights")

    @property
    def has_rows(self) -> bool:
        """Whether labels or features are given as rows."""
        labelled = self.labels is not None and self.label_name is None
        return labelled or (self.features is not None and self.feature_names is None)

    def put_into(self, draft: GraphDraft) -> GraphDraft:
        """A draft with the labels and features that are given as rows in place of its own."""

        def ids() -> Sequence[Any]:
            return range(draft.num_nodes) if draft.ids is None else draft.ids.to_pylist()

        if self.labels is not None and self.label_name is None:
            labels = _labels_of(in_order_of_nodes(self.labels, "labels", ids, self.nodes))
            if found := _column_with(labels, self.nodes):
                name, what = found
                raise GraphError(
                    f"labels: these are {what} of the column {quoted(name)} of nodes, which would be trained on as "
                    f"a feature; give its name: labels={name!r}"
                )
            draft = replace(draft, labels=labels)
        if self.features is not None and self.feature_names is None:
            features = _features_of(in_order_of_nodes(self.features, "features", ids, self.nodes))
            draft = replace(draft, features=features, columns=[], summaries=[], encoding=[])
        return draft


@dataclass(frozen=True)
class GivenGraph:
    """How a graph is read that a program gives.

    draft        reads it; None for a graph that is in its folder already
    opened       that graph
    settings     of the config's section `graph`: what the object decides
    recognized   the same, where the config says nothing
    in_files     whether `settings` name files that are all there is to read
    """

    draft: Reader | None = None
    opened: Graph | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    recognized: Mapping[str, object] = field(default_factory=dict)
    in_files: bool = False

    def without_weights(self) -> "GivenGraph":
        """The same graph without weights of its edges."""
        read = self.draft
        if read is None:
            return self
        if self.settings.get("source") == "tables":
            return replace(self, settings={**self.settings, "weight_column": None})

        def draft(section: GraphConfig, known: Encodings) -> GraphDraft:
            found = read(section, known)
            return replace(found, edges=[edges[:2] for edges in found.edges])

        return replace(self, draft=draft, in_files=False)

    def section(self, values: Mapping[str, object]) -> dict[str, object]:
        """The section `graph` of a config for this object, from that which the user gives."""
        if not self.settings:
            return {"source": "memory", **values}
        if values.get("source", self.settings["source"]) != self.settings["source"]:
            values = {name: value for name, value in values.items() if name in _OF_ALL_SOURCES}
        if values.get("weight_column") == GIVEN_WEIGHT:  # of the graph that an encoder was trained on
            values = {name: value for name, value in values.items() if name != "weight_column"}
        return {**self.recognized, **values, **self.settings}


def graph_settings(values: Mapping[str, object]) -> Mapping[str, object]:
    """The section `graph` of plain values; empty where it is none, which is refused once the whole is checked."""
    section = values.get("graph")
    return section if isinstance(section, Mapping) else {}


def graph_to_come(values: Mapping[str, object]) -> GivenGraph:
    """A graph that is not given yet, of a kind that has the settings of these values."""
    names = set(graph_settings(values))
    of_tables = names <= set(TablesGraph.model_fields) and not names <= set(MemoryGraph.model_fields)
    return GivenGraph(settings={"source": "tables", "edges": "edges in memory"}) if of_tables else GivenGraph()


def _num_rows(part: Any) -> int:
    """The rows of an array, a tensor, a frame or a list; 0 for what has none."""
    if (shape := getattr(part, "shape", None)) is not None:
        return int(shape[0]) if shape else 0
    return len(part) if hasattr(part, "__len__") else 0


def _features_of(value: Any) -> npt.NDArray[Any] | sp.csr_array:
    if sp.issparse(value):
        sparse: Any = value
        return sp.csr_array(sparse)
    return array_of(value, "features")


def _labels_of(value: Any) -> npt.NDArray[Any] | LabelSets:
    """Labels as an array [N], or [N, L] of 0 and 1; LabelSets where a node has a list of them."""
    if isinstance(value, (list, tuple)) and has_lists(value) and not is_table_of_numbers(value):
        return sets_from_rows(value)
    labels = array_of(value, "labels")
    return sets_from_rows(labels) if labels.dtype.kind == "O" and has_lists(labels) else labels


def _column_with(labels: npt.NDArray[Any] | LabelSets, nodes: Any) -> tuple[str, str] | None:
    """The column of a table in memory that has these labels, and whether it has their values or they are its codes."""
    names = getattr(nodes, "column_names", getattr(nodes, "columns", ()))
    if isinstance(labels, LabelSets) or labels.ndim != 1 or isinstance(nodes, str | Path):
        return None
    for name in names:
        column = np.asarray(nodes[name])
        if column.shape != labels.shape:
            continue
        pairs = list(zip(map(repr, column.tolist()), map(repr, labels.tolist()), strict=True))
        if all(one == other for one, other in pairs):  # by their text: NaN and NA are not equal to themselves
            return str(name), "the values"
        kinds = len({one for one, _ in pairs})
        if 1 < kinds == len({*pairs}) == len({other for _, other in pairs}) <= len(pairs) // _ROWS_PER_CODE:
            return str(name), "codes of the values"
    return None


def array_of(value: Any, what: str) -> npt.NDArray[Any]:
    """A tensor, an array, a series or a list as an array."""
    if hasattr(value, "detach"):  # a tensor of torch, perhaps on a GPU
        value = value.detach().cpu()
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise GraphError(
            f"{what}: expected an array or a list of rows, got {type(value).__name__}: {shortened(error, 80)}"
        ) from None
