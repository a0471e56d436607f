"""Edge and node tables, Parquet or CSV, with ids of the user's own."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale import seeding
from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import Edges, GraphDraft
from gscl_scale.graph.edge_weights import flaw_of_weights
from gscl_scale.graph.graph import MANIFEST
from gscl_scale.graph.sources.cells import DECIMAL_COMMA, numbers_of, storage_of, sure_commas
from gscl_scale.graph.sources.dialect import Dialect
from gscl_scale.graph.sources.node_features import features_of
from gscl_scale.graph.sources.nodetable import node_files, num_feature_columns, read_nodes
from gscl_scale.graph.sources.tablefiles import ROWS_AT_ONCE, Part, TableFile, files_of, num_rows, schema_of, stream
from gscl_scale.graph.sources.tableids import (
    DistinctIds,
    NumberRows,
    guess_integers,
    ids_of,
    is_integer_text,
    short_text,
)
from gscl_scale.graph.sources.textfiles import comment_flaw
from gscl_scale.graph.types import ColumnEncoding, Manifest, SourceSize
from gscl_scale.io.arrow import is_text
from gscl_scale.io.json import read_json
from gscl_scale.runtime.threads import map_in_order, num_threads, one_ahead
from gscl_scale.storage.urls import url_of
from gscl_scale.text import quoted

_LIKE_WEIGHTS = {"weight", "weights", "edge_weight"}  # columns that a note asks about
_BEGINS_COMMENT = r"^(#|%|//)"
_SURELY_COMMENT = r"^(#|%|//)(\s|#|%|//|$)"
_NEARLY = 0.9
_BYTES_OF_ID = 8
_BYTES_OF_SLOT = 2 * 16  # of the hash table


def read(config: TablesGraph, preferred: Sequence[ColumnEncoding] = ()) -> GraphDraft:
    """Read the node table, and the edge table as a stream.

    preferred   encodings of an earlier graph, used if they fit the columns
    """
    given = encoding_in(config.encoding) if config.encoding else []
    return read_files(config, edge_files(config), node_files(config) if config.nodes else None, given, preferred)


def read_files(
    config: TablesGraph,
    files: list[TableFile],
    nodes: list[TableFile] | None,
    given: Sequence[ColumnEncoding] = (),
    preferred: Sequence[ColumnEncoding] = (),
) -> GraphDraft:
    """Read the files of both tables, by the columns that the settings name.

    given   encodings that the columns are read by, whatever they are like
    """
    columns = {config.source_column: "source_column", config.target_column: "target_column"}
    weight = {config.weight_column: "weight_column"} if config.weight_column else {}
    names = [name for file in files for name in schema_of(file, columns | weight).names]
    notes = [] if weight else _notes_on_weights([name for name in names if name not in columns])
    if nodes is None:
        ids = _distinct_ids(files, list(columns))
        _refuse_comments(files, list(columns), ids)
        return _draft(config, files, ids, notes)
    table = read_nodes(config, nodes)
    index = _IdIndex(table.ids)
    added = _unknown_ids(files, list(columns), index) if config.unknown_ids == "add" else table.ids[:0]
    features = features_of(table, config, len(added) > 0, given, preferred)
    if len(added):
        table.notes.append(f"{len(added):,} nodes that only edges name were added (graph.unknown_ids)")
        table = table.with_nodes(added)
    draft = _draft(config, files, table.ids, notes)
    draft.features = table.rows(features.encodings, len(added))
    draft.columns, draft.labels, draft.splits = features.columns, table.labels, table.splits
    draft.notes += [*features.notes, *table.notes]
    draft.summaries, draft.encoding = features.summaries, features.encodings
    return draft


def edge_files(config: TablesGraph) -> list[TableFile]:
    """The files of the edge table."""
    return files_of(config.edges, "edges", Dialect.of(config.separator, config.header, config.comment))


def _notes_on_weights(names: list[str]) -> list[str]:
    """A note on the first column that looks like weights and is not read as such."""
    return [
        f"the edges' column {quoted(name)} is not read: --set graph.weight_column={name} makes it edge weights"
        for name in names
        if name.lower() in _LIKE_WEIGHTS
    ][:1]


def _draft(config: TablesGraph, files: list[TableFile], ids: pa.Array, notes: list[str]) -> GraphDraft:
    draft = GraphDraft(
        name=config.edges.name.split(".")[0],
        origin=url_of(config.nodes or config.edges) or str(config.nodes or config.edges),
        num_nodes=len(ids),
        edges=(),
        ids=ids,
        notes=notes,
    )
    draft.edges = _edges(files, config, _IdIndex(ids), draft.notes)
    return draft


def encoding_in(folder: Path) -> list[ColumnEncoding]:
    """The encoding of columns in a graph folder or the graph of a run."""
    path = next((path for path in (folder / MANIFEST, folder / "graph" / MANIFEST) if path.exists()), None)
    if path is None:
        raise GraphError(f"graph.encoding: {folder} holds no graph; name the folder of a run that was made from tables")
    manifest = read_json(path, Manifest, f"delete {path.parent} and ingest the graph again")
    if "encoding" not in manifest:
        raise GraphError(
            f"graph.encoding: the graph in {folder} was not made from a node table, or by an earlier version; name "
            "another run, or ingest that graph again"
        )
    return manifest["encoding"]


def size(config: TablesGraph) -> SourceSize:
    """From the metadata of Parquet files; unknown for CSV files, object stores, and nodes that only edges name."""
    counted = not any(path and url_of(path) for path in (config.edges, config.nodes))
    edges = num_rows(edge_files(config)) if counted else None
    nodes = num_rows(node_files(config)) if counted and config.nodes else None
    width = num_feature_columns(config) if counted and config.nodes else 0
    return size_of_tables(config, None if config.unknown_ids == "add" else nodes, edges, width or None)


def size_of_tables(
    config: TablesGraph, num_nodes: int | None, num_edges: int | None, num_features: int | None
) -> SourceSize:
    """What reading tables of so many rows takes."""
    return SourceSize(
        num_nodes=num_nodes,
        num_edges=num_edges,
        num_features=num_features,
        reading=_BYTES_OF_ID + (0 if config.nodes else _BYTES_OF_SLOT),
        resident=_BYTES_OF_ID + _BYTES_OF_SLOT,
        chunks=(num_threads() + 2)
        * min(num_edges or 0, ROWS_AT_ONCE)
        * (6 if config.weight_column else 4)
        * _BYTES_OF_ID,
        weighted=config.weight_column is not None,
    )


def _edges(files: list[TableFile], config: TablesGraph, index: "_IdIndex", notes: list[str]) -> Iterator[Edges]:
    """The edges as rows of both ends, and weights; the note about dropped ones comes with the last of them."""
    ids, drop = [config.source_column, config.target_column], config.unknown_ids == "drop"
    weight = [config.weight_column] if config.weight_column else []
    order = _order_of_weights(files, weight)

    def find(part: Part) -> tuple[Edges, int]:
        source, target = (index.rows_of(part, column, known=not drop) for column in ids)
        edges = (source, target, *(weights_of(part, column, order) for column in weight))
        kept = (source >= 0) & (target >= 0)
        dropped = kept.size - int(kept.sum())
        return (tuple(column[kept] for column in edges) if dropped else edges), dropped

    total = 0
    parts = (part for file in files for part in stream(file, [*ids, *weight]))
    for edges, dropped in map_in_order(find, parts, num_threads()):
        total += dropped
        yield edges
    if total:
        notes.append(f"{total:,} edges to ids that are not in the node table were dropped (graph.unknown_ids)")


def _order_of_weights(files: list[TableFile], weight: list[str]) -> str:
    """How weights are written, by the first part of the table; a later cell that is written otherwise is refused."""
    part = next((part for file in files for part in stream(file, weight)), None) if weight else None
    cells = part.text_or_numbers(weight[0]) if part else None
    if cells is None or storage_of(cells.type) != "text" or not sure_commas(cells).any():
        return ""
    return DECIMAL_COMMA if numbers_of(cells, DECIMAL_COMMA).odd.sum() < numbers_of(cells).odd.sum() else ""


def weights_of(part: Part, column: str, order: str = "") -> npt.NDArray[np.float64]:
    """A column of edge weights; GraphError with the place of a cell that is none."""
    cells = part.text_or_numbers(column)
    if storage_of(cells.type) not in ("number", "text", "none"):
        raise GraphError(f"{part.file}: {column} is of type {cells.type}, expected weights (graph.weight_column)")
    numbers = numbers_of(cells, order)
    odd = f"is not a number{' with a decimal comma' if order else ''}"
    for wrong, what in ((numbers.missing, "is missing"), (numbers.odd, odd)):
        if wrong.any():
            at = int(np.argmax(wrong))
            given = quoted(cells[at].as_py())
            raise GraphError(
                f"{part.where(at)}: {column} {what}: {given}; expected the weight of the edge: correct or drop it, "
                "or leave all weights out with --set graph.weight_column=null"
            )
    if flaw := flaw_of_weights(numbers.values):
        at, reason = flaw
        raise GraphError(
            f"{part.where(at)}: {column} is {reason}, or leave all weights out with --set graph.weight_column=null"
        )
    return numbers.values


def _unknown_ids(files: list[TableFile], columns: list[str], index: "_IdIndex") -> pa.Array:
    """The ids that edges name and the node table does not, sorted."""
    distinct = DistinctIds()
    for part in (part for file in files for part in one_ahead(stream(file, columns))):
        for column in columns:
            wanted = index.as_nodes(part, column)
            distinct.add(wanted.filter(pa.array(index.find(wanted) < 0)))
    return distinct.sorted()


class _IdIndex:
    """Rows of the node table by id, as a hash table of 64-bit keys that several threads may use."""

    def __init__(self, ids: pa.Array) -> None:
        self._ids = ids
        self._text = not pa.types.is_integer(ids.type)
        keys = self._keys(ids)
        distinct = not self._text or np.unique(keys).size == keys.size  # else two texts share a key
        self._rows = NumberRows(keys) if distinct else None

    def rows_of(self, part: Part, column: str, known: bool) -> npt.NDArray[np.int64]:
        """Row of each id of a column, -1 for unknown ones; GraphError with the place of one if all must be known."""
        wanted = self.as_nodes(part, column, strict=known)
        rows = self.find(wanted)
        if known and (rows < 0).any():
            at = int(np.argmin(rows))
            raise GraphError(
                f"{part.where(at)}: {column} {quoted(wanted[at].as_py())} is not an id of the node table; "
                f"add the node or drop the edge, or let {_setting(part.file, 'unknown_ids=add')} (or drop) do so"
            )
        return rows

    def find(self, wanted: pa.Array) -> npt.NDArray[np.int64]:
        """Row of each id, which is of the kind of the nodes' ids or missing; -1 for unknown ones."""
        rows: npt.NDArray[np.int64]
        if self._rows is None:
            found = pc.index_in(wanted, value_set=self._ids)
            return found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        missing = wanted.is_null().to_numpy(zero_copy_only=False)
        wanted = wanted.fill_null("" if self._text else 0)
        rows = self._rows.find(self._keys(wanted))
        if self._text:
            same = pc.equal(pc.take(self._ids, pa.array(np.maximum(rows, 0))), wanted)
            rows = np.where(same.to_numpy(zero_copy_only=False), rows, -1)
        rows[missing] = -1
        return rows

    def _keys(self, ids: pa.Array) -> npt.NDArray[np.int64]:
        if self._text:
            return seeding.identities_of(ids).view(np.int64)
        return ids.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)

    def as_nodes(self, part: Part, column: str, strict: bool = True) -> pa.Array:
        """A column of ids in the type of the nodes' ids; with `strict`, one that cannot be is refused, else missing."""
        wanted = ids_of(part, column, strict)
        number = pa.types.is_integer(wanted.type)
        if number != self._text:
            return wanted.cast(self._ids.type) if self._text else wanted
        if number or not part.file.is_csv:
            cure = "write" if part.file.table is None else "read (in pandas with dtype=str)"
            raise GraphError(
                f"{part.file}: ids in {column} are {_kind(number)} and those of the node table are "
                f"{_kind(not number)}; {cure} both tables with ids of one type"
            )
        whole = is_integer_text(wanted)
        if strict and (at := pc.index(whole, False).as_py()) >= 0:
            raise GraphError(
                f"{part.where(at)}: {column} is {quoted(wanted[at].as_py())} and the node table's ids are integers; "
                "correct the edge, or write both tables as Parquet with ids of one type"
            )
        return pc.if_else(whole, wanted, None).cast(pa.int64())


def _distinct_ids(files: list[TableFile], columns: list[str]) -> pa.Array:
    """The ids that edges name, sorted, so that the order of the edges does not matter."""
    distinct = DistinctIds()
    first: tuple[TableFile, str, bool] | None = None
    for file in files:
        for part in one_ahead(stream(file, columns)):
            for column in columns:
                ids = ids_of(part, column)
                number = pa.types.is_integer(ids.type)
                first = first or (file, column, number)
                if number != first[2]:
                    raise GraphError(
                        f"{file}: ids in {column} are {_kind(number)} and those in {first[1]} of {first[0]} are "
                        f"{_kind(first[2])}; write both with ids of one type"
                    )
                distinct.add(guess_integers(ids) if file.is_csv else ids)
    return short_text(distinct.sorted())


def _refuse_comments(files: list[TableFile], columns: list[str], ids: pa.Array) -> None:
    """Refuse rows that are rather comments, where no setting says so: they begin as such, with no id behind the mark.

    Below numbers, any text with such a mark is refused.
    """
    marked = pc.match_substring_regex(ids, _BEGINS_COMMENT) if is_text(ids.type) else pa.array([], pa.bool_())
    for file in files if pc.any(marked).as_py() else ():
        first, pattern = schema_of(file, {}).names[0], ""
        if not file.is_csv or file.dialect.comment is not None or first not in columns:
            continue
        for part in stream(file, columns):
            cells = part.text_or_numbers(first)
            if not pattern:
                numbers = pc.sum(is_integer_text(cells)).as_py() >= _NEARLY * len(cells)
                pattern = _BEGINS_COMMENT if numbers else _SURELY_COMMENT
            if (at := pc.index(pc.match_substring_regex(cells, pattern), True).as_py()) >= 0:
                line = " ".join(part.rows.slice(at, 1).to_pylist()[0].values())
                raise GraphError(comment_flaw(str(part.where(at)), line))


def _setting(file: TableFile, words: str) -> str:
    """A setting of the graph as it is typed: in a shell, or in Python for a table in memory."""
    if file.table is None:
        return f"--set graph.{words}"
    key, _, value = words.partition("=")
    return f'graph__{key}="{value}"'


def _kind(number: bool) -> str:
    return "integers" if number else "text"
