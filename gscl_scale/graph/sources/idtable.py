"""Hash tables of 64-bit numbers: which are distinct, and in which row each stands."""

import numpy as np
import numpy.typing as npt

from gscl_scale import seeding
from gscl_scale.kernel import kernel

_SMALLEST = 1 << 10
_DENSE = 2  # a plain table is taken where it is at most so many times longer than the numbers are many


class NumberSet:
    """Distinct 64-bit integers in open addressing; grows by doubling and is at most half full."""

    def __init__(self) -> None:
        self._slots = np.zeros(_SMALLEST, np.int64)  # 0 is empty, so zero itself is kept apart
        self._state = np.zeros(2, np.int64)  # how many slots are taken, whether zero is in

    def add(self, numbers: npt.NDArray[np.int64]) -> None:
        """Note some numbers, repeats welcome."""
        done = 0
        while (done := done + int(_insert(numbers[done:], self._slots, self._state))) < numbers.size:
            grown = np.zeros(2 * self._slots.size, np.int64)
            _insert(self._slots[self._slots != 0], grown, np.zeros(2, np.int64))
            self._slots = grown

    def sorted(self) -> npt.NDArray[np.int64]:
        """All of them, ascending."""
        found = self._slots[self._slots != 0]
        if self._state[1]:
            found = np.append(found, np.int64(0))
        found.sort()
        return found


class NumberRows:
    """The position of each of some distinct 64-bit integers."""

    def __init__(self, numbers: npt.NDArray[np.int64]) -> None:
        self._low = int(numbers.min()) if numbers.size else 0
        span = int(numbers.max()) - self._low + 1 if numbers.size else 0
        self._dense = span <= _DENSE * numbers.size
        if self._dense:
            self._table = np.full(span, -1, np.int32 if numbers.size < 2**31 else np.int64)
            self._table[numbers - self._low] = np.arange(numbers.size)
        else:
            self._table = np.zeros((_capacity(numbers.size), 2), np.int64)  # number, row + 1
            _fill(numbers, self._table)

    def find(self, wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The position of each wanted number, -1 where it is none of them; may be called by several threads."""
        rows = np.empty(wanted.size, np.int64)
        if self._dense:
            _look_up_dense(wanted, self._low, self._table, rows)
        else:
            _look_up(wanted, self._table, rows)
        return rows


def _capacity(count: int) -> int:
    """A power of two of which at most two thirds are taken."""
    capacity = _SMALLEST
    while 2 * capacity < 3 * count:
        capacity *= 2
    return capacity


@kernel
def _insert(numbers, slots, state):  # type: ignore[no-untyped-def]
    """Insert until the slots are half full; returns how many numbers were seen to."""
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
def _fill(numbers, table):  # type: ignore[no-untyped-def]
    mask = table.shape[0] - 1
    for row in range(numbers.size):
        at = np.int64(seeding.mix(np.uint64(numbers[row]))) & mask
        while table[at, 1] != 0:
            at = (at + 1) & mask
        table[at, 0], table[at, 1] = numbers[row], row + 1


@kernel
def _look_up(wanted, table, rows):  # type: ignore[no-untyped-def]
    mask = table.shape[0] - 1
    for i in range(wanted.size):
        at = np.int64(seeding.mix(np.uint64(wanted[i]))) & mask
        while table[at, 1] != 0 and table[at, 0] != wanted[i]:
            at = (at + 1) & mask
        rows[i] = table[at, 1] - 1


@kernel
def _look_up_dense(wanted, low, table, rows):  # type: ignore[no-untyped-def]
    high = low + (table.size - 1)  # in this order it cannot overflow
    for i in range(wanted.size):
        rows[i] = table[wanted[i] - low] if low <= wanted[i] <= high else -1
