"""Edge and node tables, Parquet or CSV, with ids of the user's own."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import GraphDraft
from gscl_scale.graph.graph import MANIFEST
from gscl_scale.graph.sources.edge_numbers import NumberedEdges, nodes_of_edges, number_edges
from gscl_scale.graph.sources.edge_table import EdgeTable, edge_files
from gscl_scale.graph.sources.id_file import IdScratch
from gscl_scale.graph.sources.node_features import features_of
from gscl_scale.graph.sources.nodetable import node_files, num_feature_columns, read_nodes
from gscl_scale.graph.sources.tablefiles import ROWS_AT_ONCE, TableFile, num_rows, schema_of, stream
from gscl_scale.graph.sources.tableids import is_integer_text
from gscl_scale.graph.sources.textfiles import comment_flaw
from gscl_scale.graph.types import ColumnEncoding, Manifest, SourceSize
from gscl_scale.io.arrow import is_text
from gscl_scale.io.json import read_json
from gscl_scale.runtime.runner import Runner
from gscl_scale.runtime.threads import num_threads
from gscl_scale.storage.urls import url_of
from gscl_scale.text import counted, quoted

_LIKE_WEIGHTS = {"weight", "weights", "edge_weight"}  # columns that a note asks about
_BEGINS_COMMENT = r"^(#|%|//)"
_SURELY_COMMENT = r"^(#|%|//)(\s|#|%|//|$)"
_NEARLY = 0.9
_BYTES_OF_ID = 8
_BYTES_OF_SLOT = 2 * 16  # of the hash table


def read(
    config: TablesGraph,
    preferred: Sequence[ColumnEncoding] = (),
    scratch: Path | None = None,
    runner: Runner | None = None,
) -> GraphDraft:
    """Read the node table, and the edge table as a stream.

    preferred   encodings of an earlier graph, used if they fit the columns
    scratch     a folder for ids that do not fit the memory; by default one of the temporary files
    runner      reads the edge table by tasks, on machines that share `scratch`
    """
    given = encoding_in(config.encoding) if config.encoding else []
    nodes = node_files(config) if config.nodes else None
    edges, waiting = edge_files(config, scratch if runner else None), IdScratch(config.memory_mb, scratch, runner)
    return read_files(config, edges, nodes, given, preferred, waiting)


def read_files(
    config: TablesGraph,
    files: list[TableFile],
    nodes: list[TableFile] | None,
    given: Sequence[ColumnEncoding] = (),
    preferred: Sequence[ColumnEncoding] = (),
    scratch: IdScratch | None = None,
) -> GraphDraft:
    """Read the files of both tables, by the columns that the settings name.

    given   encodings that the columns are read by, whatever they are like
    """
    columns = {config.source_column: "source_column", config.target_column: "target_column"}
    weight = {config.weight_column: "weight_column"} if config.weight_column else {}
    names = [name for file in files for name in schema_of(file, columns | weight).names]
    notes = [] if weight else _notes_on_weights([name for name in names if name not in columns])
    edges, ids = EdgeTable.of(config, files), scratch or IdScratch(config.memory_mb)
    if nodes is None:
        numbered = nodes_of_edges(edges, ids)
        _refuse_comments(files, list(columns), numbered.ids)
        return _draft(config, numbered, notes)
    table = read_nodes(config, nodes, ids)
    numbered = number_edges(edges, table.ids, config.unknown_ids, ids, _origin(config), notes)
    added = len(numbered.ids) - len(table.ids)
    features = features_of(table, config, added > 0, given, preferred)
    if added:
        table.notes.append(f"{counted(added, 'node', 'nodes')} that only edges name: added (graph.unknown_ids)")
        table = table.with_nodes(numbered.ids)
    draft = _draft(config, numbered, notes)
    draft.features = table.rows(features.encodings, added)
    draft.columns, draft.labels, draft.splits = features.columns, table.labels, table.splits
    draft.notes += [*features.notes, *table.notes]
    draft.summaries, draft.encoding = features.summaries, features.encodings
    return draft


def _notes_on_weights(names: list[str]) -> list[str]:
    """A note on the first column that looks like weights and is not read as such."""
    return [
        f"the edges' column {quoted(name)} is not read: --set graph.weight_column={name} makes it edge weights"
        for name in names
        if name.lower() in _LIKE_WEIGHTS
    ][:1]


def _draft(config: TablesGraph, numbered: NumberedEdges, notes: list[str]) -> GraphDraft:
    return GraphDraft(
        name=config.edges.name.split(".")[0],
        origin=_origin(config),
        num_nodes=len(numbered.ids),
        edges=numbered.edges,
        ids=numbered.ids,
        notes=notes,
        distinct=numbered.distinct,
    )


def _origin(config: TablesGraph) -> str:
    path = config.nodes or config.edges
    return url_of(path) or str(path)


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
        spills=True,
    )


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
