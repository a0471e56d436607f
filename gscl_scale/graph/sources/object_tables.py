"""Edge and node tables in memory, and paths of files: all are read as the source `tables` reads files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale.config.graphs import GraphConfig, TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.graph.sources.column_names import find_id, labels_among
from gscl_scale.graph.sources.edge_table import edge_files
from gscl_scale.graph.sources.explain import explained
from gscl_scale.graph.sources.given import GIVEN_WEIGHT, Beside, Encodings, GivenGraph
from gscl_scale.graph.sources.head import head_of_table
from gscl_scale.graph.sources.nodetable import node_files
from gscl_scale.graph.sources.read import read
from gscl_scale.graph.sources.recognize import ends_of, likely_id, recognize, recognize_nodes, weight_of
from gscl_scale.graph.sources.tablefiles import TableFile, schema_of
from gscl_scale.graph.sources.tableids import as_text
from gscl_scale.graph.sources.tables import read_files
from gscl_scale.storage.urls import url_of
from gscl_scale.text import join_names, quoted

EDGES, NODES = "edges in memory", "nodes in memory"  # their names in settings and messages
_INDEX = "__index_level_0__"  # of a data frame whose index has no name


def from_path(path: Any, beside: Beside) -> GivenGraph:
    """An edge file or a folder of tables, recognized as on the command line; or an .npz file."""
    place, nodes = Path(path), Path(beside.nodes) if isinstance(beside.nodes, (str, Path)) else None
    found: Mapping[str, object] = {"edges": str(path), "nodes": nodes and str(nodes)}
    if not url_of(place):
        if not place.exists():
            raise GraphError(f"{path} does not exist; give the path of an edge file, of a run folder, or of a graph")
        found = recognize(place, nodes, beside.settings).graph
    if found.get("source") == "npz":
        read_file = GivenGraph(lambda section, _: beside.put_into(read(section)), settings=found)
        return replace(read_file, in_files=not beside.has_rows)
    node_table = beside.nodes if is_table(beside.nodes) else found.get("nodes")
    return _from_tables(found["edges"], node_table, found, beside)


def from_tables(edges: Any, beside: Beside) -> GivenGraph:
    """A table of edges in memory, and one of nodes beside it: in memory too, or the path of a file."""
    return _from_tables(edges, beside.nodes, {}, beside)


def _from_tables(edges: Any, nodes: Any, recognized: Mapping[str, object], beside: Beside) -> GivenGraph:
    edge_table = _TableObject.of(edges, "edges")
    node_table = None if nodes is None else _TableObject.of(nodes, "nodes")
    for key, column in (("labels", beside.label_name), ("features", next(iter(beside.feature_names or ()), None))):
        if node_table is None and column is not None:
            raise GraphError(f"{key}: {quoted(column)} is a column of a table of nodes; give that too: nodes=...")
    ends, unclear = _recognized_ends(edge_table, beside.settings)
    if (weights := beside.weight_rows(edges)) is not None:
        edge_table = edge_table.with_column(GIVEN_WEIGHT, weights)
    settings: dict[str, object] = {"source": "tables", "edges": edge_table.name}
    settings["nodes"] = node_table.name if node_table else None
    named = {
        "weight_column": GIVEN_WEIGHT if weights is not None else beside.weight_name,
        "label_column": beside.label_name,
        "feature_columns": beside.feature_names,
    }
    settings |= {key: name for key, name in named.items() if name is not None}
    usual = {**ends, **_usual_names(ends, node_table.table if node_table else None), **recognized}
    if isinstance(nodes, (str, Path)) and not recognized and not url_of(Path(nodes)) and Path(nodes).exists():
        usual |= recognize_nodes(Path(nodes), beside.settings)[0]

    def draft(section: GraphConfig, known: Encodings) -> GraphDraft:
        assert isinstance(section, TablesGraph)
        _refuse_unnamed_ends(edge_table, section, unclear)
        files = None
        if node_table is not None:
            files = node_table.files or node_files(section)
            section = section if known is None else _without_absent_labels(section, schema_of(files[0], {}).names)
        found = beside.put_into(read_files(section, edge_table.files or edge_files(section), files, known or ()))
        return replace(found, name="table") if edge_table.files else found

    in_files = not beside.has_rows and all(part is None or part.table is None for part in (edge_table, node_table))
    return GivenGraph(draft, settings=settings, recognized=usual, in_files=in_files)


def _refuse_unnamed_ends(edges: "_TableObject", section: TablesGraph, unclear: str) -> None:
    """Refuse a table in memory whose columns do not tell the ends of an edge, for the reason `unclear`."""
    absent = [name for name in (section.source_column, section.target_column) if name not in edges.columns]
    if edges.table is not None and absent:
        raise GraphError(
            unclear
            or f"{edges.name}: no column {quoted(absent[0])}; it has {join_names(edges.columns)}; name the columns of "
            "both ends: graph__source_column=..., graph__target_column=..."
        )


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
            expected = f"{key}: expected a table of pandas, polars or pyarrow, or the path of one"
            raise GraphError("; ".join(filter(None, [f"{expected}, got {type(given).__name__}", cure_of_kind(given)])))
        with explained(lambda error: f"{name}: {_why_unreadable(given, error)}", *UNREADABLE):
            table = _from_pandas(given) if hasattr(given, "reset_index") else pa.table(given)
            for number, column in enumerate(table.columns):
                table = table.set_column(number, table.column_names[number], _with_plain_text(column))
        if _INDEX in table.column_names and (key == "edges" or find_id(table.column_names)):
            table = table.drop_columns([_INDEX])
        return cls(name, table)

    @property
    def columns(self) -> list[str]:
        """The names of the columns, if it is in memory."""
        return [] if self.table is None else list(self.table.column_names)

    def with_column(self, name: str, rows: npt.NDArray[Any]) -> "_TableObject":
        """The table with a column more."""
        if self.table is None:
            raise GraphError(f"weights: expected the name of a column of {self.name}, got an array; name the column")
        if rows.shape != (self.table.num_rows,):
            raise GraphError(f"weights: expected a number for each of {self.table.num_rows:,} edges, got {rows.shape}")
        return _TableObject(self.name, self.table.append_column(name, pa.array(rows)))

    @property
    def files(self) -> list[TableFile]:
        """The table as a file to read; none where it is one."""
        return [] if self.table is None else [TableFile(Path(self.name), table=self.table)]


UNREADABLE = (pa.ArrowException, TypeError, ValueError, OverflowError)


def is_table(given: object) -> bool:
    """Whether an object is a data frame or table that hands its columns on as Arrow does."""
    return hasattr(type(given), "__arrow_c_stream__") or isinstance(given, pa.RecordBatch)


def cure_of_kind(given: object) -> str:
    """How what is nearly a table or an array becomes one; "" for anything else."""
    if type(given).__name__ == "LazyFrame":
        return "call .collect() on it"
    pairs = isinstance(given, list) and all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in given)
    if pairs and given:
        return "of pairs of numbers give numpy.array(pairs).T, of others pandas.DataFrame(pairs)"
    return ""


def _from_pandas(frame: Any) -> pa.Table:
    """A data frame of pandas with its index as columns, unless that only counts the rows."""
    named = any(name is not None for name in frame.index.names)
    return pa.Table.from_pandas(frame.reset_index() if named else frame)


def _why_unreadable(frame: Any, error: str) -> str:
    """What is wrong with a table: a column of pandas that has values of two types, or what pyarrow says."""
    for name, column in frame.items() if hasattr(frame, "iloc") else ():
        kinds: dict[type, object] = {}
        for value in column.dropna() if column.dtype == object else ():
            kinds.setdefault(type(value), value)
        if len(kinds) > 1:
            one, other = (quoted(value) for value in list(kinds.values())[:2])
            return f"column {quoted(name)} mixes types, as in {one} and {other}; make it text: {as_text(name)}"
    return f"the table cannot be read: {error}"


def _with_plain_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column whose text is as in files: views and dictionaries of views, as polars has them, become text."""
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type):
        parts = [pc.take(part.dictionary.cast(pa.large_string()), part.indices) for part in column.chunks]
        return pa.chunked_array(parts, pa.large_string())
    return column


def _recognized_ends(edges: _TableObject, given: Mapping[str, object]) -> tuple[dict[str, object], str]:
    """The columns of ends and weights of a table in memory, by the rules for files; else why the ends are unclear."""
    if edges.table is None:
        return {}, ""
    head = head_of_table(edges.table)
    try:
        source, target = ends_of(head, edges.name, given)
    except GraphError as error:  # raised later, unless a config names both ends
        return {}, str(error)
    found = {"source_column": source, "target_column": target, "weight_column": weight_of(head, source, target)}
    return {key: name for key, name in found.items() if name is not None}, ""


def _usual_names(edges: Mapping[str, object], nodes: pa.Table | None) -> dict[str, object]:
    """The columns of a node table in memory by their names, but for those that are ends or weights of edges.

    Ids without a usual name are the first column that has a value of its own in each row.
    """
    columns = [] if nodes is None else nodes.column_names
    ids = _INDEX if _INDEX in columns else find_id(columns) or (likely_id(head_of_table(nodes)) if columns else None)
    labels = [name for name in labels_among(columns) if name != ids]
    usual = {"id_column": ids, "label_column": labels[0] if labels else None}
    return {key: name for key, name in usual.items() if name is not None and name not in edges.values()}
