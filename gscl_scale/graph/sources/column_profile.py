"""What a pass over a node table finds in each of its columns; nothing of it depends on the order of the rows."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale import seeding
from gscl_scale.errors import GraphError
from gscl_scale.graph.sources.cells import (
    DATE_ORDERS,
    DECIMAL_COMMA,
    THOUSANDS_COMMA,
    Cells,
    Storage,
    days_of,
    grouped,
    numbers_of,
    storage_of,
    sure_commas,
    text_of,
)
from gscl_scale.graph.sources.exact_sum import ExactSum
from gscl_scale.graph.sources.tablefiles import Part, Place
from gscl_scale.io.arrow import arrow_of
from gscl_scale.kernels.kernel import kernel
from gscl_scale.text import quoted

MOST_CATEGORIES = 32  # distinct values of a column with one feature column for each
MOST_NAMED = 4  # odd texts of a column that a message names
_EXACT_DISTINCT = 1024
_LEAST_TOLD = 1e-12  # of the mean square: smaller variances are rounding
_LARGEST = float(np.finfo(np.float32).max)
_SEPARATED = r"\S[\s,;|]+\S"
_LEADING_ZERO = r"^[+-]?0[0-9]+$"
_PHONE = r"^\+?[0-9][0-9\s()./-]{4,}[0-9]$"


class Distinct:
    """The number of distinct values of a stream: exact up to 1,024, then estimated from the smallest hashes (+- 3 %).

    The k-th smallest of n hashes that are spread evenly over [0, 1] lies at k / n (Bar-Yossef et al., 2002).
    """

    def __init__(self) -> None:
        self._smallest = np.zeros(0, np.uint64)

    def add(self, hashes: npt.NDArray[np.uint64]) -> None:
        """Add the hashes of some values; repeats are welcome."""
        if not self.exact:
            hashes = hashes[hashes < self._smallest[-1]]
        if hashes.size:
            self._smallest = np.unique(np.concatenate([self._smallest, hashes]))[: _EXACT_DISTINCT + 1]

    @property
    def exact(self) -> bool:
        """Whether the number is exact."""
        return self._smallest.size <= _EXACT_DISTINCT

    @property
    def count(self) -> int:
        """The number."""
        return self._smallest.size if self.exact else int(_EXACT_DISTINCT * 2.0**64 / float(self._smallest[-1]))


@dataclass
class Lowest:
    """The lowest number of a stream, how many times it is there, and the next one above it."""

    number: float = np.inf
    times: int = 0
    above: float = np.inf

    def add(self, values: npt.NDArray[np.float64]) -> None:
        """Add numbers, at least one."""
        number = float(values.min())
        above = float(values.min(initial=np.inf, where=values > number))
        if number < self.number:
            self.number, self.times, self.above = number, 0, self.number
        self.above = min(self.above, above if number == self.number else number)
        self.times += int((values == self.number).sum())


@dataclass
class NumberStats:
    """Of the cells of a column that are numbers, or dates as days: count, mean, range, and which are odd.

    odd     the number of cells of text that are none; `odd_texts` has MOST_NAMED of them, or one more if there are more
    ends    the lowest number, and the lowest of the negated numbers
    """

    count: int = 0
    ends: tuple["Lowest", "Lowest"] = field(default_factory=lambda: (Lowest(), Lowest()))
    whole: bool = True
    total: ExactSum = field(default_factory=ExactSum)
    squares: ExactSum = field(default_factory=ExactSum)
    distinct: Distinct = field(default_factory=Distinct)
    odd: int = 0
    odd_texts: set[str] = field(default_factory=set)
    first_odd: tuple[Place, str] | None = None  # its place and the cell
    first_huge: tuple[Place, str] | None = None
    first_missing: Place | None = None

    def add(self, part: Part, cells: Cells, column: pa.Array) -> None:
        """Add the cells of a part; `column` has them as they are."""
        if self.first_odd is None and cells.odd.any():
            self.first_odd = _place(part, column, int(np.argmax(cells.odd)))
        if self.first_missing is None and cells.missing.any():
            self.first_missing = part.where(int(np.argmax(cells.missing)))
        huge = abs(cells.values) > _LARGEST
        if self.first_huge is None and huge.any():
            self.first_huge = _place(part, column, int(np.argmax(huge)))
        self.count += int((~np.isnan(cells.values)).sum())
        values = cells.values[np.isfinite(cells.values)] + 0.0  # -0.0 becomes 0.0
        if values.size:
            self.ends[0].add(values)
            self.ends[1].add(-values)
            self.whole = self.whole and bool((values == np.floor(values)).all())
            self.total.add(values)
            self.squares.add(np.clip(values, -_LARGEST, _LARGEST) ** 2)
            self.distinct.add(_mixed(values.view(np.uint64)))

    @property
    def low(self) -> float:
        """The lowest number."""
        return self.ends[0].number

    @property
    def high(self) -> float:
        """The highest number."""
        return -self.ends[1].number

    def add_odd(self, words: pa.Array, times: npt.NDArray[np.int64]) -> None:
        """Count texts that are odd, each with its number of cells."""
        self.odd += int(times.sum())
        if len(self.odd_texts) <= MOST_NAMED:
            self.odd_texts = self.odd_texts.union(words[: MOST_NAMED + 1].to_pylist())

    @property
    def deviation(self) -> float:
        """The standard deviation; where squares have too few digits to tell it, that of numbers spread evenly."""
        squares, mean = self.squares.mean(self.count), min(abs(self.total.mean(self.count)), _LARGEST)
        variance = squares - mean**2
        if variance > _LEAST_TOLD * squares:
            return float(np.sqrt(variance))
        return float((self.high - self.low) / np.sqrt(12)) if self.count else 0.0


@dataclass
class ColumnStats:
    """What is known of a column.

    words       read the cells as text, whatever they are
    empty       missing cells; among text also words for it, such as `n/a`, are counted by `numbers` and `days` only
    values      the distinct texts; None once there are more than MOST_CATEGORIES
    separated, zeros, phones   cells of text with several words, digits after a leading zero, and phone numbers
    commas      the cells of text as numbers with a decimal comma; `sure_commas` of them can be nothing else
    thousands   the cells of text as numbers with commas between thousands; `grouped` of them have one
    lists       one entry for each position of lists of numbers
    """

    name: str
    words: bool = False
    rows: int = 0
    empty: int = 0
    storage: Storage = "none"
    first_empty: Place | None = None
    distinct: Distinct = field(default_factory=Distinct)
    values: set[str] | None = field(default_factory=set)
    separated: int = 0
    zeros: int = 0
    phones: int = 0
    dotted: int = 0
    sure_commas: int = 0
    grouped: int = 0
    numbers: NumberStats = field(default_factory=NumberStats)
    commas: NumberStats = field(default_factory=NumberStats)
    thousands: NumberStats = field(default_factory=NumberStats)
    days: dict[str, NumberStats] = field(default_factory=lambda: {order: NumberStats() for order in DATE_ORDERS})
    lists: list[NumberStats] = field(default_factory=list)

    @property
    def present(self) -> int:
        """Cells that are not missing."""
        return self.rows - self.empty

    def numbers_as(self, kind: str, order: str) -> list[NumberStats]:
        """What is known of the cells as numbers, days or lists of numbers; nothing for other kinds."""
        if kind == "numbers":
            return self.lists
        numbers = self.numbers
        if self.storage == "text" or self.words:
            numbers = {DECIMAL_COMMA: self.commas, THOUSANDS_COMMA: self.thousands}.get(order, numbers)
        return [numbers] if kind == "number" else [self.days[order]] if kind == "days" else []

    @property
    def number_order(self) -> str:
        """How cells of text are numbers: with a decimal comma if more of them are so, and one can be nothing else.

        With commas between thousands if all are so: fixed three decimals behind a comma are rare, and where each cell
        has them they are the same numbers at another scale.
        """
        if self.sure_commas and self.commas.count > self.numbers.count:
            return DECIMAL_COMMA
        return THOUSANDS_COMMA if self.grouped and self.thousands.first_odd is None else ""

    def num_missing(self, kind: str, order: str) -> int:
        """Cells without a value; words for missing values count in columns of numbers and dates only."""
        if self.storage == "text" and kind in ("number", "days"):
            return self.rows - self.numbers_as(kind, order)[0].count
        return self.empty

    def add(self, part: Part) -> None:
        """Add the cells of a part; columns of other types are not read."""
        if self.storage == "other":
            return
        column = part.values(self.name)
        self.rows += len(column)
        storage = storage_of(column.type)
        if storage == "none":
            self._count_empty(part, np.ones(len(column), bool))
            return
        self._refuse_mixture(part, storage)
        self.storage = storage
        if storage == "other":
            return
        if storage == "text" or self.words:
            self._add_text(part, text_of(column))
        elif storage == "list":
            self._add_lists(part, column)
        else:
            stats = self.days[DATE_ORDERS[0]] if storage == "time" else self.numbers
            cells = days_of(column, "") if storage == "time" else numbers_of(column)
            stats.add(part, cells, column)
            self._count_empty(part, cells.missing)

    def _refuse_mixture(self, part: Part, storage: Storage) -> None:
        if self.storage in ("none", storage) or {self.storage, storage} <= {"boolean", "number"}:
            return
        raise GraphError(
            f"{part.file}: column {quoted(self.name)} holds {_WORDS[storage]}, and {_WORDS[self.storage]} in the files "
            "before it; write all files with one type"
        )

    def _count_empty(self, part: Part, missing: npt.NDArray[np.bool_]) -> None:
        if self.first_empty is None and missing.any():
            self.first_empty = part.where(int(np.argmax(missing)))
        self.empty += int(missing.sum())

    def _add_text(self, part: Part, text: pa.Array) -> None:
        """Look at each distinct text of the part once."""
        self._count_empty(part, text.is_null().to_numpy(zero_copy_only=False))
        coded = text.dictionary_encode()
        words, places = coded.dictionary, coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        times = np.bincount(places[places >= 0], minlength=len(words))
        self.distinct.add(seeding.identities_of(words))
        if self.values is not None:
            self.values = self.values.union(words[: MOST_CATEGORIES + 1].to_pylist())
            self.values = self.values if len(self.values) <= MOST_CATEGORIES else None
        self.separated += _count(words, times, _SEPARATED)
        self.zeros += _count(words, times, _LEADING_ZERO)
        self.phones += _count(words, times, _PHONE)
        self.dotted += _count(words, times, r"\.")
        self.sure_commas += int(times[sure_commas(words)].sum())
        self.grouped += int(times[grouped(words)].sum())
        for stats, cells in (
            (self.numbers, numbers_of(words)),
            (self.commas, numbers_of(words, DECIMAL_COMMA)),
            (self.thousands, numbers_of(words, THOUSANDS_COMMA)),
            *((self.days[order], days_of(words, order)) for order in DATE_ORDERS),
        ):
            stats.add_odd(words.filter(arrow_of(cells.odd)), times[cells.odd])
            if stats.first_odd is None or not np.isnan(cells.values).all():  # else there is nothing to add
                values, odd = np.append(cells.values, np.nan)[places], np.append(cells.odd, False)[places]
                stats.add(part, Cells(values, odd), text)

    def _add_lists(self, part: Part, column: pa.Array) -> None:
        matrix = lists_of(part, self.name, column, len(self.lists) or None)
        self.lists = self.lists or [NumberStats() for _ in range(matrix.shape[1])]
        odd = np.zeros(len(column), bool)
        for stats, values in zip(self.lists, matrix.T, strict=True):
            stats.add(part, Cells(np.ascontiguousarray(values), odd), column)
        absent = column.is_null().to_numpy(zero_copy_only=False)
        self._count_empty(part, absent | np.isnan(matrix).any(axis=1))


_WORDS = {
    "none": "nothing", "boolean": "true and false", "number": "numbers", "time": "dates or times", "text": "text",
    "list": "lists of numbers", "other": "values of another kind",
}  # fmt: skip


def lists_of(part: Part, name: str, column: pa.Array, width: int | None) -> npt.NDArray[np.float64]:
    """Lists of numbers of one length as rows; NaN in all places of a missing list."""
    if pa.types.is_null(column.type):
        return np.full((len(column), width or 0), np.nan)
    lengths = pc.list_value_length(column).fill_null(-1).to_numpy(zero_copy_only=False)
    width = width or int(lengths[np.argmax(lengths >= 0)])
    wrong = (lengths != width) & (lengths != -1)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise GraphError(
            f"{part.where(at)}: feature {quoted(name)} has {lengths[at]} numbers, the rows before have {width}; "
            "expected lists of one length"
        )
    values = column.filter(column.is_valid()).flatten()
    if storage_of(values.type) not in ("number", "boolean", "none"):
        raise GraphError(f"{part.file}: feature {quoted(name)} is of type {column.type}, expected lists of numbers")
    present = lengths >= 0
    matrix = np.full((len(column), max(width, 0)), np.nan)
    matrix[present] = numbers_of(values).values.reshape(int(present.sum()), -1)
    return matrix


def _place(part: Part, column: pa.Array, at: int) -> tuple[Place, str]:
    return part.where(at), quoted(column[at].as_py())


def _count(words: pa.Array, times: npt.NDArray[np.int64], pattern: str) -> int:
    return int(times[pc.match_substring_regex(words, pattern).to_numpy(zero_copy_only=False)].sum())


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    out = np.empty(values.size, np.uint64)
    _mix(values, out)
    return out


@kernel
def _mix(values: Any, out: Any) -> None:
    for i in range(values.size):
        out[i] = seeding.mix(values[i])
