"""Sorting within kernels: numba compiles its own sort for seconds, in every process that compiles a kernel with it."""

import numpy as np

from gscl_scale.kernels.kernel import kernel

_SHORT = 32
_WAITING = 128  # the shorter part is sorted first, so at most 64 others wait: each is longer than all after it together


@kernel
def sort_part(values, low, high):
    """Sort values[low:high] in place: quicksort by the median of three, insertion where few are left.

    It does not call itself: LLVM aborts where a kernel that does is linked while another one is compiled.
    """
    waiting, top = np.empty(_WAITING if high - low > _SHORT else 0, np.int64), 0
    while True:
        while high - low > _SHORT:
            first, middle, last = values[low], values[(low + high) >> 1], values[high - 1]
            pivot = max(min(first, middle), min(max(first, middle), last))
            i, j = low, high - 1
            while i <= j:
                while values[i] < pivot:
                    i += 1
                while pivot < values[j]:
                    j -= 1
                if i <= j:
                    values[i], values[j] = values[j], values[i]
                    i += 1
                    j -= 1
            if j + 1 - low < high - i:
                waiting[top], waiting[top + 1] = i, high
                high = j + 1
            else:
                waiting[top], waiting[top + 1] = low, j + 1
                low = i
            top += 2
        for at in range(low + 1, high):
            value, j = values[at], at
            while j > low and values[j - 1] > value:
                values[j] = values[j - 1]
                j -= 1
            values[j] = value
        if top == 0:
            return
        top -= 2
        low, high = waiting[top], waiting[top + 1]
