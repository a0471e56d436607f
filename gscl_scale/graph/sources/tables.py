"""Edge and node tables, Parquet or CSV, with ids of the user's own."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale import seeding
from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.draft import Draft, Edges
from gscl_scale.graph.sources.nodetable import NodeTable, num_feature_columns, read_nodes
from gscl_scale.graph.sources.tablefiles import ROWS_AT_ONCE, Part, files_of, is_csv, num_rows, schema_of, stream
from gscl_scale.graph.sources.tableids import (
    DistinctIds,
    NumberRows,
    guess_integers,
    ids_of,
    is_integer_text,
    short_text,
)
from gscl_scale.graph.types import SourceSize
from gscl_scale.runtime.threads import ahead, in_order, num_threads
from gscl_scale.text import quoted

_BYTES_OF_ID = 8
_BYTES_OF_SLOT = 2 * 16  # of the hash table


def read(config: TablesGraph) -> Draft:
    """Read the node table, and the edge table as a stream."""
    files = files_of(config.edges, "edges")
    needed = {config.source_column: "source_column", config.target_column: "target_column"}
    for file in files:
        schema_of(file, needed)
    columns = list(needed)
    nodes = read_nodes(config) if config.nodes else NodeTable(_distinct_ids(files, columns))
    return Draft(
        name=config.edges.name.split(".")[0],
        origin=str(config.nodes or config.edges),
        num_nodes=len(nodes.ids),
        edges=_edges(files, columns, nodes.ids),
        features=nodes.features,
        columns=nodes.columns,
        labels=nodes.labels,
        splits=nodes.splits,
        ids=nodes.ids,
        notes=nodes.notes,
    )


def size(config: TablesGraph) -> SourceSize:
    """From the metadata of Parquet files; unknown for rows of CSV files, and for nodes that only edges name."""
    edges = num_rows(files_of(config.edges, "edges"))
    nodes = num_rows(files_of(config.nodes, "nodes")) if config.nodes else None
    width = num_feature_columns(config) if config.nodes else 0
    return SourceSize(
        num_nodes=nodes,
        num_edges=edges,
        num_features=width or None,
        reading=_BYTES_OF_ID + (0 if config.nodes else _BYTES_OF_SLOT),
        resident=_BYTES_OF_ID + _BYTES_OF_SLOT,
        chunks=(num_threads() + 2) * min(edges or 0, ROWS_AT_ONCE) * 4 * _BYTES_OF_ID,
        spooled=4 * width,
    )


def _edges(files: list[Path], columns: list[str], ids: pa.Array) -> Iterator[Edges]:
    index = _IdIndex(ids)

    def find(part: Part) -> Edges:
        return index.rows_of(part, columns[0]), index.rows_of(part, columns[1])

    return in_order(find, (part for file in files for part in stream(file, columns)), num_threads())


class _IdIndex:
    """Rows of the node table by id, as a hash table of 64-bit keys that several threads may use."""

    def __init__(self, ids: pa.Array) -> None:
        self._ids = ids
        self._text = not pa.types.is_integer(ids.type)
        keys = self._keys(ids)
        distinct = not self._text or np.unique(keys).size == keys.size  # else two texts share a key
        self._rows = NumberRows(keys) if distinct else None

    def rows_of(self, part: Part, column: str) -> npt.NDArray[np.int64]:
        """Row of each id of a column; GraphError with the place of an unknown id."""
        wanted = self._same_kind(ids_of(part, column), part, column)
        rows: npt.NDArray[np.int64]
        if self._rows is not None:
            rows = self._rows.find(self._keys(wanted))
            if self._text:
                same = pc.equal(pc.take(self._ids, pa.array(np.maximum(rows, 0))), wanted)
                rows = np.where(same.to_numpy(zero_copy_only=False), rows, -1)
        else:
            found = pc.index_in(wanted, value_set=self._ids)
            rows = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        if (rows < 0).any():
            at = int(np.argmin(rows))
            raise GraphError(
                f"{part.where(at)}: {column} {quoted(wanted[at].as_py())} is not an id of the node table; "
                "add the node or drop the edge"
            )
        return rows

    def _keys(self, ids: pa.Array) -> npt.NDArray[np.int64]:
        if self._text:
            return seeding.identities_of(ids).view(np.int64)
        return ids.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)

    def _same_kind(self, wanted: pa.Array, part: Part, column: str) -> pa.Array:
        number = pa.types.is_integer(wanted.type)
        if number != self._text:
            return wanted.cast(self._ids.type) if self._text else wanted
        if number or not is_csv(part.path):
            raise GraphError(
                f"{part.path}: ids in {column} are {_kind(number)} and those of the node table are "
                f"{_kind(not number)}; write both tables with ids of one type"
            )
        odd = pc.invert(is_integer_text(wanted))
        if (at := pc.index(odd, True).as_py()) >= 0:
            raise GraphError(
                f"{part.where(at)}: {column} is {quoted(wanted[at].as_py())} and the node table's ids are integers; "
                "correct the edge, or write both tables as Parquet with ids of one type"
            )
        return wanted.cast(pa.int64())


def _distinct_ids(files: list[Path], columns: list[str]) -> pa.Array:
    """The ids that edges name, sorted, so that the order of the edges does not matter."""
    distinct = DistinctIds()
    first: tuple[Path, str, bool] | None = None
    for file in files:
        for part in ahead(stream(file, columns)):
            for column in columns:
                ids = ids_of(part, column)
                number = pa.types.is_integer(ids.type)
                first = first or (file, column, number)
                if number != first[2]:
                    raise GraphError(
                        f"{file}: ids in {column} are {_kind(number)} and those in {first[1]} of {first[0]} are "
                        f"{_kind(first[2])}; write both with ids of one type"
                    )
                distinct.add(guess_integers(ids) if is_csv(file) else ids)
    return short_text(distinct.sorted())


def _kind(number: bool) -> str:
    return "integers" if number else "text"
