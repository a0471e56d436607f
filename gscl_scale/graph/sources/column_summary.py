"""What was made of the columns of a node table, in words: a summary of each, and notes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gscl_scale.config.graphs import TablesGraph
from gscl_scale.graph.features import columns_in, gets_structural
from gscl_scale.graph.sources.cells import DATE_ORDERS, THOUSANDS_COMMA
from gscl_scale.graph.sources.column_kinds import missing_option, type_option
from gscl_scale.graph.sources.column_profile import ColumnStats, NumberStats
from gscl_scale.graph.sources.column_scales import largest_numbers
from gscl_scale.graph.sources.nodetable import NodeTable
from gscl_scale.graph.types import ColumnEncoding, ColumnSummary
from gscl_scale.text import join_names, shortened

_NAMED = 8  # columns in a note
_LONGEST = 60  # characters of a name
_NINES, _FAR = (99, 999, 9999, 99999), 4
_EXAMPLES = {THOUSANDS_COMMA: ": 1,234 is 1234"}
_TYPES = {"none": "no values", "boolean": "true or false", "time": "date", "list": "list of numbers"}


@dataclass(frozen=True)
class Made:
    """The encodings of a table's columns, and why others were left out."""

    table: NodeTable
    config: TablesGraph
    encodings: Sequence[ColumnEncoding]
    left_out: Mapping[str, str]

    def summaries(self) -> list[ColumnSummary]:
        """One for each column of the table: the ids, label and split, then the others in their order."""
        encoded = {encoding["name"]: encoding for encoding in self.encodings}
        purposes = dict.fromkeys(self.config.label_columns, "label") | {self.config.split_column: "split"}
        rows = [self._ids()]
        for name, stats in self.table.stats.items():
            made = [purposes[name]] if name in purposes else []
            made += [_words_for(encoded[name], stats)] if name in encoded else []
            made += [f"left out: {self.left_out[name]}"] if name in self.left_out else []
            rows.append(_summary(stats, encoded.get(name), "; ".join(made)))
        return rows

    def _ids(self) -> ColumnSummary:
        ids = self.table.ids
        kind = "integer" if pa.types.is_integer(ids.type) else "text"
        return ColumnSummary(
            name=self.table.id_column, type=kind, missing=0, distinct=len(ids), exact=True, made="id of the node"
        )

    def notes(self) -> list[str]:
        """What a user should know."""
        notes = []
        if self.encodings and self.config.feature_columns is None:
            names = join_names([encoding["name"] for encoding in self.encodings], _NAMED)
            notes.append(f"features are the columns {names} (graph.feature_columns chooses others)")
        gaps = {encoding["name"]: _num_missing(self.table, encoding) for encoding in self.encodings}
        if some := [f"{name} ({count:,})" for name, count in gaps.items() if count]:
            filled = "the mean of the column" if self.config.missing == "mean" else "0"
            notes.append(
                f"missing values: {join_names(some, _NAMED)}; numbers and dates became {filled} (graph.missing)"
            )
        return [*notes, *self._note_on_sentinels(), *self._note_on_scales()]

    def notes_on_left_out(self) -> list[str]:
        """The columns of which nothing was made, and how to bring them in."""
        if not self.left_out:
            return []
        reasons = [f"{name} ({reason})" for name, reason in self.left_out.items()]
        option = type_option(next(iter(self.left_out)), self.table.in_memory)
        return [
            f"columns left out: {join_names(reasons, _NAMED)}; to use one, name it in graph.feature_columns, or give "
            f"its type: {option}"
        ]

    def _note_on_sentinels(self) -> list[str]:
        """A note on numbers that seem to mean that a value is missing."""
        sentinels: dict[str, tuple[str, int]] = {}
        for encoding in self.encodings:
            if encoding["kind"] == "number":
                (found,) = self.table.stats[encoding["name"]].numbers_as("number", encoding["order"])
                sentinels |= {encoding["name"]: sentinel} if (sentinel := _sentinel_in(found)) else {}
        if not sentinels:
            return []
        words = join_names([f"{name} ({times:,} of {number})" for name, (number, times) in sentinels.items()], _NAMED)
        option = missing_option(sorted({number for number, _ in sentinels.values()}), self.table.in_memory)
        return [f"numbers far from all others of their column: {words}; if they mean a missing value: {option}"]

    def _note_on_scales(self) -> list[str]:
        """A note where the numbers of one column dwarf those of another."""
        largest = largest_numbers(self.encodings, self.table.stats)
        if not largest or gets_structural(columns_in(self.encodings), self.config):  # then each has deviation 1
            return []
        name = max(largest, key=lambda column: largest[column])
        found = (
            f"the numbers of column {shortened(name, _LONGEST)} (up to {largest[name]:,.6g}) are far larger than those"
        )
        if any("deviations" in one for one in self.encodings):
            return [
                f"{found} of others, so numbers and dates were scaled to mean 0 and deviation 1 (graph.structure: none "
                "keeps them as they are)"
            ]
        return [f"{found} of others and drown them, unless model.feature_scaling=standard scales them"]

    def notes_on_reuse(self) -> list[str]:
        """What the encoding of another table does not know of this one."""
        notes = []
        for encoding in self.encodings:
            name, values = shortened(encoding["name"], _LONGEST), self.table.stats[encoding["name"]].values
            if encoding["kind"] == "one-hot" and (new := sorted((values or set()) - set(encoding["values"]))):
                notes.append(f"column {name} has values that its encoding does not know: {join_names(new, _NAMED)}")
            if encoding["kind"] == "one-hot" and values is None:
                notes.append(f"column {name} has many values that its encoding does not know")
            if not encoding["indicator"] and (missing := _num_missing(self.table, encoding)):
                notes.append(f"{missing:,} missing values of {name} are not marked: its encoding has seen none")
        return notes


def _sentinel_in(found: NumberStats) -> tuple[str, int] | None:
    """A number of nines at an end of a column that is far from the next one, and how many cells have it."""
    lowest, highest = found.ends
    if lowest.times > 1 and -lowest.number in _NINES and 0 <= lowest.above < np.inf:
        return f"{lowest.number:.0f}", lowest.times
    if highest.times > 1 and -highest.number in _NINES[1:] and -np.inf < -highest.above * _FAR <= -highest.number:
        return f"{-highest.number:.0f}", highest.times
    return None


def _num_missing(table: NodeTable, encoding: ColumnEncoding) -> int:
    return table.stats[encoding["name"]].num_missing(encoding["kind"], encoding["order"])


def _summary(stats: ColumnStats, encoding: ColumnEncoding | None, made: str) -> ColumnSummary:
    kind, order = (encoding["kind"], encoding["order"]) if encoding else ("", "")
    counted = stats.numbers if stats.storage in ("number", "boolean") else stats.days[DATE_ORDERS[0]]
    distinct = (stats if stats.storage == "text" or stats.words else counted).distinct
    return ColumnSummary(
        name=stats.name,
        type=_type_of(stats, kind, order),
        missing=stats.num_missing(kind, order),
        distinct=None if stats.storage in ("list", "other") else min(distinct.count, stats.rows),
        exact=distinct.exact,
        made=made,
    )


def _type_of(stats: ColumnStats, kind: str, order: str) -> str:
    """What the cells of a column are, in a word."""
    (numbers,) = stats.numbers_as("number", order)
    written = stats.storage == "text" and numbers.count and not numbers.first_odd and not stats.zeros
    if stats.storage == "number" or written:
        return "integer" if numbers.whole else "number"
    return "date" if kind == "days" else _TYPES.get(stats.storage, stats.storage)


def _words_for(encoding: ColumnEncoding, stats: ColumnStats) -> str:
    order = f" ({encoding['order']}{_EXAMPLES.get(encoding['order'], '')})" if encoding["order"] else ""
    width, order = encoding["width"], order if stats.storage == "text" else ""
    words = {
        "number": f"a number{order}", "numbers": f"{width:,} numbers", "days": f"days since 1970{order}",
        "one-hot": f"one column for each of {width} values", "hashed": f"values hashed into {width} columns",
        "text": f"words and letters hashed into {width} columns",
    }[encoding["kind"]]  # fmt: skip
    words += ", scaled" if "deviations" in encoding else ""
    if not encoding["indicator"]:
        return words
    return f"{words}; missing ones {_filled(encoding)}are marked"


def _filled(encoding: ColumnEncoding) -> str:
    """What missing values become; days since 1970 would say nothing to a reader."""
    if len(encoding["fill"]) != 1:
        return ""
    (fill,) = encoding["fill"]
    return "become the mean and " if encoding["kind"] == "days" and fill else f"become {fill:.6g} and "
