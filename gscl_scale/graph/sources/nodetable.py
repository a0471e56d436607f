"""The node table: ids, labels, splits and features, in the order of its rows."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.row_file import RowFile, RowStream
from gscl_scale.graph.sources.tablefiles import Part, files_of, is_csv, schema_of, stream
from gscl_scale.graph.sources.tableids import guess_integers, ids_of, short_text
from gscl_scale.graph.types import SPLIT_CODES
from gscl_scale.io.arrow import is_text
from gscl_scale.text import listed, quoted

_SPLIT_NAMES = {**SPLIT_CODES, "valid": SPLIT_CODES["val"], "validation": SPLIT_CODES["val"], "": 0}
_CLASS_NUMBER = r"^-?(0|[1-9][0-9]{0,14})(\.0+)?$"


@dataclass(frozen=True)
class NodeTable:
    """The columns of a graph's nodes."""

    ids: pa.Array
    features: RowStream | None = None
    columns: list[str] = field(default_factory=list)
    labels: npt.NDArray[Any] | None = None
    splits: dict[str, npt.NDArray[np.int8]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Columns:
    ids: str
    label: str | None
    split: str | None
    features: list[str]
    notes: list[str]

    @property
    def keys(self) -> dict[str, str]:
        """Each column once, with the setting that names it."""
        named = ((self.ids, "id_column"), (self.label, "label_column"), (self.split, "split_column"))
        keys = {name: key for name, key in named if name is not None}
        return keys | {name: "feature_columns" for name in self.features if name not in keys}


def read_nodes(config: TablesGraph) -> NodeTable:
    """Read a node table; ids, labels and splits stay in memory, features wait in a file."""
    assert config.nodes is not None
    files = files_of(config.nodes, "nodes")
    path, from_csv = files[0], is_csv(files[0])
    columns = _choose(schema_of(path, {config.id_column: "id_column"}), path, config)
    for file in files:
        schema_of(file, columns.keys)
    ids, labels, splits, rows = [], [], [], RowFile()
    for part in (part for file in files for part in stream(file, list(columns.keys), columns.features)):
        ids.append(ids_of(part, columns.ids))
        if columns.label:
            labels.append(part.text_or_numbers(columns.label))
        if columns.split:
            splits.append(_split_codes(part, columns.split))
        if columns.features:
            rows.append(_matrix(part, columns.features, rows.width))
    if not ids:
        raise GraphError(f"{path.parent if len(files) > 1 else path} has no rows; expected one row per node")
    codes, notes = np.concatenate(splits) if splits else np.zeros(0, np.int8), columns.notes
    if columns.split and not codes.any():
        notes = [*notes, f"column {columns.split} has no train, val or test: the graph has no split"]
    return NodeTable(
        ids=_one_type(ids, from_csv, path),
        features=rows.stream(),
        columns=columns.features,
        labels=_labels(labels, from_csv, f"{path}: {columns.label}") if labels else None,
        splits={columns.split: codes} if columns.split and codes.any() else {},
        notes=notes,
    )


def num_feature_columns(config: TablesGraph) -> int:
    """Numbers per node, unless a column of features is a list of unknown length."""
    assert config.nodes is not None
    path = files_of(config.nodes, "nodes")[0]
    schema = schema_of(path, {config.id_column: "id_column"})
    features = _choose(schema, path, config).features
    kinds = [schema.types[schema.names.index(name)] for name in features if name in schema.names]
    return sum(kind.list_size if pa.types.is_fixed_size_list(kind) else 1 for kind in kinds)


def _choose(schema: pa.Schema, path: Path, config: TablesGraph) -> _Columns:
    """The columns that the config names; by default all others that are numbers are features."""
    label, split = (_optional(schema, path, config, key) for key in ("label_column", "split_column"))
    if config.feature_columns is not None:
        return _Columns(config.id_column, label, split, list(config.feature_columns), [])
    remaining = [name for name in schema.names if name not in (config.id_column, label, split)]
    features = [name for name in remaining if _is_numeric(schema.types[schema.names.index(name)])]
    notes = []
    if features:
        notes.append(f"features are the columns {listed(features, 8)} (graph.feature_columns chooses others)")
    if others := [name for name in remaining if name not in features]:
        notes.append(f"columns that are not numbers were left out: {listed(others, 8)}")
    return _Columns(config.id_column, label, split, features, notes)


def _optional(schema: pa.Schema, path: Path, config: TablesGraph, key: str) -> str | None:
    """The column that a key names; its default may be absent."""
    name: str | None = getattr(config, key)
    if name is None or name in schema.names:
        return name
    if name != TablesGraph.model_fields[key].default:
        raise GraphError(f"{path}: no column {quoted(name)} (graph.{key}); it has {listed(schema.names)}")
    return None


def _is_numeric(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _is_numeric(kind.value_type)
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
    )


def _one_type(ids: list[pa.Array], from_csv: bool, path: Path) -> pa.Array:
    if len({part.type for part in ids}) > 1:
        raise GraphError(
            f"{path.parent}: files have ids of types {', '.join(sorted({str(part.type) for part in ids}))}; "
            "write all with ids of one type"
        )
    joined = pa.concat_arrays(ids)
    return short_text(guess_integers(joined) if from_csv else joined)


def _split_codes(part: Part, column: str) -> npt.NDArray[np.int8]:
    values = part.text_or_numbers(column)
    if pa.types.is_null(values.type):
        return np.zeros(len(values), np.int8)
    if not is_text(values.type):
        raise GraphError(f"{part.path}: {column} is of type {values.type}, expected text: train, val, test, or empty")
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


def _labels(parts: list[pa.Array], from_csv: bool, where: str) -> npt.NDArray[Any]:
    """Integers with -1, floats with NaN, or names with None where a label is unknown."""
    if len({part.type for part in parts}) > 1:
        raise GraphError(f"{where} is of different types in different files; write all files with one type")
    labels = pa.concat_arrays(parts)
    kind = labels.type
    if from_csv:
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


def _matrix(part: Part, columns: list[str], width: int | None) -> npt.NDArray[np.float32]:
    """The feature columns side by side [rows, width]."""
    blocks = [_block(part, name) for name in columns]
    matrix = np.concatenate(blocks, axis=1)
    if width is not None and matrix.shape[1] != width:
        raise GraphError(
            f"{part.where(0)}: this row has {matrix.shape[1]} feature values, earlier ones have {width}; "
            "expected one width for all nodes"
        )
    return matrix


def _block(part: Part, name: str) -> npt.NDArray[np.float32]:
    column = part.text_or_numbers(name)
    if not _is_numeric(column.type):
        raise GraphError(
            f"{part.path}: feature {quoted(name)} is of type {column.type}, expected numbers or lists of numbers; "
            "leave it out of graph.feature_columns"
        )
    if column.null_count:
        raise GraphError(_empty_feature(part, name, pc.index(column.is_null(), True).as_py()))
    if hasattr(column.type, "value_type"):
        return _lists(part, name, column)
    return _float32(column).reshape(-1, 1)


def _lists(part: Part, name: str, column: pa.Array) -> npt.NDArray[np.float32]:
    lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    if (lengths != lengths[0]).any():
        at = int(np.argmax(lengths != lengths[0]))
        raise GraphError(
            f"{part.where(at)}: feature {quoted(name)} has {lengths[at]} numbers, the rows before have {lengths[0]}; "
            "expected lists of one length"
        )
    values = column.flatten()
    if values.null_count:
        raise GraphError(_empty_feature(part, name, pc.index(values.is_null(), True).as_py() // int(lengths[0])))
    if hasattr(values.type, "value_type"):
        raise GraphError(f"{part.path}: feature {quoted(name)} is of type {column.type}, expected lists of numbers")
    return _float32(values).reshape(len(column), -1)


def _float32(values: pa.Array) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):  # the graph folder refuses what becomes infinite
        return values.to_numpy(zero_copy_only=False).astype(np.float32)


def _empty_feature(part: Part, name: str, at: int) -> str:
    return f"{part.where(at)}: feature {quoted(name)} is empty; fill it, or leave it out of graph.feature_columns"
