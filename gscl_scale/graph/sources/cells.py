"""Cells of a table as text, as numbers or as days since 1970, and which of them are missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale.io.arrow import arrow_of, is_text

Storage = Literal["none", "boolean", "number", "time", "text", "list", "other"]
DATE_ORDERS = ("year first", "day first", "month first")
DECIMAL_COMMA, THOUSANDS_COMMA = "decimal comma", "comma between thousands"

# what programs and people write into a column of numbers or dates where they have none
_MISSING_WORDS = (
    "", "na", "n/a", "n.a.", "nan", "nat", "null", "none", "nil", "unknown", "missing", "?", "-", "--", ".", "#n/a",
    "0000-00-00", "k.a.", "k. a.", "keine angabe",
)  # fmt: skip
_NUMBER = r"^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf(inity)?)$"
_COMMA_NUMBER = r"^[+-]?([0-9]{1,3}(\.[0-9]{3})+|[0-9]+)(,[0-9]+)?$"
# a comma in front of three digits may group thousands, unless dots do so, or 0 or four and more digits are before it
_SURE_COMMA = r"^[+-]?([0-9]+,([0-9]{1,2}|[0-9]{4,})|(0|[0-9]{4,}),[0-9]{3}|[0-9]{1,3}(\.[0-9]{3})+,[0-9]+)$"
_GROUPED = r"^[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?$"
_THOUSANDS = rf"({_GROUPED}|^[+-]?[0-9]{{1,3}}(\.[0-9]+)?$)"
_CLOCK = r"(?:[t ](?P<h>\d{1,2}):(?P<i>\d{2})(?::(?P<s>\d{2}(?:\.\d{1,9})?))? ?(?P<z>z|[+-]\d{2}:?\d{2})?)?$"
_YEAR_FIRST = r"^(?P<a>\d{4})[-/.](?P<b>\d{1,2})[-/.](?P<c>\d{1,2})" + _CLOCK
_YEAR_LAST = r"^(?P<a>\d{1,2})[-/.](?P<b>\d{1,2})[-/.](?P<c>\d{4})" + _CLOCK
_PLACES = {"year first": "abc", "day first": "cba", "month first": "cab"}  # of year, month and day
_TICKS_PER_DAY = {"d": 1, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


@dataclass(frozen=True)
class Cells:
    """A column as numbers.

    values   [n] NaN where a cell is missing or odd
    odd      [n] whether it holds something that is not of the kind
    """

    values: npt.NDArray[np.float64]
    odd: npt.NDArray[np.bool_]

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        """Which cells are missing."""
        return np.isnan(self.values) & ~self.odd


def storage_of(kind: pa.DataType) -> Storage:
    """What an Arrow type holds; dictionaries hold what their values are."""
    types = pa.types
    if types.is_dictionary(kind):
        return storage_of(kind.value_type)
    if is_text(kind) or types.is_string_view(kind):
        return "text"
    if hasattr(kind, "value_type") and not types.is_map(kind):
        inside = storage_of(kind.value_type)
        number = inside in ("number", "boolean", "none", "list")  # a list of lists is refused where it is read
        return "text" if is_text(kind.value_type) else "list" if number else "other"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_temporal(kind) and not types.is_interval(kind):
        return "time"
    return "boolean" if types.is_boolean(kind) else "none" if types.is_null(kind) else "other"


def null_where(column: pa.Array, missing_values: Sequence[str]) -> pa.Array:
    """The cells, null where one is among the missing values: the same text in any case, or the same number."""
    if is_text(column.type):
        words = pc.unique(_plain(pa.array(missing_values, column.type)))
        return pc.if_else(pc.is_in(_plain(column), words), None, column)
    if storage_of(column.type) != "number":
        return column
    numbers = numbers_of(pa.array(missing_values, pa.large_string())).values
    return pc.if_else(arrow_of(np.isin(numbers_of(column).values, numbers[~np.isnan(numbers)])), None, column)


def _plain(text: pa.Array) -> pa.Array:
    """Texts in lower case without spaces around them; whole numbers without decimals, so that -999.0 is -999."""
    return pc.replace_substring_regex(pc.utf8_lower(pc.utf8_trim_whitespace(text)), r"^([+-]?\d+)\.0+$", r"\1")


def text_of(column: pa.Array) -> pa.Array:
    """Cells as text without spaces around it, lists as words; null where a cell is missing or empty."""
    if hasattr(column.type, "value_type"):
        column = pc.binary_join(column.cast(pa.list_(pa.large_string())), pa.scalar(" ", pa.large_string()))
    text = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    return pc.if_else(pc.equal(text, ""), None, text)


def numbers_of(column: pa.Array, order: str = "") -> Cells:
    """Cells as numbers: true is 1, and NaN and words such as `n/a` are missing. `order` says what a comma is."""
    if not is_text(column.type):
        column = column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column
        values = column.to_numpy(zero_copy_only=False)
        values = np.full(len(column), np.nan) if pa.types.is_null(column.type) else values
        if values.dtype == object:  # booleans with gaps
            values = column.cast(pa.int8()).to_numpy(zero_copy_only=False)
        return Cells(values.astype(np.float64, copy=False), np.zeros(len(column), bool))
    low = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    if order == DECIMAL_COMMA:
        number = pc.match_substring_regex(low, _COMMA_NUMBER)
        digits = pc.replace_substring(pc.replace_substring(pc.if_else(number, low, None), ".", ""), ",", ".")
        return _read(low, digits)
    if order == THOUSANDS_COMMA:
        number = pc.match_substring_regex(low, _THOUSANDS)
        return _read(low, pc.replace_substring(pc.if_else(number, low, None), ",", ""))
    truth = pc.index_in(low, pa.array(["false", "true"], low.type))
    low = pc.if_else(pc.is_valid(truth), pc.cast(pc.cast(truth, pa.string()), low.type), low)
    number = pc.match_substring_regex(low, _NUMBER)
    return _read(low, pc.if_else(number, low, None))


def _read(low: pa.Array, digits: pa.Array) -> Cells:
    """Cells of which those that are numbers have digits."""
    values = pc.cast(digits, pa.float64()).to_numpy(zero_copy_only=False)
    return Cells(values, _odd(low, np.isnan(values)))


def grouped(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Which cells of text are numbers with commas in front of groups of three digits."""
    found = pc.fill_null(pc.match_substring_regex(pc.utf8_trim_whitespace(column), _GROUPED), False)
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def sure_commas(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Which cells of text are numbers whose comma can only be a decimal one."""
    sure = pc.fill_null(pc.match_substring_regex(pc.utf8_trim_whitespace(column), _SURE_COMMA), False)
    return np.asarray(sure.to_numpy(zero_copy_only=False), bool)


def days_of(column: pa.Array, order: str) -> Cells:
    """Cells as days since 1970; times of day and durations as parts of a day. Text is read in one of DATE_ORDERS."""
    if not is_text(column.type):
        return _days_of_times(column)
    low = pc.utf8_lower(pc.utf8_trim_whitespace(column))
    found = pc.extract_regex(low, _YEAR_FIRST if order == "year first" else _YEAR_LAST)
    dated = found.is_valid().to_numpy(zero_copy_only=False)
    values = np.full(len(low), np.nan)
    values[dated] = _days_of_parts(found.filter(arrow_of(dated)), _PLACES[order])
    return Cells(values, _odd(low, np.isnan(values)))


def _odd(low: pa.Array, nothing: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    missing = pc.fill_null(pc.is_in(low, pa.array(_MISSING_WORDS, low.type)), False)
    empty = pc.or_(low.is_null(), missing)
    odd: npt.NDArray[np.bool_] = nothing & ~empty.to_numpy(zero_copy_only=False)
    return odd


def _days_of_times(column: pa.Array) -> Cells:
    kind = column.type
    unit = "d" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else getattr(kind, "unit", "d")
    bits = pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()
    ticks = column.cast(bits).to_numpy(zero_copy_only=False)
    return Cells(ticks.astype(np.float64) / _TICKS_PER_DAY[unit], np.zeros(len(column), bool))


def _days_of_parts(parts: pa.Array, places: str) -> npt.NDArray[np.float64]:
    """Days of dates in pieces; NaN where there is no such day or time."""
    year, month, day = (_numbers(parts.field(place)).astype(np.int64) for place in places)
    first = (year - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (np.clip(month, 1, 12) - 1)
    date = first.astype("datetime64[D]") + (np.clip(day, 1, 31) - 1)
    hour, minute, second = (_numbers(parts.field(name)) for name in "his")
    exists = (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (date.astype("datetime64[M]") == first)
    exists &= (hour < 24) & (minute < 60) & (second < 61)
    zone = parts.field("z")
    away = pc.replace_substring_regex(zone, r"^([+-]\d{2}):?(\d{2})$", r"\1.\2")
    away = _numbers(pc.if_else(pc.equal(zone, "z"), "", away))
    minutes_away = np.sign(away) * (np.floor(abs(away)) * 60 + np.round(abs(away) % 1 * 100))
    clock = hour / 24 + (minute - minutes_away) / 1440 + second / 86_400
    return np.where(exists, date.astype(np.int64) + clock, np.nan)


def _numbers(digits: pa.Array) -> npt.NDArray[Any]:
    """Digits as floats; 0 where there are none."""
    return pc.cast(pc.if_else(pc.equal(digits, ""), "0", digits), pa.float64()).to_numpy(zero_copy_only=False)
