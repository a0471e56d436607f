"""Edges with the rows of their ends: by a table of all ids in memory, or where that does not fit, by one on disk."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from gscl_scale.graph.edge_rows import Edges
from gscl_scale.graph.sources.edge_sections import first_unknown, without_unknown
from gscl_scale.graph.sources.edge_table import EdgeTable
from gscl_scale.graph.sources.id_file import IdFile, IdScratch, slices
from gscl_scale.graph.sources.id_index import EdgeIds, IdIndex, IdKinds, index_bytes, unknown_id
from gscl_scale.graph.sources.spilled_edges import SpilledEdges, SpilledRows, note_on_dropped
from gscl_scale.graph.sources.tablefiles import Part, num_rows
from gscl_scale.graph.sources.tableids import DistinctIds, guess_integers, ids_of, short_text
from gscl_scale.io.arrow import arrow_of, is_text
from gscl_scale.runtime.threads import map_in_order, num_threads, one_ahead


class NumberedEdges(NamedTuple):
    """All nodes' ids, and the edges as rows of both ends, and weights.

    distinct   whether the ids are known to be distinct
    """

    ids: pa.Array
    edges: Iterable[Edges]
    distinct: bool


def nodes_of_edges(table: EdgeTable, scratch: IdScratch) -> NumberedEdges:
    """The nodes that edges name, sorted, so that the order of the edges does not matter."""
    kinds = IdKinds()
    distinct = _collect(_ids_of_ends(table, kinds), scratch.resident)
    if distinct is not None:
        ids = short_text(distinct.sorted())
        return NumberedEdges(ids, _find_in_memory(table, IdIndex(ids), EdgeIds(ids.type), False, []), True)
    sample = ids_of(next(table.parts_of_ends()), table.ends[0])
    spilled = SpilledEdges(table, ids_of, sample, _num_ends(table), scratch)
    spilled.write(kinds, guess=True)
    ids = _in_file(spilled.number_new(0), kinds.types, scratch)
    return NumberedEdges(ids, SpilledRows(spilled, len(ids), False, []), True)


def number_edges(
    table: EdgeTable, ids: pa.Array, unknown: str, scratch: IdScratch, origin: str, notes: list[str]
) -> NumberedEdges:
    """The edges between the nodes of a node table.

    unknown   what becomes of edges to other ids: refuse, add or drop
    notes     get one on dropped edges, with the last of the others
    """
    found = None
    if index_bytes(ids) <= scratch.resident:
        found = _number_in_memory(table, ids, unknown, scratch.resident, notes)
    return found or _number_on_disk(table, ids, unknown, scratch, origin, notes)


def _number_in_memory(
    table: EdgeTable, ids: pa.Array, unknown: str, most: int, notes: list[str]
) -> NumberedEdges | None:
    """By a table of all ids; None where the ids that only edges name are too many."""
    index, reader = IdIndex(ids), EdgeIds(ids.type)
    if unknown == "add":
        added = _collect(_unknown_ids(table, index, reader), most)
        if added is None:
            return None
        if len(new := added.sorted()):
            ids = ids_together(ids, new)
            index, reader = IdIndex(ids), EdgeIds(ids.type)
    return NumberedEdges(ids, _find_in_memory(table, index, reader, unknown == "drop", notes), index.distinct)


def _number_on_disk(
    table: EdgeTable, ids: pa.Array, unknown: str, scratch: IdScratch, origin: str, notes: list[str]
) -> NumberedEdges:
    drop, ends = unknown == "drop", _num_ends(table)
    read_ids = partial(EdgeIds(ids.type).read, strict=not drop)
    most = len(ids) if unknown != "add" else None if ends is None else len(ids) + ends
    spilled = SpilledEdges(table, read_ids, ids, most, scratch)
    spilled.add_nodes(ids, origin)
    if unknown == "add":
        spilled.write()
        ids = _in_file(chain(slices(ids), spilled.number_new(len(ids))), {ids.type}, scratch)
    return NumberedEdges(ids, SpilledRows(spilled, len(ids), drop, notes), True)


def _find_in_memory(table: EdgeTable, index: IdIndex, reader: EdgeIds, drop: bool, notes: list[str]) -> Iterator[Edges]:
    """The edges; those to unknown ids are dropped, or without `drop` refused."""

    def find(part: Part) -> tuple[Edges, int]:
        wanted = [reader.read(part, column, strict=not drop) for column in table.ends]
        rows = [index.find(ids) for ids in wanted]
        if not drop and (unknown := first_unknown(tuple(rows))):
            name = wanted[unknown.end][unknown.at].as_py()
            raise unknown_id(part, table.ends[unknown.end], unknown.at, name, index.alike(name))
        return without_unknown((*rows, *table.weights(part)))

    total = 0
    for edges, dropped in map_in_order(find, table.parts(), num_threads()):
        total += dropped
        yield edges
    notes += note_on_dropped(total)


def _ids_of_ends(table: EdgeTable, kinds: IdKinds) -> Iterator[pa.Array]:
    for part in one_ahead(table.parts_of_ends()):
        for column in table.ends:
            ids = ids_of(part, column)
            kinds.add(part.file, column, ids.type)
            yield guess_integers(ids) if part.file.is_csv else ids


def _unknown_ids(table: EdgeTable, index: IdIndex, reader: EdgeIds) -> Iterator[pa.Array]:
    """The ids that edges name and the node table does not."""
    for part in one_ahead(table.parts_of_ends()):
        for column in table.ends:
            wanted = reader.read(part, column)
            yield wanted.filter(arrow_of(index.find(wanted) < 0))


def _collect(ids: Iterable[pa.Array], most: int) -> DistinctIds | None:
    """The distinct ones of some ids; None where they take more than so many bytes."""
    distinct = DistinctIds()
    for part in ids:
        distinct.add(part)
        if distinct.nbytes > most:
            return None
    return distinct


def _num_ends(table: EdgeTable) -> int | None:
    if any(file.table is not None for file in table.files):
        return 2 * sum(file.table.num_rows for file in table.files if file.table is not None)
    rows = num_rows(table.files)
    return None if rows is None else 2 * rows


def _in_file(ids: Iterable[pa.Array], types: set[pa.DataType], scratch: IdScratch) -> pa.Array:
    """Ids as one mapped array, of the one type of integers if they fit that, and text as short as possible."""
    file: IdFile | None = None
    for part in ids:
        file = file or IdFile(scratch.folder / "all-ids", pa.large_string() if is_text(part.type) else pa.int64())
        file.append(part)
    assert file
    return file.as_type(types.pop() if len(types) == 1 else file.kind)


def ids_together(ids: pa.Array, more: pa.Array) -> pa.Array:
    """Both arrays of ids as one, of the type of the first if that can hold all."""
    if is_text(ids.type):
        return short_text(pa.concat_arrays([ids.cast(pa.large_string()), more.cast(pa.large_string())]))
    try:
        return pa.concat_arrays([ids, more.cast(ids.type)])
    except pa.ArrowInvalid:  # larger numbers
        return pa.concat_arrays([ids.cast(pa.int64()), more.cast(pa.int64())])
