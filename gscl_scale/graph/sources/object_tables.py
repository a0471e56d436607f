"""Edge and node tables in memory, and paths of files: all are read as the source `tables` reads files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale.config.graphs import GraphConfig, TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import Draft
from gscl_scale.graph.sources.explain import explained
from gscl_scale.graph.sources.given import Beside, Encodings, GivenGraph
from gscl_scale.graph.sources.read import read
from gscl_scale.graph.sources.tablefiles import TableFile, files_of, schema_of
from gscl_scale.graph.sources.tables import read_files
from gscl_scale.storage.urls import url_of

EDGES, NODES = "edges in memory", "nodes in memory"  # their names in settings and messages
_ENDS = (
    ("source", "target"), ("src", "dst"), ("from", "to"), ("u", "v"), ("head", "tail"), ("start", "end"),
    ("source_id", "target_id"), ("from_id", "to_id"), ("node1", "node2"), ("node_1", "node_2"),
)  # fmt: skip
_IDS = ("id", "node", "node_id", "nodeid")
_LABELS = ("label", "y")
_WEIGHTS = ("weight", "weights", "edge_weight")
_INDEX = "__index_level_0__"  # of a data frame whose index has no name
GIVEN_WEIGHT = "given weight"  # a column that is made here


def from_path(path: Any, beside: Beside) -> GivenGraph:
    """An edge file, an .npz file, or a folder with the graph of a run."""
    place = Path(path)
    if not url_of(place) and not place.exists():
        raise GraphError(
            f"{path} does not exist; give the path of an edge file (.csv, .parquet, .npz), or of a run folder"
        )
    if not str(place).lower().endswith(".npz"):
        return from_tables(place, beside)
    settings = {"source": "npz", "path": str(place)}
    return GivenGraph(
        lambda section, _: beside.put_into(read(section)), settings=settings, in_files=not beside.has_rows
    )


def from_tables(edges: Any, beside: Beside) -> GivenGraph:
    """A table of edges, and one of nodes beside it: each a data frame, or the path of a file."""
    edge_table = _TableObject.of(edges, "edges")
    node_table = None if beside.nodes is None else _TableObject.of(beside.nodes, "nodes")
    if (weights := beside.weight_rows) is not None:
        edge_table = edge_table.with_column(GIVEN_WEIGHT, weights)
    settings: dict[str, object] = {"source": "tables", "edges": edge_table.name}
    settings["nodes"] = node_table.name if node_table else None
    named = {
        "weight_column": GIVEN_WEIGHT if weights is not None else beside.weight_name,
        "label_column": beside.label_name,
        "feature_columns": beside.feature_names,
    }
    settings |= {key: name for key, name in named.items() if name is not None}
    recognized = _recognized(edge_table.columns, node_table.columns if node_table else [])

    def draft(section: GraphConfig, known: Encodings) -> Draft:
        assert isinstance(section, TablesGraph)
        nodes = None
        if node_table is not None:
            nodes = node_table.files("nodes")
            section = section if known is None else _without_absent_labels(section, node_table.columns)
        found = beside.put_into(read_files(section, edge_table.files("edges"), nodes, known or ()))
        return found if edge_table.table is None else replace(found, name="table")

    in_files = not beside.has_rows and all(part is None or part.table is None for part in (edge_table, node_table))
    return GivenGraph(draft, settings=settings, recognized=recognized, in_files=in_files)


def _without_absent_labels(section: TablesGraph, columns: Sequence[str]) -> TablesGraph:
    """The settings for nodes that a trained encoder embeds: labels and splits are not needed there."""
    labelled = set(section.label_columns) <= set(columns)
    split = section.split_column if section.split_column in columns else None
    return section.model_copy(update={"split_column": split} | ({} if labelled else {"label_column": None}))


@dataclass(frozen=True)
class _TableObject:
    """A table in memory, or the path of one."""

    name: str
    table: pa.Table | None = None

    @classmethod
    def of(cls, given: Any, key: str) -> "_TableObject":
        """A table of a path, or of an object of pandas, polars or pyarrow."""
        if isinstance(given, (str, Path)):
            return cls(str(given))
        name = EDGES if key == "edges" else NODES
        if not is_table(given):
            raise GraphError(
                f"{key}: expected a table of pandas, polars or pyarrow, or the path of one, got {type(given).__name__}"
            )
        with explained(lambda error: f"{name}: the table cannot be read: {error}", *UNREADABLE):
            table = _from_pandas(given) if hasattr(given, "reset_index") else pa.table(given)
            for number, column in enumerate(table.columns):
                table = table.set_column(number, table.column_names[number], _with_plain_text(column))
        if _INDEX in table.column_names and (key == "edges" or set(_IDS) & set(table.column_names)):
            table = table.drop_columns([_INDEX])
        return cls(name, table)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        if self.table is not None:
            return list(self.table.column_names)
        return list(schema_of(files_of(Path(self.name), "edges")[0], {}).names)

    def with_column(self, name: str, rows: npt.NDArray[Any]) -> "_TableObject":
        """The table with a column more."""
        if self.table is None:
            raise GraphError(f"weights: expected the name of a column of {self.name}, got an array; name the column")
        if rows.shape != (self.table.num_rows,):
            raise GraphError(f"weights: expected a number for each of {self.table.num_rows:,} edges, got {rows.shape}")
        return _TableObject(self.name, self.table.append_column(name, pa.array(rows)))

    def files(self, key: str) -> list[TableFile]:
        """The files to read."""
        return files_of(Path(self.name), key) if self.table is None else [TableFile(Path(self.name), table=self.table)]


UNREADABLE = (pa.ArrowException, TypeError, ValueError, OverflowError)


def is_table(given: object) -> bool:
    """Whether an object is a data frame or table that hands its columns on as Arrow does."""
    return hasattr(type(given), "__arrow_c_stream__") or isinstance(given, pa.RecordBatch)


def _from_pandas(frame: Any) -> pa.Table:
    """A data frame of pandas with its index as columns, unless that only counts the rows."""
    named = any(name is not None for name in frame.index.names)
    return pa.Table.from_pandas(frame.reset_index() if named else frame)


def _with_plain_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column whose text is as in files: views and dictionaries of views, as polars has them, become text."""
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type):
        parts = [pc.take(part.dictionary.cast(pa.large_string()), part.indices) for part in column.chunks]
        return pa.chunked_array(parts, pa.large_string())
    return column


def _recognized(edges: Sequence[str], nodes: Sequence[str]) -> dict[str, object]:
    """The columns that have usual names, whatever their case; of two columns the first is the source."""
    found: dict[str, object] = {}
    by_name = {name.lower(): name for name in reversed(edges)}
    ends = next((pair for pair in _ENDS if set(pair) <= set(by_name)), None)
    if ends is not None or len(edges) == 2:
        found["source_column"], found["target_column"] = (by_name[end] for end in ends) if ends else edges
    first = {name.lower(): name for name in reversed(nodes)}
    for key, names, known in (
        ("weight_column", _WEIGHTS, by_name), ("id_column", (*_IDS, _INDEX), first), ("label_column", _LABELS, first),
    ):  # fmt: skip
        column = next((known[name] for name in names if name in known), None)
        if column is not None and column not in found.values():
            found[key] = column
    return found
