"""Many labels per node in a node table: lists, text with a separator, or a column for each label."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.label_sets import LabelSets, has_lists, sets_from_pairs
from gscl_scale.graph.sources import dialect
from gscl_scale.graph.sources.cells import numbers_of, storage_of
from gscl_scale.graph.sources.tablefiles import Part
from gscl_scale.io.arrow import arrow_of, is_text
from gscl_scale.text import quoted

_NAMES = pa.list_(pa.large_string())
_SEPARATORS = ";|,"


def has_many(columns: Sequence[str], config: TablesGraph, kind: pa.DataType) -> bool:
    """Whether the label columns, the first of this type, give many labels per node."""
    return len(columns) > 1 or config.label_separator is not None or _is_list(kind)


def separator_of(names: Collection[str]) -> str:
    """What seems to separate several labels in a cell: the pieces come again in other cells; "" if nothing does.

    >>> separator_of({"news", "news;sport", "sport;art", "art;news"})
    ';'
    """
    for sign in _SEPARATORS:
        pieces = {piece.strip() for name in names for piece in name.split(sign)}
        if len(pieces) < len(names) and sum(sign in name for name in names) > 1:
            return sign
    return ""


def label_lists(part: Part, columns: Sequence[str], config: TablesGraph) -> pa.Array:
    """The names of the labels of each row, as an array of lists."""
    if len(columns) > 1:
        return _marked(part, columns)
    name, column = columns[0], part.values(columns[0])
    if config.label_separator is None:
        return _listed(part, name, column)
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), _NAMES)
    if not is_text(column.type):
        raise GraphError(
            f"{part.file}: column {quoted(name)} is of type {column.type}, and graph.label_separator splits text; "
            "leave graph.label_separator out"
        )
    return pc.split_pattern(column.cast(pa.large_string()), dialect.separator_of(config.label_separator))


def sets_from_lists(parts: Sequence[pa.Array]) -> LabelSets:
    """The labels of all nodes; numbers are sorted as numbers, empty names are left out."""
    lists = pa.chunked_array(parts, _NAMES).combine_chunks()
    nodes = pc.list_parent_indices(lists).to_numpy()
    named = pc.utf8_trim_whitespace(pc.list_flatten(lists)).dictionary_encode()
    names = np.array(named.dictionary.to_pylist(), object)
    codes = named.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    numbers = all(name.lstrip("-").isdecimal() and str(int(name)) == name for name in names if name)
    order = sorted((name for name in names if name), key=int if numbers else str)
    place = {name: at for at, name in enumerate(order)} | {"": -1}
    labels = np.append(np.array([place[name] for name in names], np.int64), -1)[codes]
    known = labels >= 0
    return sets_from_pairs(nodes[known].astype(np.int64), labels[known], len(lists), order)


def sets_from_rows(rows: Iterable[Any]) -> LabelSets:
    """The labels of all nodes in memory: each row is a list of names or numbers, one of them, or a gap."""

    def names(row: Any) -> list[str]:
        if has_lists([row]):
            return [str(name) for name in row]
        return [] if row is None or row != row else [str(row)]

    return sets_from_lists([pa.array([names(row) for row in rows], _NAMES)])


def _is_list(kind: pa.DataType) -> bool:
    return hasattr(kind, "value_type") and not pa.types.is_dictionary(kind) and not pa.types.is_map(kind)


def _listed(part: Part, name: str, column: pa.Array) -> pa.Array:
    """Lists of names or whole numbers, each once: vectors of 0 and 1 are not meant."""
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), _NAMES)
    if not _is_list(column.type):
        raise GraphError(f"{part.file}: column {quoted(name)} is of different types in different files; write one type")
    inside = column.type.value_type
    inside = inside.value_type if pa.types.is_dictionary(inside) else inside
    readable = (is_text, pa.types.is_string_view, pa.types.is_null, pa.types.is_integer)
    if not any(check(inside) for check in readable):
        raise GraphError(
            f"{part.file}: column {quoted(name)} is of type {column.type}, expected lists of names or whole numbers"
        )
    lists = column.cast(_NAMES)
    if (twice := _first_twice(lists)) >= 0:
        raise GraphError(
            f"{part.where(twice)}: {quoted(name)} has a label twice, expected the labels of the node, each once; give "
            "labels of 0 and 1 a column each and name these columns in graph.label_column"
        )
    return lists


def _first_twice(lists: pa.Array) -> int:
    """The first row with a name twice; -1 where there is none."""
    rows = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    names = pc.list_flatten(lists).dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
    known = names >= 0
    pairs, often = np.unique(rows[known] * (names.max(initial=0) + 1) + names[known], return_counts=True)
    return int(pairs[often > 1].min() // (names.max(initial=0) + 1)) if (often > 1).any() else -1


def _marked(part: Part, columns: Sequence[str]) -> pa.Array:
    """The names of the columns that have a 1 or true in a row; missing cells count as 0."""
    marks = np.stack([_marks(part, name) for name in columns], axis=1)
    offsets = np.concatenate([[0], np.cumsum(marks.sum(axis=1))]).astype(np.int32)
    names = pa.array(np.array(columns, object)[np.nonzero(marks)[1]], pa.large_string())
    return pa.ListArray.from_arrays(arrow_of(offsets), names)


def _marks(part: Part, name: str) -> npt.NDArray[np.bool_]:
    column = part.values(name)
    if storage_of(column.type) not in ("number", "boolean", "text", "none"):
        raise GraphError(f"{part.file}: label {quoted(name)} is of type {column.type}, expected 0 and 1")
    cells = numbers_of(column)
    wrong = cells.odd | ~((cells.values == 0) | (cells.values == 1) | np.isnan(cells.values))
    if wrong.any():
        at = int(np.argmax(wrong))
        raise GraphError(
            f"{part.where(at)}: label {quoted(name)} is {quoted(column[at].as_py())}, expected 0 or 1 in each of "
            "several label columns; correct it, or name one column in graph.label_column"
        )
    marks: npt.NDArray[np.bool_] = cells.values == 1
    return marks
