"""From columns of a node table to feature columns: learnt once, stored in the graph's manifest, reused as it is."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale import seeding
from gscl_scale.errors import FolderError, GraphError
from gscl_scale.graph.features import FARTHEST
from gscl_scale.graph.sources.cells import (
    DATE_ORDERS,
    DECIMAL_COMMA,
    THOUSANDS_COMMA,
    days_of,
    numbers_of,
    storage_of,
    text_of,
)
from gscl_scale.graph.sources.column_kinds import Kind, date_order, missing_option, type_option
from gscl_scale.graph.sources.column_profile import ColumnStats, NumberStats, lists_of
from gscl_scale.graph.sources.tablefiles import Part, TableFile
from gscl_scale.graph.types import ColumnEncoding
from gscl_scale.text import quoted

HASHED_WIDTH, TEXT_WIDTH, _BITS = 32, 48, 64  # each column takes one bit of a hash
_WITH_COMMAS = {DECIMAL_COMMA: " with a decimal comma", THOUSANDS_COMMA: " with a comma between thousands"}
_WORD = r"(?u)\b\w+\b"
_NGRAMS = 1 << 15  # places for those of words, and as many for those of letters


def learn(stats: ColumnStats, kind: Kind, missing: str, gaps: bool) -> ColumnEncoding:
    """The encoding of a column that is not left out.

    missing   graph.missing
    gaps      whether nodes without a row in the table will be added
    """
    assert kind != "left out"
    order = date_order(stats) if kind == "days" else stats.number_order if kind == "number" else ""
    found = stats.numbers_as(kind, order)
    fill = [one.total.mean(one.count) if missing == "mean" else 0.0 for one in found]
    values = sorted(stats.values or ()) if kind == "one-hot" else []
    width = {"one-hot": len(values), "hashed": HASHED_WIDTH, "text": TEXT_WIDTH}.get(kind, len(found))
    indicator = gaps or stats.num_missing(kind, order) > 0
    return {
        "name": stats.name, "kind": kind, "width": width, "indicator": indicator, "fill": fill, "values": values,
        "order": order,
    }  # fmt: skip


def refuse_damaged(encodings: Sequence[ColumnEncoding]) -> None:
    """FolderError for stored encodings that no version has written."""
    for one in encodings:
        kind, width = one["kind"], one["width"]
        hashed = kind in ("hashed", "text")
        length = width if hashed else len(one["values"] if kind == "one-hot" else one["fill"])
        if (
            width != length
            or width < 1
            or (hashed and width > _BITS)
            or (kind == "days") != (one["order"] in DATE_ORDERS)
            or {len(one.get("means", one["fill"])), len(one.get("deviations", one["fill"]))} != {len(one["fill"])}
        ):
            raise FolderError(
                f"the stored encoding of column {quoted(one['name'])} is damaged; ingest the graph that it is in again"
            )


def refuse_odd(stats: ColumnStats, encoding: ColumnEncoding, in_python: bool) -> None:
    """GraphError for the first cell that is no number or date, or is too large, in a column of those."""
    for found in stats.numbers_as(encoding["kind"], encoding["order"]):
        if found.first_odd:
            expected = "a date" if encoding["kind"] == "days" else f"a number{_WITH_COMMAS.get(encoding['order'], '')}"
            raise GraphError(_odd_cell(found, expected, stats.name, in_python))
        if found.first_huge:
            where, cell = found.first_huge
            raise GraphError(
                f"{where}: feature {quoted(stats.name)} is {cell}, expected a number of 32 bits (at most 3.4e38); "
                "correct it, or leave it empty"
            )


def _odd_cell(found: NumberStats, expected: str, name: str, in_python: bool) -> str:
    assert found.first_odd
    where, cell = found.first_odd
    others = f" ({found.odd:,} such cells)" if found.odd > 1 else ""
    return (
        f"{where}: feature {quoted(name)} is {cell}, expected {expected}{others}; correct it or leave it empty, count "
        f"such cells as missing: {missing_option(sorted(found.odd_texts), in_python)}, or read the column in another "
        f"way: {type_option(name, in_python)} (or text, or skip)"
    )


def columns_of(encoding: ColumnEncoding) -> list[str]:
    """Names of the feature columns: they say what was made of which column. Lists of numbers have one name."""
    name, kind, width = encoding["name"], encoding["kind"], encoding["width"]
    made = {
        "one-hot": [f"{name}={value}" for value in encoding["values"]],
        "hashed": [f"{name}#{number}" for number in range(width)],
        "text": [f"{name}~{number}" for number in range(width)],
        "days": [f"{name} (days)"],
    }.get(kind, [name])
    return [*made, f"{name} is missing"] if encoding["indicator"] else made


def total_width(encodings: Sequence[ColumnEncoding]) -> int:
    """Feature columns of all encodings together."""
    return sum(encoding["width"] + encoding["indicator"] for encoding in encodings)


def encode(part: Part, encodings: Sequence[ColumnEncoding]) -> npt.NDArray[np.float32]:
    """The feature columns side by side [rows, width]."""
    return np.concatenate([_encode_column(part, encoding) for encoding in encodings], axis=1)


def encode_nothing(rows: int, encodings: Sequence[ColumnEncoding]) -> npt.NDArray[np.float32]:
    """The feature columns of nodes without a row in the table."""
    nothing = pa.record_batch([pa.nulls(rows) for _ in encodings], names=[one["name"] for one in encodings])
    return encode(Part(TableFile(Path("nodes that only edges name")), 1, nothing), encodings)


def _encode_column(part: Part, encoding: ColumnEncoding) -> npt.NDArray[np.float32]:
    column = part.values(encoding["name"])
    block, missing = _ENCODERS[encoding["kind"]](part, column, encoding)
    return np.column_stack([block, missing]) if encoding["indicator"] else block


Block = tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]


def _number(part: Part, column: pa.Array, encoding: ColumnEncoding) -> Block:
    return _filled(numbers_of(_plain(column), encoding["order"]).values.reshape(-1, 1), encoding)


def _days(part: Part, column: pa.Array, encoding: ColumnEncoding) -> Block:
    return _filled(days_of(_plain(column), encoding["order"]).values.reshape(-1, 1), encoding)


def _plain(column: pa.Array) -> pa.Array:
    """Cells as they were counted: lists of words as one text."""
    return text_of(column) if storage_of(column.type) == "text" else column


def _numbers(part: Part, column: pa.Array, encoding: ColumnEncoding) -> Block:
    return _filled(lists_of(part, encoding["name"], column, encoding["width"]), encoding)


def _filled(values: npt.NDArray[np.float64], encoding: ColumnEncoding) -> Block:
    missing: npt.NDArray[np.bool_] = np.isnan(values)
    filled = _to_scale(np.where(missing, encoding["fill"], values), encoding)
    return _float32(filled), np.asarray(missing.any(axis=1))


def _to_scale(values: npt.NDArray[np.float64], encoding: ColumnEncoding) -> npt.NDArray[np.float64]:
    """Numbers [n, width] at the scale that their encoding has learnt, if any; a constant column becomes 0."""
    if "means" not in encoding or "deviations" not in encoding:
        return values
    deviations = np.array(encoding["deviations"], np.float64)
    inverse = np.divide(1, deviations, out=np.zeros_like(deviations), where=deviations > 0)
    return np.clip((values - encoding["means"]) * inverse, -FARTHEST, FARTHEST)


def _one_hot(part: Part, column: pa.Array, encoding: ColumnEncoding) -> Block:
    text = text_of(column)
    places = pc.index_in(text, pa.array(encoding["values"], text.type)).fill_null(-1).to_numpy(zero_copy_only=False)
    return _float32(places[:, None] == np.arange(encoding["width"])), _is_null(text)


def _hashed(part: Part, column: pa.Array, encoding: ColumnEncoding) -> Block:
    """Each value becomes one of 2^32 vectors of length one, so that two of them are nearly never alike."""
    text = text_of(column)
    missing = _is_null(text)
    block = _signs(seeding.identities_of(text.fill_null("")), encoding["width"])
    block[missing] = 0
    return block, missing


def _text(part: Part, column: pa.Array, encoding: ColumnEncoding) -> Block:
    """Word and letter n-grams by hashing, each of them projected to random signs (Johnson and Lindenstrauss, 1984)."""
    text = text_of(column)
    words, letters, projection = _text_tools(encoding["width"])
    cells = text.fill_null("").to_pylist()
    block = words.transform(cells) @ projection[:_NGRAMS] + letters.transform(cells) @ projection[_NGRAMS:]
    return block / np.float32(np.sqrt(2)), _is_null(text)


@cache
def _text_tools(width: int) -> tuple[Any, Any, npt.NDArray[np.float32]]:
    from sklearn.feature_extraction.text import HashingVectorizer  # takes a second to import

    make: Callable[..., Any] = HashingVectorizer
    words = make(n_features=_NGRAMS, dtype=np.float32, ngram_range=(1, 2), token_pattern=_WORD)
    letters = make(n_features=_NGRAMS, dtype=np.float32, ngram_range=(3, 4), analyzer="char_wb")
    key = seeding.key("n-grams of text")
    draws = seeding.identities_of(pa.array([f"{key} {number}" for number in range(2 * _NGRAMS)]))
    return words, letters, _signs(draws, width)


def _signs(hashes: npt.NDArray[np.uint64], width: int) -> npt.NDArray[np.float32]:
    """A vector of length one for each hash, of a sign for each of its last bits."""
    bits = (hashes[:, None] >> np.arange(width, dtype=np.uint64)) & np.uint64(1)
    return (_float32(bits) * 2 - 1) / np.float32(np.sqrt(width))


def _is_null(text: pa.Array) -> npt.NDArray[np.bool_]:
    missing: npt.NDArray[np.bool_] = text.is_null().to_numpy(zero_copy_only=False)
    return missing


def _float32(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    with np.errstate(over="ignore"):  # the graph folder refuses what becomes infinite
        return values.astype(np.float32)


_ENCODERS: dict[str, Callable[[Part, pa.Array, ColumnEncoding], Block]] = {
    "number": _number, "numbers": _numbers, "days": _days, "one-hot": _one_hot, "hashed": _hashed, "text": _text,
}  # fmt: skip
