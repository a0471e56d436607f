"""The user's own columns of some nodes, to look at: read from the node table again, as a graph keeps features only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.graph import Graph
from gscl_scale.graph.sources.cells import DATE_ORDERS, days_of, numbers_of, text_of
from gscl_scale.graph.sources.nodetable import node_files, with_missing_values
from gscl_scale.graph.sources.tablefiles import Part, stream
from gscl_scale.graph.sources.tableids import ids_of
from gscl_scale.graph.types import ColumnSummary
from gscl_scale.io.arrow import arrow_of

_NUMBERS, _DATE, _TEXT = ("integer", "number"), "date", ("text", "true or false")


@dataclass(frozen=True)
class NodeCells:
    """A column of a node table, for n nodes: numbers, dates or text.

    numbers   [n] NaN where a cell is missing; days since 1970 where `dated`; None for text
    text      [n] null where a cell is missing; None for numbers
    """

    name: str
    numbers: npt.NDArray[np.float64] | None = None
    text: pa.Array | None = None
    dated: bool = False


def shown_columns(config: TablesGraph, graph: Graph) -> list[ColumnSummary]:
    """The columns whose cells can be shown: numbers, dates and text other than the ids, the labels and the split."""
    known = {config.id_column, config.split_column, *config.label_columns}
    columns = {one["name"]: one for one in graph.manifest.get("columns", [])}
    return [one for name, one in columns.items() if name not in known and one["type"] in (*_NUMBERS, _DATE, *_TEXT)]


def read_cells(
    config: TablesGraph, graph: Graph, columns: Sequence[ColumnSummary], nodes: npt.NDArray[np.int64]
) -> list[NodeCells]:
    """The cells of columns for nodes in ascending order; GraphError where the table is not that of the graph.

    A part of the table is in memory at a time. Nodes that only edges name have no cells.
    """
    assert config.nodes is not None
    encodings = graph.manifest.get("encoding", [])
    orders = {one["name"]: one["order"] for one in encodings if one["order"]}
    names, first, ids = [one["name"] for one in columns], 0, list[pa.Array]()
    found: list[list[Any]] = [[] for _ in columns]
    for part in (
        part
        for file in with_missing_values(node_files(config), config)
        for part in stream(file, [config.id_column, *names])
    ):
        low, high = np.searchsorted(nodes, [first, first + part.rows.num_rows])
        taken = Part(part.file, part.first_row, part.rows.take(arrow_of(nodes[low:high] - first)))
        ids.append(ids_of(taken, config.id_column).cast(pa.large_string()))
        for one, values in zip(columns, found, strict=True):
            values.append(_cells_of(taken, one, orders.get(one["name"], DATE_ORDERS[0])))
        first += part.rows.num_rows
    read = pa.concat_arrays(ids)
    if not read.equals(graph.ids.take(arrow_of(nodes[: len(read)])).cast(pa.large_string())):
        raise GraphError(f"{config.nodes} has other ids than the graph that was made from it")
    return [_joined(one, values, nodes.size - len(read)) for one, values in zip(columns, found, strict=True)]


def _cells_of(part: Part, summary: ColumnSummary, order: str) -> Any:
    """Cells as numbers, or as text."""
    column = part.values(summary["name"])
    if summary["type"] in _TEXT:
        return pc.cast(column, pa.large_string()) if pa.types.is_boolean(column.type) else text_of(column)
    values = (days_of(column, order) if summary["type"] == _DATE else numbers_of(column, order)).values
    return np.where(np.isfinite(values), values, np.nan)


def _joined(summary: ColumnSummary, parts: list[Any], missing: int) -> NodeCells:
    if summary["type"] in _TEXT:
        return NodeCells(summary["name"], text=pa.concat_arrays([*parts, pa.nulls(missing, pa.large_string())]))
    values = np.concatenate([*parts, np.full(missing, np.nan)])
    return NodeCells(summary["name"], numbers=values, dated=summary["type"] == _DATE)
