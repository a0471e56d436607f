"""The node table: ids, labels, splits and features, in the order of its rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.label_sets import LabelSets
from gscl_scale.graph.row_file import RowStream
from gscl_scale.graph.sources.cells import storage_of
from gscl_scale.graph.sources.column_encoding import encode, encode_nothing, total_width
from gscl_scale.graph.sources.column_profile import ColumnStats
from gscl_scale.graph.sources.dialect import Dialect, word_of
from gscl_scale.graph.sources.explain import explained
from gscl_scale.graph.sources.id_file import IdColumn, IdScratch
from gscl_scale.graph.sources.label_columns import has_many, label_lists, separator_of, sets_from_lists
from gscl_scale.graph.sources.tablefiles import Part, TableFile, files_of, schema_of, stream
from gscl_scale.graph.sources.tableids import ids_of
from gscl_scale.graph.types import SPLIT_CODES, ColumnEncoding
from gscl_scale.io.arrow import is_text
from gscl_scale.storage.urls import url_of
from gscl_scale.text import join_names, quoted

_SPLIT_NAMES = {**SPLIT_CODES, "valid": SPLIT_CODES["val"], "validation": SPLIT_CODES["val"], "": 0}
_CLASS_NUMBER = r"^-?(0|[1-9][0-9]{0,14})(\.0+)?$"
_VALUES_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class NodeTable:
    """What a first pass over a node table has found; its features are read in a second one.

    features   the columns from which features may be made, in the order of the config or the table
    stats      what is in the columns other than that of the ids
    """

    files: list[TableFile]
    ids: pa.Array
    id_column: str
    labels: npt.NDArray[Any] | LabelSets | None = None
    splits: dict[str, npt.NDArray[np.int8]] = field(default_factory=dict)
    features: list[str] = field(default_factory=list)
    stats: dict[str, ColumnStats] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def in_memory(self) -> bool:
        """Whether the table is an object of a Python program."""
        return self.files[0].table is not None

    def with_nodes(self, ids: pa.Array) -> "NodeTable":
        """The table with more nodes at its end, of which nothing but the ids is known; `ids` are those of all."""
        new = len(ids) - len(self.ids)
        labels = self.labels
        if isinstance(labels, LabelSets):
            labels = labels.with_nodes(new)
        elif labels is not None:
            unknown = {"f": np.nan, "O": None}.get(labels.dtype.kind, -1)
            labels = np.concatenate([labels, np.full(new, unknown, labels.dtype)])
        splits = {name: np.concatenate([codes, np.zeros(new, np.int8)]) for name, codes in self.splits.items()}
        return replace(self, ids=ids, labels=labels, splits=splits)

    def rows(self, encodings: Sequence[ColumnEncoding], added: int) -> RowStream | None:
        """The features of all nodes, the last `added` of which have no row."""
        width = total_width(encodings)
        return RowStream((len(self.ids), width), _EncodedRows(self, encodings, added)) if width else None


@dataclass(frozen=True)
class _EncodedRows:
    table: NodeTable
    encodings: Sequence[ColumnEncoding]
    added: int

    def __iter__(self) -> Iterator[npt.NDArray[np.float32]]:
        names = [encoding["name"] for encoding in self.encodings]
        at_once = max(1, _VALUES_AT_ONCE // total_width(self.encodings))
        expected, read = len(self.table.ids) - self.added, 0
        for part in (part for file in self.table.files for part in stream(file, names)):
            for low in range(0, part.rows.num_rows, at_once):
                yield encode(Part(part.file, part.first_row + low, part.rows[low : low + at_once]), self.encodings)
            read += part.rows.num_rows
        if read != expected:
            raise GraphError(f"{self.table.files[0]} has changed while it was read; run the same command again")
        for low in range(0, self.added, at_once):
            yield encode_nothing(min(at_once, self.added - low), self.encodings)


@dataclass(frozen=True)
class _Columns:
    """The columns of each purpose; `unread` are of types from which no feature can be made.

    many   whether the label columns give many labels per node
    """

    ids: str
    labels: list[str]
    many: bool
    split: str | None
    features: list[str]
    unread: list[str]

    @property
    def keys(self) -> dict[str, str]:
        """Each column once, with the setting that names it."""
        labels = [(name, "label_column") for name in self.labels]
        named = [(self.ids, "id_column"), *labels, (self.split, "split_column")]
        keys = {name: key for name, key in named if name is not None}
        return keys | {name: "feature_columns" for name in self.features if name not in keys}


def read_nodes(config: TablesGraph, files: list[TableFile], scratch: IdScratch) -> NodeTable:
    """Read a node table once; labels and splits stay in memory, ids that fit, of the features only what is in them."""
    files = with_missing_values(files, config)
    columns = _choose(files[0], config)
    for file in files:
        schema_of(file, columns.keys)
    ids, labels, splits, stats = IdColumn(scratch, files[0].is_csv), [], [], _new_stats(columns, config)
    for part in (part for file in files for part in stream(file, list(columns.keys))):
        ids.add(ids_of(part, columns.ids))
        if columns.many:
            labels.append(label_lists(part, columns.labels, config))
        elif columns.labels:
            labels.append(part.values(columns.labels[0]))
        if columns.split:
            splits.append(_split_codes(part, columns.split))
        for column in stats.values():
            with explained(partial(_unreadable, part, column.name), pa.ArrowException):
                column.add(part)
    if not ids.types:
        raise GraphError(f"{_name_of(files, config)} has no rows; expected one row per node")
    codes = np.concatenate(splits) if splits else np.zeros(0, np.int8)
    classes = _labels(labels, files[0], columns) if labels else None
    return NodeTable(
        files=files,
        ids=_one_type(ids, files, config),
        id_column=columns.ids,
        labels=classes,
        splits={columns.split: codes} if columns.split and codes.any() else {},
        features=columns.features,
        stats=stats,
        notes=_notes(columns, codes, classes),
    )


def node_files(config: TablesGraph) -> list[TableFile]:
    """The files of the node table."""
    assert config.nodes is not None
    return files_of(config.nodes, "nodes", Dialect.of(config.nodes_separator, config.nodes_header, ""))


def with_missing_values(files: list[TableFile], config: TablesGraph) -> list[TableFile]:
    """The files with the cells that mean that a value is missing."""
    return [replace(file, missing=tuple(config.missing_values)) for file in files]


def _notes(columns: _Columns, codes: npt.NDArray[np.int8], labels: npt.NDArray[Any] | LabelSets | None) -> list[str]:
    notes = []
    if columns.split and not codes.any():
        notes.append(f"column {columns.split} has no train, val or test: the graph has no split")
    if isinstance(labels, np.ndarray) and labels.dtype == object and (sign := separator_of(set(labels) - {None})):
        notes.append(
            f"column {columns.labels[0]} seems to have several labels in a cell; --set "
            f"graph.label_separator={word_of(sign)} splits them"
        )
    return notes


def num_feature_columns(config: TablesGraph) -> int:
    """Feature columns, as far as the types of the columns tell: of text it is known once the table is read."""
    file = node_files(config)[0]
    schema = schema_of(file, {config.id_column: "id_column"})
    kinds = [schema.types[schema.names.index(name)] for name in _choose(file, config).features if name in schema.names]
    return sum(kind.list_size if pa.types.is_fixed_size_list(kind) else 1 for kind in kinds)


def _unreadable(part: Part, name: str, error: str) -> str:
    return f"{part.file}: column {quoted(name)} cannot be read: {error}; write it as numbers, dates or text"


def _new_stats(columns: _Columns, config: TablesGraph) -> dict[str, ColumnStats]:
    as_words = {name for name, kind in config.column_types.items() if kind in ("category", "text")}
    as_words |= set(columns.labels) if columns.many else set()
    stats = {name: ColumnStats(name, name in as_words) for name in columns.keys if name != columns.ids}
    return stats | {name: ColumnStats(name, storage="other") for name in columns.unread}


def _choose(file: TableFile, config: TablesGraph) -> _Columns:
    """The columns that the config names; by default features are made from all others."""
    schema = schema_of(file, {config.id_column: "id_column"} | dict.fromkeys(config.column_types, "column_types"))
    labels = [name for name in config.label_columns if _is_there(name, schema, file, config, "label_column")]
    split = config.split_column
    split = split if split is not None and _is_there(split, schema, file, config, "split_column") else None
    many = bool(labels) and has_many(labels, config, schema.field(labels[0]).type)
    named = [] if config.structure == "only" else config.feature_columns
    others = [name for name in schema.names if name not in (config.id_column, *labels, split)]
    unread = [name for name in others if storage_of(schema.types[schema.names.index(name)]) == "other"]
    for name in named or ():
        if name in unread:
            raise GraphError(
                f"{file}: feature {quoted(name)} is of type {schema.field(name).type}, expected numbers, dates, text, "
                "or lists of numbers; leave it out of graph.feature_columns"
            )
    features = [name for name in others if name not in unread] if named is None else list(named)
    return _Columns(config.id_column, labels, many, split, features, unread if named is None else [])


def _is_there(name: str, schema: pa.Schema, file: TableFile, config: TablesGraph, key: str) -> bool:
    """Whether the table has a column that a key names; only its default may be absent."""
    if name not in schema.names and getattr(config, key) != TablesGraph.model_fields[key].default:
        raise GraphError(f"{file}: no column {quoted(name)} (graph.{key}); it has {join_names(schema.names)}")
    return name in schema.names


def _name_of(files: list[TableFile], config: TablesGraph) -> str:
    assert config.nodes is not None
    return str(files[0]) if len(files) == 1 else url_of(config.nodes) or str(config.nodes)


def _one_type(ids: IdColumn, files: list[TableFile], config: TablesGraph) -> pa.Array:
    if len(ids.types) > 1:
        raise GraphError(
            f"{_name_of(files, config)}: files have ids of types {', '.join(sorted(map(str, ids.types)))}; write all "
            "with ids of one type"
        )
    return ids.joined()


def _split_codes(part: Part, column: str) -> npt.NDArray[np.int8]:
    values = part.values(column)
    if pa.types.is_null(values.type):
        return np.zeros(len(values), np.int8)
    if not is_text(values.type):
        raise GraphError(f"{part.file}: {column} is of type {values.type}, expected text: train, val, test, or empty")
    text = pc.utf8_lower(pc.utf8_trim_whitespace(values.fill_null("")))
    known = pc.index_in(text, pa.array(list(_SPLIT_NAMES), text.type))
    if known.null_count:
        at = pc.index(known.is_null(), True).as_py()
        raise GraphError(
            f"{part.where(at)}: {column} is {quoted(values[at].as_py())}, expected train, val, test, or nothing; "
            "correct it"
        )
    codes: npt.NDArray[np.int8] = np.array(list(_SPLIT_NAMES.values()), np.int8)[known.to_numpy(zero_copy_only=False)]
    return codes


def _labels(parts: list[pa.Array], file: TableFile, columns: _Columns) -> npt.NDArray[Any] | LabelSets:
    """Integers with -1, floats with NaN, or names with None where a label is unknown; of many labels all of a node."""
    if columns.many:
        return sets_from_lists(parts)
    where = f"{file}: {columns.labels[0]}"
    if len({part.type for part in parts}) > 1:
        raise GraphError(f"{where} is of different types in different files; write all files with one type")
    labels = pa.concat_arrays(parts)
    kind = labels.type
    if file.is_csv:
        unknown = pc.is_in(pc.utf8_lower(labels), pa.array(["", "nan"], kind))
        labels = pc.if_else(unknown, None, labels)
        numbers = pc.all(pc.match_substring_regex(labels, _CLASS_NUMBER)).as_py()
    else:
        numbers = pa.types.is_floating(kind) or pa.types.is_null(kind)
    if numbers:
        return labels.cast(pa.float64()).fill_null(float("nan")).to_numpy(zero_copy_only=False)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        if pa.types.is_uint64(kind) and len(labels) and (pc.max(labels).as_py() or 0) >= 2**63:
            raise GraphError(f"{where} holds labels from 2^63; write them as text")
        return labels.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    if not is_text(kind):
        raise GraphError(f"{where} is of type {kind}, expected integers or text")
    coded = pc.dictionary_encode(labels)
    names = np.array([*coded.dictionary.to_pylist(), None], object)  # one text per class, not per node
    return names[coded.indices.fill_null(names.size - 1).to_numpy(zero_copy_only=False)]
