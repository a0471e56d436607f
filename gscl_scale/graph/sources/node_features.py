"""Which features are made from which columns of a node table, and what is said about it."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.errors import GraphError
from gscl_scale.graph.sources.cells import DATE_ORDERS
from gscl_scale.graph.sources.column_encoding import columns_of, learn, refuse_odd
from gscl_scale.graph.sources.column_kinds import Kind, forced_kind, kind_of
from gscl_scale.graph.sources.column_profile import ColumnStats
from gscl_scale.graph.sources.nodetable import NodeTable
from gscl_scale.graph.types import ColumnEncoding, ColumnSummary
from gscl_scale.text import listed, quoted

_NAMED = 8  # columns in a note
_SCALES_APART = 100
_FAMILIES = {"one-hot": "category", "hashed": "category"}
_FITTING = {
    "number": ("number", "boolean", "text", "none"),
    "days": ("time", "text", "none"),
    "numbers": ("list", "none"),
}  # storages that an encoding can read; others read all but lists


@dataclass(frozen=True)
class NodeFeatures:
    """The encodings of the columns that become features, a summary of every column, and notes."""

    encodings: list[ColumnEncoding]
    summaries: list[ColumnSummary]
    notes: list[str]

    @property
    def columns(self) -> list[str]:
        """Names of the feature columns."""
        return [name for encoding in self.encodings for name in columns_of(encoding)]


def features_of(
    table: NodeTable,
    config: TablesGraph,
    gaps: bool,
    given: Sequence[ColumnEncoding] = (),
    preferred: Sequence[ColumnEncoding] = (),
) -> NodeFeatures:
    """Decide what becomes of each column, refuse what cannot be read, and describe it.

    gaps        whether nodes without a row will be added
    given       encodings to use whatever the table is like; `preferred` only if the same columns are of the same kinds
    """
    kinds = {name: _kind(table.stats[name], config) for name in [*table.features, *_unread(table)]}
    kinds |= _kinds_given(table, given, kinds)
    taken = [name for name in table.features if kinds[name][0] != "left out"]
    encodings = list(given) or [learn(table.stats[name], kinds[name][0], config.missing, gaps) for name in taken]
    if _same_kinds(encodings, preferred):
        encodings = list(preferred)
    for encoding in encodings:
        refuse_odd(table.stats[encoding["name"]], encoding)
        _refuse_missing(table.stats[encoding["name"]], encoding, config, gaps)
    summaries = _summaries(table, config, kinds, encodings)
    return NodeFeatures(encodings, summaries, _notes(table, config, kinds, encodings, bool(given or preferred)))


def _unread(table: NodeTable) -> list[str]:
    return [name for name, stats in table.stats.items() if stats.storage == "other"]


def _kind(stats: ColumnStats, config: TablesGraph) -> tuple[Kind, str]:
    if wanted := config.column_types.get(stats.name):
        return forced_kind(stats, wanted)
    kind, reason = kind_of(stats, config.feature_columns is not None)
    if kind == "left out" and config.feature_columns is not None:
        raise GraphError(
            f"feature {quoted(stats.name)} has {reason}; leave it out of graph.feature_columns"
        )
    return kind, reason


def _kinds_given(
    table: NodeTable, given: Sequence[ColumnEncoding], found: dict[str, tuple[Kind, str]]
) -> dict[str, tuple[Kind, str]]:
    """The kinds by encodings of another table: these columns are needed, and others are left out."""
    for encoding in given:
        name, kind = encoding["name"], encoding["kind"]
        storage = table.stats[name].storage if name in table.features else ""
        if storage not in _FITTING.get(kind, ("number", "boolean", "time", "text", "none")):
            what = f"is read as {kind}" if storage else "is needed"
            raise GraphError(
                f"{table.files[0]}: column {quoted(name)} {what} by graph.encoding, and the table has "
                f"{'no such column' if not storage else 'other values'}; bring the columns of {_AS_BEFORE}"
            )
    names = {encoding["name"]: encoding["kind"] for encoding in given}
    left = dict.fromkeys(found, ("left out", "not among the columns of graph.encoding")) if given else {}
    return left | {name: (kind, "") for name, kind in names.items()}


_AS_BEFORE = "the table that the encoding was learnt from, or set graph.encoding to none"


def _same_kinds(encodings: Sequence[ColumnEncoding], others: Sequence[ColumnEncoding]) -> bool:
    def outline(encoding: ColumnEncoding) -> tuple[str, str, int]:
        kind = encoding["kind"]
        return encoding["name"], _FAMILIES.get(kind, kind), encoding["width"] if kind == "numbers" else 0

    return bool(others) and list(map(outline, encodings)) == list(map(outline, others))


def _refuse_missing(stats: ColumnStats, encoding: ColumnEncoding, config: TablesGraph, gaps: bool) -> None:
    if config.missing != "refuse" or not (gaps or _missing(stats, encoding)):
        return
    if gaps:
        raise GraphError("graph.unknown_ids=add adds nodes without features; set graph.missing to mean or zero")
    places = [found.first_missing for found in stats.numbers_as(encoding["kind"], encoding["order"])]
    raise GraphError(
        f"{next(filter(None, places), stats.first_empty)}: feature {quoted(stats.name)} is empty; fill it, set "
        "graph.missing to mean or zero, or leave the column out of graph.feature_columns"
    )


def _missing(stats: ColumnStats, encoding: ColumnEncoding) -> int:
    return stats.num_missing(encoding["kind"], encoding["order"])


def _summaries(
    table: NodeTable,
    config: TablesGraph,
    kinds: dict[str, tuple[Kind, str]],
    encodings: Sequence[ColumnEncoding],
) -> list[ColumnSummary]:
    """Every column of the table, in the order in which it was read."""
    encoded = {encoding["name"]: encoding for encoding in encodings}
    ids: ColumnSummary = {
        "name": table.id_column, "type": "integer" if pa.types.is_integer(table.ids.type) else "text", "missing": 0,
        "distinct": len(table.ids), "exact": True, "made": "id",
    }  # fmt: skip
    purposes = {config.label_column: "label", config.split_column: "split"}
    rows = [ids]
    for name, stats in table.stats.items():
        made = _made(encoded[name]) if name in encoded else f"left out: {kinds[name][1]}" if name in kinds else ""
        rows.append(_summary(stats, encoded.get(name), "; ".join(filter(None, [purposes.get(name), made]))))
    return rows


def _summary(stats: ColumnStats, encoding: ColumnEncoding | None, made: str) -> ColumnSummary:
    storage, kind = stats.storage, encoding["kind"] if encoding else ""
    number = kind == "number" if storage == "text" else storage == "number"
    word = "date" if kind == "days" else "integer" if number and stats.numbers.whole else "number" if number else storage
    counted = stats.numbers if storage in ("number", "boolean") else stats.days[DATE_ORDERS[0]]
    distinct = (stats if storage == "text" or stats.words else counted).distinct
    return {
        "name": stats.name, "type": _TYPES.get(word, word), "missing": _missing(stats, encoding) if encoding else stats.empty,
        "distinct": None if storage in ("list", "other") else distinct.count, "exact": distinct.exact, "made": made,
    }  # fmt: skip


_TYPES = {"none": "no values", "boolean": "true or false", "time": "date", "list": "list of numbers"}


def _made(encoding: ColumnEncoding) -> str:
    """What was made of a column, in words."""
    width, order = encoding["width"], encoding["order"]
    words = {
        "number": "a number", "numbers": f"{width:,} numbers", "days": f"days since 1970 ({order})",
        "one-hot": f"one column for each of {width} values", "hashed": f"values hashed into {width} columns",
        "text": f"words and letters hashed into {width} columns",
    }[encoding["kind"]]  # fmt: skip
    if not encoding["indicator"]:
        return words
    filled = f" as {encoding['fill'][0]:.6g}" if len(encoding["fill"]) == 1 else ""
    return f"{words}; missing ones{filled}, marked in a column"


def _notes(
    table: NodeTable,
    config: TablesGraph,
    kinds: dict[str, tuple[Kind, str]],
    encodings: Sequence[ColumnEncoding],
    reused: bool,
) -> list[str]:
    notes = []
    if encodings and config.feature_columns is None:
        names = listed([encoding["name"] for encoding in encodings], _NAMED)
        notes.append(f"features are the columns {names} (graph.feature_columns chooses others)")
    left = {name: reason for name, (kind, reason) in kinds.items() if kind == "left out"}
    if left:
        example = next(iter(left))
        notes.append(
            f"columns left out: {listed([f'{name} ({reason})' for name, reason in left.items()], _NAMED)}; to use one, name "
            f"it in graph.feature_columns, or give its type: --set 'graph.column_types={{{example}: category}}'"
        )
    gaps = {one["name"]: _missing(table.stats[one["name"]], one) for one in encodings}
    if some := [f"{name} ({count:,})" for name, count in gaps.items() if count]:
        filled = "the mean" if config.missing == "mean" else "0"
        notes.append(f"missing values of numbers and dates became {filled} (graph.missing): {listed(some, _NAMED)}")
    return [*notes, *_note_on_scales(table, encodings), *(_notes_on_reuse(table, encodings) if reused else [])]


def _note_on_scales(table: NodeTable, encodings: Sequence[ColumnEncoding]) -> list[str]:
    """A note where the numbers of one column dwarf those of another."""
    largest = {}
    for one in encodings:
        found = table.stats[one["name"]].numbers_as(one["kind"], one["order"])
        largest[one["name"]] = max((max(abs(each.low), abs(each.high)) for each in found if each.count), default=1.0)
    if not largest or max(largest.values()) <= _SCALES_APART * min(value or 1.0 for value in largest.values()):
        return []
    name = max(largest, key=lambda column: largest[column])
    return [
        f"the numbers of column {name} (up to {largest[name]:,.6g}) are far larger than those of others, which they "
        "drown; model.feature_scaling=standard brings all columns to one scale"
    ]


def _notes_on_reuse(table: NodeTable, encodings: Sequence[ColumnEncoding]) -> list[str]:
    """Values that the reused encodings do not know."""
    notes = []
    for encoding in encodings:
        stats = table.stats[encoding["name"]]
        if encoding["kind"] == "one-hot":
            new = sorted((stats.values or set()) - set(encoding["values"]))
            if new or stats.values is None:
                notes.append(f"column {stats.name} has values that its encoding does not know: {listed(new or ['many'])}")
        if not encoding["indicator"] and (missing := _missing(stats, encoding)):
            notes.append(f"{missing:,} missing values of {stats.name} are not marked: its encoding had seen none")
    return notes
