"""Ids of edge and node tables: integers or text."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gscl_scale import seeding
from gscl_scale.errors import GraphError
from gscl_scale.graph.sources.tablefiles import Part
from gscl_scale.io.arrow import arrow_of, is_text
from gscl_scale.kernels.kernel import kernel
from gscl_scale.text import quoted

_INTEGER_TEXT = r"^(0|-?[1-9][0-9]{0,18})$"  # read as an integer and written again, it is the same text
_FEW_DIGITS = 18  # every integer of so many digits is within 64 bits
_LEAST, _MOST = str(-(2**63)), str(2**63 - 1)  # of nineteen digits, whose texts sort as their numbers
SHORT_TEXT = 2**31 - 1  # bytes that an Arrow string array holds
_MERGE_AT = 1 << 22
_SMALLEST = 1 << 10  # slots of a hash table
_COPIES, _OF_HASH = 3, 32  # of texts that are merged; bytes of the hash table of each
_DENSE = 2  # a plain table is used if it is at most so many times longer than the numbers are many


def is_integer_text(text: pa.Array) -> pa.Array:
    """Whether each text is an integer of 64 bits as programs write it, without a plus sign or leading zeros."""
    written = pc.match_substring_regex(text, _INTEGER_TEXT)
    if (pc.max(pc.binary_length(text)).as_py() or 0) <= _FEW_DIGITS:
        return written
    negative = pc.starts_with(text, "-")
    short = pc.less_equal(pc.binary_length(text), pc.if_else(negative, _FEW_DIGITS + 1, _FEW_DIGITS))
    within = pc.less_equal(text, pc.if_else(negative, pa.scalar(_LEAST, text.type), pa.scalar(_MOST, text.type)))
    return pc.and_(written, pc.or_(short, within))


def _cure(kind: pa.DataType, column: str, in_memory: bool) -> str:
    """Where decimals come from, and how ids of other types become text."""
    if pa.types.is_floating(kind):
        return "pandas has decimals where an id is missing: drop these rows, then astype(int)"
    return f"make it text: {as_text(column)}" if in_memory else "write it as text"


def as_text(column: str) -> str:
    """How a column of a data frame becomes text, to type."""
    return f"df[{quoted(column)}] = df[{quoted(column)}].astype(str)"


def ids_of(part: Part, column: str, strict: bool = True, otherwise: str = "") -> pa.Array:
    """Read a column of ids: integers below 2^63 or text; with `strict`, none of them may be missing.

    otherwise   what to do with a missing one besides correcting the table
    """
    ids = part.text_or_numbers(column)
    text = is_text(ids.type)
    if not (text or pa.types.is_integer(ids.type)) and ids.null_count < len(ids):
        cure = _cure(ids.type, column, part.file.table is not None)
        raise GraphError(f"{part.file}: {column} is of type {ids.type}, expected integers or text; {cure}")
    missing = ids.is_null() if not text else pc.or_(ids.is_null(), pc.fill_null(pc.equal(ids, ""), False))
    if strict and (at := pc.index(missing, True).as_py()) >= 0:
        raise GraphError(f"{part.where(at)}: {column} is empty; expected an id, correct or drop the row{otherwise}")
    if text:
        return pc.if_else(missing, None, ids).cast(pa.large_string())
    if ids.type == pa.uint64() and len(ids) and pc.max(ids).as_py() >= 2**63:
        raise GraphError(f"{part.file}: {column} holds ids from 2^63; write them as text")
    return ids


class DistinctIds:
    """The distinct ids of a stream; all become text if any of them is."""

    def __init__(self) -> None:
        self._numbers = NumberSet()
        self._types: set[pa.DataType] = set()
        self._text = pa.array([], pa.large_string())
        self._waiting: list[pa.Array] = []
        self._count = 0

    def add(self, ids: pa.Array) -> None:
        """Add some ids; repeats are welcome."""
        if pa.types.is_integer(ids.type):
            self._types.add(ids.type)
            self._numbers.add(ids.cast(pa.int64()).to_numpy())
            return
        self._waiting.append(pc.unique(ids).cast(pa.large_string()))
        self._count += len(self._waiting[-1])
        if self._count > max(_MERGE_AT, len(self._text)):
            self._merge_text()

    @property
    def nbytes(self) -> int:
        """Memory of the ids while more are added: texts are merged into a new array, by a hash table."""
        texts = [self._text, *self._waiting]
        return 2 * self._numbers.nbytes + sum(_COPIES * part.nbytes + _OF_HASH * len(part) for part in texts)

    def sorted(self) -> pa.Array:
        """All distinct ids, ascending: integers of the type that was added, or all as text."""
        self._merge_text()
        whole = arrow_of(self._numbers.sorted())
        if not len(self._text):
            return whole.cast(self._types.pop()) if len(self._types) == 1 else whole
        ids = pc.unique(pa.concat_arrays([self._text, whole.cast(pa.large_string())]))
        return pc.take(ids, pc.sort_indices(ids))

    def _merge_text(self) -> None:
        self._text = pc.unique(pa.concat_arrays([self._text, *self._waiting]))
        self._waiting, self._count = [], 0


def guess_integers(text: pa.Array) -> pa.Array:
    """Ids of a CSV file: as integers if all are."""
    return text.cast(pa.int64()) if pc.all(is_integer_text(text)).as_py() else text


def short_text(ids: pa.Array) -> pa.Array:
    """Text as the plain string type if that can hold it."""
    if pa.types.is_large_string(ids.type) and pc.sum(pc.binary_length(ids)).as_py() in range(SHORT_TEXT):
        return ids.cast(pa.string())
    return ids


class NumberSet:
    """Distinct 64-bit integers in a hash table of open addressing, at most half full.

    Measured with 4 million ids added five times: four times as fast as pandas.unique, with half of its memory.
    """

    def __init__(self) -> None:
        self._slots = np.zeros(_SMALLEST, np.int64)  # 0 is an empty slot
        self._state = np.zeros(2, np.int64)  # number of taken slots; 1 if the number zero was added

    def add(self, numbers: npt.NDArray[np.int64]) -> None:
        """Add some numbers; repeats are welcome."""
        done = 0
        while (done := done + int(_insert(numbers[done:], self._slots, self._state))) < numbers.size:
            grown = np.zeros(2 * self._slots.size, np.int64)
            _insert(self._slots[self._slots != 0], grown, np.zeros(2, np.int64))
            self._slots = grown

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self._slots.nbytes

    def sorted(self) -> npt.NDArray[np.int64]:
        """All numbers, ascending."""
        found = self._slots[self._slots != 0]
        if self._state[1]:
            found = np.append(found, np.int64(0))
        found.sort()
        return found


class NumberRows:
    """A map from distinct 64-bit integers to their positions; measured twice as fast as get_indexer of pandas."""

    def __init__(self, numbers: npt.NDArray[np.int64]) -> None:
        self._low = int(numbers.min()) if numbers.size else 0
        high = int(numbers.max()) if numbers.size else -1
        self._dense = _is_dense(numbers.size, self._low, high)
        if self._dense:
            self._table = np.full(high - self._low + 1, -1, np.int32 if numbers.size < 2**31 else np.int64)
            self._table[numbers - self._low] = np.arange(numbers.size)
        else:
            self._table = np.zeros((_slots_for(numbers.size), 2), np.int64)  # number, row + 1
            _fill(numbers, self._table)

    def find(self, wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Position of each wanted number, -1 for unknown ones; several threads may call this at once."""
        rows = np.empty(wanted.size, np.int64)
        if self._dense:
            _look_up_dense(wanted, self._low, self._table, rows)
        else:
            _look_up(wanted, self._table, rows)
        return rows


def table_bytes(count: int, low: int = 0, high: int = 2**63) -> int:
    """Memory of a map from so many integers of a range to their positions."""
    if _is_dense(count, low, high):
        return (high - low + 1) * (4 if count < 2**31 else 8)
    return _slots_for(count) * 16


def _is_dense(count: int, low: int, high: int) -> bool:
    return high - low + 1 <= _DENSE * count


def _slots_for(count: int) -> int:
    return max(_SMALLEST, 1 << (3 * count // 2).bit_length())  # at most two thirds are taken


@kernel
def _insert(numbers, slots, state):
    """Insert numbers until half of the slots are taken; returns how many were inserted or known."""
    mask = slots.size - 1
    for i in range(numbers.size):
        value = numbers[i]
        if value == 0:
            state[1] = 1
            continue
        at = np.int64(seeding.mix(np.uint64(value))) & mask
        while slots[at] != 0 and slots[at] != value:
            at = (at + 1) & mask
        if slots[at] == 0:
            if 2 * (state[0] + 1) > slots.size:
                return i
            slots[at] = value
            state[0] += 1
    return numbers.size


@kernel
def _fill(numbers, table):
    mask = table.shape[0] - 1
    for row in range(numbers.size):
        at = np.int64(seeding.mix(np.uint64(numbers[row]))) & mask
        while table[at, 1] != 0:
            at = (at + 1) & mask
        table[at, 0], table[at, 1] = numbers[row], row + 1


@kernel
def _look_up(wanted, table, rows):
    mask = table.shape[0] - 1
    for i in range(wanted.size):
        at = np.int64(seeding.mix(np.uint64(wanted[i]))) & mask
        while table[at, 1] != 0 and table[at, 0] != wanted[i]:
            at = (at + 1) & mask
        rows[i] = table[at, 1] - 1


@kernel
def _look_up_dense(wanted, low, table, rows):
    high = low + (table.size - 1)  # in this order it cannot overflow
    for i in range(wanted.size):
        rows[i] = table[wanted[i] - low] if low <= wanted[i] <= high else -1
